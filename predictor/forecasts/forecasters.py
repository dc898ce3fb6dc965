"""The next value of a series of measurements: the forecaster bank of the Network Weather Service.

Many cheap forecasters see every measurement.  What each would have said before it is held against
it, and the one whose errors add up to the least speaks next (R. Wolski, *Dynamically Forecasting
Network Performance Using the Network Weather Service*, Cluster Computing 1, 1998, sec. 3).  The
forecasters are those that the source of the NWS configures (``forecasters.def``).  That has no
autoregressive one, so there is none here.  Unlike there, errors fade: a series changes its nature.
"""

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from math import inf, isfinite, nan
from statistics import fmean, median
from typing import Protocol

from predictor.checks import LARGEST, need_finite
from sacct_ingest.records import Probe, Resource

#: Gains of exponential smoothing.
GAINS = tuple(percent / 100 for percent in (5, 10, 15, 20, 30, 40, 50, 75))
#: Lengths of sliding windows of each statistic.
WINDOWS = {"mean": (5, 31), "median": (5, 31), "trimmed mean": (31, 51)}
#: First, shortest and longest window of each adaptive median, and by how much those that it is
#: compared with differ.
ADAPTIVE = ((10, 5, 21, 1), (30, 21, 51, 5))
#: Share of a window that a trimmed mean leaves out at each end.
TRIM = 0.3
#: How much of its weight an error keeps with each new measurement: half of it for 69 of them.
_MEMORY = 0.99
#: Errors that the interval of a forecast is made of.
_RECENT = 200
_FEWEST_ERRORS = 10
#: Measurements are not negative; a share of a CPU is one at most.
_MOST = {Resource.CPU: 1.0}


class Criterion(StrEnum):
    """By which of its past errors a forecaster is chosen."""

    MAE = "mae"  #: mean absolute error
    MSE = "mse"  #: mean squared error


@dataclass(frozen=True, slots=True)
class Forecast:
    """The next value, from ``low`` to ``high`` in nine of ten cases; in the series' own unit."""

    value: float
    low: float
    high: float
    by: str  #: the forecaster that was chosen
    error: float  #: its mean error, by the bank's criterion; new errors weigh more


class Forecaster(Protocol):
    """Sees measurements one by one and says the next."""

    def update(self, value: float) -> None:
        """Take a measurement in."""

    def forecast(self) -> float:
        """Next value; asked only after at least one measurement."""


class RunningMean:
    """Mean of everything so far."""

    def __init__(self) -> None:
        self._count = 0
        self._mean = 0.0

    def update(self, value: float) -> None:
        """See :class:`Forecaster`."""
        self._count += 1
        self._mean += (value - self._mean) / self._count

    def forecast(self) -> float:
        """See :class:`Forecaster`."""
        return self._mean


class Smoothed:
    """Exponential smoothing: moves by the share ``gain`` towards each value."""

    def __init__(self, gain: float) -> None:
        self._gain = gain
        self._value = nan

    def update(self, value: float) -> None:
        """See :class:`Forecaster`."""
        started = isfinite(self._value)
        self._value = self._value + self._gain * (value - self._value) if started else value

    def forecast(self) -> float:
        """See :class:`Forecaster`."""
        return self._value


#: Of sorted values.
Statistic = Callable[[Sequence[float]], float]


def trimmed_mean(ordered: Sequence[float]) -> float:
    """Mean of sorted values without :data:`TRIM` of them at each end."""
    cut = int(TRIM * len(ordered))
    return fmean(ordered[cut : len(ordered) - cut])


class Sliding:
    """A statistic over the last ``length`` values."""

    def __init__(self, statistic: Statistic, length: int) -> None:
        self._statistic = statistic
        self._length = length
        self._values: deque[float] = deque()
        self._sorted: list[float] = []

    def update(self, value: float) -> None:
        """See :class:`Forecaster`."""
        self._values.append(value)
        insort(self._sorted, value)
        if len(self._values) > self._length:
            del self._sorted[bisect_left(self._sorted, self._values.popleft())]

    def forecast(self) -> float:
        """See :class:`Forecaster`."""
        return self._statistic(self._sorted)


class Adaptive:
    """A statistic over a window that grows or shrinks by one towards smaller errors (ADAPT_MED).

    Before each value the windows that are shorter and longer by ``offset`` are asked, too.  The
    window adapts once as many values were seen as the longest one has; until then it has them all.

    Raises ValueError: ``offset`` leads from the first window out of the allowed ones.
    """

    def __init__(
        self, statistic: Statistic, first: int, least: int, most: int, offset: int
    ) -> None:
        if not 1 <= least <= first - offset < first + offset <= most:
            raise ValueError(f"a window of {first} ± {offset} is not within {least} to {most}")
        self._statistic = statistic
        self._offset = offset
        self._least = least
        self._most = most
        self._length = first
        self._values: deque[float] = deque(maxlen=most)

    def update(self, value: float) -> None:
        """See :class:`Forecaster`."""
        if len(self._values) == self._most:
            self._adapt(value)
        self._values.append(value)

    def forecast(self) -> float:
        """See :class:`Forecaster`."""
        full = len(self._values) == self._most
        return self._over(self._length if full else len(self._values))

    def _adapt(self, value: float) -> None:
        own, less, more = (
            abs(self._over(length) - value)
            for length in (self._length, self._length - self._offset, self._length + self._offset)
        )
        if less < min(own, more):
            self._length = max(self._length - 1, self._least)
        elif more < min(own, less):
            self._length = min(self._length + 1, self._most)

    def _over(self, length: int) -> float:
        # The shorter of a short window still has a value.
        skipped = max(len(self._values) - max(length, 1), 0)
        return self._statistic(sorted(islice(self._values, skipped, None)))


_STATISTICS: dict[str, Statistic] = {"mean": fmean, "median": median, "trimmed mean": trimmed_mean}


def bank() -> dict[str, Forecaster]:
    """All forecasters by name, none of which has seen anything."""
    made: dict[str, Forecaster] = {"last value": Sliding(fmean, 1), "running mean": RunningMean()}
    made |= {f"smoothing {gain:.0%}": Smoothed(gain) for gain in GAINS}
    made |= {
        f"{name} of {length}": Sliding(_STATISTICS[name], length)
        for name, lengths in WINDOWS.items()
        for length in lengths
    }
    made |= {
        f"adaptive median of {least} to {most}": Adaptive(median, first, least, most, offset)
        for first, least, most, offset in ADAPTIVE
    }
    return made


class Bank:
    """Forecasters side by side, of which the best so far speaks.

    criterion: whose least mean the speaker has.

    >>> series = Bank()
    >>> for _ in range(20):
    ...     series.update(94.0)
    >>> series.forecast().value
    94.0
    """

    def __init__(self, criterion: Criterion = Criterion.MAE) -> None:
        self._criterion = criterion
        self._forecasters = bank()
        self._errors = dict.fromkeys(self._forecasters, 0.0)
        self._weight = 0.0  # of all errors
        self._measured = False
        self._own: deque[float] = deque(maxlen=_RECENT)

    def update(self, value: float) -> None:
        """Take a measurement in.

        Raises ValueError: it is not a finite number; the bank is as before.
        """
        need_finite("measurement", value)
        if self._measured:
            self._own.append(value - self._forecasters[self._best()].forecast())
            for name, one in self._forecasters.items():
                error = abs(one.forecast() - value)
                error = error if self._criterion is Criterion.MAE else error**2
                self._errors[name] = _MEMORY * self._errors[name] + error
            self._weight = _MEMORY * self._weight + 1
        for one in self._forecasters.values():
            one.update(value)
        self._measured = True

    def forecast(self) -> Forecast:
        """Next value, with an interval made of the bank's own latest errors.

        Raises ValueError: nothing was measured yet.
        """
        if not self._measured:
            raise ValueError("no measurement yet: nothing to forecast from")
        name = self._best()
        value = self._forecasters[name].forecast()
        low, high = nine_of_ten(self._own)
        return Forecast(value, value + low, value + high, name, self._mean_error(name))

    def errors(self) -> dict[str, float]:
        """Mean error of each forecaster by the bank's criterion; new errors weigh more."""
        return {name: self._mean_error(name) for name in self._forecasters}

    def own_error(self) -> float:
        """Mean absolute error of the latest values that were forecast; inf: none was yet."""
        return fmean(map(abs, self._own)) if self._own else inf

    def _best(self) -> str:
        return min(self._errors, key=self._errors.__getitem__)

    def _mean_error(self, name: str) -> float:
        return self._errors[name] / max(self._weight, 1.0)


def nine_of_ten(errors: Iterable[float]) -> tuple[float, float]:
    """Bounds that held for nine of ten past errors; twice the largest while there are few.

    The same distance on both sides, widened for the sample's size as split-conformal intervals
    are (Vovk, Gammerman, Shafer, *Algorithmic Learning in a Random World*, 2005).
    """
    sizes = sorted(map(abs, errors))
    need_finite("error", *sizes)
    if len(sizes) < _FEWEST_ERRORS:
        width = 2 * sizes[-1] if sizes else inf
    else:
        width = sizes[-(-9 * (len(sizes) + 1) // 10) - 1]
    return -width, width


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
    bank = Bank(criterion)
    values = _values(group)
    first = group[0]
    for value in values:
        bank.update(value)
    made = bank.forecast()
    most = _MOST.get(first.resource, inf)
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
