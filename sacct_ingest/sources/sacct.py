"""Sacct itself: asked for one window of time after the other, read as it prints."""

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from sacct_ingest.columns import known_name, useful
from sacct_ingest.errors import FormatError, SacctError
from sacct_ingest.records import JobRun
from sacct_ingest.sources.base import Tally
from sacct_ingest.sources.sacct_text import read_text
from sacct_ingest.sources.saved import decoded

#: All states in which a run has ended, in sacct's short spelling.
_ENDED = "CD,CA,F,TO,NF,PR,BF,DL,OOM,RQ,RV"
_HELP_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class LiveSacct:
    """The accounting that ``sacct`` tells.

    Parameters
    ----------
    cluster
        Cluster to ask for; empty: the one of this machine.
    command
        The program, with arguments that go before all others.
    """

    cluster: str = ""
    command: Sequence[str] = ("sacct",)

    @property
    def name(self) -> str:
        """Name of the watermark."""
        return f"sacct:{self.cluster}"

    @property
    def windowed(self) -> bool:
        """Slurmdbd is asked for a window at a time."""
        return True

    def read(self, begin_s: int, end_s: int, tally: Tally) -> Iterator[JobRun]:
        """Give the runs that ended in the window, all users'.

        Raises
        ------
        SacctError
            Sacct could not be run, failed, or broke off.
        """
        # What a job's name may hold cannot part its fields if nobody can guess the delimiter.
        delimiter = f"\x1f{secrets.token_hex(6)}\x1f"
        argv = [*self.command, *_arguments(self._fields(), delimiter, begin_s, end_s)]
        argv += ["-M", self.cluster] if self.cluster else []
        with tempfile.TemporaryFile() as complaints:
            process = self._start(argv, complaints)
            try:
                yield from self._runs(process, delimiter, tally)
            except FormatError as error:
                raise SacctError(f"sacct broke off: {error}; {_told(complaints)}") from error
            finally:
                # Nothing happens here if sacct has ended by itself.
                process.kill()
                status = process.wait()
            if status != 0:
                raise SacctError(f"sacct exited with status {status}: {_told(complaints)}")

    def _runs(
        self, process: subprocess.Popen[bytes], delimiter: str, tally: Tally
    ) -> Iterator[JobRun]:
        if process.stdout is None:
            raise SacctError("sacct has no output")
        with decoded(process.stdout) as lines:
            yield from read_text(lines, tally, cluster=self.cluster, delimiter=delimiter)
        process.wait()

    def _fields(self) -> list[str]:
        """Give the columns that both this release of sacct and we know."""
        argv = [*self.command, "--helpformat"]
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, check=True, timeout=_HELP_TIMEOUT_S
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SacctError(f"cannot run {self.command[0]}: {_reason(error)}") from error
        offered = {known_name(name) for name in done.stdout.split()}
        return useful(offered)

    def _start(self, argv: list[str], complaints: IO[bytes]) -> subprocess.Popen[bytes]:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("SACCT_")
        }
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
                env=environment | {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8"},
            )
        except OSError as error:
            raise SacctError(f"cannot run {self.command[0]}: {error.strerror}") from error


def _arguments(fields: Sequence[str], delimiter: str, begin_s: int, end_s: int) -> list[str]:
    """Arguments of sacct; with states given it lists what entered one of them in the window."""
    return [
        *("--allusers", "--duplicates", "--parsable2", "--noconvert"),
        f"--delimiter={delimiter}",
        f"--format={','.join(fields)}",
        f"--state={_ENDED}",
        # "uts" is the epoch, the same in all time zones (Slurm's parse_time).
        *(f"--starttime=uts{begin_s}", f"--endtime=uts{end_s}"),
    ]


def _told(complaints: IO[bytes]) -> str:
    complaints.seek(0)
    lines = complaints.read(4096).decode(errors="replace").strip().splitlines()
    return lines[0] if lines else "it gave no reason"


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = str(error.stderr).strip().splitlines()
        return lines[0] if lines else f"exit status {error.returncode}"
    return getattr(error, "strerror", None) or str(error)
