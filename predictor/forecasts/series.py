"""The next value of each stored series of measurements."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean

from predictor.checks import LARGEST
from predictor.forecasts.forecasters import Bank, Criterion
from sacct_ingest.records import Probe, Resource

#: Measurements are not negative; a share of a CPU is one at most.
_MOST = {Resource.CPU: 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesForecast:
    """Next value of one series, from ``low`` to ``high`` in nine of ten cases, in its own unit."""

    resource: Resource
    source: str
    target: str
    measured: int  #: measurements that have a finite value
    failed: int
    last: float
    last_s: float  #: when that was, seconds since the epoch
    value: float
    low: float
    high: float
    by: str  #: the forecaster that was chosen
    nmae: float  #: mean absolute error of the latest forecasts over the mean value; inf: none yet


def forecast_series(
    probes: Iterable[Probe], criterion: Criterion = Criterion.MAE
) -> list[SeriesForecast]:
    """Forecast each series; one without any value is left out.

    probes: measurements of any series in any order.
    criterion: by which errors a forecaster is chosen.
    """
    groups: dict[tuple[Resource, str, str], list[Probe]] = defaultdict(list)
    for each in sorted(probes, key=lambda probe: probe.at_s):
        groups[each.resource, each.source, each.target].append(each)
    ordered = (groups[key] for key in sorted(groups))
    return [_forecast(group, criterion) for group in ordered if _values(group)]


def _forecast(group: Sequence[Probe], criterion: Criterion) -> SeriesForecast:
    bank, values, first = Bank(criterion), _values(group), group[0]
    for value in values:
        bank.update(value)
    made, most = bank.forecast(), _MOST.get(first.resource, inf)
    return SeriesForecast(
        resource=first.resource,
        source=first.source,
        target=first.target,
        measured=len(values),
        failed=len(group) - len(values),
        last=values[-1],
        last_s=max(each.at_s for each in group if _is_measured(each)),
        value=made.value,
        low=max(made.low, 0.0),
        high=min(made.high, most),
        by=made.by,
        nmae=bank.own_error() / fmean(values) if any(values) else inf,
    )


def _values(group: Sequence[Probe]) -> list[float]:
    return [each.value for each in group if _is_measured(each) and each.value is not None]


def _is_measured(probe: Probe) -> bool:
    return probe.value is not None and abs(probe.value) <= LARGEST
