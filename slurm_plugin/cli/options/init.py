"""Write the first configuration from Slurm's own settings and your answers.

Slurm gives the cluster's name, its partitions, its plugins, and how long slurmdbd keeps jobs.  The
rest is asked on a terminal, or given by options.  Files that you have changed are never
overwritten.  Lines for slurm.conf are printed, not written.
"""

from slurm_plugin.cli.command_context import Options

EXAMPLE = (
    "  nimo init\n"
    "  nimo init --dry-run\n"
    "  nimo init --login-node ctl1,ctl2\n"
    "  nimo init --immediate --store postgresql+psycopg://nimo@db.example/nimo -p batch --hooks"
)


#: Settings of ``policy.mode``.
MODES = ("off", "observe", "advise", "enforce")


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("-M --cluster NAME", "cluster name (default: ask Slurm)")
    add("--store STORE", "SQLite file or database URL")
    add("--socket PATH", "socket of nimod")
    add("--mode", "what NIMO may do with jobs", choices=MODES)
    add("-p --partition NAMES", "decide on jobs in these partitions only")
    add("--hooks", "also install the hooks beside slurm.conf")
    add("-i --immediate", "ask nothing")
    add("--dry-run", "write nothing, print the differences")
    add(
        "--login-node HOST[:PORT]",
        "set up a login node; its relay asks nimod on these hosts (default: slurmctld's hosts)",
        nargs="?",
        const="",
    )
    add.shared("json", "config")
