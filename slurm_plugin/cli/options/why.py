"""Say why jobs wait and when they start, and explain the decision about a job.

Without a job it is about all of yours that wait.  Of one that waits it says why, by Slurm's own
reason, the queue and the limits, and when it starts.  Then it explains NIMO's decision: the
request, the prediction, the choice, and the reason.

Of a job of yours that did not complete it says what happened, with the end of its output.  It
names the command that runs it again with more of what it ran out of.

Users see decisions about their own jobs, through nimod.  Root and the owner of the store see all of
them.
"""

import argparse
import re

from slurm_plugin.cli.command_context import Options

EXAMPLE = """\
  nimo why
  nimo why 4711
  nimo why 4711 --json | jq .decision.reason"""
_JOB = re.compile(r"([0-9]{1,18})(?:_([0-9]{1,10})|[+][0-9]{1,10})?")


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add(
        "job JOBID",
        "id of the job, of an array, or of one of its tasks (default: all yours that wait)",
        type=_job_id,
        nargs="?",
    )
    add("--apply", "ask which of the changes to make to a job that waits, and make it")
    add.shared("json", "local", "store", "config")


def _job_id(text: str) -> tuple[int, int | None]:
    """Read a job id, and a task's index: it was decided about with its array."""
    if found := _JOB.fullmatch(text):
        return int(found[1]), int(found[2]) if found[2] else None
    raise argparse.ArgumentTypeError(f"{text!r} is not a job id, such as 4711 or 4711_3")
