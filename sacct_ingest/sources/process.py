"""A command that is read as it prints: it is whole, or it is an error."""

import io
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from typing import IO

from sacct_ingest.errors import FormatError, SacctError, SacctOverload
from sacct_ingest.sources.run_source import Tally

#: Slurmdbd's errors for a query that is too large (ESLURM_DB_QUERY_TOO_WIDE, _RESULT_TOO_LARGE).
_TOO_MUCH = re.compile("too wide|exceeds size limit", re.IGNORECASE)
_BUFFER = 1 << 16
_LINGER_S = 2.0  #: between the end of the output and that of the process


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
        self._pipe, self._tally, self._timeout_s = process.stdout, tally, timeout_s
        self._last, self._ends = ends[-1:], ends

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
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=environment,
        )
    except OSError as error:
        raise SacctError(f"cannot run {argv[0]}: {error.strerror}") from error


def _failure(name: str, status: int, complaints: IO[bytes]) -> SacctError:
    said = _first_line(complaints)
    kind = SacctOverload if _TOO_MUCH.search(said) else SacctError
    return kind(f"{name} exited with status {status}: {said}")


def _first_line(complaints: IO[bytes]) -> str:
    complaints.seek(0)
    lines = complaints.read(4096).decode(errors="replace").strip().splitlines()
    return lines[0] if lines else "it gave no reason"
