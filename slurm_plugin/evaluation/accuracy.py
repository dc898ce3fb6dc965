"""How near predictions came, added up run by run in little memory.

Share inside an interval: at the level that was stored with the decision it is counted; for other
levels the stored interval is stretched as if log time were normally distributed on either side.
"""

from array import array
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from math import exp, log
from statistics import median

from slurm_plugin.evaluation.comparison import Comparison, deviations

#: Levels at which the share of runs inside is reported.
LEVELS = (0.5, 0.9, 0.95)
_EXACT = 32  #: ratios
_STEPS = 200  #: bins of the others for each factor of e
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Share of runs inside the interval that ``nominal`` of them should be inside."""

    nominal: float
    inside: float
    derived: bool  #: from intervals of another level, as if log time were normal


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How near predictions came to what happened."""

    runs: int
    mape: float  #: mean of |actual - predicted| / actual, a fraction
    pa: float  #: prediction accuracy, 1 - mape (ADEPT, section VI)
    bias: float  #: median of actual / predicted; above 1: runs take longer than predicted
    longer: float  #: share of runs that took longer than predicted: under-predictions; nominal 1/2
    intervals: int  #: runs that had an interval for their node count
    inside: float | None  #: share of those inside it, at the level it was made for
    beyond: float | None  #: share of those that took longer than its upper end
    coverage: tuple[Coverage, ...] = ()
    histogram: tuple[int, ...] = ()  #: runs by actual / predicted; see `EDGES`


#: Limits between the bins of histograms, of actual over predicted.
EDGES = tuple(2.0 ** (i / 4) for i in range(-8, 9))


@dataclass(slots=True)
class Ratios:
    """Ratios, the first few as they are and all others in narrow bins.

    The median of few is exact, that of any number within half a percent.
    """

    _first: "array[float]" = field(default_factory=lambda: array("d"))
    _others: Counter[int] = field(default_factory=Counter)

    def add(self, ratio: float) -> None:
        """Take one."""
        if len(self._first) < _EXACT:
            self._first.append(ratio)
        else:
            self._others[_bin(ratio)] += 1

    def median(self) -> float:
        """Give the middle one; one at least must have been taken."""
        if not self._others:
            return median(self._first)
        counts = self._others + Counter(map(_bin, self._first))
        total = counts.total()
        return (_at(counts, (total - 1) // 2) + _at(counts, total // 2)) / 2

    def histogram(self) -> tuple[int, ...]:
        """Count between `EDGES`, and beyond the two ends."""
        counts = [0] * (len(EDGES) + 1)
        for ratio in self._first:
            counts[bisect_right(EDGES, ratio)] += 1
        for where, number in self._others.items():
            counts[bisect_right(EDGES, exp(where / _STEPS))] += number
        return tuple(counts)


def _bin(ratio: float) -> int:
    return round(_STEPS * log(ratio))


def _at(counts: Counter[int], rank: int) -> float:
    for where in sorted(counts):
        rank -= counts[where]
        if rank < 0:
            return exp(where / _STEPS)
    raise IndexError(rank)


@dataclass(slots=True)
class AccuracyTally:
    """Adds comparisons up."""

    runs: int = 0
    intervals: int = 0
    _error: float = 0.0
    _longer: int = 0
    _inside: int = 0
    _beyond: int = 0
    _within: Counter[float] = field(default_factory=Counter)
    _ratios: Ratios = field(default_factory=Ratios)
    _stored: set[float] = field(default_factory=set)

    def add(self, one: Comparison, level: float) -> None:
        """Take a run that completed; ``level`` is the nominal one of its interval."""
        self.runs += 1
        self._error += abs(1 - 1 / one.ratio)
        self._longer += one.ratio > 1
        self._ratios.add(one.ratio)
        inside = one.inside
        if inside is None or one.high_s is None:
            return
        self.intervals += 1
        self._stored.add(level)
        self._inside += inside
        self._beyond += one.actual_s > one.high_s
        score = one.score(level)
        for nominal in LEVELS:
            if nominal == level or score is None:
                self._within[nominal] += inside
            else:
                self._within[nominal] += abs(score) <= deviations(nominal) + _ROUNDING

    def result(self) -> Accuracy | None:
        """Sum up; None where nothing was compared."""
        if not self.runs:
            return None
        mape, some = self._error / self.runs, self.intervals
        return Accuracy(
            runs=self.runs,
            mape=mape,
            pa=1 - mape,
            bias=self._ratios.median(),
            longer=self._longer / self.runs,
            intervals=some,
            inside=self._inside / some if some else None,
            beyond=self._beyond / some if some else None,
            coverage=tuple(
                Coverage(
                    nominal=level,
                    inside=self._within[level] / some,
                    derived=self._stored != {level},
                )
                for level in LEVELS
                if some
            ),
            histogram=self._ratios.histogram(),
        )
