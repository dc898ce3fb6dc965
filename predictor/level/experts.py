"""Run time of the next run, by several simple rules and the curve.

Which of them is believed is decided by what became of their predictions
(:mod:`predictor.level.record`). All times here are logs of seconds.

One rule is what earlier runs, the more alike the more, let expect: every one is a possible answer.
Its weight is a product of factors for the same node count and the same limit, which fall with each
doubling between what was asked, divided by a power of its age, counted in runs: forgetting follows
a power law.  So nothing has to be decided between "same nodes and limit" and "any": a run that
matches in everything outweighs many that do not, and where there is none the others speak, the
nearest most.

As a distribution: :mod:`predictor.level.distribution`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from math import inf, log2
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predictor.checks import need_nodes, need_positive
from predictor.level.distribution import WINDOW, Samples, samples
from predictor.sample import Sample

#: Doublings between a limit and none, and the most that count between two limits.
_FARTHEST = 9.0
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
#: Runs of a count from which on no curve is outside what they took.
_MEASURED = 3
#: How run time falls with the nodes without any data: T ~ nodes to this power.
SLOPE = -0.6
#: Runs of the same user, of whatever application, that are looked at; as many of the application's
#: own need no others.
AROUND = 60
#: Powers with which memory fades for those who look at recent runs, of many problems and of one.
_LATELY_MANY, _LATELY_SAME = 0.7, 1.0


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a job asks for."""

    nodes: int
    limit_s: float  #: inf: none

    def __post_init__(self) -> None:
        need_nodes((self.nodes,))
        if self.limit_s != inf:
            need_positive("time limit in seconds", self.limit_s)


@dataclass(frozen=True, slots=True)
class SimilarSettings:
    """Factors of likeness, the power with which memory fades, and how many runs it holds.

    ``nodes`` and ``limit`` are for the same node count and limit; ``nodes_doubled`` and
    ``limit_doubled`` for each doubling between two of them.
    """

    nodes: float = 3.0
    limit: float = 3.0
    nodes_doubled: float = 0.7
    limit_doubled: float = 0.5
    fading: float = 0.3
    window: int = 128


def typical(
    request: RunRequest, past: Sequence[Sample], settings: SimilarSettings | None = None
) -> float:
    """Run time in seconds with the highest expected accuracy min(p, a) / max(p, a).

    ``past`` (finished runs, the newest last) is weighed for ``request``.  Between two possible run
    times the expectation is convex in p, so one of them is best.

    Raises ValueError: there is no past.
    """
    if not past:
        raise ValueError("no earlier run")
    chosen = settings or SimilarSettings()
    weighed = sorted(_weighed(request, past[-chosen.window :], chosen))
    total = sum(weight for _, weight in weighed)
    shares = [(time_s, weight / total) for time_s, weight in weighed]
    below = accumulate(t * share for t, share in shares)
    inverse = [share / t for t, share in shares]
    total = sum(inverse)
    above = accumulate(inverse)
    rows = zip(shares, below, above, strict=True)
    return max([(low / t + t * (total - high), t) for (t, _), low, high in rows])[1]


def _weighed(
    request: RunRequest, past: Sequence[Sample], settings: SimilarSettings
) -> Iterator[tuple[float, float]]:
    """Run time, capped at the limit, and weight of each run."""
    longest = request.limit_s
    factors: dict[tuple[int, float], float] = {}
    for run, age in zip(reversed(past), _ages(settings.fading, settings.window), strict=False):
        asked = run.nodes, run.limit_s
        if asked not in factors:
            nodes = abs(log2(run.nodes / request.nodes))
            limit = _doublings(request.limit_s, run.limit_s or inf)
            factors[asked] = (settings.nodes if nodes == 0 else settings.nodes_doubled**nodes) * (
                settings.limit if limit == 0 else settings.limit_doubled**limit
            )
        yield min(run.elapsed_s, longest), factors[asked] / age


@cache
def _ages(fading: float, window: int) -> tuple[float, ...]:
    """Divide weights by these powers of the ages of runs, the newest first."""
    return tuple(age**fading for age in range(1, window + 1))


def _doublings(one: float, other: float) -> float:
    """Doublings between two limits; as many as count where one is none."""
    if one == other:
        return 0.0
    return _FARTHEST if inf in (one, other) else min(abs(log2(one / other)), _FARTHEST)


#: Log time on a node count, and the half-width of its interval; of a fit to earlier runs.
CurveAt = Callable[[int], tuple[float, float]]
_Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


#: Last finished runs of the same user, of whatever application, as they ended: an identity with few
#: runs leans on them.
Around = tuple[Sample, ...]
#: How runs are alike: for those of one problem node counts matter most.
_MANY, _SAME = SimilarSettings(), SimilarSettings(1000.0, 10.0, limit_doubled=1.0, fading=0.7)


@dataclass(frozen=True, slots=True)
class Guesses:
    """What each expert says; None: nothing."""

    logs: tuple[float | None, ...]
    repeats: int  #: earlier runs on the node count
    curve: tuple[float, float] | None  #: what the curve says
    samples: Samples | None = None  #: earlier runs as possible answers; None: only errors say
    longest: float = math.inf  #: limit and what runs took over theirs, where of many problems


class Experts:
    """All experts, with their data of one identity at one moment.

    past: runs that had finished, the newest last; at least one.
    curve: the curve through them; None: there is none.
    around: runs of the same user.
    same: they are taken to be one application on one problem.
    bounded: what enough runs of one application took on a count is not overruled there.
    """

    def __init__(
        self,
        past: Sequence[Sample],
        curve: CurveAt | None,
        around: Around = (),
        *,
        same: bool,
        bounded: bool = False,
    ) -> None:
        self._past = past
        self._curve = curve
        self._same = same
        self._bounded = same and bounded
        self._own = _arrays(past[-WINDOW:])
        self._over = _over_limit(self._own)
        # Who has many runs of this application needs no others.
        few = around and len(past) < AROUND
        self._around = _arrays(around) if few else None
        self._times: dict[int, list[float]] = {}
        for run in past:
            self._times.setdefault(run.nodes, []).append(run.elapsed_s)
        self._alike = _SAME if same else _MANY
        fading = _LATELY_SAME if same else _LATELY_MANY
        self._lately = replace(self._alike, fading=fading)
        last = past[-_LEVEL:]
        self._level = (
            median(math.log(run.elapsed_s) - curve(run.nodes)[0] for run in last)
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
        low, high = self._measured(here)
        capped = tuple(None if log is None else min(max(log, low), high, longest) for log in logs)
        return Guesses(
            capped,
            len(here),
            curve,
            self._samples(asked) if simple else None,
            math.inf if self._same else longest + float(self._over.max()),
        )

    def _measured(self, here: Sequence[float]) -> tuple[float, float]:
        """Give the ends of what runs of a count took, where they are enough."""
        if not self._bounded or len(here) < _MEASURED:
            return -math.inf, math.inf
        return math.log(min(here)), math.log(max(here))

    def _samples(self, asked: RunRequest) -> Samples:
        """Give earlier runs as possible answers; on other counts as if on this one."""
        logs, nodes, _ = self._own
        if self._same and self._curve is not None:
            there = {n: self._curve(n)[0] for n in {asked.nodes, *nodes.tolist()}}
            logs = logs + there[asked.nodes] - np.array([there[n] for n in nodes.tolist()])
        elif self._same:
            logs = logs + SLOPE * np.log(asked.nodes / nodes)
        most = math.log(asked.limit_s)
        others = None
        if self._around is not None:
            longest = most + _over_limit(self._around)
            others = np.minimum(self._around[0], longest), _kinds(asked, self._around)
        logs = np.minimum(logs, most + self._over)
        return samples(logs, _kinds(asked, self._own), len(self._past), others)

    def _simple(self, asked: RunRequest, here: Sequence[float]) -> tuple[float, ...]:
        past = self._past
        if self._same and not here:
            past = [
                replace(run, elapsed_s=run.elapsed_s * (asked.nodes / run.nodes) ** SLOPE)
                for run in past
            ]
        recent = here[-5:] or [past[-1].elapsed_s]
        like = (
            run.elapsed_s
            for run in reversed(past)
            if (run.nodes, run.limit_s or inf) == (asked.nodes, asked.limit_s)
        )
        times = (
            typical(asked, past, self._alike),
            typical(asked, past, self._lately),
            next(like, recent[-1]),
            median(recent),
        )
        return tuple(map(math.log, times))


def _arrays(past: Sequence[Sample]) -> _Arrays:
    """Log run time, node count and limit of runs."""
    return (
        np.log([run.elapsed_s for run in past]),
        np.array([run.nodes for run in past]),
        np.array([run.limit_s or inf for run in past]),
    )


def _over_limit(runs: _Arrays) -> NDArray[np.float64]:
    """Log of what each run took over its limit: some sites let jobs complete somewhat later."""
    over: NDArray[np.float64] = np.maximum(runs[0] - np.log(runs[2]), 0.0)
    return over


def _kinds(asked: RunRequest, runs: _Arrays) -> list[NDArray[np.bool_]]:
    """Which runs asked alike, which were on this count, and all; the most specific kind first."""
    on_count = runs[1] == asked.nodes
    return [on_count & (runs[2] == asked.limit_s), on_count, np.ones(len(on_count), dtype=bool)]
