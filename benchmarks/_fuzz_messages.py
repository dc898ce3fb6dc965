"""What `fuzz_parsers.py` feeds with messages: nimod's own path, and the hooks in Lua."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

#: How many steps from line to line in Lua count as different places; those of one function.
STEPS, EACH = 4000, 100
USER = 1001
#: Lines and pieces of one input, and the processor time for them.
MOST_TURNS, MOST_S = 200, 5.0
MOST_BYTES = 4_000_000
_REPEATED = re.compile(rb"(?s)\x00(.)(.{1,64}?)\x00")


def grown(data: bytes) -> bytes:
    """Repeat what stands between two zero bytes up to a power of two, 4 MB at most.

    libFuzzer itself finds out little with inputs of more than a few KiB.
    """

    def repeated(match: re.Match[bytes]) -> bytes:
        size = min(1 << match[1][0] % 23, MOST_BYTES)
        return match[2] * (size // len(match[2]))

    return _REPEATED.sub(repeated, data, count=2)


class Channel:
    """A socket whose peer has sent all that it will."""

    def __init__(self, data: bytes) -> None:
        self.data, self.sent = data, b""

    def settimeout(self, _: float) -> None:
        """Never wait."""

    def recv(self, most: int) -> bytes:
        """Give the next piece; nothing at the end."""
        piece, self.data = self.data[:most], self.data[most:]
        return piece

    def send(self, data: bytes) -> int:
        """Take it all."""
        self.sent += data
        return len(data)


def messages() -> Callable[[bytes], None]:
    """Lines through nimod: each is answered with one line of JSON, or with none, never an error."""
    from slurm_plugin.config.setting_types import Mode  # noqa: PLC0415
    from slurm_plugin.config.settings import Access, Config  # noqa: PLC0415
    from slurm_plugin.nimod.connection import Connection, PeerClosed  # noqa: PLC0415
    from tests.slurm_plugin.made import cluster, stored, table  # noqa: PLC0415
    from tests.slurm_plugin.nimod.handler import Handler  # noqa: PLC0415

    folder = Path(tempfile.mkdtemp())
    access = Access(requests_per_s=1e9)
    config = Config(store=f"sqlite:///{folder}/s.db", mode=Mode.ENFORCE, access=access)
    nimod = Handler(folder, config, names={0: "root", USER: "alice"})
    nimod.service.tables = stored(table(level="tag", key="alice/cfd"), table())

    def target(data: bytes) -> None:
        lines = grown(data) + b"\n"
        for uid in (0, USER):
            # No older than settings allow, as the clock goes on.
            nimod.service.cluster = cluster(taken_s=4e9)
            channel = Channel(lines)
            peer = Connection(channel, nimod.respond, uid=uid)  # type: ignore[arg-type]
            began = time.process_time()
            with suppress(PeerClosed):
                for _ in range(MOST_TURNS):
                    peer.serve()
                    if peer.query is not None:
                        peer.query(peer.deliver)
                    for work in peer.undone():
                        work()
            answers = channel.sent.splitlines()
            assert b"in nimod; see its log" not in channel.sent, channel.sent
            for line in answers:
                json.loads(line)
            assert time.process_time() - began < MOST_S, "slow"

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
        for _ in range(feed(grown(data).decode("latin-1"))):
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
    b'{"x":\x00\x16[\x00',
    b'{"v":1,"op":"decide","job":{"exc_nodes":"\x00\x0dn[1-9],\x00","user_id":1001}}',
    b'{"v":1,"op":"advise","job":{"array_inx":"\x00\x0f1,\x00",'
    b'"script":"\x00\x11#SBATCH -N2\\n\x00"}}',
    b'{"v":1,"op":"prepare","command":{"argv":["a"\x00\x10,"\xff"\x00],"options":{"nodes":"1-8"}}}',
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
    b"nimo:gpus=1-4\x00\x09,a\x00\xff\x00\x16\xe1\xa4\x00",
    b'{"v":1,"x":[\x00\x10[],\x00"\x00\x0f\\u0041\x00"]}\n',
]
