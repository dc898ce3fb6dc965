"""What `fuzz_parsers.py` feeds with messages: nimod's own path, and the hooks in Lua."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

#: How many steps from line to line in Lua count as different places; those of one function.
STEPS, EACH = 4000, 100
USER = 1001


def messages() -> Callable[[bytes], None]:
    """Lines through nimod: each is answered with one line of JSON, or with none, never an error."""
    from slurm_plugin.config.setting_types import Mode  # noqa: PLC0415
    from slurm_plugin.config.settings import Access, Config  # noqa: PLC0415
    from tests.slurm_plugin.made import cluster, stored, table  # noqa: PLC0415
    from tests.slurm_plugin.nimod.handler import Handler  # noqa: PLC0415

    folder = Path(tempfile.mkdtemp())
    access = Access(requests_per_s=1e9)
    config = Config(store=f"sqlite:///{folder}/s.db", mode=Mode.ENFORCE, access=access)
    nimod = Handler(folder, config, names={0: "root", USER: "alice"})
    nimod.service.tables = stored(table(level="tag", key="alice/cfd"), table())

    def target(data: bytes) -> None:
        for uid in (0, USER):
            # No older than settings allow, as the clock goes on.
            nimod.service.cluster = cluster(taken_s=4e9)
            reply = nimod.respond(data.replace(b"\n", b" ") + b"\n", uid)
            if reply.data:
                assert reply.data.endswith(b"\n"), reply.data
                assert b"in nimod; see its log" not in reply.data, reply.data
                json.loads(reply.data)
            if reply.afterwards is not None:
                reply.afterwards()

    return target


def hooks() -> Callable[[bytes], None]:
    """Give the hooks what nimod, a ticket or a comment says: jobs stay within their requests.

    One Lua state takes all inputs, and only steps that no earlier one took are counted: that is all
    that libFuzzer learns from.
    """
    import atheris  # noqa: PLC0415 - an extra

    from tests.lua.hooks import Hooks  # noqa: PLC0415

    conf = "forward_deadline = yes\nrewrite_in_cli_filter = yes\ntimeout_ms = 100"
    made = Hooks("lua51", Path(tempfile.mkdtemp()), conf)
    source = Path(__file__).with_name("_fuzz_hooks.lua").read_text()
    feed = made.lua.execute(source, made.stub, made.peer, str(made.folder))
    notes = [atheris.instrument_func(_branches()) for _ in range(STEPS // EACH)]
    observed = 0

    def target(data: bytes) -> None:
        nonlocal observed
        for _ in range(feed(data.decode("latin-1"))):
            notes[observed // EACH % len(notes)](observed % EACH)
            observed += 1

    return target


def _branches() -> Callable[[int], int]:
    """Make a function with a branch for each step in Lua: what libFuzzer sees of what ran there."""
    body = "\n".join(f"    if step == {number}: return {number}" for number in range(EACH))
    made: dict[str, Any] = {}
    exec(f"def note(step):\n{body}\n    return -1\n", made)
    note: Callable[[int], int] = made["note"]
    return note


JOB = {
    "user_id": USER, "user_name": "alice", "name": "solve", "min_nodes": 1, "max_nodes": 8,
    "time_limit": 60, "comment": "nimo:app=cfd,nodes=1-8", "deadline": "now+2hours",
    "features": "gpu&ib|big", "exc_nodes": "n[1-4,7]", "tres_per_node": "gres/gpu:2",
    "script": "#!/bin/sh\n#SBATCH -N 1-8 --deadline=now+1hour\nsrun ./solve\n", "argv": ["a.sh"],
}  # fmt: skip
MESSAGES = [
    json.dumps({"v": 1, "op": op, "job": JOB}).encode() for op in ("decide", "advise", "status")
] + [
    json.dumps(
        {
            "v": 1,
            "op": "prepare",
            "command": {"program": "sbatch", "argv": ["a.sh", "x"], "script": JOB["script"],
                        "options": {"nodes": "1-8", "time": "01:00:00", "job-name": "solve"}},
        }
    ).encode(),
    b'{"x":1,"op":"\xff"}',
    b'{"x":' + b"[" * 900,
    b"\n",
]  # fmt: skip
ANSWERS = [
    b'{"v":1,"ok":true,"action":"keep","reason":"off"}\n',
    b'{"v":1,"action":"set","set":{"min_nodes":4,"max_nodes":4,"min_cpus":4,"time_limit":20},'
    b'"admin_comment":"NIMO1:3f9a0c12b7de:n=4","message":"\\u00e9 x","ticket":"a"}\n',
    b'{"v":1,"action":"refuse","message":"too late"}\n',
    b'{"v":1,"ok":false,"error":"no"}\n',
    b'{"v":1,"ok":true,"action":"set","ticket":"abc","set":{"min_nodes":4,"max_nodes":4,'
    b'"time_limit":90,"time_min":30}}\n',
    b'{"v":1,"user_id":1001,"until_s":9e9,"fields":["min_nodes"],"values":[1],'
    b'"answer":{"v":1,"action":"set","set":{"min_nodes":2,"max_nodes":2,"time_limit":30}}}',
    b"nimo{deadline=uts1767261600,sizes=1,ticket=abc,own=9} my solver",
]
