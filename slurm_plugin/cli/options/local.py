"""Show what is kept of your own jobs where no nimod runs, or delete it.

The commands for users read it from your own accounting where no nimod answers, or with --local.
"""

from slurm_plugin.cli.command_context import Options

EXAMPLE = """\
  nimo local
  nimo local --forget"""


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("--forget", "delete it")
    add.shared("config")
