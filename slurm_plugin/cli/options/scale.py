"""Make a scaling study of a job script with the fewest runs that settle it.

It submits the script on several counts, chooses each run by the fit of those before, and stops when
another run would not change the answer.  It leaves a folder with tables, plot, a paragraph for
proposals and the job ids.  After a logout or an interruption --resume goes on.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from slurm_plugin.cli.command_context import Options
from slurm_plugin.cli.common_options import from_one, positive

EXAMPLE = """\
  nimo scale job.sh -N 1-64
  nimo scale job.sh -N 1-64 --runs 6 --budget 200 --time 30 --dry-run
  nimo scale --sizes gpus -N 1,2,4,8 -- -p gpu --mem=64G train.sh
  nimo scale job.sh -N 1-16 --weak 'sed "s/^CELLS=.*/CELLS=$((N * 1000))/"'
  nimo scale -N 1-16 -- job.sh input.{n}
  nimo scale --resume job.scale
  nimo scale job.sh -N 1-64 --existing"""
_COUNTS = re.compile(r"(\d{1,6})-(\d{1,6})")


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add(
        "words SCRIPT",
        "job script and its arguments, in which {n} is the count (another input each: weak "
        "scaling); behind -- also options of sbatch",
        nargs="*",
    )
    add("-N --counts COUNTS", "counts, as 1-64 or 1,2,4,8", type=_counts)
    add(
        "--sizes",
        "what is counted: --nodes, --cpus-per-task or --gpus (default: %(default)s)",
        choices=("nodes", "cpus", "gpus"),
        default="nodes",
    )
    add("--runs", "most runs (default: %(default)s)", type=from_one, default=6)
    add(
        "--budget AMOUNT",
        "most node-hours, CPU-hours or GPU-hours (default: 200)",
        type=positive,
        default=200.0,
    )
    add("--time MINUTES", "limit of runs, not the script's (default: 30)", type=positive)
    add(
        "--together",
        "most of the first runs at once (default: %(default)s); later ones one by one",
        type=from_one,
        default=3,
    )
    add(
        "--weak COMMAND",
        "the problem grows: shell command that makes the script of $N from its standard input",
        default="",
    )
    add("--dry-run", "show the next run, submit nothing")
    add("--resume", "go on; SCRIPT may be the folder")
    add("--existing", "of runs that the accounting has; submits nothing")
    add("-d --directory", "folder of the study (default: SCRIPT.scale)", type=Path)
    add("--leave", "leave the jobs in the queue where it is interrupted")
    add.shared("json", "config")


def _counts(text: str) -> Sequence[int]:
    """Read counts: a list, or of a range its ends and two of each doubling.

    >>> _counts("1-12")
    [1, 2, 3, 4, 6, 8, 12]
    """
    if match := _COUNTS.fullmatch(text):
        low, high = map(int, match.groups())
        if not 0 < low < high:
            raise argparse.ArgumentTypeError(f"{text}: give the lower count first, from 1 on")
        steps = {step for i in range(20) for step in (2**i, 3 * 2**i)}
        return sorted({low, high, *(n for n in steps if low < n < high)})
    if not re.fullmatch(r"\d{1,6}(,\d{1,6})+", text) or "0" in text.split(","):
        raise argparse.ArgumentTypeError(f"{text!r}: give counts as 1-64 or 1,2,4,8")
    return sorted(set(map(int, text.split(","))))
