"""The error tree.

::

    NimoError                one line for the user, exit status in one place (cli.errors)
    ├── ConfigError          a configuration file: names file, path and fix
    ├── SacctError           sacct could not run, died, or broke off mid-stream
    │   └── SacctOverload    slurmdbd took too long, or refused so large a question
    ├── FormatError          a saved file that is not what it should be: names file and line
    ├── StoreError           the database is missing, locked, newer than we are
    │   └── RowRefused       the database does not take a row, whatever is tried
    ├── ScriptError          a job script that cannot be read
    ├── NoHistory            no history of the requested application
    ├── SlurmError           a Slurm command that failed or answered with something unknown
    │   └── JobRefused       Slurm would not take the job: its words and exit status
    ├── DaskError            a Dask cluster that cannot be used for a refit
    ├── ProbeError           a host, disk or benchmark that could not be measured
    └── PlotError            a picture that cannot be drawn or written
"""

from collections.abc import Iterator
from contextlib import contextmanager


class NimoError(Exception):
    """Root of all errors that a user may see; its text is one line that names the fix."""

    exit_status = 1


class ConfigError(NimoError):
    """A configuration file is missing, unreadable or holds a wrong value."""

    exit_status = 78  # sysexits.h EX_CONFIG


class SacctError(NimoError):
    """Sacct could not be run, exited non-zero or broke off in the middle of its output."""


class SacctOverload(SacctError):  # noqa: N818 - a noun of the user's
    """Slurmdbd did not answer in time, or found the question too large: ask for less."""


class FormatError(NimoError):
    """A saved file is not in the format it was read as."""

    exit_status = 65  # EX_DATAERR


class StoreError(NimoError):
    """The store cannot be opened, written, or is of a newer release."""

    exit_status = 74  # EX_IOERR


class RowRefused(StoreError):  # noqa: N818 - what the database did
    """The database does not take a row: a number beyond its column, or text that it cannot hold."""


class ScriptError(NimoError):
    """A job script cannot be read or is not a job script."""

    exit_status = 66  # EX_NOINPUT


class NoHistory(NimoError):  # noqa: N818 - a noun of the user's
    """There is no history of the requested application."""

    exit_status = 3


class SlurmError(NimoError):
    """A Slurm command failed or answered with something unknown."""


class JobRefused(SlurmError):  # noqa: N818 - a state, not an error's name
    """Slurm would not take a job; ``exit_status`` is that of its command."""

    def __init__(self, words: str, exit_status: int) -> None:
        super().__init__(words)
        self.exit_status = exit_status


class DaskError(NimoError):
    """A Dask cluster cannot be reached, lost its workers, or is of another release."""

    exit_status = 69  # EX_UNAVAILABLE


class ProbeError(NimoError):
    """A sensor, disk or benchmark that could not be measured, or settings that make no ring."""

    exit_status = 69  # EX_UNAVAILABLE


class PlotError(NimoError):
    """A picture cannot be drawn or written."""

    exit_status = 73  # EX_CANTCREAT


def how_to_install(extra: str) -> str:
    """Say how to install what one of the project's extras needs, where this Python looks for it.

    It names the packages of others alone: the project's own name is on no index, where anybody
    might take it.
    """
    import re  # noqa: PLC0415 - commands start fast
    import shlex  # noqa: PLC0415
    import sys  # noqa: PLC0415
    from importlib.metadata import requires  # noqa: PLC0415

    needs = [
        need.partition(";")[0].strip()
        for need in requires("nimo-slurm") or ()
        if not re.match("nimo[-_.]slurm", need)
        and re.search(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]", need)
    ]
    words = shlex.join([sys.executable, "-m", "pip", "install", *needs])
    return f"to install what it needs: {words}"


@contextmanager
def system_errors(kind: type[NimoError], what: object, fix: str = "") -> Iterator[None]:
    """Turn what the system refuses into an error of ours: of what, its words, and the fix."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror or error}{fix}") from error
