"""List the jobs that Slurm plans with less than their time limit, or take such limits back.

With --restore, pending jobs lose the limit to plan with, and running ones that were cut down to it
get their user's limit back.  As root, SlurmUser or an operator of Slurm.
"""

import argparse
from functools import partial

from slurm_plugin.cli.command_context import Options
from slurm_plugin.slurm import commands
from slurm_plugin.slurm.soft_limits import soft_jobs, take_back
from slurm_plugin.text.formatting import duration, printable
from slurm_plugin.text.streams import json_text

EXAMPLE = "  nimo limits\n  nimo limits --restore    # before time_min_as_soft_limit goes"
_TIMEOUT_S = 15.0
_NONE = "no job has a limit to plan with"
_ROW = "{:>12}  {:12} {:12} {:8} {:>11} {:>11}"


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("--restore", "take them back")
    add.shared("json")


def run(args: argparse.Namespace) -> int:
    """Ask Slurm, and print."""
    ask = partial(commands.run, timeout_s=_TIMEOUT_S)
    if args.restore:
        lines = take_back(ask)
        print("\n".join(lines) or _NONE)
        return int(any((one.waits and one.least_min) or one.is_cut for one in soft_jobs(ask)))
    jobs = [one for one in soft_jobs(ask) if one.least_min or one.is_cut]
    if args.json or not jobs:
        print(json_text(jobs) if args.json else _NONE)
        return 0
    print(_ROW.format("job", "user", "partition", "state", "planned", "limit").rstrip())
    for one in jobs:
        state = "waits" if one.waits else "cut" if one.is_cut else "runs"
        times = (duration(60.0 * one.least_min), duration(60.0 * (one.limit_min or one.own_min)))
        print(_ROW.format(one.job, printable(one.user), printable(one.partition), state, *times))
    return 0
