"""The installation that ``nimo doctor`` and ``nimo init`` look at."""

import argparse
import time
from collections.abc import Sequence

from sacct_ingest.errors import NimoError
from slurm_plugin.cli.command_context import load_config
from slurm_plugin.config.settings_file import find
from slurm_plugin.doctor import Installation
from slurm_plugin.slurm import commands

_TIMEOUT_S = 10.0


def installation_of(args: argparse.Namespace) -> Installation:
    """Give what is to be checked: an unreadable configuration is a finding, too."""

    def ask(argv: Sequence[str]) -> str:
        return commands.run(argv, timeout_s=_TIMEOUT_S)

    try:
        config = load_config(args)
    except NimoError as error:
        return Installation(error, find(args.config), ask, time.time())
    return Installation(config, find(args.config), ask, time.time())
