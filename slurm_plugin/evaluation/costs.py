"""Energy, cost and CO2e of node time: by measured power, prices and the grid's intensity."""

import csv
import math
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from predictor.prediction_table import PredictionTable
from predictor.table import at
from predictor.types import Prediction
from sacct_ingest.errors import ConfigError
from sacct_ingest.runs.layout import Each, Unit
from slurm_plugin.config.settings import Energy
from slurm_plugin.text.formatting import count, interval

_KWH_J, _HOUR_S, _DAY_S = 3.6e6, 3600.0, 86_400.0
#: A series is looked at this often in a run, and at most so many times.
_SAMPLE_S, _SAMPLES = 900.0, 200
#: A later begin is advised from this share of CO2e less.
_LESS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What a run takes; None: unknown."""

    kwh: float | None = None
    kwh_low: float | None = None  #: None: by nameplate
    kwh_high: float | None = None
    cost: float | None = None
    co2_g: float | None = None


class RunSize(NamedTuple):
    """What a run has; None: unknown."""

    nodes: int | None
    cpus: int | None
    gpus: int | None


def predicted_amounts(
    energy: Energy,
    table: PredictionTable,
    one: Prediction,
    *,
    grams: float | None,
    each: tuple[int, int] | None = None,
    whole: bool = True,
) -> Amounts:
    """Give what a run takes on the size of a prediction.

    grams: CO2e of a kWh.
    each: CPUs and GPUs on each node; None: as the table's runs had.
    whole: the job has its nodes alone; else their power is not its own.
    """
    size, power, own = one.nodes, table.power, table.layout
    cpus, gpus = each or (own.cpus, own.gpus or 0)
    shape = {
        Unit.NODES: RunSize(size, size * cpus or None, size * gpus),
        Unit.CPUS: RunSize(None, size, None if gpus else 0),
        Unit.GPUS: RunSize(None, size * cpus if own.each is Each.GPU and cpus else None, size),
    }
    if own.in_all:
        shape[Unit.NODES] = RunSize(size, cpus or None, gpus)
    made = amounts(energy, one.time_s, shape[table.unit], grams=grams)
    if table.unit is not Unit.NODES or table.shares_nodes or not whole:
        return Amounts(cost=made.cost)
    if power is None:
        return made
    kwh = power.watts * size * one.time_s * energy.pue / _KWH_J

    def end(time_s: float, watts: float) -> float:
        # Logs of run time and power are off independently of each other.
        off = math.hypot(math.log(time_s / one.time_s), math.log(watts / power.watts))
        return kwh * math.exp(math.copysign(off, time_s - one.time_s))

    return Amounts(
        kwh=kwh,
        kwh_low=end(one.low_s, power.low),
        kwh_high=end(one.high_s, power.high),
        cost=made.cost,
        co2_g=None if grams is None else kwh * grams,
    )


def amounts(
    energy: Energy, time_s: float, size: RunSize, *, grams: float | None, watts: float | None = None
) -> Amounts:
    """Give what a run takes, which has its nodes alone.

    watts: of each node, as measured; None: by nameplate.
    """
    hours = time_s / _HOUR_S
    priced = zip((energy.node_hour, energy.core_hour, energy.gpu_hour), size, strict=True)
    due = [(price, amount) for price, amount in priced if price]
    cost = sum(price * (amount or 0) * hours for price, amount in due)
    known = due and all(amount is not None for _, amount in due)
    power = watts or energy.node_watts
    kwh = power * size.nodes * time_s * energy.pue / _KWH_J if power and size.nodes else None
    co2_g = None if kwh is None or grams is None else kwh * grams
    return Amounts(kwh=kwh, cost=cost if known else None, co2_g=co2_g)


def table_amounts(
    energy: Energy, table: PredictionTable, now_s: float
) -> list[tuple[float | None, ...]]:
    """Give kWh, cost and grams of CO2e on each size of a table, for a run in the next day."""
    grams = grams_between(energy, now_s, now_s + _DAY_S)
    return [
        (made.kwh, made.cost, made.co2_g)
        for one in table.nodes
        for made in (predicted_amounts(energy, table, at(table, one), grams=grams),)
    ]


def source_text(energy: Energy, table: PredictionTable) -> str:
    """Say what energies of a table rest on; empty: they are unknown."""
    if table.unit is not Unit.NODES or table.shares_nodes:
        return ""
    power = table.power
    pue = f", PUE {energy.pue:g}" if energy.pue > 1 else ""
    if power is None:
        watts = f"{energy.node_watts:g}"
        return f"kWh by nameplate: {watts} W a node{pue}" if energy.node_watts else ""
    record = f", {power.inside} of {power.predictions} inside" if power.predictions else ""
    runs = count(power.runs, "run")
    between = interval(power.low, power.high, "{:.0f}".format)
    return f"kWh as measured: {power.watts:.0f} W a node ({between}; {runs}{record}){pue}"


def grams_between(energy: Energy, begin_s: float, end_s: float) -> float | None:
    """Mean CO2e of a kWh in grams between two moments; None: unknown.

    Beyond the end of a series its values at the same time of its last day hold.
    """
    if isinstance(energy.co2, float):
        return energy.co2 or None
    try:
        times, values = _series_of(energy.co2)
    except ConfigError:
        return None
    number = min(max(math.ceil((end_s - begin_s) / _SAMPLE_S), 1), _SAMPLES)
    step_s = (end_s - begin_s) / number
    last_s = 2 * times[-1] - times[-2]
    found = []
    for i in range(number):
        at_s = begin_s + (i + 0.5) * step_s
        at_s -= max(math.ceil((at_s - last_s) / _DAY_S), 0) * _DAY_S
        if at_s < times[0]:
            return None
        found.append(values[bisect_right(times, at_s) - 1])
    return fmean(found)


def later_begin(
    energy: Energy, start_s: float, time_s: float, latest_s: float
) -> tuple[float, float] | None:
    """Find the full hour of the next day at which a run emits least; None: now is nearly as good.

    Gives the moment and the share of CO2e that is saved.

    start_s: when it would start otherwise.
    latest_s: it has to start by then.
    """
    now = grams_between(energy, start_s, start_s + time_s)
    if isinstance(energy.co2, float) or not now:
        return None
    first_s = math.ceil(start_s / _HOUR_S) * _HOUR_S
    begins = [first_s + i * _HOUR_S for i in range(24) if first_s + i * _HOUR_S <= latest_s]
    found = [(g, at_s) for at_s in begins if (g := grams_between(energy, at_s, at_s + time_s))]
    least, at_s = min(found, default=(now, start_s))
    return (at_s, 1 - least / now) if least <= (1 - _LESS) * now else None


def check_series(energy: Energy) -> None:
    """Raise ConfigError where there is a series that cannot be read, with its file and line."""
    if isinstance(energy.co2, str):
        _series_of(energy.co2)


def _series_of(name: str) -> tuple[list[float], list[float]]:
    path = Path(name)
    try:
        changed = path.stat()
        return _series(path, changed.st_mtime_ns, changed.st_size)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}; energy.co2 is a number or a CSV file") from error


@lru_cache(maxsize=4)
def _series(path: Path, _changed_ns: int, _size: int) -> tuple[list[float], list[float]]:
    """Read moments, seconds since the epoch, and grams from each on."""
    rows: list[tuple[float, float]] = []
    with path.open(newline="", encoding="utf-8") as lines:
        for number, row in enumerate(csv.reader(lines), start=1):
            try:
                at_s = _moment(row[0])
                grams = float(row[1])
            except (ValueError, IndexError):
                if number == 1 or not row:
                    continue  # its titles
                at_s = grams = math.nan
            if not (0 <= grams < math.inf) or (rows and not at_s > rows[-1][0]):
                raise ConfigError(
                    f"{path}: line {number}: {','.join(row)[:60]!r}: write TIME,GRAMS in order of "
                    "time, such as 2026-10-01T13:00+00:00,312"
                )
            rows.append((at_s, grams))
    if len(rows) < 2:
        raise ConfigError(f"{path}: give at least two lines TIME,GRAMS")
    return [at_s for at_s, _ in rows], [grams for _, grams in rows]


def _moment(text: str) -> float:
    """Read seconds since the epoch, or ISO 8601; without an offset it is UTC."""
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
