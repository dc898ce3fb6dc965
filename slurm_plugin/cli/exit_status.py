"""The one place where errors become a line on stderr and an exit status."""

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper

from sacct_ingest.errors import NimoError
from slurm_plugin.text.streams import SafeStream

INTERRUPTED = 130  #: 128 + SIGINT
BROKEN_PIPE = 141  #: 128 + SIGPIPE, what a C program would end with
#: Exit status -> what it says; docs/commands.md says the same.
_MEANINGS = {
    0: "done",
    1: "an error, printed on stderr",
    2: "wrong usage",
    3: "there is no history, or too little",
    4: "the deadline cannot be met on any node count",
    65: "a file of data cannot be read",
    66: "the job script cannot be read",
    69: "nimod cannot be reached",
    73: "the picture cannot be drawn or written",
    74: "the store cannot be read or written",
    78: "the configuration has an error",
    INTERRUPTED: "interrupted by Ctrl-C",
    BROKEN_PIPE: "the reader of the output is gone",
}
_ALWAYS = (0, 1, 2, INTERRUPTED, BROKEN_PIPE)
#: Command -> the other statuses that it ends with.
_OWN = {
    "advise": (3, 4, 66, 69, 73, 74, 78),
    "predict": (3, 69, 73, 74, 78),
    "wait": (3, 69, 74, 78),
    "why": (3, 69, 74, 78),
    "again": (3, 66, 74, 78),
    "waste": (3, 65, 73, 74, 78),
    "export": (3, 65, 74, 78),
    "local": (74, 78),
    "init": (78,),
    "report": (69, 74, 78),
    "replay": (65, 69, 74, 78),
    "web": (74, 78),
    "status": (69, 74, 78),
    "config": (78,),
    "serve": (74, 78),
    "ingest": (65, 74, 78),
    "fit": (69, 74, 78),
    "prune": (74, 78),
    "merge": (65, 74, 78),
    "metrics": (74, 78),
    "scale": (3, 65, 66, 74, 78),
    "learn": (3, 65, 74, 78),
    "plan": (3, 4, 65, 66, 74, 78),
    "probe": (69, 74, 78),
    "forecast": (3, 74, 78),
    "transfer": (3, 74, 78),
    "profile": (3, 69, 74, 78),
}
_LINK = "the store cannot be read; on a login node: no link to nimod"
_WORDS = {
    ("advise", 0): "advice was given",
    ("advise", 66): "the job script cannot be read, or sbatch refuses it",
    ("scale", 66): "the job script cannot be read, or sbatch refuses it",
    ("advise", 1): "an error, printed on stderr, or Slurm would refuse the job",
    ("doctor", 1): "a check failed, or an error, printed on stderr",
    ("plan", 1): "an error, printed on stderr, or a step failed",
    ("plan", 4): "no plan meets the deadline",
    ("profile", 1): "an error, or nodes that differ or could not be measured",
    ("wait", 3): "a job is not waiting, or not shown to you",
    ("why", 3): "there is no decision about this job",
    ("again", 3): "the accounting shows you no such job that has ended",
    ("again", 66): "neither Slurm nor the file has the job's script",
    ("waste", 3): "there is no job that has ended",
    ("forecast", 3): "no such measurement is stored",
    ("transfer", 3): "no such measurement is stored",
    ("profile", 3): "no node was measured yet",
    ("merge", 65): "a file of sums cannot be read or written",
    ("scale", 65): "the folder holds no study, or one that cannot be read",
    ("learn", 65): "the journal of the runs cannot be read",
    ("plan", 65): "the record of the workflow cannot be read",
    ("plan", 66): "an option for sbatch is wrong",
    ("replay", 69): "the Dask cluster cannot be used",
    ("fit", 69): "the Dask cluster cannot be used",
    ("probe", 69): "a sensor cannot be reached",
    ("profile", 69): "a benchmark cannot be run",
    ("status", 74): "on a login node: no link to nimod",
    ("wait", 74): "on a login node: no link to nimod",
    **{(name, 74): _LINK for name in ("advise", "predict", "why", "report")},
}


def statuses(command: str) -> dict[int, str]:
    """Exit statuses of a command of ``nimo`` and what each says, for its help and manual page."""
    ends = sorted({*_ALWAYS, *_OWN.get(command, ())})
    return {status: _WORDS.get((command, status), _MEANINGS[status]) for status in ends}


def listed(command: str) -> str:
    """Give the list of a command's exit statuses as its help ends with it."""
    rows = "\n".join(f"  {status:<5}{text}" for status, text in statuses(command).items())
    return f"exit status:\n{rows}"


def guarded(program: str, command: Callable[[], int]) -> int:
    """Run ``command`` and return its exit status, or that of the error it ended with.

    Errors of ours are one line, ``program: what, and how to fix it``.  Anything else is a
    mistake in the program and keeps its traceback.
    """
    try:
        # Have stdout take names in any script, whatever the locale.
        out = sys.stdout
        if isinstance(out, TextIOWrapper):
            as_it_is = out.isatty() or "PYTHONIOENCODING" in os.environ
            out.reconfigure(
                encoding=out.encoding if as_it_is else "utf-8", errors="backslashreplace"
            )
        # Let nothing else on stdout and stderr, tracebacks included (`slurm_plugin.text.streams`).
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is not None and not isinstance(stream, SafeStream):
                setattr(sys, name, SafeStream(stream))
        # What was printed is written out before the interpreter does it: --help ends by SystemExit.
        try:
            return command()
        finally:
            sys.stdout.flush()
    except NimoError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Or the interpreter complains when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
