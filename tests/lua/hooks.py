"""The hooks inside a Lua runtime of this process, with Slurm and LuaSocket stubbed."""

import importlib
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import slurm_plugin

HERE = Path(__file__).parent
HOOKS = Path(slurm_plugin.__file__).parent / "lua"
#: Those that distributions link Slurm with.
VERSIONS = ("lua51", "lua53", "lua54")

Fields = dict[str, Any]


@dataclass
class Outcome:
    """What a submission through the hook left."""

    code: int
    job: Fields
    environment: Fields
    writes: list[str]
    messages: list[str]
    log: list[str]


@dataclass
class Hooks:
    """A folder with the hooks, loaded into a runtime of one Lua version.

    Strings are latin-1 on both sides, so that a character stands for a byte.
    """

    version: str
    folder: Path
    conf: str = ""
    lua: Any = field(init=False)

    def __post_init__(self) -> None:
        for source in HOOKS.glob("*.lua"):
            shutil.copy(source, self.folder)
        conf = f"kill_switch = {self.folder}/off\n{self.conf}\n"
        (self.folder / "nimo_hook.conf").write_text(conf)
        runtime = importlib.import_module(f"lupa.{self.version}").LuaRuntime
        self.lua = runtime(encoding="latin-1", unpack_returned_tuples=True)
        self.lua.execute(f"package.path = '{HERE}/?.lua'")
        self.stub = self.lua.execute("return (require('slurm_stub'))")
        self.lua.globals().slurm.json_cli_options = self._options_as_json
        self.peer = self.lua.execute("return (require('socket_stub'))")

    def _options_as_json(self, options: Any) -> str:
        """What Slurm gives: the options that the user has set, all of them text, and ``argv``."""
        given = {k: v for k, v in options.items() if k not in ("type", "argv")}
        return json.dumps({**given, "argv": list(options["argv"].values())}, ensure_ascii=False)

    def load(self) -> "Hooks":
        """Load job_submit.lua as slurmctld does."""
        self.lua.execute(f"dofile('{self.folder}/job_submit.lua')")
        return self

    def load_cli_filter(self) -> "Hooks":
        """Load cli_filter.lua as sbatch does."""
        self.lua.execute(f"dofile('{self.folder}/cli_filter.lua')")
        return self

    def answer(self, reply: object) -> None:
        """Let nimod answer `reply` from now on: text as it is, anything else as a JSON line."""
        self.peer.reply = reply if isinstance(reply, str) else json.dumps(reply) + "\n"

    def asked(self) -> list[dict[str, Any]]:
        """All that nimod was asked."""
        return [json.loads(line.encode("latin-1")) for line in self.peer.sent.values()]

    def table(self, value: Any) -> Any:
        """A Lua table of a dict; other values stay as they are."""
        if not isinstance(value, dict):
            return value
        return self.lua.table_from({k: self.table(v) for k, v in value.items()})

    def submit(self, broken: str = "", partitions: Fields | None = None, **job: Any) -> Outcome:
        """Submit a job with these fields; a write to the field `broken` fails."""
        for name in ("log", "messages", "writes"):
            self.stub[name] = self.lua.table()
        environment = self.table(job.pop("environment", {}))
        fields = self.lua.table_from({k: self.table(v) for k, v in job.items()})
        fields.environment = environment
        request = self.stub.job_desc(fields, broken)
        code = self.lua.globals().slurm_job_submit(request, self.table(partitions or {}), 1000)
        left = {k: v for k, v in fields.items() if k != "environment"}
        observed = [list(self.stub[name].values()) for name in ("writes", "messages", "log")]
        return Outcome(code, left, dict(environment.items()), *observed)

    def filter(self, offset: int = 0, **options: Any) -> Fields:
        """Pass options through slurm_cli_pre_submit."""
        argv = self.lua.table_from(options.pop("argv", []))
        table = self.lua.table_from({**options, "argv": argv})
        assert self.lua.globals().slurm_cli_pre_submit(table, offset) == 0
        return {name: value for name, value in table.items() if name != "argv"}
