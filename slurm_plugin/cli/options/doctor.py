"""Check the installation, from munge to the last fit, and say how to fix each fault.

Run it as root where slurmctld runs.  The exit status is 1 if there is an error;
warnings leave it 0.
"""

from slurm_plugin.cli.command_context import Options

EXAMPLE = "  nimo doctor\n  nimo doctor --json | jq '.[] | select(.state == \"error\")'"


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("--limits", "also try limits to plan with: two jobs of a minute")
    add.shared("json", "parsable", "store", "config")
