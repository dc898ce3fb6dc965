"""``nimo hook-path``: print the folder of the Lua hooks, or install them."""

import argparse

from slurm_plugin.config.settings_file import HOOKS


def run(args: argparse.Namespace) -> int:
    """Print the folder, or what was written into another."""
    written = [HOOKS]
    if args.install is not None:
        from slurm_plugin.setup import install  # noqa: PLC0415 - reads the configuration

        written = install(args.install)
    for path in written:
        print(path)
    return 0
