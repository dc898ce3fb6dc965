"""List the jobs that Slurm plans with less than their time limit, or take such limits back.

With --restore, pending jobs lose the limit to plan with, unless somebody has changed it.  Running
jobs with less than they had at submission are named: if it was backfill and not their users who cut
them, raise them by hand.  As root, SlurmUser or an operator of Slurm.
"""

from slurm_plugin.cli.command_context import Options

EXAMPLE = "  nimo limits\n  nimo limits --restore    # before time_min_as_soft_limit goes"


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("--restore", "take them back")
    add.table("-o", "-n")
    add.shared("parsable", "json")
