"""What `fuzz_parsers.py` feeds with messages: nimod's own path, and the hooks in Lua."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

#: How many lines of Lua count as different places.
LINES = 2000
USER = 1001
#: Notes the lines that run; given the number of each line by its file and number.
_NOTE_LINES = """
local numbers, ran, last = {}, {}, 0
debug.sethook(function(_, line)
  local key = debug.getinfo(2, "S").short_src .. line
  local number = numbers[key]
  if not number then
    last = last + 1
    number = last
    numbers[key] = number
  end
  ran[number] = true
end, "l")
return function()
  local text = {}
  for number in pairs(ran) do text[#text + 1] = number end
  ran = {}
  return table.concat(text, " ")
end
"""


def messages() -> Callable[[bytes], None]:
    """Lines through nimod: each is answered with one line of JSON, or with none, never an error."""
    from slurm_plugin.config import Access, Config, Mode  # noqa: PLC0415
    from slurm_plugin.decision.lookup import PredictionLookup  # noqa: PLC0415
    from slurm_plugin.nimod.daemon import Daemon  # noqa: PLC0415
    from tests.slurm_plugin.made import cluster, stored, table  # noqa: PLC0415

    folder = tempfile.mkdtemp()
    access = Access(requests_per_s=1e9)
    config = Config(
        store=f"sqlite:///{folder}/s.db", socket=f"{folder}/s", mode=Mode.ENFORCE, access=access
    )
    nimod = Daemon(config, lambda: config)
    nimod._names._known[USER] = "alice"
    nimod._counts.decided = _ignored  # type: ignore[method-assign]
    nimod._link.record = _ignored  # type: ignore[method-assign]
    tables: PredictionLookup = stored(table(level="tag", key="alice/cfd"), table())
    nimod._advisor.tables = tables

    def target(data: bytes) -> None:
        for uid in (0, USER):
            # No older than settings allow, as the clock goes on.
            nimod._advisor.cluster = cluster(taken_s=4e9)
            reply = nimod.respond(data.replace(b"\n", b" ") + b"\n", uid)
            if reply.data:
                assert reply.data.endswith(b"\n"), reply.data
                assert b"in nimod; see its log" not in reply.data, reply.data
                json.loads(reply.data)
            if reply.afterwards is not None:
                reply.afterwards()

    return target


def _ignored(_: object) -> None:
    """Keep no record."""


def hooks() -> Callable[[bytes], None]:
    """Answers to job_submit: the job passes, and what is written is within its request."""
    import atheris  # noqa: PLC0415 - an extra

    from tests.lua.hooks import Hooks  # noqa: PLC0415

    made = Hooks("lua51", Path(tempfile.mkdtemp())).load()
    lines_run = made.lua.execute(_NOTE_LINES)
    note = atheris.instrument_func(_branches())
    request: dict[str, Any] = {
        "min_nodes": 1, "max_nodes": 8, "num_tasks": 4294967294, "min_cpus": 1, "time_limit": 60,
        "user_id": USER, "user_name": "alice", "partition": "batch", "script": "#!/bin/sh\n",
    }  # fmt: skip
    rooms = {"batch": {"flag_default": 1, "total_nodes": 8, "max_nodes": 8, "max_time": 60}}

    def target(data: bytes) -> None:
        made.answer(data.decode("latin-1"))
        left = made.submit(partitions=rooms, **request)
        note(set(map(int, str(lines_run()).split())))
        assert left.code == 0, left
        assert 1 <= left.job["min_nodes"] <= left.job["max_nodes"] <= 8, left
        assert left.job["time_limit"] <= 60, left
        assert left.job["script"] == request["script"], left

    return target


def _branches() -> Callable[[set[int]], int]:
    """Make a function with a branch for each line of Lua: what libFuzzer sees of what ran there."""
    body = "\n".join(f"    if {number} in ran: hit += 1" for number in range(1, LINES))
    made: dict[str, Any] = {}
    exec(f"def note(ran):\n    hit = 0\n{body}\n    return hit\n", made)
    note: Callable[[set[int]], int] = made["note"]
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
]
