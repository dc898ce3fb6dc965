"""Predict when jobs in the queue start, beside the start that Slurm plans ("squeue --start").

Without job ids, -u or -p all your own jobs in the queue are listed.  It shows other users'
jobs where squeue shows them to you.
"""

import argparse
import re
from itertools import islice

from slurm_plugin.cli.command_context import Options

EXAMPLE = """\
  nimo wait
  nimo wait 4711 4712_7
  nimo wait -u ada --sort=starts -o job,name,starts
  nimo wait 4711 --json | jq .rows[0].start_s"""
_JOB = re.compile(r"(?P<id>\d{1,10})(?:_(?:(?P<task>\d{1,10})|\[(?P<tasks>[\d,:%-]{1,1000})\]))?")
#: Tasks that are asked for by their indexes, at most.
_MOST_TASKS = 1_000


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add(
        "jobs JOBID",
        "a job, an array or one of its tasks (default: all your own)",
        type=_jobs,
        nargs="*",
    )
    add("-u --user USER", "only jobs of this user", default="")
    add("-p --partition PARTITION", "only jobs in this partition", default="")
    add.table("-o", "-n")
    add.shared("parsable", "json", "local", "config")


def _jobs(text: str) -> list[tuple[int, int]]:
    """Read a job id, with the index of a task or several; below zero: no task is meant."""
    match = _JOB.fullmatch(text)
    if match is None:
        hint = "; 'nimo-advise JOBSCRIPT' says when a new job starts"
        raise argparse.ArgumentTypeError(f"{text!r} is not a job id, such as 4711 or 4711_3{hint}")
    from sacct_ingest.text.hostlist import indexes_of  # noqa: PLC0415 - help needs none

    job_id = int(match["id"])
    if match["tasks"] is None:
        return [(job_id, -1 if match["task"] is None else int(match["task"]))]
    try:
        tasks = list(islice(indexes_of(match["tasks"]), _MOST_TASKS + 1))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error
    if len(tasks) > _MOST_TASKS:
        raise argparse.ArgumentTypeError(f"{text!r}: over {_MOST_TASKS} tasks; give {job_id}")
    return [(job_id, task) for task in tasks]
