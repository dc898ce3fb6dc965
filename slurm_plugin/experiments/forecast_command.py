"""Forecast the next value of each series that "nimo probe" has stored.

As in the Network Weather Service, many simple forecasters run on each series.  The one with the
smallest error so far gives the forecast.  Without a resource or host all series are forecast.
"""

import argparse

from predictor.forecasts.forecasters import Criterion
from predictor.forecasts.series import forecast_series
from sacct_ingest.errors import NoHistory
from sacct_ingest.records import Resource
from slurm_plugin.cli.command_context import (
    add_shared,
    add_table_of_store,
    load_config,
    print_table,
)
from slurm_plugin.experiments import forecast_text as words
from slurm_plugin.store_access import open_store
from slurm_plugin.text.streams import json_text

EXAMPLE = """\
  nimo forecast
  nimo forecast --resource bandwidth n1 n2
  nimo forecast --criterion mse -S now-7days
  nimo forecast -o from,to,next --sort=-next
  nimo forecast -P | cut -d'|' -f1-4"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("source", metavar="FROM", nargs="?", help="host that measured")
    parser.add_argument("target", metavar="TO", nargs="?", help="host or folder that was measured")
    parser.add_argument(
        "--resource",
        type=Resource,
        choices=list(Resource),
        metavar="RESOURCE",
        help=f"forecast only series of this resource: {', '.join(Resource)}",
    )
    parser.add_argument(
        "--criterion",
        type=Criterion,
        choices=list(Criterion),
        default=Criterion.MAE,
        help="error measure that chooses the forecaster (default: mae)",
    )
    add_shared(parser, "since")
    add_table_of_store(parser)


def run(args: argparse.Namespace) -> int:
    """Print the forecasts."""
    with open_store(load_config(args)) as store:
        selected = [
            each
            for each in store.probes.since(args.since)
            if args.resource in (None, each.resource)
            and args.source in (None, each.source)
            and args.target in (None, each.target)
        ]
    forecasts = forecast_series(selected, args.criterion)
    if not forecasts:
        raise NoHistory("no such measurement is stored: 'nimo probe --show' lists what there is")
    if args.json:
        print(json_text(forecasts))
    else:
        print_table(words.series_table(forecasts), args)
    return 0
