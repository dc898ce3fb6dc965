"""Run a job that did not complete again, with more of only what it ran out of.

Prints the command of sbatch; --submit runs it.  A job that reached its time limit gets a longer
one, and one that ran out of memory more memory.  It is what would have been enough for most of the
application's runs that took more, within what the partition allows.  Of an array only the tasks
that failed run again.
"""

import argparse
import re

from slurm_plugin.cli.command_context import Options

EXAMPLE = """\
  nimo again 4711
  nimo again 4711 --submit
  nimo again 4711_3"""
_JOB = re.compile(r"([0-9]{1,18})(?:_([0-9]{1,10}))?")


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("job JOBID", "a job, an array, or one of its tasks: 4711_3", type=_job)
    add("--submit", "submit it, and have jobs that waited for the old one wait for the new one")
    add.shared("config")


def _job(text: str) -> tuple[int, int | None]:
    if found := _JOB.fullmatch(text):
        return int(found[1]), int(found[2]) if found[2] else None
    raise argparse.ArgumentTypeError(f"{text!r} is not a job id, such as 4711 or 4711_3")
