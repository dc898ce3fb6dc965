"""Predict when jobs in the queue start, beside the start that Slurm plans ("squeue --start").

Without job ids all your own jobs in the queue are listed.  It shows other users' jobs
where squeue shows them to you.
"""

import argparse
import re
import sys
import time

from slurm_plugin import table_columns
from slurm_plugin.cli.command_context import (
    add_config,
    add_json,
    add_parsable,
    add_table_options,
    nimod_socket,
    table_options,
    user_settings,
)
from slurm_plugin.cli.through_nimod import TIMEOUT_S
from slurm_plugin.nimod import client
from slurm_plugin.reports.wait_text import queue_columns, sentence
from slurm_plugin.streams import json_text

EXAMPLE = """\
  nimo wait
  nimo wait 4711 4712_7
  nimo wait 4711 --json | jq .rows[0].start_s"""
NOT_WAITING = 3
_JOB = re.compile(r"(?P<id>\d{1,10})(?:_(?:\d+|\[[^\]\s]+\]))?")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "jobs",
        metavar="JOBID",
        type=_job_id,
        nargs="*",
        help="a job, an array or one of its tasks (default: all your own)",
    )
    add_table_options(parser, "-o", "-n")
    add_parsable(parser)
    add_json(parser)
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Ask nimod and print; 3 where a job does not wait, or is not shown to this user."""
    socket = nimod_socket(args, user_settings(args))
    waits = client.waits(socket, args.jobs, timeout_s=TIMEOUT_S)
    shown, options = queue_columns(), table_options(args)
    if args.json:
        print(json_text(waits))
    elif args.parsable2:
        print("\n".join(table_columns.parsable(shown, waits.rows, options)))
    elif waits.rows:
        print(table_columns.text(shown, waits.rows, options, width=table_columns.terminal_width()))
        print(f"\n{sentence(waits, now_s=time.time())}")
    else:
        print("no such job is waiting")
    for job_id in waits.missing:
        print(f"nimo wait: job {job_id} is not waiting, or you may not see it", file=sys.stderr)
    return NOT_WAITING if waits.missing else 0


def _job_id(text: str) -> int:
    match = _JOB.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a job id, such as 4711 or 4711_3")
    return int(match["id"])
