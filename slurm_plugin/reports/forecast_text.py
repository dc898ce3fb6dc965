"""Forecasts of series and times of transfers, in words."""

from collections.abc import Iterator, Sequence
from math import isfinite

from predictor.series import SeriesForecast
from predictor.transfer_time import LEVEL, TransferTime
from slurm_plugin.formatting import count, percent, printable, short_clock, table
from slurm_plugin.reports.probe_text import amount

_HEADS = ("resource", "from", "to", "next", "nine of ten", "last", "at", "off by", "n", "by")


def table_of(forecasts: Sequence[SeriesForecast]) -> str:
    """One line a series: the next value, its interval, the last one, and the mean error."""
    rows = [_row(each) for each in forecasts]
    return table(_HEADS, rows, left=frozenset({0, 1, 2, 4, 9}))


def parsable(forecasts: Sequence[SeriesForecast]) -> Iterator[str]:
    """Lines with ``|`` between the fields, as ``sacct -P``; unknown values are empty."""
    yield "Resource|From|To|Next|Low|High|Last|NMAE|Measured|Failed|By"
    for each in forecasts:
        names = (_field(name) for name in (each.resource.value, each.source, each.target))
        figures = (each.value, each.low, each.high, each.last, each.nmae)
        cells = (*names, *map(_figure, figures), each.measured, each.failed, each.by)
        yield "|".join(map(str, cells))


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


def _row(each: SeriesForecast) -> list[str]:
    bounds = (amount(each.resource, bound) for bound in (each.low, each.high))
    return [
        each.resource.value,
        printable(each.source),
        printable(each.target) or "-",
        amount(each.resource, each.value),
        " to ".join(bounds) if isfinite(each.high) and each.measured > 1 else "too few values",
        amount(each.resource, each.last),
        short_clock(each.last_s),
        percent(each.nmae) if isfinite(each.nmae) else "-",
        str(each.measured),
        each.by,
    ]


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


def _field(text: str) -> str:
    return printable(text).replace("|", "_")


def _figure(value: float) -> str:
    return f"{value:.6g}" if isfinite(value) else ""
