"""Measure network, CPU and disk as the Network Weather Service does, and store the series.

Sensors run on the hosts (--serve).  Without an option each sensor measures once.  Where no hosts
are configured, only this host's CPU and disk are measured.
"""

from slurm_plugin.cli.command_context import Options

EXAMPLE = """\
  nimo lab probe
  nimo lab probe --cost
  nimo lab probe --serve --name n1
  nimo lab probe --follow
  nimo lab probe --transfer /scratch/input.dat n2
  nimo lab probe --show -P
  nimo lab probe --show --sort=-at -o at,source,target,value"""


def add_arguments(add: Options) -> None:
    """Declare the options."""
    what = add.one_of()
    what("--serve", "run this host's sensor")
    what("--follow", "store what the sensors measure, until stopped")
    what("--show", "print the newest value of each series")
    what(
        "--transfer",
        "probe the path to a host, send it a file that it discards, and store both",
        nargs=2,
        metavar=("FILE", "HOST"),
    )
    add("--cost", "only print the network, CPU and disk use of the probes")
    add(
        "--host NAME=HOST:PORT",
        "host to probe; repeat it, in the order of the ring (default: probes.hosts)",
        action="append",
        default=[],
    )
    add("--name", "this host's name (default: its host name)", default="")
    add("--bind HOST:PORT", "address on which the sensor listens", default="")
    add.table_of_store()
