"""Benchmark nodes with sysbench, fio and iperf3 in Slurm jobs: one profile for each node type.

It compares nodes of one type.  The exit status is 1 if some differ or could not be measured.
"""

import argparse

from slurm_plugin.cli.command_context import Options
from slurm_plugin.cli.common_options import from_one, whole

EXAMPLE = """\
  nimo lab profile -p batch
  nimo lab profile -w n[1-4] --only cpu,memory
  nimo lab profile --show
  nimo lab profile --show --json"""


#: What of a node can be measured.
PARTS = ("cpu", "memory", "disk", "network")


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("-w --nodelist", "nodes to measure, such as n[1-4]", default="")
    add("-p --partition", "all nodes of this partition", default="")
    add("-A --account", "account of the jobs", default="")
    add("-q --qos", "QOS of the jobs", default="")
    add("--reservation", "reservation of the jobs", default="")
    add("--show", "print stored profiles, measure nothing")
    add("--only PARTS", f"of {','.join(PARTS)}: these only", type=_parts, default=PARTS)
    add("--at-once N", "number of jobs at a time", type=from_one, default=1)
    add("--immediate S", "leave out nodes not free within S s", type=whole, default=0)
    add(
        "--network-host HOST:PORT",
        "iperf3 server to measure against (default: one is started here)",
        default="",
    )
    add.table_of_store()


def _parts(text: str) -> tuple[str, ...]:
    chosen = tuple(part.strip() for part in text.split(","))
    for part in chosen:
        if part not in PARTS:
            raise argparse.ArgumentTypeError(f"{part!r} is not one of {', '.join(PARTS)}")
    return chosen
