"""``nimo hook-path``: print the folder of the Lua hooks, or install them."""

import argparse

from slurm_plugin.config.settings_file import HOOKS
from slurm_plugin.setup import install


def run(args: argparse.Namespace) -> int:
    """Print the folder, or what was written into another."""
    written = [HOOKS] if args.install is None else install(args.install)
    for path in written:
        print(path)
    return 0
