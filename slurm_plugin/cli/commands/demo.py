"""Show NIMO on a simulated cluster: history, fit, advice, submissions, report.

It needs neither Slurm nor root, and writes only into its own folder.  It leaves nimod running for
eight hours at most, and stand-ins of sbatch, sacct, squeue and scontrol: both tutorials run there.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from random import Random

from sacct_ingest.errors import NimoError, system_errors
from slurm_plugin.cli.command_context import Options
from slurm_plugin.demo.sandbox import DemoSite
from slurm_plugin.slurm.job_request import user_name

EXAMPLE = "  nimo demo\n  nimo demo --all --directory /tmp/nimo-demo --seed 3\n  nimo demo --stop"


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add(
        "--directory FOLDER",
        "folder for all its files (default: %(default)s)",
        type=Path,
        default=Path(".demo"),
    )
    add("--all", "show every step: deadlines, few runs, learning from nothing, the whole report")
    add("--stop", "only stop the nimod that an earlier demo left running")
    add("--seed SEED", "seed of the generated history (default: 1)", type=int, default=1)


def run(args: argparse.Namespace) -> int:
    """Give the tour."""
    from slurm_plugin.demo.nimod_process import stop  # noqa: PLC0415 - as below
    from slurm_plugin.demo.tour import Narrator, tour  # noqa: PLC0415 - loads numpy

    rng = Random(args.seed)  # noqa: S311 - made-up history, no secret
    folder = args.directory.absolute()
    with system_errors(NimoError, folder, "; see --directory"):
        folder.mkdir(parents=True, exist_ok=True)
    site = DemoSite.of(folder)
    if args.stop:
        print("nimod is stopped" if stop(site) else "no nimod of a demo runs there")
        return 0
    stop(site)
    narrator = Narrator(site, sys.stdout, every=args.all)
    tour(narrator, user=user_name(), uid=os.getuid(), clock=time.time, rng=rng)
    return 0
