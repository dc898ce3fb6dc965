"""A site whose ingests are disturbed: real processes, a stand-in for sacct, one store."""

import contextlib
import marshal
import os
import resource
import signal
import stat
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, select

from sacct_ingest.records import DecisionRow
from sacct_ingest.store import Store
from sacct_ingest.store.schema import decisions, rejects, runs, steps, watermarks
from slurm_plugin.cli.commands import ingest as _loaded_before_a_fork  # noqa: F401
from slurm_plugin.cli.nimo import main
from tests.processes import LONGEST_WAIT_S
from tests.sacct_ingest.faults import history
from tests.sacct_ingest.faults.history import Entry

_CONFIG = """
store: {url}
ingest: {{window_days: 4, first_days: 10, again_days: 10, share: 1.0, timeout_s: {timeout_s}}}
"""


@dataclass
class Site:
    """A folder with a stand-in for sacct, and the store that it is read into."""

    folder: Path
    url: str
    now_s: int = 0

    @classmethod
    def make(
        cls, folder: Path, entries: Sequence[Entry], url: str, timeout_s: float = 60
    ) -> "Site":
        folder.mkdir(exist_ok=True)
        program = folder / "sacct"
        source = Path(__file__).with_name("sacct.py").read_text()
        program.write_text(f"#!{sys.executable} -IS\n{source}")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        history.write(list(entries), folder / "history")
        (folder / "nimo.yaml").write_text(_CONFIG.format(url=url, timeout_s=timeout_s))
        with Store.open(url) as store:
            store.decisions.add(_decisions())
        return cls(folder, url)

    def at(self, now_s: int) -> None:
        """Set the time."""
        self.now_s = now_s
        (self.folder / "now").write_bytes(marshal.dumps(now_s))

    def fail(self, **plan: Any) -> None:
        """Have a call of sacct fail; without a plan none."""
        (self.folder / "calls").unlink(missing_ok=True)
        (self.folder / "fault").write_bytes(marshal.dumps(plan))

    def start(self, *options: str, file_bytes: int | None = None) -> int:
        """Start ``nimo ingest`` with these options in a process of its own; gives its id.

        Forked from this one, which has loaded everything already.
        """
        if child := os.fork():
            return child
        status = 99
        try:
            log = os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            # Not pytest's own, which it captures.
            sys.stdout = os.fdopen(1, "w", closefd=False)
            sys.stderr = os.fdopen(2, "w", closefd=False)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if file_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
            os.environ["PATH"] = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
            time.time = lambda: float(self.now_s)
            reported = ("-v", "--config", str(self.folder / "nimo.yaml"))
            status = main(["ingest", *reported, *options])
        except SystemExit as end:
            status = int(end.code or 0)
        finally:
            sys.stderr.flush()
            os._exit(status)

    def ingest(self) -> None:
        """Run one that nobody disturbs."""
        self.fail()
        status = ended(self.start())
        assert status == 0, (self.folder / "log").read_text()[-2000:]

    def contents(self) -> dict[str, Any]:
        """All that is in the store, but for ids given by it and the time of refused rows."""
        engine = create_engine(self.url)
        with engine.connect() as connection:

            def rows(table: Any, *without: str) -> list[dict[str, Any]]:
                result = [dict(row) for row in connection.execute(select(table)).mappings()]
                return [{k: v for k, v in row.items() if k not in without} for row in result]

            keys = {row["id"]: (row["job_id"], row["submit_s"]) for row in rows(runs)}
            contents = {
                "runs": _sorted(
                    [row | {"part_of": keys.get(row["part_of"])} for row in rows(runs, "id")]
                ),
                "steps": _sorted([row | {"run_id": keys[row["run_id"]]} for row in rows(steps)]),
                "decisions": _sorted(
                    [row | {"run_id": keys.get(row["run_id"])} for row in rows(decisions)]
                ),
                "watermarks": _sorted(rows(watermarks)),
                "rejects": _sorted(rows(rejects, "seen_s")),
            }
        engine.dispose()
        return contents


def ended(process: int, timeout_s: float = LONGEST_WAIT_S) -> int:
    """Wait for a process; gives its status, or the signal that ended it as a negative number."""
    give_up_s = time.monotonic() + timeout_s
    while time.monotonic() < give_up_s:
        result, status = os.waitpid(process, os.WNOHANG)
        if result:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    kill(process)
    raise AssertionError("an ingest did not end")


def kill(process: int, number: int = signal.SIGKILL) -> int:
    """End a process; gives how it ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def after(seconds: float, act: Callable[[], Any]) -> Any:
    """Do something a little later."""
    time.sleep(seconds)
    return act()


def _decisions() -> list[DecisionRow]:
    """Decisions whose ids the jobs' comments carry."""
    return [
        DecisionRow(decision_id=f"{job_id:012x}", cluster="pine", at_s=1.0, tag=f"app{job_id}")
        for job_id in range(100, 130)
    ]


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)
