"""Run time of the next run, by several simple rules and the curve.

Which of them is believed is decided by what became of their predictions
(:mod:`predictor.level.record`). All times here are logs of seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from predictor.level.similar_runs import PastRun, RunRequest, SimilarSettings, sample

#: What the experts are called, in the order of their guesses.
EXPERTS = (
    "runs alike",
    "recent runs alike",
    "last run",
    "last five",
    "curve",
    "curve at the latest level",
    "curve and runs alike",
    "all by their records",
)
ALIKE, LATELY, LAST, FIVE, CURVE, LEVEL, BOTH, MIXED = range(len(EXPERTS))
#: Runs that define the latest level of a curve.
_LEVEL = 3
#: How run time falls with the nodes without any data: T ~ nodes to this power.
SLOPE = -0.6

#: Log time on a node count, and the half-width of its interval; of a fit to earlier runs.
CurveAt = Callable[[int], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class ExpertSettings:
    """How runs are alike: for those of one problem node counts matter most.

    ``lately`` and ``lately_many`` are the powers with which memory fades for those who look at
    recent runs.
    """

    many: SimilarSettings = field(default_factory=SimilarSettings)
    same: SimilarSettings = field(
        default_factory=lambda: SimilarSettings(1000.0, 10.0, limit_doubled=1.0, fading=0.7)
    )
    lately: float = 1.0
    lately_many: float = 0.7


@dataclass(frozen=True, slots=True)
class Guesses:
    """What each expert says; None: nothing."""

    logs: tuple[float | None, ...]
    repeats: int  #: earlier runs on the node count
    curve: tuple[float, float] | None  #: what the curve says
    unseen: float | None = None  #: how long it may run, where no run so long could have ended yet


class Experts:
    """All experts, with their data of one identity at one moment.

    past: runs that had ended, the newest last; at least one.
    curve: the curve through them; None: there is none.
    same: they are taken to be one application on one problem.
    span_s: longer runs may be missing from the past, because they have not ended.
    """

    def __init__(
        self,
        past: Sequence[PastRun],
        curve: CurveAt | None,
        settings: ExpertSettings,
        *,
        same: bool,
        span_s: float = math.inf,
    ) -> None:
        self._past, self._curve, self._same, self._span_s = past, curve, same, span_s
        self._times: dict[int, list[float]] = {}
        for run in past:
            self._times.setdefault(run.asked.nodes, []).append(run.elapsed_s)
        self._alike = settings.same if same else settings.many
        fading = settings.lately if same else settings.lately_many
        self._lately = replace(self._alike, fading=fading)
        last = past[-_LEVEL:]
        self._level = (
            median(math.log(run.elapsed_s) - curve(run.asked.nodes)[0] for run in last)
            if curve is not None
            else 0.0
        )

    def ask(self, asked: RunRequest) -> Guesses:
        """Ask all of them; on a count that was not run there is only the curve, if any."""
        here = self._times.get(asked.nodes, [])
        curve = self._curve(asked.nodes) if self._curve is not None else None
        simple: tuple[float, ...] = ()
        if here or curve is None:
            simple = self._simple(asked, here)
        logs: list[float | None] = [*simple] or [None] * CURVE
        logs += [None] * 3
        if curve is not None:
            both = (curve[0] + simple[ALIKE]) / 2 if simple else None
            logs[CURVE:] = [curve[0], curve[0] + self._level, both]
        longest = math.log(asked.limit_s)
        capped = tuple(None if log is None else min(log, longest) for log in logs)
        # One application is as its runs were; of many, the long ones may be missing.
        unseen = not self._same and self._span_s < asked.limit_s < math.inf
        return Guesses(capped, len(here), curve, longest if unseen else None)

    def _simple(self, asked: RunRequest, here: Sequence[float]) -> tuple[float, ...]:
        past = self._past
        if self._same and not here:
            past = [_scaled(run, asked.nodes) for run in past]
        recent = here[-5:] or [past[-1].elapsed_s]
        like = (run.elapsed_s for run in reversed(past) if run.asked == asked)
        times = (
            sample(asked, past, self._alike).typical(),
            sample(asked, past, self._lately).typical(),
            next(like, recent[-1]),
            median(recent),
        )
        return tuple(map(math.log, times))


def _scaled(run: PastRun, nodes: int) -> PastRun:
    return PastRun(run.asked, run.elapsed_s * (nodes / run.asked.nodes) ** SLOPE)
