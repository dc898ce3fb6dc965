"""Run time of the next run as a distribution.

A mixture of what runs and records say.  A component is a weighted sample of log run times.  Samples
of runs take those that asked alike first, then those on the same count, then all, in some
components the user's other runs, too: each kind has n / (n + half) of the weight that the more
specific ones left.  How fast runs fade, and what the errors of the record weigh beside them,
differs from component to component; the last one is the record's errors alone.  What each component
lost so far (quantile scores, which add up to the CRPS; Gneiting and Raftery, JASA 102, 2007)
decides how much it is believed.  Last, quantiles move to where the runs fell so far: the
probability integral transform of the record calibrates them (Dawid, JRSS A 147, 1984; conformal
predictive distributions, Vovk et al., *Machine Learning* 108, 2019).  Adaptive conformal inference
(Gibbs and Candès, NeurIPS 34, 2021) widens them after misses, as errors come in bursts.

Ranks know no distances: where other applications missed by far, the tails of a mixture say how far
those were off.  So each end of an application's interval is the mean of that of the mixture and
that of its own last runs, of few its user's (quantile averaging: Lichtendahl et al., Management
Science 59, 2013).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

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
#: Last runs whose quantiles are averaged with those of a mixture, the fewest that make a kind, and
#: the fewest at all.
_LAST, _ENOUGH_ALIKE, _FEWEST_ALIKE = 60, 19, 5
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
_EVEN_WEIGHTS = np.full(len(_EVEN), _CALIBRATED / len(_EVEN))
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
    alike: Floats  #: last log run times of the most specific kind with enough, or of the largest

    def averaged(self, low: float, high: float, outside: float) -> tuple[float, float]:
        """Means of the ends of an interval and of the quantiles of the last runs alike, if any."""
        ordered = np.sort(self.alike)
        last = len(self.alike) - 1
        if last + 1 < _FEWEST_ALIKE:
            return low, high
        place = outside * (last + 2) - 1
        beyond = 0.5 * max(-place, 0.0)  # each rank beyond both extremes is half a unit
        own_low, own_high = np.interp((place, last - place), range(last + 1), ordered).tolist()
        return (low + own_low - beyond) / 2, (high + own_high + beyond) / 2


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """Rising log run times, and their weights in each component, shape ``(COMPONENTS, N)``."""

    logs: Floats
    weights: Floats

    def scores(self, log_s: float) -> list[float]:
        """Give what each component lost by a run of ``log_s``."""
        sums = self.weights.cumsum(axis=1)
        places = (sums - 0.5 * self.weights) / sums[:, -1:]
        off = log_s - np.array([np.interp(_SHARES, one, self.logs) for one in places])
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
    every = [(kind, 0, 1.0) for kind in kinds]
    pools = [logs[kind] for kind in kinds]
    if others is not None:
        pools += [others[0][kind] for kind in others[1]]
        every += [(kind, len(logs), _BROAD) for kind in others[1]]
        logs = np.append(logs, others[0])
    weights = np.zeros((len(_RUNS), len(logs)))
    left = np.ones_like(_HALF)
    for kind, offset, counts in every:
        places = kind.nonzero()[0]
        if size := places.size:
            faded, total, believed = _faded(size)
            share = counts * left * total / believed
            left = left - share
            first = places[0] + offset
            last = places[-1] + offset
            # A slice takes a fifth of the time of an index.
            at = slice(first, last + 1) if last - first < size else places + offset
            weights[:, at] += faded * (share / total)
    if len(pools[len(kinds) - 1]) >= _FEWEST_ALIKE:
        pools = pools[: len(kinds)]  # the user's other runs may be of any application
    large = (pool for pool in pools if len(pool) >= _ENOUGH_ALIKE)
    alike = next(large, max(pools, key=len))[-_LAST:]
    return Samples(logs, weights / weights.sum(axis=1, keepdims=True), runs, alike)


@cache
def _faded(size: int) -> tuple[Floats, Floats, Floats]:
    """Weights of so many runs, their sums, and these with the size of which half is believed."""
    faded = _FADED[:, -size:]
    total = faded.sum(axis=1, keepdims=True)
    return faded, total, total + _HALF


def mixture(
    given: Samples | None, expected: Floats, weighed: Floats, between: tuple[float, float]
) -> Mixture:
    """Put samples and what the errors of the record let expect together.

    expected, weighed: log run times, and their weights; shape ``(N,)``.
    between: least and most that log run times may be.
    """
    own = 0 if given is None else len(given.logs)
    logs = expected
    columns = np.zeros((own + len(expected), COMPONENTS))
    weights = columns.T
    weights[:, own:] = weighed / weighed.sum()
    if given is not None:
        share = _PRIOR / (_PRIOR + given.runs)
        weights[:-1, :own] = given.weights * (1 - share)
        weights[:-1, own:] *= share
        logs = np.concatenate((given.logs, expected))
    order = logs.argsort(kind="stable")
    return Mixture(logs[order].clip(*between), columns.take(order, axis=0).T)


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
            _EVEN_WEIGHTS,
        ]
    )
    aim = _AIM * outside
    lately = [pit for pit, _ in own[:_LATELY]]
    if len(lately) >= _FEWEST:
        inside = sum(outside < pit < 1 - outside for pit in lately)
        held = (inside + (1 - 2 * outside) * _KEPT) / (len(lately) + _KEPT)
        aim = max(aim - max(1 - 2 * outside - held, 0.0) / 2, aim / 9)
    order = places.argsort(kind="stable")
    low, high = _quantiles(places[order], weights[order], (aim, 1 - aim)).tolist()
    farthest = max(_FARTHEST_SHARE, outside)
    return min(low, farthest), max(high, 1 - farthest)


def _quantiles(values: Floats, weights: Floats, shares: Sequence[float] | Floats) -> Floats:
    """Quantiles of rising values, by interpolation between the middles of their weights."""
    sums = weights.cumsum()
    result: Floats = np.interp(shares, (sums - 0.5 * weights) / sums[-1], values)
    return result
