"""Write what your applications need, by their record, as a profile for Snakemake or Nextflow.

A need covers every completed run and a quantile of them with a margin.  The profiles ask for
retries: the first attempt has the memory that costs least, and further ones get more, up to what
the partition allows.  Applications with fewer than five completed runs are left out.
"""

from pathlib import Path

from slurm_plugin.cli.command_context import Options
from slurm_plugin.cli.common_options import positive, share

EXAMPLE = """\
  nimo export snakemake > profile/config.yaml
  nimo export snakemake --workflow rnaseq --diff profile/config.yaml
  nimo export nextflow --quantile 0.9 --margin 1.5 > nimo.config
  nimo export json | jq .applications[0].time_s"""
ENGINES = ("snakemake", "nextflow")


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("format", "what to write: %(choices)s", choices=(*ENGINES, "csv", "json"))
    add(
        "--workflow NAME",
        "only runs with this file or folder in the path of their workflow or working directory",
        default="",
    )
    add("-u --user USER", "applications of this user (default: you)", default="")
    add(
        "--quantile QUANTILE",
        "share of the completed runs that a need covers (default: %(default)s)",
        type=share,
        default=0.95,
    )
    add(
        "--margin FACTOR",
        "on this quantile (default: 1.2 for run times; memory gets the room that its runs say)",
        type=positive,
        default=None,
    )
    add(
        "--diff FILE",
        "show what would change in this file, and how past runs would have fared with both",
        type=Path,
    )
    add.shared("local", "store", "config")
