"""ADEPT's envelope: which instances of Downey's model can explain the observations at all.

If no observation is further than δ (relative) from the model, the ratio of the model's run times
at two observations lies in a computable range.  The ratio does not depend on T(1), so neither does
what follows from it: for each pair of observations and each pair of pieces of the model, a range
of the end of the first section and a range of σ (section V.A; the closed forms for all
combinations of pieces are derived in ``docs/adept-envelope.md``).  The union over all pairs holds
every instance within δ of all observations.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from predictor.checks import need_finite, need_positive, need_rising, need_share
from predictor.models.downey import VarianceMode

Floats = NDArray[np.float64]

#: Pieces of the two observations of a pair, the one on fewer nodes first.
COMBINATIONS = {
    VarianceMode.LOW: ((1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)),
    VarianceMode.HIGH: ((1, 1), (1, 2), (2, 2)),
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where instances are looked for at all, as in the experiments of section V.C.

    ``parallelism`` bounds the end of the first section as a multiple of the largest observation.
    """

    parallelism: float = 64.0
    sigma: float = 3000.0

    def __post_init__(self) -> None:
        need_finite("largest parallelism", self.parallelism, least=1)
        need_finite("largest sigma", self.sigma, least=1)


@dataclass(frozen=True, slots=True)
class RangePair:
    """One range pair: the end of the first section (A, or A + Aσ - σ) and σ."""

    mode: VarianceMode
    end_min: float
    end_max: float
    sigma_min: float
    sigma_max: float


def envelope(
    nodes: Floats, times: Floats, delta: float, bounds: Bounds | None = None
) -> tuple[RangePair, ...]:
    """Range pairs of all pairs of observations, without the redundant ones.

    nodes, times: observations in rising order of nodes; times in any unit.
    delta: largest relative deviation of an observation from the model, 0 < ``delta`` < 1.
    Raises ValueError: fewer than two observations, not in rising order, or without a time above
        zero.
    """
    need_observations(nodes, times)
    need_share("delta", delta)
    limits = bounds or Bounds()
    pairs = []
    for mode in VarianceMode:
        # Each pair of observations with each combination of pieces.
        index = np.array(list(combinations(range(len(nodes)), 2))).T
        pieces = np.array(COMBINATIONS[mode], dtype=float).T
        count = pieces.shape[1]
        both = np.repeat(nodes[index], count, axis=1)
        ratio = np.repeat(times[index[0]] / times[index[1]], count)
        hull = _hulls(mode, both, np.tile(pieces, index.shape[1]), ratio, delta, limits)
        # Rows that no other row holds; of equal rows one.
        left = hull
        result = []
        while len(left):
            low = left[:, (0, 2)]
            high = left[:, (1, 3)]
            largest = int((high - low).sum(axis=1).argmax())
            result.append(left[largest])
            held = ((low[largest] <= low) & (high[largest] >= high)).all(axis=1)
            left = left[~held]
        pairs += [RangePair(mode, *map(float, row)) for row in np.array(result).reshape(-1, 4)]
    return tuple(pairs)


def everything(last: float, bounds: Bounds) -> tuple[RangePair, ...]:
    """Envelope of observations that no δ makes agree; the largest is on ``last`` nodes."""
    need_finite("largest node count", last, least=1)
    end = bounds.parallelism * last
    return (
        RangePair(VarianceMode.LOW, 1.0, end, 0.0, 1.0),
        RangePair(VarianceMode.HIGH, 1.0, end, 1.0, bounds.sigma),
    )


def need_observations(nodes: Floats, times: Floats) -> None:
    """Raise :class:`ValueError` unless there are two observations of the model or more."""
    if nodes.shape != times.shape or nodes.ndim != 1 or len(nodes) < 2:
        raise ValueError(f"{nodes.shape} node counts with {times.shape} times: two are needed")
    need_finite("node count", *nodes, least=1)
    need_rising("node counts", nodes)
    need_positive("run time", *times)


Terms = tuple[Floats, Floats, Floats, Floats]


def _coefficients(mode: VarianceMode, pieces: Floats, nodes: Floats) -> Terms:
    """Constant and slope, over the end, of p and of q (see :mod:`predictor.models.downey`)."""
    one = np.ones_like(nodes)
    none = np.zeros_like(nodes)
    first = pieces == 1
    p0 = np.where(first, none, one)
    p1 = np.where(first, 1 / nodes, none)
    if mode is VarianceMode.HIGH:
        return p0, p1, one, none
    second = pieces == 2
    q0 = np.where(first, 1 - 1 / nodes, np.where(second, -1 / nodes - 1, none))
    return p0, p1, q0, np.where(second, 2 / nodes, none)


def _x_on(first: Terms, second: Terms, end: Floats, ratio: Floats) -> Floats:
    """Return x where T(n_i) = ratio·T(n_j), for given ends; inf where no x does."""
    (p0, p1, q0, q1), (s0, s1, u0, u1) = first, second
    over = ratio * (s0 + s1 * end) - (p0 + p1 * end)
    return _divided(over, (q0 + q1 * end) - ratio * (u0 + u1 * end))


def _end_on(first: Terms, second: Terms, x: Floats, ratio: Floats) -> Floats:
    """Return the end where T(n_i) = ratio·T(n_j), for given x; inf where none does."""
    (p0, p1, q0, q1), (s0, s1, u0, u1) = first, second
    over = ratio * (s0 + x * u0) - (p0 + x * q0)
    return _divided(over, (p1 + x * q1) - ratio * (s1 + x * u1))


def _divided(over: Floats, under: Floats) -> Floats:
    infinite = np.full_like(over, np.inf)
    np.divide(over, under, out=infinite, where=np.abs(under) > 1e-12)
    return infinite


def _piece_range(
    mode: VarianceMode, pieces: Floats, nodes: Floats, last: float
) -> tuple[Floats, Floats]:
    """Range of the end of the first section for which ``nodes`` lie on ``pieces``."""
    flat = nodes if mode is VarianceMode.HIGH else (nodes + 1) / 2
    low = np.where(
        pieces == 1, nodes, np.where((pieces == 2) & (mode is VarianceMode.LOW), flat, 1.0)
    )
    high = np.where(
        pieces == 1, last, np.where((pieces == 2) & (mode is VarianceMode.LOW), nodes, flat)
    )
    return low, high


def _hulls(
    mode: VarianceMode, nodes: Floats, pieces: Floats, ratio: Floats, delta: float, bounds: Bounds
) -> Floats:
    """Range pair of each row as (end_min, end_max, sigma_min, sigma_max), infeasible rows left out.

    On lines of equal ratio the end is a monotone function of x, so that the extremes of the
    feasible region lie on corners of the rectangle of the pieces, or where such a line meets its
    edges: twelve candidates.
    """
    first, second = (_coefficients(mode, pieces[i], nodes[i]) for i in (0, 1))
    lows, highs = zip(
        *(
            _piece_range(mode, pieces[i], nodes[i], bounds.parallelism * nodes.max())
            for i in (0, 1)
        ),
        strict=True,
    )
    edge = np.maximum(*lows), np.minimum(*highs)
    sides = (0.0, 0.5) if mode is VarianceMode.LOW else (1.0, bounds.sigma)
    ratios = ratio * (1 - delta) / (1 + delta), ratio * (1 + delta) / (1 - delta)
    ends, xs, good = _candidates(first, second, edge, sides, ratios)
    exists = good.any(axis=0) & (edge[0] <= edge[1])
    factor = 2.0 if mode is VarianceMode.LOW else 1.0
    hull = np.stack(
        [
            np.where(good, ends, np.inf).min(axis=0),
            np.where(good, ends, -np.inf).max(axis=0),
            np.where(good, xs, np.inf).min(axis=0) * factor,
            np.where(good, xs, -np.inf).max(axis=0) * factor,
        ],
        axis=1,
    )
    feasible: Floats = hull[exists]
    return feasible


def _candidates(
    first: Terms,
    second: Terms,
    edge: tuple[Floats, Floats],
    sides: tuple[float, float],
    ratios: tuple[Floats, Floats],
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Corners, and meetings of the lines of extreme ratio with the edges; which are feasible."""
    full = np.full_like(edge[0], 1.0)
    ends = [end for end in edge for _ in sides]
    xs = [full * side for _ in edge for side in sides]
    for ratio in ratios:
        ends += [*edge, *(_end_on(first, second, full * side, ratio) for side in sides)]
        xs += [
            *(_x_on(first, second, end, ratio) for end in edge),
            *(full * side for side in sides),
        ]
    end = np.array(ends)
    x = np.array(xs)
    inside = (end >= edge[0] - 1e-9) & (end <= edge[1] * (1 + 1e-9))
    inside &= (x >= sides[0] - 1e-9) & (x <= sides[1] * (1 + 1e-9))
    end = np.clip(end, 1.0, edge[1])
    x = np.clip(x, *sides)
    (p0, p1, q0, q1), (s0, s1, u0, u1) = first, second
    time = p0 + p1 * end + x * (q0 + q1 * end)
    other = s0 + s1 * end + x * (u0 + u1 * end)
    slack = 1e-9
    inside &= (time >= ratios[0] * other * (1 - slack)) & (time <= ratios[1] * other * (1 + slack))
    return end, x, inside
