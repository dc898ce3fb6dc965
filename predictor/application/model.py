"""Run time of one application over its problems and counts: one posterior, in closed form.

The log of a run time is a sum of parts::

    log T = level + sizes + problem + shape(count) + discrepancy(count) + noise

- *level*: what all runs have in common;
- *sizes*: the numbers that the job names (arguments, variables, tags), each with an exponent that
  is shrunk towards zero, which may bend, and which may turn with the count;
- *problem*: an offset of its own for each set of sizes, and one for each count asked for under the
  hypothesis that users ask for more nodes for larger problems;
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
from scipy.special import ndtr

from predictor.application.shapes import LOG_PRIOR, log_ratio
from predictor.checks import need_finite, need_nodes, need_positive, need_share

Floats = npt.NDArray[np.float64]

#: Standard deviation of log run time by which a curve leaves its shape, for one doubling.
ROUGHNESS = ((0.04, 0.5), (0.15, 0.35), (0.5, 0.15))
#: Standard deviation of log run time of repeats, before there are any.
NOISE = ((0.03, 0.4), (0.1, 0.35), (0.3, 0.25))
#: The same of one problem's offset from what its sizes say, and of how sizes bend and turn.
PROBLEM = ((0.02, 0.4), (0.1, 0.4), (0.4, 0.2))
BEND = ((0.03, 0.6), (0.15, 0.4))
#: Standard deviation of the level, and of an exponent of a size around zero.
_LEVEL, _EXPONENT = 3.0, 0.7
#: Share of a problem's variance by which its own curve differs, for one doubling.
_OWN_CURVE = 0.5
#: Last samples that are looked at.
RECENT = 200
#: How many samples the noise of repeats counts for before there are any.
_NOISE_SAMPLES = 2.0
#: Measured sizes within this ratio (log) are alike.
_ALIKE = 0.35
#: Equally likely paths of a change; doublings that they are given at, besides those of the runs.
PATHS, OCTAVES = 40, 6
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79)
#: Combinations lighter than this, as a share of the heaviest, say nothing.
_LIGHT = 1e-4


@dataclass(frozen=True, slots=True)
class Sample:
    """One finished run: what was asked for, what it had, and how long it took.

    ``asked``, ``nodes``: the count that it would have had without NIMO, and the one it had.
    ``sizes``: the numbers that its job names, the same ones in the same order for all samples.
    ``memory``: what was measured of the problem afterwards, as memory of all tasks; 0: unknown.
    ``group``: the range of counts that the user asked for.
    ``problem``: samples with the same text are known to have the same problem; empty: not known.

    Raises ValueError: a count is no whole number of 1 or more, the time or a size is not above
        zero, or the memory is below it.
    """

    asked: int
    nodes: int
    time_s: float
    sizes: tuple[float, ...] = ()
    memory: float = 0.0
    group: tuple[int, int] = (0, 0)
    problem: str = ""

    def __post_init__(self) -> None:
        need_nodes((self.asked, self.nodes))
        need_positive("run time in seconds", self.time_s, *self.sizes)
        need_finite("memory of a problem", self.memory, least=0)


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


#: One problem, apart from the sizes that are named.
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
    problem: float
    bend: float
    log_weight: float


def _scales(*, sized: bool) -> tuple[_Scales, ...]:
    problems = PROBLEM if sized else ((0.0, 1.0),)
    bends = BEND if sized else ((0.0, 1.0),)
    return tuple(
        _Scales(r[0], n[0], p[0], b[0], log(r[1] * n[1] * p[1] * b[1]))
        for r, n, p, b in product(ROUGHNESS, NOISE, problems, bends)
    )


_PLAIN, _SIZED = _scales(sized=False), _scales(sized=True)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Log run times as a weighted sum of normal distributions, one column for each target."""

    means: Floats  #: shape ``(components, targets)``
    deviations: Floats  #: of one new run, shape ``(components, targets)``
    curve: Floats  #: of the mean alone, shape ``(components, targets)``
    weights: Floats  #: shape ``(components,)``, their sum is 1

    def quantile(self, share: float) -> Floats:
        """Log run time that ``share`` of new runs stay below, by bisection."""
        low = (self.means - 8 * self.deviations).min(0)
        high = (self.means + 8 * self.deviations).max(0)
        for _ in range(40):
            middle = (low + high) / 2
            below = self.weights @ ndtr((middle - self.means) / self.deviations)
            low = np.where(below < share, middle, low)
            high = np.where(below < share, high, middle)
        return np.asarray((low + high) / 2)

    def curve_sd(self) -> Floats:
        """Give the standard deviation of the curve itself, without the noise of a run."""
        mean = self.weights @ self.means
        variance = self.weights @ (self.curve**2 + (self.means - mean) ** 2)
        return np.asarray(np.sqrt(variance))


class Application:
    """What the runs of one application say of any of its problems on any count.

    same: how likely it is, before run times are looked at, that samples are of one problem apart
        from the sizes that are named: .95 where arguments, sizes or measured memory say so, .7
        for a script without arguments, .5 where only a name is shared.

    Without any sample it says what is usual.

    Raises ValueError: samples have different numbers of sizes, or ``same`` is no share.
    """

    def __init__(self, samples: Sequence[Sample], *, same: float = 0.5) -> None:
        need_share("share of applications with one problem", same)
        if len({len(sample.sizes) for sample in samples}) > 1:
            raise ValueError("samples have different numbers of sizes")
        recent = sorted(samples[-RECENT:], key=_order)
        self.samples = tuple(recent)
        self.varying = _varying(recent)
        scales = _SIZED if self.varying else _PLAIN
        self._given = [
            _Given(recent, hypothesis, base, self.varying, scales, log(weight))
            for hypothesis, base, weight in _hypotheses(recent, same, sized=bool(self.varying))
        ]
        top = max(float(given.log_weights.max()) for given in self._given)
        raw = [np.exp(given.log_weights - top) for given in self._given]
        total = sum(float(weights.sum()) for weights in raw)
        #: One array of shape ``(scales, shapes)`` for each hypothesis; together they sum to 1.
        self._weights = [weights / total for weights in raw]

    @property
    def same(self) -> float:
        """How likely it is now that samples are of one problem apart from their sizes."""
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
            which, scale = divmod(int(place), len(self._given[0].scales))
            given = self._given[which]
            logs[mine] = given.paths(knots, scale, shapes[mine], normal[mine])
            reference[mine] = given.base
        return Paths(knots, logs, reference)

    def predict(self, counts: Sequence[int], sizes: Sequence[float] = ()) -> Mixture:
        """Log run times of jobs that ask for each of ``counts``.

        sizes: those of the job, in the order of the samples' sizes.
        """
        columns: list[tuple[Floats, Floats, Floats, Floats]] = []
        for given, weights in zip(self._given, self._weights, strict=True):
            columns += given.predict(counts, tuple(sizes), weights)
        return _mixture(columns)

    def law(self) -> "SizeLaw":
        """How run time goes by the sizes that vary, around their centre."""
        pieces = [
            piece
            for given, weights in zip(self._given, self._weights, strict=True)
            for piece in given.laws(weights)
        ]
        shares = np.array([piece.weight for piece in pieces])
        shares = shares / shares.sum()
        exponents = np.array([piece.exponents for piece in pieces])
        mean = shares @ exponents
        covariance = sum(
            share * (piece.covariance + np.outer(off, off))
            for share, piece, off in zip(shares, pieces, exponents - mean, strict=True)
        )
        turns = shares @ np.array([piece.turns for piece in pieces])
        curvature = np.tensordot(shares, np.array([piece.curvature for piece in pieces]), axes=1)
        return SizeLaw(pieces[0].centre, mean, turns, curvature, np.asarray(covariance))

    def left_out(self, *, by_problem: bool = False) -> "LeftOut":
        """Each cell as it would be predicted without it; or without all runs of its problem."""
        columns = []
        for given, weights in zip(self._given, self._weights, strict=True):
            columns += given.left_out(weights, by_problem=by_problem)
        given = self._given[0]
        return LeftOut(_mixture(columns), given.actual, given.runs)


def _mixture(columns: Sequence[tuple[Floats, Floats, Floats, Floats]]) -> Mixture:
    means, curve, deviations, weights = (
        np.concatenate([column[i] for column in columns]) for i in range(4)
    )
    return Mixture(means, deviations, curve, weights / weights.sum())


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


@dataclass(frozen=True, slots=True)
class SizeLaw:
    """Log run time over that at the centre, for logs ``z`` of the sizes at ``d`` doublings.

    It is ``exponents @ x + x @ curvature @ x + d * (turns @ x)`` with ``x = z - centre``, and its
    variance ``x @ covariance @ x``.
    """

    centre: Floats
    exponents: Floats
    turns: Floats
    curvature: Floats
    covariance: Floats
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What each cell was predicted as without it, beside what it was."""

    predicted: Mixture
    actual: Floats  #: mean log run time of each cell
    runs: Floats  #: how many each cell has


def _order(sample: Sample) -> tuple[object, ...]:
    return attrgetter("problem", "group", "sizes", "nodes", "time_s", "memory", "asked")(sample)


def _varying(samples: Sequence[Sample]) -> tuple[int, ...]:
    """Give the places of the sizes that differ."""
    places = range(len(samples[0].sizes) if samples else 0)
    return tuple(i for i in places if len({sample.sizes[i] for sample in samples}) > 1)


def _hypotheses(
    samples: Sequence[Sample], same: float, *, sized: bool
) -> Iterator[tuple[_Hypothesis, float, float]]:
    """Hypotheses with the count that shapes count from and their weight; 0: each group's own."""
    if not samples:
        yield _SAME, 0.0, 1.0
        return
    middle = exp(fmean(log(sample.asked) for sample in samples))
    others: list[_Hypothesis] = []
    if len({sample.problem or sample.group for sample in samples}) > 1:
        others += [_ASKED] if sized else [_ASKED, _ASKED_OWN, _WEAK]
    memory = [sample.memory for sample in samples]
    if min(memory) > 0 and log(max(memory) / min(memory)) > _ALIKE and not sized:
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
    sizes: Floats  #: logs, centred and scaled, shape ``(entries, sizes)``
    problem: npt.NDArray[np.intp]  #: -1: of none


class _Given:
    """Samples under one hypothesis; ``base`` is the count that shapes count from."""

    def __init__(
        self,
        samples: Sequence[Sample],
        hypothesis: _Hypothesis,
        base: float,
        varying: tuple[int, ...],
        scales: Sequence[_Scales],
        log_weight: float,
    ) -> None:
        self.hypothesis, self.base = hypothesis, base
        self._varying, self.scales, self._log_weight = varying, scales, log_weight
        groups = _grouped(samples, hypothesis.by)
        self._log_own = np.array(
            [fmean(log(sample.asked) for sample in members) for members in groups]
        )
        self._own_groups = {m.group: i for i, members in enumerate(groups) for m in members}
        logs = np.log([[s.sizes[i] for i in varying] for s in samples])
        self._centre = logs.mean(0) if varying else np.zeros(0)
        self._spread = np.maximum(logs.std(0), 1e-9) if varying else np.zeros(0)
        self._problems: dict[tuple[float, ...], int] = {}
        cells: defaultdict[tuple[int, int, tuple[float, ...]], list[float]] = defaultdict(list)
        for number, members in enumerate(groups):
            for sample in members:
                key = tuple(sample.sizes[i] for i in varying)
                cells[number, sample.nodes, key].append(log(sample.time_s))
        for _, _, key in cells:
            self._problems.setdefault(key, len(self._problems))
        self._cells = self._places(
            [n for _, n, _ in cells], [g for g, _, _ in cells], [key for _, _, key in cells]
        )
        self.actual = self._mean = np.array([fmean(times) for times in cells.values()])
        self.runs = self._runs = np.array([len(times) for times in cells.values()], dtype=float)
        squares = sum(float(np.var(times)) * len(times) for times in cells.values())
        spare = sum(len(times) - 1 for times in cells.values())
        noise2 = np.array([one.noise**2 for one in scales])
        self._noise2 = (squares + _NOISE_SAMPLES * noise2) / (spare + _NOISE_SAMPLES)
        self._within = -0.5 * (spare * np.log(tau * self._noise2) + squares / self._noise2)
        self._within -= 0.5 * float(np.log(self._runs).sum())

    def _places(
        self, nodes: Sequence[int], groups: Sequence[int], keys: Sequence[tuple[float, ...]]
    ) -> _Places:
        mean_own = float(self._log_own.mean()) if len(self._log_own) else 0.0
        counts = np.array(nodes, dtype=float)
        group = np.array(groups, dtype=np.intp)
        own = np.log(counts)
        own[group >= 0] = self._log_own[group[group >= 0]]
        base = np.full(len(counts), self.base) if self.base else np.exp(own)
        logs = np.log(np.array(keys, dtype=float)).reshape(len(counts), len(self._varying))
        return _Places(
            doublings=np.log2(counts / base),
            log_own=own - mean_own,
            group=group,
            sizes=(logs - self._centre),
            problem=np.array([self._problems.get(key, -1) for key in keys], dtype=np.intp),
        )

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
        if not self._varying:
            return np.asarray(covariance)
        linear = (one.sizes / self._spread) @ (other.sizes / self._spread).T
        covariance = covariance + _EXPONENT**2 * (one.sizes @ other.sizes.T)[None]
        covariance = covariance + self._scale("bend") * (linear**2)[None]
        return np.asarray(covariance + self._scale("problem") * _alike(one, other)[None])

    def _changes(self, one: _Places, other: _Places) -> Floats:
        """Give the part of a covariance that is about the count: zero on the reference count."""
        motion = _brownian(one.doublings, other.doublings)
        covariance = self._scale("rough") * motion[None]
        if not self._varying:
            return np.asarray(covariance)
        linear = (one.sizes / self._spread) @ (other.sizes / self._spread).T
        turned = linear * np.multiply.outer(one.doublings, other.doublings)
        covariance = covariance + self._scale("bend") * turned[None]
        own = _OWN_CURVE * _alike(one, other) * motion
        return np.asarray(covariance + self._scale("problem") * own[None])

    def _scale(self, name: str) -> Floats:
        """Variances of one part, shape ``(scales, 1, 1)``."""
        return np.array([getattr(one, name) ** 2 for one in self.scales])[:, None, None]

    def _variance(self, places: _Places) -> Floats:
        """Prior variances, shape ``(scales, places)``; a problem of its own included."""
        rows = []
        for i in range(len(places.doublings)):
            single = _Places(
                places.doublings[i : i + 1],
                places.log_own[i : i + 1],
                np.zeros(1, dtype=np.intp),
                places.sizes[i : i + 1],
                np.zeros(1, dtype=np.intp),
            )
            rows.append(self._covariance(single, single)[:, 0, 0])
        return np.stack(rows, axis=1)

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
        scales = np.array([one.log_weight for one in self.scales])[:, None]
        root = np.log(np.diagonal(self._lower, axis1=1, axis2=2)).sum(1)
        inside = -0.5 * (self._residuals**2).sum(1) + (self._within - root)[:, None]
        constant = -0.5 * len(self._mean) * log(tau)
        if not len(self._mean):
            return np.asarray(LOG_PRIOR + scales + self._log_weight)
        return np.asarray(LOG_PRIOR + scales + self._log_weight + inside + constant)

    def predict(
        self, counts: Sequence[int], sizes: tuple[float, ...], weights: Floats
    ) -> list[tuple[Floats, Floats, Floats, Floats]]:
        """Means, deviations of the curve and of runs, and weights; an item for each scale."""
        key = tuple(sizes[i] for i in self._varying)
        groups = [self._own_groups.get((n, n), -1) for n in counts]
        targets = self._places(counts, groups, [key] * len(counts))
        trend = _centre(self._mean) + self.hypothesis.trend * targets.log_own
        shapes = log_ratio(targets.doublings)
        heaviest = float(weights.max())
        answers = []
        chosen = [i for i in range(len(self.scales)) if weights[i].max() > _LIGHT * heaviest]
        across = np.linalg.solve(self._lower, self._covariance(self._cells, targets))
        prior = self._variance(targets)
        for i in chosen:
            kept = weights[i] > _LIGHT * heaviest
            mean = trend + shapes[kept] + self._residuals[i][:, kept].T @ across[i]
            variance = np.maximum(prior[i] - (across[i] ** 2).sum(0), 1e-10)
            curve = np.broadcast_to(np.sqrt(variance), mean.shape)
            run = np.broadcast_to(np.sqrt(variance + self._noise2[i]), mean.shape)
            answers.append((mean, curve, run, weights[i][kept]))
        return answers

    def paths(
        self, knots: Floats, scale: int, shapes: npt.NDArray[np.intp], normal: Floats
    ) -> Floats:
        """Draw log R at knots for the sizes in the middle, one path for each of ``shapes``."""
        none = np.full(len(knots), -1, dtype=np.intp)
        sizes = np.zeros((len(knots), len(self._varying)))
        places = _Places(knots, np.zeros(len(knots)), none, sizes, none)
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

    def laws(self, weights: Floats) -> Iterator[SizeLaw]:
        """Posterior means of what sizes do, one for each scale that counts."""
        sizes, scaled = self._cells.sizes, self._cells.sizes / self._spread
        pairs = scaled[:, :, None] * scaled[:, None, :]
        for i, scales in enumerate(self.scales):
            share = float(weights[i].sum())
            if share < _LIGHT:
                continue
            residual = self._residuals[i] @ (weights[i] / share)
            solved = np.linalg.solve(self._lower[i].T, residual)
            across = np.linalg.solve(self._lower[i], _EXPONENT**2 * sizes)
            covariance = _EXPONENT**2 * np.eye(sizes.shape[1]) - across.T @ across
            bend = scales.bend**2
            yield SizeLaw(
                centre=self._centre,
                exponents=_EXPONENT**2 * (solved @ sizes),
                turns=bend * (solved * self._cells.doublings) @ scaled / self._spread,
                curvature=bend
                * np.tensordot(solved, pairs, axes=1)
                / np.outer(self._spread, self._spread),
                covariance=covariance,
                weight=share,
            )

    def left_out(
        self, weights: Floats, *, by_problem: bool
    ) -> list[tuple[Floats, Floats, Floats, Floats]]:
        """Means and deviations of each cell without it (Rasmussen and Williams, 5.4.2)."""
        problem = self._cells.problem if by_problem else np.arange(len(self._mean))
        blocks = [np.flatnonzero(problem == number) for number in np.unique(problem)]
        heaviest = float(weights.max())
        answers = []
        for i in range(len(self.scales)):
            kept = weights[i] > _LIGHT * heaviest
            if not kept.any():
                continue
            root = np.linalg.inv(self._lower[i])
            inverse = root.T @ root
            solved = root.T @ self._residuals[i][:, kept]
            off = np.empty_like(solved)
            variance = np.empty(len(self._mean))
            for block in blocks:
                own = np.linalg.inv(inverse[np.ix_(block, block)])
                off[block] = own @ solved[block]
                variance[block] = np.diag(own)
            mean = self._mean - off.T
            # The variance holds the noise of the cell's mean; one new run has more.
            curve2 = np.maximum(variance - self._noise2[i] / self._runs, 1e-10)
            curve = np.broadcast_to(np.sqrt(curve2), mean.shape)
            run = np.broadcast_to(np.sqrt(curve2 + self._noise2[i]), mean.shape)
            answers.append((mean, curve, run, weights[i][kept]))
        return answers


def _grouped(samples: Sequence[Sample], by: str) -> list[list[Sample]]:
    if by == "all":
        return [[*samples]] if samples else []
    groups: defaultdict[object, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.problem or by == "asked":
            groups[sample.problem or sample.group].append(sample)
    if by == "asked":
        return list(groups.values())
    by_memory: list[list[Sample]] = []
    unknown = (sample for sample in samples if not sample.problem)
    for sample in sorted(unknown, key=attrgetter("memory")):
        if not by_memory or sample.memory > by_memory[-1][0].memory * exp(_ALIKE):
            by_memory.append([])
        by_memory[-1].append(sample)
    return [*groups.values(), *by_memory]


def _centre(means: Floats) -> float:
    return float(means.mean()) if len(means) else 0.0


def _alike(one: _Places, other: _Places) -> npt.NDArray[np.bool_]:
    """Whether places are of one problem."""
    return np.asarray((one.problem[:, None] == other.problem[None]) & (one.problem[:, None] >= 0))


def _brownian(one: Floats, other: Floats) -> Floats:
    """Covariance of Brownian motion from zero to both sides, of variance 1 for a doubling."""
    alike = np.sign(one)[:, None] == np.sign(other)[None]
    return np.asarray(np.minimum(abs(one)[:, None], abs(other)[None]) * alike)
