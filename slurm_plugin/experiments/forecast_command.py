"""``nimo lab forecast``: forecast the next value of each measured series."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite

from predictor.forecasts.forecasters import Criterion, SeriesForecast, forecast_series
from sacct_ingest.errors import NoHistory
from slurm_plugin.cli.command_context import load_config, print_table
from slurm_plugin.experiments.probe_command import amount
from slurm_plugin.store_access import open_store
from slurm_plugin.text import table_columns as cols
from slurm_plugin.text.formatting import interval
from slurm_plugin.text.streams import json_text


def tables() -> Sequence[cols.Table]:
    """Give what it prints, without rows."""
    return [series_table([])]


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
    forecasts = forecast_series(selected, Criterion(args.criterion))
    if not forecasts:
        raise NoHistory(
            "no such measurement is stored: 'nimo lab probe --show' lists what there is"
        )
    if args.json:
        print(json_text(forecasts))
    else:
        print_table(series_table(forecasts), args)
    return 0


def series_table(forecasts: Sequence[SeriesForecast]) -> cols.Table:
    """One line a series: the next value, its interval, the last one, and the mean error.

    Values of ``-P`` are in the units of the resources; unknown ones are empty.
    """

    def amounts(
        name: str, title: str, get: Callable[[SeriesForecast], float], worth: int = cols.ON_REQUEST
    ) -> cols.Column:
        def show(one: SeriesForecast) -> str:
            return amount(one.resource, get(one))

        return cols.Column(name, title, lambda f: _finite(get(f)), show=show, worth=worth)

    columns = [
        cols.text_column("resource", "resource", value=lambda f: f.resource.value),
        cols.text_column("from", "from", value=lambda f: f.source, as_text=cols.or_dash),
        cols.text_column("to", "to", value=lambda f: f.target, as_text=cols.or_dash),
        amounts("next", "next", lambda f: f.value, cols.ALWAYS),
        amounts("low", "at least", lambda f: f.low),
        amounts("high", "at most", lambda f: f.high),
        cols.Column("interval", "nine of ten", _interval, left=True, worth=7, derived=True),
        amounts("last", "last", lambda f: f.last, 6),
        cols.Column("at", "at", lambda f: f.last_s, cols.MOMENT, worth=3),
        cols.Column("nmae", "off by", lambda f: _finite(f.nmae), cols.SHARE, worth=5),
        cols.Column("measured", "n", worth=2),
        cols.Column("failed", "failed", worth=cols.ON_REQUEST),
        cols.Column("by", "by", left=True, worth=1),
    ]
    return cols.Table(columns, forecasts)


def _interval(one: SeriesForecast) -> str:
    if not isfinite(one.high) or one.measured <= 1:
        return "too few values"
    return interval(one.low, one.high, partial(amount, one.resource))


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
