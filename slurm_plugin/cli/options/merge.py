"""Merge run times by node type from other stores into this one.

aprof's sums over the runs of each application on each node type are added.  Predictions for a node
type then use the runs of all clusters.  Each run counts once, in any order of merges.  This store's
own runs stay as they are.
"""

from pathlib import Path

from slurm_plugin.cli.command_context import Options

EXAMPLE = """\
  nimo merge /mnt/oak/nimo.db
  nimo merge postgresql://nimo@oak/nimo
  nimo merge --export pine.sums
  nimo merge pine.sums --json"""


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("source SOURCE", "store (file or URL), or file of --export", nargs="*")
    add(
        "--export FILE",
        "write this store's sums of runs to FILE, for another store to merge",
        type=Path,
    )
    add.shared("json", "store", "config")
