"""``nimo config``: check the configuration and print it."""

import argparse
import sys

from slurm_plugin.config.loader import dump, load
from slurm_plugin.config.settings_file import find


def run(args: argparse.Namespace) -> int:
    """Read the file, which checks it, and print what is in force."""
    path = args.file or args.config
    config = load(path)
    if isinstance(config.energy.co2, str):
        from slurm_plugin.evaluation.costs import check_series  # noqa: PLC0415 - heavy

        check_series(config.energy)
    if not args.check:
        print(f"# from {find(path) or 'built-in defaults'}", file=sys.stderr)
        print(dump(config), end="")
    return 0
