"""Predictions beside the runs that they were about, and how near they came, in little memory.

Share inside an interval: at the level that was stored with the decision it is counted; for other
levels the stored interval is stretched as if log time were normally distributed on either side.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from math import exp, log
from statistics import NormalDist, median

from sacct_ingest.records import DecisionRow
from sacct_ingest.store.rows import RunRow

_NORMAL = NormalDist()
#: Levels at which the share of runs inside is reported.
LEVELS = (0.5, 0.9, 0.95)
_EXACT = 32  #: ratios
_STEPS = 200  #: bins of the others for each factor of e
_ROUNDING = 1e-9
#: Limits between the bins of histograms, of actual over predicted.
EDGES = tuple(2.0 ** (i / 4) for i in range(-8, 9))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run's time, and what was predicted for the node count that it had; seconds."""

    actual_s: float
    predicted_s: float
    low_s: float | None = None
    high_s: float | None = None
    cut: bool = False  #: stopped by its limit or deadline: it would have taken longer
    ended_s: float = 0.0  #: since the epoch

    @property
    def conclusive(self) -> bool:
        """Whether it says how good the prediction was: the run was not stopped before that time."""
        return not self.cut or self.actual_s > self.predicted_s

    @property
    def ratio(self) -> float:
        """Actual over predicted."""
        return self.actual_s / self.predicted_s

    @property
    def inside(self) -> bool | None:
        """Whether the run is inside its interval; None: there is none."""
        if self.low_s is None or self.high_s is None:
            return None
        return self.low_s <= self.actual_s <= self.high_s

    def score(self, level: float) -> float | None:
        """Give the standard deviations of log time between prediction and run, with its sign.

        Each half of the interval, which ``level`` of runs are inside, is taken as half of a normal
        distribution.  None: there is no interval, or it has no width on this side.
        """
        end = self.high_s if self.actual_s >= self.predicted_s else self.low_s
        if not end or end == self.predicted_s:
            return None
        reach = abs(log(end / self.predicted_s))
        return log(self.ratio) / reach * deviations(level)


@cache
def deviations(level: float) -> float:
    """Half the width of the interval that holds ``level`` of a normal distribution.

    >>> round(deviations(0.95), 2)
    1.96
    """
    return _NORMAL.inv_cdf(0.5 + level / 2)


def compare(decision: DecisionRow, run: RunRow | None) -> Comparison | None:
    """Compare a run that completed or was cut short with the prediction for the count it had.

    None where there is no such run or no such prediction.
    """
    if run is None or run.elapsed_s <= 0 or not run.state.says_run_time:
        return None
    predicted = predicted_for(decision, run.nodes)
    if predicted is None:
        return None
    time_s, low_s, high_s = predicted
    return Comparison(
        actual_s=float(run.elapsed_s),
        predicted_s=time_s,
        low_s=low_s,
        high_s=high_s,
        cut=run.state.cut_short,
        ended_s=float(run.end_s or 0),
    )


def predicted_for(
    decision: DecisionRow, nodes: int | None
) -> tuple[float, float | None, float | None] | None:
    """Give run time and interval predicted for a count: the chosen one or the one asked for.

    Decisions of earlier releases have no interval for the count asked for: it is taken to be as
    wide as the other.
    """
    predicted_s = decision.predicted_s
    low_s = decision.low_s
    high_s = decision.high_s
    if nodes is not None and nodes == decision.nodes:
        return (predicted_s, low_s or None, high_s or None) if predicted_s else None
    requested_s = decision.request_predicted_s
    if nodes is None or nodes != decision.requested_nodes or not requested_s:
        return None
    if decision.request_low_s and decision.request_high_s:
        return requested_s, decision.request_low_s, decision.request_high_s
    if predicted_s and low_s and high_s:
        return requested_s, requested_s * low_s / predicted_s, requested_s * high_s / predicted_s
    return requested_s, None, None


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


@dataclass(slots=True)
class Ratios:
    """Ratios, the first few as they are and all others in narrow bins.

    The median of few is exact, that of any number within half a percent.
    """

    _first: array[float] = field(default_factory=lambda: array("d"))
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


def levels_within(one: Comparison, level: float) -> list[float]:
    """Give those of `LEVELS` within whose interval a run is, by its interval of another level."""
    inside = one.inside
    score = one.score(level)
    return [
        nominal
        for nominal in LEVELS
        if (
            inside
            if nominal == level or score is None
            else abs(score) <= deviations(nominal) + _ROUNDING
        )
    ]


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

    def add(self, one: Comparison, level: float, within: Collection[float]) -> None:
        """Take a run that completed.

        level: the nominal one of its interval.
        within: of `levels_within`.
        """
        self.runs += 1
        self._error += abs(1 - 1 / one.ratio)
        self._longer += one.ratio > 1
        self._ratios.add(one.ratio)
        if one.inside is None or one.high_s is None:
            return
        self.intervals += 1
        self._stored.add(level)
        self._inside += one.inside
        self._beyond += one.actual_s > one.high_s
        for nominal in within:
            self._within[nominal] += 1

    def result(self) -> Accuracy | None:
        """Sum up; None where nothing was compared."""
        if not self.runs:
            return None
        mape = self._error / self.runs
        some = self.intervals
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
