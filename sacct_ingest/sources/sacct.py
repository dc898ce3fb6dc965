"""Sacct itself: asked for one window of time after the other, read as it prints."""

import io
import logging
import os
import re
import secrets
import string
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from select import select
from typing import IO, ClassVar

from sacct_ingest.errors import FormatError, SacctError, SacctOverload, system_errors
from sacct_ingest.job_run import JobRun
from sacct_ingest.records import ENDED_CODES
from sacct_ingest.sources.columns import canonical_name, useful
from sacct_ingest.sources.opened import decoded, lines_of
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.sacct_text import read_text
from sacct_ingest.sources.slurm_json import read_json

#: Slurmdbd's errors for a query that is too large (ESLURM_DB_QUERY_TOO_WIDE, _RESULT_TOO_LARGE).
_TOO_MUCH = re.compile("too wide|exceeds size limit", re.IGNORECASE)
_BUFFER = 1 << 16
_LINGER_S = 2.0  #: between the end of the output and that of the process
_HELP_TIMEOUT_S = 60
_FIRST_S = 1_000_000  #: Slurm takes no earlier "uts" for a time
#: Letters behind each time: 22.05 has 19 characters for a time of ten digits (print_fields_date).
_WORD_LETTERS = 9
#: Jobs that one question names: enough to be few questions, few enough for slurmdbd.
_NAMED = 100
#: Columns that sacct makes of a job's steps.
_OF_STEPS = frozenset({"TotalCPU", "UserCPU", "SystemCPU"})


@contextmanager
def output_of(
    argv: Sequence[str],
    tally: Tally,
    *,
    environment: Mapping[str, str],
    timeout_s: float,
    ends: bytes = b"\n",
) -> Iterator[io.BufferedReader]:
    """Run a command and give its standard output; its last line must be whole.

    tally: takes the seconds for which the command gave no output.
    timeout_s: seconds without a word after which it is ended.
    ends: bytes of which one must be the last.
    Raises SacctOverload: it said nothing for ``timeout_s``, or that it was asked for too much;
        SacctError: it cannot be run, failed, or broke off.
    """
    name = Path(argv[0]).name
    with tempfile.TemporaryFile() as complaints:
        process = _start(argv, complaints, environment)
        try:
            with _Output(process, tally, timeout_s, ends) as output:
                yield io.BufferedReader(output, _BUFFER)
            process.wait(timeout_s)
        except FormatError as error:
            # What it broke off for is in its status, if that comes now.
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LINGER_S)
            if process.returncode:
                raise _failure(name, process.returncode, complaints) from error
            raise SacctError(f"{name} broke off: {error}; {_first_line(complaints)}") from error
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            raise SacctOverload(
                f"{name} said nothing for {timeout_s:g} s and was ended: slurmdbd is too "
                "slow; ask for less at a time (ingest.window_days)"
            ) from error
        finally:
            # Nothing happens here if it has ended by itself.
            process.kill()
            status = process.wait()
        if status != 0:
            raise _failure(name, status, complaints)


class _Output(io.RawIOBase):
    """Standard output of a process, for readers whose patience has an end."""

    def __init__(
        self, process: subprocess.Popen[bytes], tally: Tally, timeout_s: float, ends: bytes
    ) -> None:
        if process.stdout is None:
            raise SacctError("there is no output to read")
        self._pipe = process.stdout
        self._tally = tally
        self._timeout_s = timeout_s
        self._last = ends[-1:]
        self._ends = ends

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Wait for output; FormatError where it ends in the middle of a line."""
        began_s = time.monotonic()
        ready, _, _ = select([self._pipe], [], [], self._timeout_s)
        self._tally.waited_s += time.monotonic() - began_s
        if not ready:
            raise TimeoutError
        data = os.read(self._pipe.fileno(), len(buffer))
        if data:
            self._last = data[-1:]
        elif self._last not in self._ends:
            raise FormatError("the text ends in the middle of a line")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._pipe.close()
        super().close()


def _start(
    argv: Sequence[str], complaints: IO[bytes], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    with system_errors(SacctError, f"cannot run {argv[0]}"):
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=environment,
        )


def _failure(name: str, status: int, complaints: IO[bytes]) -> SacctError:
    said = _first_line(complaints)
    kind = SacctOverload if _TOO_MUCH.search(said) else SacctError
    return kind(f"{name} exited with status {status}: {said}")


def _first_line(complaints: IO[bytes]) -> str:
    complaints.seek(0)
    lines = complaints.read(4096).decode(errors="replace").strip().splitlines()
    return lines[0] if lines else "it gave no reason"


_Key = tuple[int, int]  # job id, submit time

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LiveSacct:
    """The accounting that ``sacct`` prints.

    cluster: cluster to ask for; empty: the one of this machine.
    command: the program, with arguments that go before all others.
    timeout_s: seconds without a word after which sacct is ended.
    as_json: ask for JSON instead of text: slower, and 22.05 leaves out a few columns.
    user: only jobs of this user, a name or a uid; empty: of all.
    steps_since_s: of windows that end before then, seconds since the epoch, no steps are asked for.
    """

    cluster: str = ""
    command: Sequence[str] = ("sacct",)
    timeout_s: float = 600.0
    as_json: bool = False
    user: str = ""
    steps_since_s: int = 0
    _columns: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    windowed: ClassVar[bool] = True  #: slurmdbd is asked for a window at a time

    @property
    def name(self) -> str:
        """Name of the watermark."""
        return f"sacct:{self.cluster}"

    def read(self, begin_s: int, end_s: int, tally: Tally) -> Iterator[JobRun]:
        """Give the runs that ended in the window, with all their steps where those are asked for.

        Slurmdbd lists only the steps of a job that touch the window (as_mysql_jobacct_process.c),
        and the job's CPU time is the sum of those.  So jobs that began before the window are
        queried once more by their ids, from their own start on.

        Raises SacctOverload: slurmdbd did not answer in time, or refused to answer so much;
            SacctError: sacct could not be run, failed, or broke off.
        """
        fields = [] if self.as_json else self._fields()
        if end_s <= self.steps_since_s:
            # Without its steps a job has no CPU time: sacct says zero.
            fields = [one for one in fields if one not in _OF_STEPS]
            yield from self._ask(fields, begin_s, end_s, tally, "--allocations")
            return
        earlier: list[JobRun] = []
        for run in self._ask(fields, begin_s, end_s, tally):
            if run.start_s is not None and run.start_s < begin_s:
                earlier.append(run)
            else:
                yield run
        earlier.sort(key=lambda run: (run.start_s or 0, run.job_id))
        for first in range(0, len(earlier), _NAMED):
            yield from self._whole(fields, earlier[first : first + _NAMED], end_s, tally)

    def of_jobs(
        self, job_ids: Sequence[int], begin_s: int, end_s: int, tally: Tally
    ) -> Iterator[JobRun]:
        """Give the runs of these jobs that ended between the two times.

        Raises SacctError: see :meth:`read`.
        """
        fields = [] if self.as_json else self._fields()
        yield from self._ask(fields, begin_s, end_s, tally, f"--jobs={_list(job_ids)}")

    def _whole(
        self, fields: Sequence[str], partial: Sequence[JobRun], end_s: int, tally: Tally
    ) -> Iterator[JobRun]:
        """Query runs once more, by their ids and from the start of the first of them."""
        remaining = {_key(run): run for run in partial}
        begin_s = min(run.start_s or end_s for run in partial)
        ids = _list(run.job_id for run in partial)
        try:
            for run in self._ask(fields, begin_s, end_s, tally, f"--jobs={ids}"):
                if remaining.pop(_key(run), None):
                    yield run
        except SacctOverload as error:
            _log.warning("%d runs are stored without their early steps: %s", len(remaining), error)
        yield from remaining.values()

    def _ask(
        self, fields: Sequence[str], begin_s: int, end_s: int, tally: Tally, *also: str
    ) -> Iterator[JobRun]:
        # A random delimiter: no text has it by accident.  All users can read it in the command line
        # while sacct runs, but not the environment: there is the word that begins a record.
        delimiter = f"\x1f{secrets.token_hex(6)}\x1f"
        word = "".join(secrets.choice(string.ascii_lowercase) for _ in range(_WORD_LETTERS))
        text = ("--parsable2", "--noconvert", f"--delimiter={delimiter}")
        form = ["--json"] if self.as_json else [*text, f"--format={','.join(fields)}"]
        argv = [*self.command, *form, f"--user={self.user}" if self.user else "--allusers"]
        # With states given it lists what entered one of them in the window.  "uts" is the epoch,
        # the same in all time zones (Slurm's parse_time).
        argv += ["--duplicates", f"--state={','.join(ENDED_CODES)}"]
        argv += [f"--starttime=uts{max(begin_s, _FIRST_S)}", f"--endtime=uts{end_s}", *also]
        argv += ["-M", self.cluster] if self.cluster else []
        refused = len(tally.rejects)
        try:
            with (
                output_of(
                    argv,
                    tally,
                    environment=_environment("" if self.as_json else f"%s{word}"),
                    timeout_s=self.timeout_s,
                    ends=b"\n}" if self.as_json else b"\n",
                ) as output,
                output,
            ):
                if self.as_json:
                    yield from read_json(decoded(output), tally, cluster=self.cluster)
                else:
                    lines = lines_of(output, tally)
                    yield from read_text(
                        lines, tally, cluster=self.cluster, delimiter=delimiter, word=word
                    )
        finally:
            # A row that is refused again is the same row: it must not show our delimiter.
            tally.rejects[refused:] = [
                replace(row, text=row.text.replace(delimiter, "\x1f"))
                for row in tally.rejects[refused:]
            ]

    def _fields(self) -> list[str]:
        """Give the columns that both this release of sacct and NIMO have; runs sacct once."""
        if self._columns:
            return self._columns
        argv = [*self.command, "--helpformat"]
        timeout_s = min(_HELP_TIMEOUT_S, self.timeout_s)  # 22.05 asks slurmdbd even for this
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, check=True, timeout=timeout_s
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SacctError(f"cannot run {self.command[0]}: {_reason(error)}") from error
        offered = {canonical_name(name) for name in done.stdout.split()}
        self._columns.extend(useful(offered))
        return self._columns


def _list(job_ids: Iterable[int]) -> str:
    return ",".join(str(job_id) for job_id in sorted(set(job_ids)))


def _key(run: JobRun) -> _Key:
    return run.job_id, run.submit_s


def _environment(time_format: str) -> dict[str, str]:
    prefixes = ("SACCT_", "SLURM_TIME_FORMAT")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    # JSON has the epoch by itself, and 22.05 cannot make it with another format of times.
    given = {"SLURM_TIME_FORMAT": time_format} if time_format else {}
    return inherited | {"LC_ALL": "C.UTF-8"} | given


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = str(error.stderr).strip().splitlines()
        return lines[0] if lines else f"exit status {error.returncode}"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it said nothing for {error.timeout:g} s"
    return getattr(error, "strerror", None) or str(error)
