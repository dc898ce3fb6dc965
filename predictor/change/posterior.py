"""Posterior over what a change of count does, from the runs of one application.

Runs are grouped by what they have in common: what was asked for, measured memory, or all of them.
Within a group the problem is one, whatever its size, and the count varies: because NIMO or Slurm
chose it (tries), because users ran one problem on several counts, or because problems of one size
were asked on different counts.  Each way to group is a hypothesis; where groups differ in their
level alone says nothing of R, for users run larger problems on more nodes.

Given a hypothesis and a shape, log run times are Gaussian: the level of the group, the shape, a
discrepancy that grows like Brownian motion from the count asked for, and noise.  So weights and
discrepancies have closed forms (Rasmussen and Williams, *Gaussian Processes for Machine Learning*,
2006, sections 2.2 and 2.7).  How rough a curve is and how noisy its runs are is weighed likewise:
ratios that left their shape widen the interval of the next ones.

A shape is R(x) = T(x·n0)/T(n0), the run time of one problem over that on the count asked for.  It
has a part f that more nodes do not shorten (Amdahl, AFIPS 1967), an exponent h of the rest,
and an overhead g for each doubling of the nodes::

    R(x) = f + (1 - f)·x^-h + g·max(log2 x, 0)

The prior is a product over f, g and h.  Its weights and those of the roughness were fitted by
expectation maximisation to 235 published strong-scaling curves of twelve applications (WRF,
GROMACS, CASTEP, OpenFOAM, TeaLeaf, CloverLeaf, NEMO and others, 1 to 2,048 nodes), each seen from
each of its node counts, an application's curves weighted by the root of their number.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from math import exp, log, tau
from operator import attrgetter
from statistics import NormalDist, fmean

import numpy as np
import numpy.typing as npt

from predictor.checks import need_finite, need_nodes, need_positive

Floats = npt.NDArray[np.float64]

#: Values of f, g and h with their weights.
SERIAL = ((0.0, 0.36), (0.05, 0.20), (0.15, 0.09), (0.4, 0.17), (0.8, 0.18))
OVERHEAD = ((0.0, 0.62), (0.03, 0.19), (0.1, 0.09), (0.25, 0.10))
EXPONENT = ((0.6, 0.05), (0.8, 0.14), (1.0, 0.61), (1.2, 0.20))
#: Standard deviation of log run time by which a curve leaves its shape, for one doubling.
ROUGHNESS = ((0.04, 0.5), (0.15, 0.35), (0.5, 0.15))
#: Standard deviation of log run time of repeats, before there are any.
NOISE = ((0.05, 0.6), (0.2, 0.4))
#: Least R.
_LEAST = 0.005

_GRID = np.array([[p[0] for p in one] for one in product(SERIAL, OVERHEAD, EXPONENT)])
#: Roughness and noise, shape ``(scales, 2)``, with the log of their weights.
_SCALES = np.array([[p[0] for p in one] for one in product(ROUGHNESS, NOISE)])
_LOG_SCALES: Floats = np.log([np.prod([p[1] for p in one]) for one in product(ROUGHNESS, NOISE)])
#: Log of the prior weight of each shape, shape ``(80,)``.
LOG_PRIOR: Floats = np.log(
    [np.prod([p[1] for p in one]) for one in product(SERIAL, OVERHEAD, EXPONENT)]
)


def log_ratio(doublings: Floats) -> Floats:
    """Log of R for each shape.

    doublings: log2 of the node count over that asked for, shape ``(counts,)``.
    Returns array of shape ``(shapes, counts)``.
    Raises ValueError: one is not finite.

    >>> np.round(np.exp(log_ratio(np.array([0.0, 1.0]))[2]), 3).tolist()
    [1.0, 0.5]
    """
    need_finite("doublings", *doublings)
    f, g, h = (one[:, None] for one in _GRID.T)
    made = f + (1 - f) * 2.0 ** (-h * doublings) + g * np.maximum(doublings, 0.0)
    return np.asarray(np.log(np.maximum(made, _LEAST)))


#: Equally likely paths that a posterior is made of.
PATHS = 40
#: Doublings at which paths are given, besides those that were run.
OCTAVES = 6
#: Last runs that are looked at.
_RECENT = 200
#: Spread of all levels.
_LEVEL = 3.0
#: How many runs the noise of repeats counts for before there are any.
_NOISE_RUNS = 2.0
#: Measured sizes within this ratio (log) are alike.
_ALIKE = 0.35
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79)


@dataclass(frozen=True, slots=True)
class ChangeRun:
    """One run: the count that was asked for, the one it had, and how long it took.

    ``size`` is what was measured of the problem afterwards, as memory of all tasks; 0: unknown.
    ``group`` is the range of counts that the user asked for.  Runs with one ``problem`` are known
    to have the same; empty: not known.

    Raises ValueError: a count is no whole number of 1 or more, the time not above zero, or the size
        below it.
    """

    asked: int
    nodes: int
    time_s: float
    size: float = 0.0
    group: tuple[int, int] = (0, 0)
    problem: str = ""

    def __post_init__(self) -> None:
        need_nodes((self.asked, self.nodes))
        need_positive("run time in seconds", self.time_s)
        need_finite("size of a problem", self.size, least=0)


@dataclass(frozen=True, slots=True)
class _Hypothesis:
    """What runs have in common, how likely that is, and how levels of groups may differ.

    Slope of log level over log of the reference count (its mean and spread), and the spread of one
    level around that.
    """

    by: str
    weight: float
    trend: float
    slope: float
    apart: float


_ALL = _Hypothesis("all", 0.6, 0.0, 0.0, 0.0)
_ASKED = _Hypothesis("asked", 0.45, 0.2, 0.4, 0.3)
#: Problems that grow with their nodes, so that all take as long.
_WEAK = _Hypothesis("asked", 0.15, 0.0, 0.03, 0.03)
_SIZE = _Hypothesis("size", 0.45, 0.3, 0.5, 0.3)


@dataclass(frozen=True, slots=True)
class Posterior:
    """Equally likely paths of log R over doublings.

    ``reference``: count that a path's doublings count from; 0: from the count asked for.
    """

    doublings: Floats  #: shape ``(knots,)``
    paths: Floats  #: shape ``(PATHS, knots)``
    reference: Floats  #: shape ``(PATHS,)``


def posterior(runs: Sequence[ChangeRun]) -> Posterior:
    """Posterior of one application.

    runs: finished runs, the newest last.
    """
    recent = sorted(
        runs[-_RECENT:], key=attrgetter("problem", "group", "nodes", "time_s", "size", "asked")
    )
    made = [_Given(recent, one, base) for one, base in _hypotheses(recent)]
    seen = {round(float(u), 3) for one in made for u in one.doublings if abs(u) < OCTAVES}
    knots = np.array(sorted({*np.arange(-OCTAVES, OCTAVES + 1.0).tolist(), *seen}))
    weights = np.concatenate([one.log_weights for one in made], axis=None)
    weights = np.exp(np.round(weights - weights.max(), 6))
    # Places in proportion to weights, at equal steps (Kitagawa 1996).
    shares, steps = np.cumsum(weights / weights.sum()), (np.arange(PATHS) + 0.5) / PATHS
    chosen = np.minimum(np.searchsorted(shares, steps), len(weights) - 1)
    normal = np.column_stack([_normal(knot) for knot in range(len(knots))])
    paths = np.empty((PATHS, len(knots)))
    reference = np.empty(PATHS)
    scaled, shapes = np.divmod(chosen, len(LOG_PRIOR))
    for each in np.unique(scaled):
        mine, (which, scale) = scaled == each, divmod(each, len(_SCALES))
        paths[mine] = made[which].paths(knots, scale, shapes[mine], normal[mine])
        reference[mine] = made[which].base
    return Posterior(knots, paths, reference)


@cache
def _normal(knot: int) -> Floats:
    """Give normal numbers of a knot, spread evenly: Richtmyer's lattice (Monte Carlo 1951)."""
    alpha = np.sqrt(_PRIMES[knot % len(_PRIMES)] + 83.0 * (knot // len(_PRIMES)))
    points = np.mod(np.arange(1, PATHS + 1) * alpha, 1.0)
    return np.array([NormalDist().inv_cdf(min(max(p, 0.01), 0.99)) for p in points])


def _hypotheses(runs: Sequence[ChangeRun]) -> Iterator[tuple[_Hypothesis, float]]:
    """Hypotheses, each with the count that shapes count from; 0: each group's own."""
    middle = exp(fmean([log(run.asked) for run in runs])) if runs else 0.0
    yield _ALL, middle
    if len({run.problem or run.group for run in runs}) > 1:
        yield from ((_ASKED, 0.0), (_ASKED, middle), (_WEAK, 0.0))
    sizes = [run.size for run in runs]
    if runs and min(sizes) > 0 and log(max(sizes) / min(sizes)) > _ALIKE:
        yield from ((_SIZE, 0.0), (_SIZE, middle))


class _Given:
    """Runs under one hypothesis; ``base`` is the count that shapes count from, 0: each group's."""

    def __init__(self, runs: Sequence[ChangeRun], hypothesis: _Hypothesis, base: float) -> None:
        self.base = base
        self._hypothesis = hypothesis
        groups = _grouped(runs, hypothesis.by)
        cells: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
        for number, members in enumerate(groups):
            for run in members:
                cells[number, run.nodes].append(log(run.time_s))
        own = [exp(fmean([log(run.asked) for run in members])) for members in groups]
        self._log_own = np.log(own) if own else np.zeros(0)
        self._group = np.array([group for group, _ in cells], dtype=int)
        nodes = np.array([n for _, n in cells], dtype=float)
        from_ = np.full(len(cells), base) if base else np.exp(self._log_own)[self._group]
        self.doublings: Floats = np.log2(nodes / from_)
        self._mean = np.array([fmean(one) for one in cells.values()])
        self._runs = np.array([len(one) for one in cells.values()], dtype=float)
        squares = sum(float(np.var(one)) * len(one) for one in cells.values())
        spare = sum(len(one) - 1 for one in cells.values())
        self._noise2 = (squares + _NOISE_RUNS * _SCALES[:, 1] ** 2) / (spare + _NOISE_RUNS)
        self._within = -0.5 * (spare * np.log(tau * self._noise2) + squares / self._noise2)
        self._within -= 0.5 * float(np.log(self._runs).sum())

    @cached_property
    def _lower(self) -> Floats:
        """Roots of covariances of cells, shape ``(scales, cells, cells)``."""
        one = self._hypothesis
        log_own = self._log_own[self._group] - self._log_own.mean() if len(self._mean) else 0.0
        same = self._group[:, None] == self._group[None]
        level = _LEVEL**2 + one.slope**2 * np.multiply.outer(log_own, log_own)
        level = level + one.apart**2 * same
        rough = _SCALES[:, 0, None, None] ** 2 * _brownian(self.doublings, self.doublings)
        noise = self._noise2[:, None, None] * np.diag(1 / self._runs)
        return np.linalg.cholesky(level + rough + noise)

    @cached_property
    def _residuals(self) -> Floats:
        """Standardised, shape ``(scales, cells, shapes)``."""
        trend = self._hypothesis.trend * (self._log_own - self._log_own.mean())[self._group]
        centred = self._mean - self._mean.mean() - trend
        off = centred[:, None] - log_ratio(self.doublings).T
        return np.asarray(np.linalg.solve(self._lower, off[None]))

    @cached_property
    def log_weights(self) -> Floats:
        """Log of prior times likelihood, shape ``(scales, shapes)``."""
        made = LOG_PRIOR + _LOG_SCALES[:, None] + log(self._hypothesis.weight)
        if not len(self._mean):
            return np.asarray(made)
        root = np.log(np.diagonal(self._lower, axis1=1, axis2=2)).sum(1)
        inside = -0.5 * (self._residuals**2).sum(1) + (self._within - root)[:, None]
        return np.asarray(made + inside - 0.5 * len(self._mean) * log(tau))

    def paths(
        self, knots: Floats, scale: int, shapes: npt.NDArray[np.intp], normal: Floats
    ) -> Floats:
        """Draw log R at knots, one path for each of ``shapes``."""
        rough2 = _SCALES[scale, 0] ** 2
        prior = rough2 * _brownian(knots, knots)
        drawn = log_ratio(knots)[shapes]
        if len(self._mean):
            across = np.linalg.solve(self._lower[scale], rough2 * _brownian(self.doublings, knots))
            drawn = drawn + self._residuals[scale][:, shapes].T @ across
            prior = prior - across.T @ across
        values, vectors = np.linalg.eigh(prior)
        # The symmetric root: signs of eigenvectors, which processors choose, do not matter.
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        return np.asarray(drawn + normal @ root)


def _grouped(runs: Sequence[ChangeRun], by: str) -> list[list[ChangeRun]]:
    if by == "all":
        return [[*runs]] if runs else []
    groups: defaultdict[object, list[ChangeRun]] = defaultdict(list)
    for run in runs:
        if run.problem or by == "asked":
            groups[run.problem or run.group].append(run)
    if by == "asked":
        return list(groups.values())
    by_size: list[list[ChangeRun]] = []
    for run in sorted((one for one in runs if not one.problem), key=attrgetter("size")):
        if not by_size or run.size > by_size[-1][0].size * exp(_ALIKE):
            by_size.append([])
        by_size[-1].append(run)
    return [*groups.values(), *by_size]


def _brownian(one: Floats, other: Floats) -> Floats:
    """Covariance of Brownian motion from zero to both sides, of variance 1 for a doubling."""
    alike = np.sign(one)[:, None] == np.sign(other)[None]
    return np.asarray(np.minimum(abs(one)[:, None], abs(other)[None]) * alike)
