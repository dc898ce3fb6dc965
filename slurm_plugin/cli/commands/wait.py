"""Predict when jobs in the queue start, beside the start that Slurm plans ("squeue --start").

Without job ids, -u or -p all your own jobs in the queue are listed.  It shows other users'
jobs where squeue shows them to you.
"""

import argparse
import re
import sys
import time
from collections.abc import Iterable
from itertools import islice

from sacct_ingest.text.hostlist import indexes_of
from slurm_plugin.cli.command_context import (
    add_shared,
    add_table_options,
    nimod_socket,
    print_table,
    user_settings,
)
from slurm_plugin.cli.through_nimod import TIMEOUT_S, from_nimod
from slurm_plugin.nimod import client
from slurm_plugin.protocol.status_messages import WaitRow
from slurm_plugin.reports.wait_text import queue_table, sentence
from slurm_plugin.text.formatting import wrapped
from slurm_plugin.text.streams import json_text
from slurm_plugin.text.table_columns import terminal_width

EXAMPLE = """\
  nimo wait
  nimo wait 4711 4712_7
  nimo wait -u ada --sort=starts -o job,name,starts
  nimo wait 4711 --json | jq .rows[0].start_s"""
NOT_WAITING = 3
_JOB = re.compile(r"(?P<id>\d{1,10})(?:_(?:(?P<task>\d{1,10})|\[(?P<tasks>[\d,:%-]{1,1000})\]))?")
#: Tasks that are asked for by their indexes, at most.
_MOST_TASKS = 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "jobs",
        metavar="JOBID",
        type=_jobs,
        nargs="*",
        help="a job, an array or one of its tasks (default: all your own)",
    )
    parser.add_argument("-u", "--user", default="", help="only jobs of this user")
    parser.add_argument("-p", "--partition", default="", help="only jobs in this partition")
    add_table_options(parser, "-o", "-n")
    add_shared(parser, "parsable", "json", "config")


def run(args: argparse.Namespace) -> int:
    """Ask nimod and print; 3 where a job does not wait, or is not shown to this user."""
    settings = user_settings(args)
    socket = nimod_socket(args, settings)
    asked = list(dict.fromkeys(job for jobs in args.jobs for job in jobs))
    waits = from_nimod(
        settings,
        lambda: client.waits(
            socket, asked, user=args.user, partition=args.partition, timeout_s=TIMEOUT_S
        ),
    )
    if args.json:
        print(json_text(waits))
    elif waits.rows or args.parsable2:
        print_table(queue_table(waits.rows), args)
        if not args.parsable2:
            print(f"\n{wrapped(sentence(waits, now_s=time.time()), terminal_width())}")
    else:
        print(_none(args))
    missing = _missing(asked, waits.rows)
    for job_id, task in missing:
        name = f"{job_id}" if task < 0 else f"{job_id}_{task}"
        print(f"nimo wait: job {name} is not waiting, or you may not see it", file=sys.stderr)
    return NOT_WAITING if missing else 0


def _none(args: argparse.Namespace) -> str:
    """Say whose jobs do not wait."""
    if args.jobs:
        return "none of these jobs is waiting"
    if args.user or args.partition:
        return "none of the jobs selected is waiting"
    return "none of your jobs is waiting; -u USER or -p PARTITION shows those of others"


def _missing(asked: Iterable[tuple[int, int]], rows: Iterable[WaitRow]) -> list[tuple[int, int]]:
    shown = {(number, task) for row in rows for number in _numbers(row) for task in (-1, row.task)}
    return [job for job in asked if job not in shown]


def _numbers(row: WaitRow) -> set[int]:
    return {row.job_id, row.array_id or row.job_id}


def _jobs(text: str) -> list[tuple[int, int]]:
    """Read a job id, with the index of a task or several; below zero: no task is meant."""
    match = _JOB.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a job id, such as 4711 or 4711_3")
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
