"""Fit the runs in the store: run time over node counts, as one prediction table each.

Only applications with new runs are fitted; all after other settings or another release.  Nimod
loads the new tables by itself.
"""

from slurm_plugin.cli.command_context import Options
from slurm_plugin.cli.common_options import whole

EXAMPLE = """\
  nimo fit
  nimo fit --follow
  nimo fit --workers 1 --json
  nimo fit --dask tcp://head:8786
  nimo fit --dask slurm --workers 8"""


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add(
        "--workers COUNT",
        "processes that fit (default: the configuration's; 0: one per core); with --dask "
        "slurm "
        "the jobs to submit (default: 4)",
        type=whole,
    )
    add("--all", "fit applications without new runs, too")
    add("--follow", "repeat until stopped: new runs count within a minute of their ingest")
    add(
        "--dask ADDRESS",
        "fit on a Dask cluster: tcp://HOST:PORT of its scheduler, or 'slurm' for workers that "
        "are Slurm jobs, as jobqueue.slurm in Dask's configuration describes them",
    )
    add.shared("json", "store", "config")
