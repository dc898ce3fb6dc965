"""Forecasts of series and times of transfers, in words."""

from collections.abc import Callable, Iterator, Sequence
from math import isfinite

from predictor.forecasts.series import SeriesForecast
from predictor.forecasts.transfer_time import LEVEL, TransferTime
from slurm_plugin.experiments.probe_text import amount
from slurm_plugin.text.formatting import count, percent, printable, short_clock
from slurm_plugin.text.table_columns import (
    ALWAYS,
    ON_REQUEST,
    OutputColumn,
    OutputTable,
    or_dash,
    text_column,
)


def series_table(forecasts: Sequence[SeriesForecast]) -> OutputTable:
    """One line a series: the next value, its interval, the last one, and the mean error.

    Values of ``-P`` are in the units of the resources; unknown ones are empty.
    """

    def amounts(
        name: str, title: str, get: Callable[[SeriesForecast], float], worth: int = ON_REQUEST
    ) -> OutputColumn:
        def show(one: SeriesForecast) -> str:
            return amount(one.resource, get(one))

        return OutputColumn(name, title, lambda f: _finite(get(f)), show=show, worth=worth)

    columns = [
        text_column("resource", "resource", value=lambda f: f.resource.value),
        text_column("from", "from", value=lambda f: f.source, as_text=or_dash),
        text_column("to", "to", value=lambda f: f.target, as_text=or_dash),
        amounts("next", "next", lambda f: f.value, ALWAYS),
        amounts("low", "at least", lambda f: f.low),
        amounts("high", "at most", lambda f: f.high),
        OutputColumn("interval", "nine of ten", _interval, left=True, worth=7, derived=True),
        amounts("last", "last", lambda f: f.last, 6),
        OutputColumn("at", "at", lambda f: f.last_s, short_clock, worth=3),
        OutputColumn("nmae", "off by", lambda f: _finite(f.nmae), percent, worth=5),
        OutputColumn("measured", "n", worth=2),
        OutputColumn("failed", "failed", worth=ON_REQUEST),
        OutputColumn("by", "by", left=True, worth=1),
    ]
    return OutputTable(columns, forecasts)


def _interval(one: SeriesForecast) -> str:
    if not isfinite(one.high) or one.measured <= 1:
        return "too few values"
    return f"{amount(one.resource, one.low)} to {amount(one.resource, one.high)}"


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def transfer(made: TransferTime) -> Iterator[str]:
    """Time of a transfer, what it is made of, and what speaks against it."""
    path = f"from {printable(made.source)} to {printable(made.target)}"
    yield (
        f"{made.size_bytes / 1e6:.4g} MB {path}: {_time(made.time_s)}"
        f" ({percent(LEVEL)}: {_time(made.low_s)} to {_time(made.high_s)}), {made.verdict.value}"
    )
    source = f"{made.method} from {count(made.transfers, 'past transfer')}"
    if made.probe_bytes_per_s is not None:
        source += f", the path now at {made.probe_bytes_per_s / 1e6:.4g} MB/s by its probes"
    if isfinite(made.error):
        source += f"; past predictions off by {percent(made.error)}"
    yield source
    yield from (problem.text for problem in made.problems)


def parsable_transfer(made: TransferTime) -> Iterator[str]:
    """Write the same with ``|`` between the fields."""
    yield "From|To|Bytes|Time|Low|High|Verdict|Method|Transfers|Error|Problems"
    figures = (made.time_s, made.low_s, made.high_s)
    problems = ",".join(problem.name for problem in made.problems)
    path = (_field(made.source), _field(made.target), made.size_bytes)
    how = (made.verdict.value, made.method, made.transfers, _figure(made.error), problems)
    yield "|".join(map(str, (*path, *map(_figure, figures), *how)))


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


def _field(text: str) -> str:
    return printable(text).replace("|", "_")


def _figure(value: float) -> str:
    return f"{value:.6g}" if isfinite(value) else ""
