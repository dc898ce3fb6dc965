"""Read job accounting into the store: new runs from sacct, or saved files.

Reading the same runs twice changes nothing.  A stopped ingest continues where it was.
Each recorded decision is joined with the run of its job.
"""

from pathlib import Path

from slurm_plugin.cli.command_context import Options, moment
from slurm_plugin.cli.common_options import positive

EXAMPLE = """\
  nimo ingest
  nimo ingest --since 2023-01-01
  nimo ingest --follow
  nimo ingest --stat
  SLURM_TIME_FORMAT=%s sacct -aDP --noconvert -o ALL -S now-90days | xz > jobs.xz
  nimo ingest -M pine jobs.xz"""
#: Programs that can be asked for a cluster's accounting.
SOURCES = ("pyslurm", "sacct", "sacct-json")
#: What a saved file may hold.
FORMATS = ("json", "swf", "text")


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add(
        "files FILE",
        "saved output of 'sacct -P', 'sacct --json' or slurmrestd, or a log in the Standard "
        "Workload Format; may be compressed; - for stdin",
        nargs="*",
        type=Path,
    )
    add(
        "--source",
        "source to ask when no file is given (default: %(default)s)",
        choices=SOURCES,
        default="sacct",
    )
    add(
        "--format",
        "format of the files (default: detected from their content)",
        choices=FORMATS,
        default="",
    )
    add(
        "-o --fields NAME,…",
        "columns of text without sacct's header; - skips a column",
        type=_names,
        default=(),
    )
    add("--delimiter TEXT", "character between the fields of text", default="")
    add(
        "-S --since TIME",
        "ask sacct for runs since this time; an interrupted ingest continues where it stopped",
        type=moment,
    )
    add("-E --until TIME", "ask sacct for runs until this time", type=moment)
    add(
        "-M --cluster CLUSTER",
        "cluster to ask for, or the cluster of a file that names none",
        default="",
    )
    add(
        "--stat",
        "look at how large the input files of your own runs are, where they are still there and "
        "unchanged",
    )
    add("--follow", "repeat until stopped; continue after outages of Slurm")
    add("--every MINUTES", "pause of --follow (default: the configuration's)", type=positive)
    add.shared("json", "store", "config")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))
