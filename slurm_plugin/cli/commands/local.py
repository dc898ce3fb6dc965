"""``nimo local``: show or delete what is kept of your own jobs where no nimod runs."""

import argparse

from slurm_plugin.cli import own_history
from slurm_plugin.cli.command_context import load_config
from slurm_plugin.store_access import open_store
from slurm_plugin.text.formatting import clock, count


def run(args: argparse.Namespace) -> int:
    """Say what there is, or delete it."""
    config = own_history.with_own_store(load_config(args, for_user=True))
    path = own_history.place(config)
    if args.forget:
        gone = own_history.forget(config)
        print(f"deleted {path}" if gone else f"nothing is kept in {path}")
    elif not path.exists():
        print(f"nothing is kept in {path}; 'nimo-advise --local job.sh' reads your jobs")
    else:
        with open_store(config) as store:
            runs = store.runs.count()
            asked_s = own_history.asked_s(store)
        asked = f", sacct asked last at {clock(asked_s)}" if asked_s else ""
        print(f"{path}: {count(runs, 'job')} of yours{asked}")
    return 0
