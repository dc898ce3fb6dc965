"""Show NIMO on a simulated cluster: history, fit, advice, submissions, report.

It needs neither Slurm nor root, and writes only into its own folder.  It leaves nimod running for
eight hours at most, and stand-ins of sbatch, sacct, squeue and scontrol: both tutorials run there.
"""

from pathlib import Path

from slurm_plugin.cli.command_context import Options

EXAMPLE = "  nimo demo\n  nimo demo --all --directory /tmp/nimo-demo --seed 3\n  nimo demo --stop"


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add(
        "--directory FOLDER",
        "folder for all its files (default: %(default)s)",
        type=Path,
        default=Path(".demo"),
    )
    add("--all", "show every step: deadlines, few runs, learning from nothing, the whole report")
    add("--stop", "only stop the nimod that an earlier demo left running")
    add("--seed SEED", "seed of the generated history (default: 1)", type=int, default=1)
