"""Forecast the next value of each series that "nimo lab probe" has stored.

As in the Network Weather Service, many simple forecasters run on each series.  The one with the
smallest error so far gives the forecast.  Without a resource or host all series are forecast.
"""

from slurm_plugin.cli.command_context import Options

EXAMPLE = """\
  nimo lab forecast
  nimo lab forecast --resource bandwidth n1 n2
  nimo lab forecast --criterion mse -S now-7days
  nimo lab forecast -o from,to,next --sort=-next
  nimo lab forecast -P | cut -d'|' -f1-4"""


#: What probes measure.
RESOURCES = ("bandwidth", "latency", "cpu", "disk_read", "disk_write", "disk_latency", "transfer")
#: Errors by which a forecaster is chosen.
CRITERIA = ("mae", "mse")


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("source FROM", "host that measured", nargs="?")
    add("target TO", "host or folder that was measured", nargs="?")
    add(
        "--resource RESOURCE",
        f"forecast only series of this resource: {', '.join(RESOURCES)}",
        choices=RESOURCES,
    )
    add(
        "--criterion",
        "error measure that chooses the forecaster (default: mae)",
        choices=CRITERIA,
        default="mae",
    )
    add.shared("since")
    add.table_of_store()
