"""Predict how long a transfer between two hosts takes, from probes and past transfers.

A staging script can record each of its transfers with --took.  "nimo lab probe --transfer" makes a
transfer to measure.
"""

import argparse

from slurm_plugin.cli.command_context import Options, moment
from slurm_plugin.cli.common_options import positive

EXAMPLE = """\
  nimo lab transfer 16M n1 n2
  nimo lab transfer 500G archive n1 --json
  nimo lab transfer 500G archive n1 --took 3720
  nimo lab transfer 16M n1 n2 --took 2.5 --at 2026-11-20T08:00:00"""


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("size SIZE", "size in bytes, or as 16M, 500G, 2T", type=size)
    add("source FROM", "host that sends, as the probes name it")
    add("target TO", "host that receives")
    add("--took SECONDS", "record a real transfer and the seconds that it took", type=positive)
    add("--at TIME", "with --took: when the transfer began (default: SECONDS ago)", type=moment)
    add.shared("since", "parsable", "json", "store", "config")


def size(text: str) -> int:
    """Read a size; what is none is a usage error."""
    from sacct_ingest.text.slurm_text import parse_size  # noqa: PLC0415 - help needs none

    try:
        size_bytes = parse_size(text)
    except ValueError:
        size_bytes = None
    if not size_bytes:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write 1048576, 16M, 500G or 2T")
    return size_bytes
