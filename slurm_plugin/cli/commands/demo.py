"""``nimo demo``: show NIMO on a simulated cluster: no Slurm, no root."""

import argparse
import os
import sys
import time
from random import Random

from sacct_ingest.errors import NimoError, system_errors
from slurm_plugin.demo.sandbox import DemoSite
from slurm_plugin.slurm.job_request import user_name


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
        print("nimod is stopped" if stop(site) else "no demo's nimod runs there")
        return 0
    stop(site)
    narrator = Narrator(site, sys.stdout, every=args.all)
    tour(narrator, user=user_name(), uid=os.getuid(), clock=time.time, rng=rng)
    return 0
