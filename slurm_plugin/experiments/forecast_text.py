"""Forecasts of series and times of transfers, in words."""

from collections.abc import Callable, Iterator, Sequence
from math import isfinite

from predictor.forecasts.series import SeriesForecast
from predictor.forecasts.transfer_time import LEVEL, TransferTime
from slurm_plugin.experiments.probe_text import amount
from slurm_plugin.text import table_columns
from slurm_plugin.text.formatting import count, percent, printable, short_clock
from slurm_plugin.text.table_columns import ON_REQUEST, WIDTH, OutputColumn, TableOptions


def table_of(
    forecasts: Sequence[SeriesForecast],
    options: TableOptions | None = None,
    *,
    width: int = WIDTH,
) -> str:
    """One line a series: the next value, its interval, the last one, and the mean error.

    Raises NoColumn: the options name a column that there is not.
    """
    return table_columns.text(series_columns(), forecasts, options, width=width)


def parsable(
    forecasts: Sequence[SeriesForecast], options: TableOptions | None = None
) -> Iterator[str]:
    """Lines with ``|`` between the fields, as ``sacct -P``; unknown values are empty.

    Raises NoColumn: the options name a column that there is not.
    """
    return table_columns.parsable(series_columns(), forecasts, options)


def series_columns() -> list[OutputColumn]:
    """Columns of the table of forecasts; values of ``-P`` are in the units of the resources."""
    return [
        _words("resource", "resource", lambda f: f.resource.value),
        _words("from", "from", lambda f: f.source),
        _words("to", "to", lambda f: f.target),
        _amount("next", "next", lambda f: f.value, worth=table_columns.ALWAYS),
        _amount("low", "at least", lambda f: f.low),
        _amount("high", "at most", lambda f: f.high),
        OutputColumn(
            name="interval", title="nine of ten", value=_interval, left=True, worth=7, derived=True
        ),
        _amount("last", "last", lambda f: f.last, worth=6),
        OutputColumn(
            name="at",
            title="at",
            value=lambda f: f.last_s,
            show=lambda f: short_clock(f.last_s),
            worth=3,
        ),
        OutputColumn(
            name="nmae",
            title="off by",
            value=lambda f: _finite(f.nmae),
            show=lambda f: percent(_finite(f.nmae)),
            worth=5,
        ),
        OutputColumn(name="measured", title="n", value=lambda f: f.measured, worth=2),
        OutputColumn(name="failed", title="failed", value=lambda f: f.failed, worth=ON_REQUEST),
        OutputColumn(name="by", title="by", value=lambda f: f.by, left=True, worth=1),
    ]


def _words(name: str, title: str, get: Callable[[SeriesForecast], str]) -> OutputColumn:
    return OutputColumn(
        name=name,
        title=title,
        value=get,
        show=lambda f: printable(get(f)) or "-",
        left=True,
        cuts=True,
    )


def _amount(
    name: str, title: str, get: Callable[[SeriesForecast], float], *, worth: int = ON_REQUEST
) -> OutputColumn:
    def show(one: SeriesForecast) -> str:
        return amount(one.resource, get(one))

    return OutputColumn(
        name=name, title=title, value=lambda f: _finite(get(f)), show=show, worth=worth
    )


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
