"""Delete rows that are older than their retention time, and free the space.

Runs behind prediction tables stay: of each application, on each node count, the 30 newest that
completed or reached their limit.  So do the runs of decisions that stay.
"""

from slurm_plugin.cli.command_context import Options
from slurm_plugin.cli.common_options import whole

EXAMPLE = """\
  nimo prune --dry-run
  nimo prune --runs 730 --steps 90 --decisions 365"""
#: Tables of the store whose rows can be deleted.
TABLES = ("runs", "steps", "decisions", "rejects", "probes", "profiles")


def add_arguments(add: Options) -> None:
    """Declare the options."""
    for table in TABLES:
        add(
            f"--{table} DAYS",
            f"delete {table} after this many days; 0: never (default: the configuration's)",
            type=whole,
        )
    add("--dry-run", "only count the rows that would be deleted")
    add.shared("json", "store", "config")
