"""``nimo limits``: list jobs planned with less than their limit; take that back."""

import argparse
from collections.abc import Sequence
from functools import partial

from slurm_plugin.cli.command_context import print_table
from slurm_plugin.slurm import commands
from slurm_plugin.slurm.soft_limits import SoftJob, soft_jobs, take_back
from slurm_plugin.text.streams import json_text
from slurm_plugin.text.table_columns import LIMIT, Column, Table, text_column

_TIMEOUT_S = 15.0
_NONE = "no job has a limit to plan with"
#: Nothing says who it was.
_SHORTER = (
    "job {0} runs with {1} min of the {2} min it had at submission; if backfill cut it: "
    "scontrol update jobid={0} timelimit={2}"
)


def run(args: argparse.Namespace) -> int:
    """Ask Slurm, and print."""
    ask = partial(commands.run, timeout_s=_TIMEOUT_S)
    if args.restore:
        lines = take_back(ask)
        jobs = soft_jobs(ask)
        lines += [
            _SHORTER.format(job.job, job.limit_min, job.own_min) for job in jobs if job.is_shorter
        ]
        print("\n".join(lines) or _NONE)
        return int(any(job.is_planned for job in jobs))
    jobs = [job for job in soft_jobs(ask) if job.least_min or job.is_shorter]
    if args.json:
        print(json_text(jobs))
    elif jobs or args.parsable2:
        print_table(_table(jobs), args)
    else:
        print(_NONE)
    return 0


def tables() -> list[Table]:
    """Give what it prints, without rows."""
    return [_table([])]


def _table(jobs: Sequence[SoftJob]) -> Table:
    columns = [
        Column("job", "job"),
        text_column("user", "user"),
        text_column("partition", "partition"),
        Column("state", "state", _state, left=True),
        Column("planned_s", "planned", lambda job: 60 * job.least_min, LIMIT),
        Column("limit_s", "limit", lambda job: 60 * (job.limit_min or job.own_min), LIMIT),
    ]
    return Table(columns, jobs)


def _state(job: SoftJob) -> str:
    return "waits" if job.waits else "shorter" if job.is_shorter else "runs"
