"""Learn an application by running its most informative jobs, within a budget.

A YAML file describes the application and its possible resources and inputs (docs/learning.md).  A
journal beside it records each run.  After an interruption, give the same command again.
"""

from pathlib import Path

from slurm_plugin.cli.command_context import Options
from slurm_plugin.cli.common_options import positive

EXAMPLE = """\
  nimo lab learn blast.yaml --dry-run
  nimo lab learn blast.yaml
  nimo lab learn blast.yaml --budget 20 --json"""


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("file FILE", "description of the application", type=Path)
    add("--dry-run", "show the next run, submit nothing")
    add("--budget NODE-HOURS", "budget, instead of the one in FILE", type=positive)
    add("--state FILE", "journal of the runs (default: beside the file)", type=Path)
    add("--leave", "leave the job in the queue where it is interrupted")
    add.shared("json", "store", "config")
