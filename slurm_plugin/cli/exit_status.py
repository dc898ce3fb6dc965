"""The one place where errors become a line on stderr and an exit status."""

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper

from sacct_ingest.errors import NimoError
from slurm_plugin.text.streams import SafeStream

INTERRUPTED = 130  #: 128 + SIGINT
#: For the help and the manual page of each command; docs/commands.md says the same.
EXIT_STATUSES = """\
exit status:
  0           done
  1           an error, printed on stderr; or a fault was found
  2           wrong usage
  3           there is no history, or too little; a job is not waiting
  4           a deadline cannot be met
  65, 66      a file of data or a job script cannot be read
  69          nimod, a sensor or a Dask cluster cannot be reached
  73, 78      an error of a picture, the configuration
  74          an error of the store; on a login node: no link to nimod
  130, 141    interrupted by Ctrl-C; the reader of the output is gone"""
BROKEN_PIPE = 141  #: 128 + SIGPIPE, what a C program would end with


def guarded(program: str, command: Callable[[], int]) -> int:
    """Run ``command`` and return its exit status, or that of the error it ended with.

    Errors of ours are one line, ``program: what, and how to fix it``.  Anything else is a
    mistake in the program and keeps its traceback.
    """
    try:
        _take_any_name()
        _take_printable_text()
        return _flushed(command)
    except NimoError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_stdout()
        return BROKEN_PIPE


def _take_any_name() -> None:
    """Have stdout take names in any script, whatever the locale.

    Into files and pipes they go in UTF-8, as Slurm's own commands write what slurmdbd keeps, unless
    PYTHONIOENCODING asks for another; on a terminal what it cannot show is escaped.
    """
    out = sys.stdout
    if isinstance(out, TextIOWrapper):
        as_it_is = out.isatty() or "PYTHONIOENCODING" in os.environ
        out.reconfigure(encoding=out.encoding if as_it_is else "utf-8", errors="backslashreplace")


def _take_printable_text() -> None:
    """Let nothing else on stdout and stderr, tracebacks included (`slurm_plugin.text.streams`)."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, SafeStream):
            setattr(sys, name, SafeStream(stream))


def _flushed(command: Callable[[], int]) -> int:
    """Write out what was printed before the interpreter does: --help ends by SystemExit."""
    try:
        return command()
    finally:
        sys.stdout.flush()


def _discard_stdout() -> None:
    """Point stdout at nothing, or the interpreter complains when it flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
