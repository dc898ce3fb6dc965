"""What a change of count does to one application: one posterior, in closed form.

The log of a run time is a sum of parts::

    log T = level + problem + shape(count) + discrepancy(count) + noise

- *level*: what all runs have in common;
- *problem*: an offset of its own for each count asked for, under the hypothesis that users ask for
  more nodes for larger problems;
- *shape*: what the count does, one of `predictor.application.shapes`;
- *discrepancy*: how a measured curve leaves every shape, like Brownian motion from the reference;
- *noise*: of repeats.

Given a hypothesis, a shape and the scales of the parts, all is Gaussian.  Each combination is
weighed by its marginal likelihood (Rasmussen and Williams, *Gaussian Processes for Machine
Learning*, 2006, sections 2.2 and 2.7), so nothing is searched for and nothing is resampled.
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

from predictor.application.shapes import LOG_PRIOR, log_ratio
from predictor.checks import need_nodes, need_share
from predictor.sample import Sample

Floats = npt.NDArray[np.float64]

#: Standard deviation of log run time by which a curve leaves its shape, for one doubling.
ROUGHNESS = ((0.04, 0.5), (0.15, 0.35), (0.5, 0.15))
#: Standard deviation of log run time of repeats, before there are any.
NOISE = ((0.03, 0.4), (0.1, 0.35), (0.3, 0.25))
#: Standard deviation of the level.
_LEVEL = 3.0
#: Last samples that are looked at.
RECENT = 200
#: How many samples the noise of repeats counts for before there are any.
_NOISE_SAMPLES = 2.0
#: Measured sizes within this ratio (log) are alike.
_ALIKE = 0.35
#: Equally likely paths of a change; doublings that they are given at, besides those of the runs.
PATHS, OCTAVES = 40, 6
#: Order of samples: what is computed does not depend on that in which they come.
_ORDER = attrgetter("problem", "asked_range", "nodes", "elapsed_s", "memory_bytes", "asked")
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79)


@dataclass(frozen=True, slots=True)
class _Hypothesis:
    """What samples have in common, how likely that is, and how levels of groups may differ.

    Slope of log level over log of the reference count (its mean and spread), and the spread of one
    level around that.  ``weight`` is a share among the hypotheses that problems differ.
    """

    by: str
    weight: float = 1.0
    trend: float = 0.0
    slope: float = 0.0
    apart: float = 0.0
    own_base: bool = False  #: shapes count from each group's own count


#: One problem.
_SAME = _Hypothesis("all")
#: Users ask for more nodes for larger problems ...
_ASKED = _Hypothesis("asked", 0.22, trend=0.2, slope=0.4, apart=0.3)
_ASKED_OWN = _Hypothesis("asked", 0.22, trend=0.2, slope=0.4, apart=0.3, own_base=True)
#: ... so much larger that all take as long (weak scaling) ...
_WEAK = _Hypothesis("asked", 0.12, trend=0.0, slope=0.03, apart=0.03, own_base=True)
#: ... or problems are alike where their measured memory is.
_MEMORY = _Hypothesis("memory", 0.22, trend=0.3, slope=0.5, apart=0.3)
_MEMORY_OWN = _Hypothesis("memory", 0.22, trend=0.3, slope=0.5, apart=0.3, own_base=True)


@dataclass(frozen=True, slots=True)
class _Scales:
    """One combination of standard deviations, with the log of its prior weight."""

    rough: float
    noise: float
    log_weight: float


_SCALES = tuple(_Scales(r[0], n[0], log(r[1] * n[1])) for r, n in product(ROUGHNESS, NOISE))


class Application:
    """What the runs of one application say of a change of count.

    same: how likely it is, before run times are looked at, that samples are of one problem: .95
        where arguments, sizes or measured memory say so, .7 for a script without arguments, .5
        where only a name is shared.

    Without any sample it says what is usual.

    Raises ValueError: ``same`` is no share, or what was asked for is not filled in a sample.
    """

    def __init__(self, samples: Sequence[Sample], *, same: float = 0.5) -> None:
        need_share("share of applications with one problem", same)
        recent = sorted(samples[-RECENT:], key=_ORDER)
        if recent:
            need_nodes([sample.asked for sample in recent])
        self.samples = tuple(recent)
        self._given = [
            _Given(recent, hypothesis, base, log(weight))
            for hypothesis, base, weight in _hypotheses(recent, same)
        ]
        top = max(float(given.log_weights.max()) for given in self._given)
        raw = [np.exp(given.log_weights - top) for given in self._given]
        total = sum(float(weights.sum()) for weights in raw)
        #: One array of shape ``(scales, shapes)`` for each hypothesis; together they sum to 1.
        self._weights = [weights / total for weights in raw]

    @property
    def same(self) -> float:
        """How likely it is now that samples are of one problem."""
        pairs = zip(self._given, self._weights, strict=True)
        shares = [float(weights.sum()) for given, weights in pairs if given.hypothesis is _SAME]
        return sum(shares)

    def paths(self) -> "Paths":
        """Draw equally likely paths of what a change of count does to one problem."""
        ran = {
            round(float(doublings), 3)
            for given in self._given
            for doublings in given.doublings
            if abs(doublings) < OCTAVES
        }
        knots = np.array(sorted({*np.arange(-OCTAVES, OCTAVES + 1.0).tolist(), *ran}))
        weights = np.concatenate([one.ravel() for one in self._weights])
        # Places in proportion to weights, at equal steps (Kitagawa 1996).
        shares = np.cumsum(np.round(weights, 9))
        steps = (np.arange(PATHS) + 0.5) / PATHS * shares[-1]
        chosen = np.minimum(np.searchsorted(shares, steps), len(weights) - 1)
        normal = np.column_stack([_normal(knot) for knot in range(len(knots))])
        logs = np.empty((PATHS, len(knots)))
        reference = np.empty(PATHS)
        scaled, shapes = np.divmod(chosen, len(LOG_PRIOR))
        for place in np.unique(scaled):
            mine = scaled == place
            which, scale = divmod(int(place), len(_SCALES))
            given = self._given[which]
            logs[mine] = given.paths(knots, scale, shapes[mine], normal[mine])
            reference[mine] = given.base
        return Paths(knots, logs, reference)


@dataclass(frozen=True, slots=True)
class Paths:
    """Equally likely paths of log R over doublings.

    ``reference``: count that a path's doublings count from; 0: from the count asked for.
    """

    doublings: Floats  #: shape ``(knots,)``
    logs: Floats  #: shape ``(PATHS, knots)``
    reference: Floats  #: shape ``(PATHS,)``


@cache
def _normal(knot: int) -> Floats:
    """Give normal numbers of a knot, spread evenly: Richtmyer's lattice (Monte Carlo 1951)."""
    alpha = np.sqrt(_PRIMES[knot % len(_PRIMES)] + 83.0 * (knot // len(_PRIMES)))
    points = np.mod(np.arange(1, PATHS + 1) * alpha, 1.0)
    return np.array([NormalDist().inv_cdf(min(max(p, 0.01), 0.99)) for p in points])


def _hypotheses(
    samples: Sequence[Sample], same: float
) -> Iterator[tuple[_Hypothesis, float, float]]:
    """Hypotheses with the count that shapes count from and their weight; 0: each group's own."""
    if not samples:
        yield _SAME, 0.0, 1.0
        return
    middle = exp(fmean(log(sample.asked) for sample in samples))
    others: list[_Hypothesis] = []
    if len({sample.problem or sample.asked_range for sample in samples}) > 1:
        others += [_ASKED, _ASKED_OWN, _WEAK]
    memory = [sample.memory_bytes for sample in samples]
    if min(memory) > 0 and log(max(memory) / min(memory)) > _ALIKE:
        others += [_MEMORY, _MEMORY_OWN]
    yield _SAME, middle, same if others else 1.0
    total = sum(hypothesis.weight for hypothesis in others)
    for hypothesis in others:
        base = 0.0 if hypothesis.own_base else middle
        yield hypothesis, base, (1 - same) * hypothesis.weight / total


@dataclass(frozen=True, slots=True)
class _Places:
    """Where some cells or targets are: arrays with one entry for each."""

    doublings: Floats
    log_own: Floats  #: log of the reference count of its group, from the mean of all groups
    group: npt.NDArray[np.intp]  #: -1: of none


class _Given:
    """Samples under one hypothesis; ``base`` is the count that shapes count from."""

    def __init__(
        self, samples: Sequence[Sample], hypothesis: _Hypothesis, base: float, log_weight: float
    ) -> None:
        self.hypothesis = hypothesis
        self.base = base
        self._log_weight = log_weight
        groups = _grouped(samples, hypothesis.by)
        self._log_own = np.array(
            [fmean(log(sample.asked) for sample in members) for members in groups]
        )
        cells: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
        for number, members in enumerate(groups):
            for sample in members:
                cells[number, sample.nodes].append(log(sample.elapsed_s))
        self._cells = self._places([n for _, n in cells], [g for g, _ in cells])
        self._mean = np.array([fmean(times) for times in cells.values()])
        self._runs = np.array([len(times) for times in cells.values()], dtype=float)
        squares = sum(float(np.var(times)) * len(times) for times in cells.values())
        spare = sum(len(times) - 1 for times in cells.values())
        noise2 = np.array([one.noise**2 for one in _SCALES])
        self._rough2 = np.array([one.rough**2 for one in _SCALES])[:, None, None]
        self._noise2 = (squares + _NOISE_SAMPLES * noise2) / (spare + _NOISE_SAMPLES)
        self._within = -0.5 * (spare * np.log(tau * self._noise2) + squares / self._noise2)
        self._within -= 0.5 * float(np.log(self._runs).sum())

    def _places(self, nodes: Sequence[int], groups: Sequence[int]) -> _Places:
        mean_own = float(self._log_own.mean()) if len(self._log_own) else 0.0
        counts = np.array(nodes, dtype=float)
        group = np.array(groups, dtype=np.intp)
        own = np.log(counts)
        own[group >= 0] = self._log_own[group[group >= 0]]
        base = np.full(len(counts), self.base) if self.base else np.exp(own)
        return _Places(doublings=np.log2(counts / base), log_own=own - mean_own, group=group)

    @property
    def doublings(self) -> Floats:
        """Those of the cells."""
        return self._cells.doublings

    def _covariance(self, one: _Places, other: _Places) -> Floats:
        """Covariances of two sets of places, shape ``(scales, one, other)``."""
        hypothesis = self.hypothesis
        alike = (one.group[:, None] == other.group[None]) & (one.group[:, None] >= 0)
        level = _LEVEL**2 + hypothesis.slope**2 * np.multiply.outer(one.log_own, other.log_own)
        level = level + hypothesis.apart**2 * alike
        covariance = level[None] + self._changes(one, other)
        return np.asarray(covariance)

    def _changes(self, one: _Places, other: _Places) -> Floats:
        """Give the part of a covariance that is about the count: zero on the reference count."""
        motion = _brownian(one.doublings, other.doublings)
        return np.asarray(self._rough2 * motion[None])

    @cached_property
    def _lower(self) -> Floats:
        """Roots of covariances of cells, shape ``(scales, cells, cells)``."""
        covariance = self._covariance(self._cells, self._cells)
        noise = self._noise2[:, None, None] * np.diag(1 / self._runs)
        return np.asarray(np.linalg.cholesky(covariance + noise))

    @cached_property
    def _residuals(self) -> Floats:
        """Standardised, shape ``(scales, cells, shapes)``."""
        trend = self.hypothesis.trend * self._cells.log_own
        centred = self._mean - _centre(self._mean) - trend
        off = centred[:, None] - log_ratio(self._cells.doublings).T
        return np.asarray(np.linalg.solve(self._lower, off[None]))

    @cached_property
    def log_weights(self) -> Floats:
        """Log of prior times likelihood, shape ``(scales, shapes)``."""
        scales = np.array([one.log_weight for one in _SCALES])[:, None]
        root = np.log(np.diagonal(self._lower, axis1=1, axis2=2)).sum(1)
        inside = -0.5 * (self._residuals**2).sum(1) + (self._within - root)[:, None]
        constant = -0.5 * len(self._mean) * log(tau)
        if not len(self._mean):
            return np.asarray(LOG_PRIOR + scales + self._log_weight)
        return np.asarray(LOG_PRIOR + scales + self._log_weight + inside + constant)

    def paths(
        self, knots: Floats, scale: int, shapes: npt.NDArray[np.intp], normal: Floats
    ) -> Floats:
        """Draw log R at knots, one path for each of ``shapes``."""
        none = np.full(len(knots), -1, dtype=np.intp)
        places = _Places(knots, np.zeros(len(knots)), none)
        prior = self._changes(places, places)[scale]
        drawn = log_ratio(knots)[shapes]
        if len(self._mean):
            changes = self._changes(self._cells, places)[scale]
            across = np.linalg.solve(self._lower[scale], changes)
            drawn = drawn + self._residuals[scale][:, shapes].T @ across
            prior = prior - across.T @ across
        values, vectors = np.linalg.eigh(prior)
        # The symmetric root: signs of eigenvectors, which processors choose, do not matter.
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        return np.asarray(drawn + normal @ root)


def _grouped(samples: Sequence[Sample], by: str) -> list[list[Sample]]:
    if by == "all":
        return [[*samples]] if samples else []
    groups: defaultdict[object, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.problem or by == "asked":
            groups[sample.problem or sample.asked_range].append(sample)
    if by == "asked":
        return list(groups.values())
    by_memory: list[list[Sample]] = []
    unknown = (sample for sample in samples if not sample.problem)
    for sample in sorted(unknown, key=attrgetter("memory_bytes")):
        if not by_memory or sample.memory_bytes > by_memory[-1][0].memory_bytes * exp(_ALIKE):
            by_memory.append([])
        by_memory[-1].append(sample)
    return [*groups.values(), *by_memory]


def _centre(means: Floats) -> float:
    return float(means.mean()) if len(means) else 0.0


def _brownian(one: Floats, other: Floats) -> Floats:
    """Covariance of Brownian motion from zero to both sides, of variance 1 for a doubling."""
    alike = np.sign(one)[:, None] == np.sign(other)[None]
    return np.asarray(np.minimum(abs(one)[:, None], abs(other)[None]) * alike)
