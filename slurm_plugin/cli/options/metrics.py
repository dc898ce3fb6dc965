"""Give Prometheus metrics of nimod, the store and the accuracy of predictions.

They are printed, written into a file for node_exporter's textfile collector, or served over HTTP
until a signal stops it.  Needs the extra 'metrics'.
"""

import argparse
from pathlib import Path

from slurm_plugin.cli.command_context import Options

EXAMPLE = """\
  nimo metrics
  nimo metrics --textfile /var/lib/prometheus/node-exporter/nimo.prom
  nimo metrics --listen 127.0.0.1:9737"""


def add_arguments(add: Options) -> None:
    """Declare the options."""
    ways = add.one_of()
    ways("--textfile FILE", "write the metrics to this file (atomically)", type=Path)
    ways(
        "--listen [HOST:]PORT",
        "serve them at http://HOST:PORT/metrics (default HOST: 127.0.0.1)",
        type=_address,
    )
    add("--days DAYS", "days of decisions that the accuracy covers (default: 7)", default=7.0)
    add.shared("store", "config")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise argparse.ArgumentTypeError(f"{text} is not HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)
