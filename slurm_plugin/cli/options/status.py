"""Show the state of nimod: its tables, the age of its view of the cluster, its answers."""

from slurm_plugin.cli.command_context import Options

EXAMPLE = "  nimo status\n  nimo status --reload\n  nimo status --json | jq .snapshot_age_s"


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("--reload", "make nimod load new tables now")
    add.shared("json", "config")
