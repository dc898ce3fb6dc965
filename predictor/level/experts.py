"""Run time of the next run, by several simple rules and the curve, and as a distribution.

Which of them is believed is decided by what became of their predictions
(:mod:`predictor.level.record`). All times here are logs of seconds.

One rule is what earlier runs, the more alike the more, let expect: every one is a possible answer.
Its weight is a product of factors for the same node count and the same limit, which fall with each
doubling between what was asked, divided by a power of its age, counted in runs: forgetting follows
a power law.  So nothing has to be decided between "same nodes and limit" and "any": a run that
matches in everything outweighs many that do not, and where there is none the others speak, the
nearest most.

As a distribution it is a mixture of what runs and records say.  A component is a weighted sample of
log run times.  Samples of runs take those that asked alike first, then those on the same count,
then all, in some components the user's other runs, too: each kind has n / (n + half) of the weight
that the more specific ones left.  How fast runs fade, and what the errors of the record weigh
beside them, differs from component to component; the last one is the record's errors alone.  What
each component lost so far (quantile scores, which add up to the CRPS; Gneiting and Raftery, JASA
102, 2007) decides how much it is believed.  Last, quantiles move to where the runs fell so far: the
probability integral transform of the record calibrates them (Dawid, JRSS A 147, 1984; conformal
predictive distributions, Vovk et al., *Machine Learning* 108, 2019).  Adaptive conformal inference
(Gibbs and Candès, NeurIPS 34, 2021) widens them after misses, as errors come in bursts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from math import inf, log2
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predictor.checks import need_nodes, need_positive

Floats = NDArray[np.float64]

#: Of each component made of runs: size of a kind of which half is believed, how runs fade, how many
#: runs the record's errors count for, and whether the user's other runs count.
_RUNS = np.array(
    [
        (3.0, 0.97, 1.0, 0),
        (12.0, 0.995, 1.0, 0),
        (12.0, 0.995, 4.0, 0),
        (40.0, 1.0, 8.0, 0),
        (3.0, 0.97, 1.0, 1),
        (12.0, 0.995, 1.0, 1),
    ]
)
_HALF, _FADE, _PRIOR, _BROAD = _RUNS.T[:, :, None]
#: Components: those made of runs, and the record's errors alone.
COMPONENTS = len(_RUNS) + 1
#: Runs that are looked at, and their weights: the newest last.
WINDOW = 128
_FADED = _FADE ** np.arange(WINDOW - 1, -1, -1)
#: Shares whose quantiles are scored, and what each weighs: the tails are what is promised.
_SHARES = np.array([0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975])
_WEIGHED = np.array([4, 4, 1, 1, 1, 4, 4]) / len(_SHARES)
#: How fast components lose weight with what they lost, and predictions whose mean score a site
#: or, before it has any, nobody adds.
_RATE, _SITE_SCORES = 0.5, 20.0
#: Predictions that the site's distribution counts for, and one that is calibrated already.
_SITE, _CALIBRATED = 30.0, 10.0
_EVEN = (np.arange(20) + 0.5) / 20
#: Aimed at beyond each end, of the share that shall be: runs submitted together share their luck,
#: so that a record has less news than entries.  A quantile moves no further than the second.
_AIM, _FARTHEST_SHARE = 0.8, 0.2
#: Last predictions whose misses widen intervals, how many kept ones they are added to, fewest.
_LATELY, _KEPT, _FEWEST = 20, 5, 5


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Log run times of earlier runs, and their weights in each component, shape ``(V, N)``."""

    logs: Floats
    weights: Floats
    runs: int  #: how many there are of the whole identity


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """Rising log run times, and their weights in each component, shape ``(COMPONENTS, N)``."""

    logs: Floats
    weights: Floats

    def scores(self, log_s: float) -> list[float]:
        """Give what each component lost by a run of ``log_s``."""
        off = log_s - np.array([_quantiles(self.logs, one, _SHARES) for one in self.weights])
        losses: Floats = np.maximum(_SHARES * off, (_SHARES - 1) * off) @ _WEIGHED
        return [round(one, 4) for one in losses.tolist()]

    def share_below(self, log_s: float, believed: Floats) -> float:
        """Probability integral transform: share of the weight below; half of what equals it."""
        weights = believed @ self.weights
        below, up_to = np.searchsorted(self.logs, (log_s - 1e-9, log_s + 1e-9))
        sums = weights[:below].sum() + 0.5 * weights[below:up_to].sum()
        return round(float(sums / weights.sum()), 4)

    def quantiles(self, shares: Sequence[float], believed: Floats) -> tuple[float, ...]:
        """Log run times that such shares of the runs do not exceed."""
        return tuple(_quantiles(self.logs, believed @ self.weights, shares).tolist())


def samples(
    logs: Floats,
    kinds: Sequence[NDArray[np.bool_]],
    runs: int,
    others: tuple[Floats, Sequence[NDArray[np.bool_]]] | None = None,
) -> Samples:
    """Weigh runs by how specific a kind they are of.

    logs: of the last `WINDOW` runs at most, the newest last.
    kinds: which of these are of each kind, the most specific kind first.
    others: the same of the user's other runs.
    """
    every, first = [(kind, 0, 1.0) for kind in kinds], len(logs)
    if others is not None:
        logs = np.append(logs, others[0])
        every += [(kind, first, _BROAD) for kind in others[1]]
    weights, left = np.zeros((len(_RUNS), len(logs))), np.ones_like(_HALF)
    for kind, offset, counts in every:
        places = np.flatnonzero(kind) + offset
        if places.size:
            faded = _FADED[:, -places.size :]
            total = faded.sum(axis=1, keepdims=True)
            share = counts * left * total / (total + _HALF)
            left = left - share
            weights[:, places] += faded * (share / total)
    return Samples(logs, weights / weights.sum(axis=1, keepdims=True), runs)


def mixture(
    given: Samples | None, expected: Floats, weighed: Floats, between: tuple[float, float]
) -> Mixture:
    """Put samples and what the errors of the record let expect together.

    expected, weighed: log run times, and their weights; shape ``(N,)``.
    between: least and most that log run times may be.
    """
    logs, weights = expected, np.tile(weighed / weighed.sum(), (COMPONENTS, 1))
    if given is not None:
        share = np.append(_PRIOR / (_PRIOR + given.runs), 1.0)[:, None]
        own = np.vstack([given.weights, np.zeros(len(given.logs))]) * (1 - share)
        logs, weights = np.append(given.logs, logs), np.hstack([own, weights * share])
    order = np.argsort(logs, kind="stable")
    return Mixture(np.clip(logs[order], *between), weights[:, order])


def believed(own: Iterable[tuple[Sequence[float], float]], site: Sequence[float]) -> Floats:
    """Weights of the components by what they lost (exponentially weighted, Vovk 1990).

    own: scores of the identity's predictions with weights; site: mean scores of its class, or none.
    """
    lost = np.zeros(COMPONENTS)
    for scores, weight in own:
        if scores:
            lost += weight * np.array(scores)
    if site:
        lost += _SITE_SCORES * np.array(site)
    weights: Floats = np.exp(-_RATE * (lost - lost.min()))
    weights /= weights.sum()
    return weights


def calibrated(
    outside: float, own: Sequence[tuple[float, float]], site: Sequence[float]
) -> tuple[float, float]:
    """Shares of a mixture whose quantiles leave ``outside`` of the runs beyond each end.

    own: probability integral transforms of the identity's predictions with weights, the newest
        first; site: those of its class.
    """
    if not own and not site:
        return outside, 1 - outside
    places = np.concatenate([[pit for pit, _ in own], site, _EVEN])
    weights = np.concatenate(
        [
            [weight for _, weight in own],
            np.full(len(site), _SITE / max(len(site), 1)),
            np.full(len(_EVEN), _CALIBRATED / len(_EVEN)),
        ]
    )
    aim, lately = _AIM * outside, [pit for pit, _ in own[:_LATELY]]
    if len(lately) >= _FEWEST:
        inside = sum(outside < pit < 1 - outside for pit in lately)
        held = (inside + (1 - 2 * outside) * _KEPT) / (len(lately) + _KEPT)
        aim = max(aim - max(1 - 2 * outside - held, 0.0) / 2, aim / 9)
    order = np.argsort(places, kind="stable")
    low, high = _quantiles(places[order], weights[order], (aim, 1 - aim)).tolist()
    farthest = max(_FARTHEST_SHARE, outside)
    return min(low, farthest), max(high, 1 - farthest)


def _quantiles(values: Floats, weights: Floats, shares: Sequence[float] | Floats) -> Floats:
    """Quantiles of rising values, by interpolation between the middles of their weights."""
    sums = np.cumsum(weights)
    result: Floats = np.interp(shares, (sums - 0.5 * weights) / sums[-1], values)
    return result


#: Doublings between a limit and none, and the most that count between two limits.
_FARTHEST = 9.0


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
class PastRun:
    """One finished run of the same kind."""

    asked: RunRequest
    elapsed_s: float

    def __post_init__(self) -> None:
        need_positive("run time in seconds", self.elapsed_s)


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
    request: RunRequest, past: Sequence[PastRun], settings: SimilarSettings | None = None
) -> float:
    """Run time in seconds with the highest expected accuracy min(p, a) / max(p, a).

    ``past`` (the newest run last) is weighed for ``request``.  Between two possible run times the
    expectation is convex in p, so one of them is best.

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
    total, above = sum(inverse), accumulate(inverse)
    rows = zip(shares, below, above, strict=True)
    return max([(low / t + t * (total - high), t) for (t, _), low, high in rows])[1]


def _weighed(
    request: RunRequest, past: Sequence[PastRun], settings: SimilarSettings
) -> Iterator[tuple[float, float]]:
    """Run time, capped at the limit, and weight of each run."""
    longest = request.limit_s
    factors: dict[tuple[int, float], float] = {}
    for run, age in zip(reversed(past), _ages(settings.fading, settings.window), strict=False):
        asked = run.asked.nodes, run.asked.limit_s
        if asked not in factors:
            nodes = abs(log2(run.asked.nodes / request.nodes))
            limit = _doublings(request.limit_s, run.asked.limit_s)
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
_Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
#: Runs of the same user, of whatever application, that are looked at; as many of the application's
#: own need no others.
AROUND = 60


#: Last runs of the same user, of whatever application, after their ends, which rise: an identity
#: with few runs leans on them.
Around = tuple[tuple[float, PastRun], ...]
#: How runs are alike: for those of one problem node counts matter most.
_MANY, _SAME = SimilarSettings(), SimilarSettings(1000.0, 10.0, limit_doubled=1.0, fading=0.7)
#: Powers with which memory fades for those who look at recent runs, of many problems and of one.
_LATELY_MANY, _LATELY_SAME = 0.7, 1.0


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

    past: runs that had ended, the newest last; at least one.
    curve: the curve through them; None: there is none.
    around: runs of the same user.
    same: they are taken to be one application on one problem.
    """

    def __init__(
        self, past: Sequence[PastRun], curve: CurveAt | None, around: Around = (), *, same: bool
    ) -> None:
        self._past, self._curve, self._same = past, curve, same
        self._own = _arrays(past[-WINDOW:])
        # Who has many runs of this application needs no others.
        few = around and len(past) < AROUND
        self._around = _arrays([run for _, run in around]) if few else None
        self._times: dict[int, list[float]] = {}
        for run in past:
            self._times.setdefault(run.asked.nodes, []).append(run.elapsed_s)
        self._alike = _SAME if same else _MANY
        fading = _LATELY_SAME if same else _LATELY_MANY
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
        return Guesses(
            capped,
            len(here),
            curve,
            self._samples(asked) if simple else None,
            math.inf if self._same else longest + float(_over_limit(self._own).max()),
        )

    def _samples(self, asked: RunRequest) -> Samples:
        """Give earlier runs as possible answers; on other counts as if on this one."""
        logs, nodes, _ = self._own
        if self._same and self._curve is not None:
            there = {n: self._curve(n)[0] for n in {asked.nodes, *nodes.tolist()}}
            logs = logs + there[asked.nodes] - np.array([there[n] for n in nodes.tolist()])
        elif self._same:
            logs = logs + SLOPE * np.log(asked.nodes / nodes)
        most, others = math.log(asked.limit_s), None
        if self._around is not None:
            longest = most + _over_limit(self._around)
            others = np.minimum(self._around[0], longest), _kinds(asked, self._around)
        logs = np.minimum(logs, most + _over_limit(self._own))
        return samples(logs, _kinds(asked, self._own), len(self._past), others)

    def _simple(self, asked: RunRequest, here: Sequence[float]) -> tuple[float, ...]:
        past = self._past
        if self._same and not here:
            past = [_scaled(run, asked.nodes) for run in past]
        recent = here[-5:] or [past[-1].elapsed_s]
        like = (run.elapsed_s for run in reversed(past) if run.asked == asked)
        times = (
            typical(asked, past, self._alike),
            typical(asked, past, self._lately),
            next(like, recent[-1]),
            median(recent),
        )
        return tuple(map(math.log, times))


def _arrays(past: Sequence[PastRun]) -> _Arrays:
    """Log run time, node count and limit of runs."""
    return (
        np.log([run.elapsed_s for run in past]),
        np.array([run.asked.nodes for run in past]),
        np.array([run.asked.limit_s for run in past]),
    )


def _over_limit(runs: _Arrays) -> NDArray[np.float64]:
    """Log of what each run took over its limit: some sites let jobs complete somewhat later."""
    over: NDArray[np.float64] = np.maximum(runs[0] - np.log(runs[2]), 0.0)
    return over


def _kinds(asked: RunRequest, runs: _Arrays) -> list[NDArray[np.bool_]]:
    """Which runs asked alike, which were on this count, and all; the most specific kind first."""
    on_count = runs[1] == asked.nodes
    return [on_count & (runs[2] == asked.limit_s), on_count, np.ones_like(on_count)]


def _scaled(run: PastRun, nodes: int) -> PastRun:
    return PastRun(run.asked, run.elapsed_s * (nodes / run.asked.nodes) ** SLOPE)
