"""Print the folder of the installed Lua hooks, for slurmctld's configuration."""

import argparse
from importlib.resources import files

EXAMPLE = '  cp "$(nimo hook-path)"/*.lua /etc/slurm/'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare nothing: the command has no options of its own."""
    del parser


def run(args: argparse.Namespace) -> int:
    """Print the folder."""
    del args
    print(files("slurm_plugin") / "lua")
    return 0
