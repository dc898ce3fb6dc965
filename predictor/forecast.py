"""The next value of a series of measurements: the forecaster bank of the Network Weather Service.

Many cheap forecasters see every measurement.  What each would have said before it is held against
it, and the one whose errors add up to the least speaks next (R. Wolski, *Dynamically Forecasting
Network Performance Using the Network Weather Service*, Cluster Computing 1, 1998, sec. 3).
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from math import inf, isfinite, nan
from statistics import fmean
from typing import Protocol

#: Gains of exponential smoothing.
GAINS = tuple(percent / 100 for percent in (5, 10, 15, 20, 30, 40, 50, 75))
#: Lengths of sliding windows.
WINDOWS = (5, 10, 20, 30, 50)
#: Share of a window that a trimmed mean leaves out at each end.
TRIM = 0.3
#: Errors that the interval of a forecast is made of.
_RECENT = 200
_FEWEST_ERRORS = 10


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
    error: float  #: its mean error so far, by the bank's criterion


class Forecaster(Protocol):
    """Sees measurements one by one and says the next."""

    def update(self, value: float) -> None:
        """Take a measurement in."""

    def forecast(self) -> float:
        """Next value; asked only after at least one measurement."""


class LastValue:
    """The next value is the last one."""

    def __init__(self) -> None:
        self._value = nan

    def update(self, value: float) -> None:
        """See :class:`Forecaster`."""
        self._value = value

    def forecast(self) -> float:
        """See :class:`Forecaster`."""
        return self._value


class RunningMean:
    """Mean of everything so far."""

    def __init__(self) -> None:
        self._count, self._mean = 0, 0.0

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
        self._gain, self._value = gain, nan

    def update(self, value: float) -> None:
        """See :class:`Forecaster`."""
        known = isfinite(self._value)
        self._value = self._value + self._gain * (value - self._value) if known else value

    def forecast(self) -> float:
        """See :class:`Forecaster`."""
        return self._value


class Window:
    """The last ``length`` values, also ``sorted``."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._values: deque[float] = deque()
        self.sorted: list[float] = []

    def update(self, value: float) -> None:
        """Take a value in, and the oldest out where there are too many."""
        self._values.append(value)
        insort(self.sorted, value)
        if len(self._values) > self.length:
            del self.sorted[bisect_left(self.sorted, self._values.popleft())]


Statistic = Callable[[Sequence[float]], float]


def median(ordered: Sequence[float]) -> float:
    """Median of sorted values."""
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def trimmed_mean(ordered: Sequence[float]) -> float:
    """Mean of sorted values without :data:`TRIM` of them at each end."""
    cut = int(TRIM * len(ordered))
    return fmean(ordered[cut : len(ordered) - cut])


class Sliding:
    """A statistic over the last ``length`` values."""

    def __init__(self, statistic: Statistic, length: int) -> None:
        self._statistic, self._window = statistic, Window(length)

    def update(self, value: float) -> None:
        """See :class:`Forecaster`."""
        self._window.update(value)

    def forecast(self) -> float:
        """See :class:`Forecaster`."""
        return self._statistic(self._window.sorted)


class Adaptive:
    """A statistic over a window that grows or shrinks by one towards smaller errors.

    Before each value the windows one shorter and one longer are asked, too; the best of the three
    is the next window (Wolski 1998, ADAPT_AVG and ADAPT_MED).
    """

    def __init__(self, statistic: Statistic, lengths: tuple[int, int] = (3, 50)) -> None:
        self._statistic, (self._least, self._most) = statistic, lengths
        self._values: deque[float] = deque(maxlen=self._most)
        self._length = self._least

    def update(self, value: float) -> None:
        """See :class:`Forecaster`."""
        if self._values:
            tried = (self._length, self._length - 1, self._length + 1)
            allowed = [n for n in tried if self._least <= n <= self._most]
            self._length = min(allowed, key=lambda n: abs(self._over(n) - value))
        self._values.append(value)

    def forecast(self) -> float:
        """See :class:`Forecaster`."""
        return self._over(self._length)

    def _over(self, length: int) -> float:
        skipped = max(len(self._values) - length, 0)
        return self._statistic(sorted(islice(self._values, skipped, None)))


def bank() -> dict[str, Forecaster]:
    """All forecasters by name, none of which has seen anything."""
    statistics: dict[str, Statistic] = {
        "mean": fmean,
        "median": median,
        "trimmed mean": trimmed_mean,
    }
    made: dict[str, Forecaster] = {"last value": LastValue(), "running mean": RunningMean()}
    made |= {f"smoothing {gain:.0%}": Smoothed(gain) for gain in GAINS}
    made |= {
        f"{name} of {length}": Sliding(statistic, length)
        for name, statistic in statistics.items()
        for length in WINDOWS
    }
    made |= {f"adaptive {name}": Adaptive(statistics[name]) for name in ("mean", "median")}
    return made


class Bank:
    """Forecasters side by side, of which the best so far speaks.

    Parameters
    ----------
    criterion
        Whose least mean the speaker has.

    Examples
    --------
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
        self._count = 0
        self._own: deque[float] = deque(maxlen=_RECENT)

    def update(self, value: float) -> None:
        """Take a measurement in; one that is not a finite number is passed over."""
        if not isfinite(value):
            return
        if self._count:
            self._own.append(value - self._forecasters[self._best()].forecast())
            for name, one in self._forecasters.items():
                error = abs(one.forecast() - value)
                self._errors[name] += error if self._criterion is Criterion.MAE else error**2
        for one in self._forecasters.values():
            one.update(value)
        self._count += 1

    def forecast(self) -> Forecast:
        """Next value, with an interval made of the bank's own latest errors.

        Raises
        ------
        ValueError
            Nothing was measured yet.
        """
        if not self._count:
            raise ValueError("no measurement yet: nothing to forecast from")
        name = self._best()
        value = self._forecasters[name].forecast()
        low, high = nine_of_ten(self._own)
        return Forecast(value, value + low, value + high, name, self._mean_error(name))

    def errors(self) -> dict[str, float]:
        """Mean error of each forecaster by the bank's criterion."""
        return {name: self._mean_error(name) for name in self._forecasters}

    def own_error(self) -> float:
        """Mean absolute error of the latest values that were forecast; inf: none was yet."""
        return fmean(map(abs, self._own)) if self._own else inf

    def _best(self) -> str:
        return min(self._errors, key=self._errors.__getitem__)

    def _mean_error(self, name: str) -> float:
        return self._errors[name] / max(self._count - 1, 1)


def nine_of_ten(errors: Iterable[float]) -> tuple[float, float]:
    """Bounds that nine of ten past errors kept; twice the largest while there are few.

    The same distance on both sides, widened for the sample's size as split-conformal intervals
    are (Vovk, Gammerman, Shafer, *Algorithmic Learning in a Random World*, 2005).
    """
    sizes = sorted(map(abs, errors))
    if len(sizes) < _FEWEST_ERRORS:
        width = 2 * sizes[-1] if sizes else inf
    else:
        place = -(-9 * (len(sizes) + 1) // 10) - 1
        width = sizes[min(place, len(sizes) - 1)]
    return -width, width


def forecasts(values: Iterable[float], criterion: Criterion = Criterion.MAE) -> Iterator[Forecast]:
    """Forecast before each value but the first, made of those before it."""
    series = Bank(criterion)
    for place, value in enumerate(values):
        if place:
            yield series.forecast()
        series.update(value)
