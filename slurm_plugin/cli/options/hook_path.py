"""Print the folder of the installed Lua hooks, or put them beside slurm.conf.

--install replaces the hooks of another release at once and makes slurmctld load them.  A
job_submit.lua or cli_filter.lua of the site stays.  NIMO's hook is then nimo_job_submit.lua or
nimo_cli_filter.lua beside it, for the site's hook to call (docs/install.md).
"""

from pathlib import Path

from slurm_plugin.cli.command_context import Options

EXAMPLE = "  nimo hook-path\n  nimo hook-path --install /etc/slurm"


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add(
        "--install FOLDER",
        "install the hooks in FOLDER, beside slurm.conf, and print the written files",
        type=Path,
    )
