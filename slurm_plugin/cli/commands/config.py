"""Check the configuration and print all settings as YAML, with their defaults."""

import argparse
import sys
from pathlib import Path

from slurm_plugin.cli.command_context import Options
from slurm_plugin.config.loader import dump, load
from slurm_plugin.config.settings_file import find
from slurm_plugin.evaluation.costs import check_series

EXAMPLE = "  nimo config\n  nimo config ./nimo.yaml\n  nimo config --check /etc/nimo/nimo.yaml"


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("file FILE", "file to check instead of the configuration in use", nargs="?", type=Path)
    add.shared("config")
    add("--check", "print errors only")


def run(args: argparse.Namespace) -> int:
    """Read the file, which checks it, and print what is in force."""
    path = args.file or args.config
    config = load(path)
    check_series(config.energy)
    if not args.check:
        print(f"# from {find(path) or 'built-in defaults'}", file=sys.stderr)
        print(dump(config), end="")
    return 0
