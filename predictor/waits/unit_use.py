"""Units in use over time, as a queue run forward has it: the mean of its draws."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.waits.easy import Closing

Floats = npt.NDArray[np.float64]

#: Spans to look at, seconds: the first in which most jobs that run end and most that wait start.
_SPANS_S = tuple(3600.0 * hours for hours in (6, 24, 72, 168))
_MOST = 0.9
_STEPS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitUse:
    """Mean units in use at moments ``step_s`` seconds apart, the first of them now."""

    step_s: float
    running: tuple[float, ...]  #: by jobs that run now
    waiting: tuple[float, ...]  #: by jobs that wait now
    closed: tuple[float, ...]  #: kept by reservations


@dataclass(frozen=True, slots=True)
class Stays:
    """Jobs that each take so many units from a start to an end, in each draw.

    units: shape ``(jobs,)``.
    starts_s, ends_s: seconds from now, shape ``(draws, jobs)``.
    """

    units: Floats
    starts_s: Floats
    ends_s: Floats

    def use(self, moments_s: Floats) -> tuple[float, ...]:
        """Mean units in use at each moment."""
        weights = np.broadcast_to(self.units, self.starts_s.shape).ravel()
        change = np.zeros(len(moments_s) + 1)
        for sign, times_s in ((1.0, self.starts_s), (-1.0, self.ends_s)):
            first = np.searchsorted(moments_s, times_s.ravel())
            change += sign * np.bincount(first, weights, len(change))
        in_use: Floats = np.cumsum(change)[:-1] / max(len(self.starts_s), 1)
        return tuple(np.maximum(in_use, 0.0).tolist())


def unit_use(running: Stays, waiting: Stays, closings: Sequence[Closing] = ()) -> UnitUse:
    """Add up what jobs take, over the span in which most that run end and most that wait start."""
    events_s = np.concatenate([running.ends_s.ravel(), waiting.starts_s.ravel()])
    # Some never end: their limits are infinite.
    events_s = np.minimum(events_s, _SPANS_S[-1])
    most_s = float(np.quantile(events_s, _MOST)) if len(events_s) else 0.0
    span_s = next(one for one in _SPANS_S if most_s <= one)
    moments_s = np.linspace(0.0, span_s, _STEPS + 1)
    closed = np.zeros(len(moments_s))
    for start_s, end_s, units in closings:
        closed += units * ((moments_s >= start_s) & (moments_s < end_s))
    return UnitUse(
        step_s=span_s / _STEPS,
        running=running.use(moments_s),
        waiting=waiting.use(moments_s),
        closed=tuple(closed.tolist()),
    )
