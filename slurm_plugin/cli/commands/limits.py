"""``nimo limits``: list jobs planned with less than their limit; take that back."""

import argparse
from functools import partial

from sacct_ingest.text.durations import slurm_time
from slurm_plugin.slurm import commands
from slurm_plugin.slurm.soft_limits import soft_jobs, take_back
from slurm_plugin.text.formatting import printable
from slurm_plugin.text.streams import json_text

_TIMEOUT_S = 15.0
_NONE = "no job has a limit to plan with"
#: Nothing says who it was.
_SHORTER = (
    "job {0} runs with {1} min of the {2} min it had at submission; if backfill cut it: "
    "scontrol update jobid={0} timelimit={2}"
)
_ROW = "{:>12}  {:12} {:12} {:8} {:>11} {:>11}"


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
    if args.json or not jobs:
        print(json_text(jobs) if args.json else _NONE)
        return 0
    print(_ROW.format("job", "user", "partition", "state", "planned", "limit").rstrip())
    for job in jobs:
        state = "waits" if job.waits else "shorter" if job.is_shorter else "runs"
        planned, limit = map(slurm_time, (60 * job.least_min, 60 * (job.limit_min or job.own_min)))
        names = job.job, printable(job.user), printable(job.partition)
        print(_ROW.format(*names, state, planned, limit))
    return 0
