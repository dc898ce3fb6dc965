"""One prediction beside the run that it was about: pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from statistics import NormalDist
from typing import TYPE_CHECKING

from sacct_ingest.records import DecisionRow

if TYPE_CHECKING:  # the database is heavy, and 'nimo why' needs none
    from sacct_ingest.store import RunRow

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run's time, and what was predicted for the node count that it had; seconds."""

    actual_s: float
    predicted_s: float
    low_s: float | None = None
    high_s: float | None = None
    cut: bool = False  #: stopped by its limit or deadline: it would have taken longer

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
    if run is None or run.elapsed_s <= 0:
        return None
    if not run.state.says_run_time:
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
    )


def predicted_for(
    decision: DecisionRow, nodes: int | None
) -> tuple[float, float | None, float | None] | None:
    """Give run time and interval predicted for a count: the chosen one or the one asked for.

    Decisions of earlier releases have no interval for the count asked for: it is taken to be as
    wide as the other.
    """
    predicted_s, low_s, high_s = decision.predicted_s, decision.low_s, decision.high_s
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
