"""Average over many shapes of scaling, each as credible as the observations make it.

Log run time is a shape of :mod:`predictor.models.averaged.shapes`, unknown in its parameters and
its scale, plus what no shape explains, plus noise::

    log T(n) = scale + shape(n / n_first) + residual(log n) + noise

Three or four observations never determine the parameters, hence nothing is fitted: shapes drawn
from a prior, sizes of residual and noise from short lists, are weighted by the likelihood of the
observations (Bayesian model averaging: Hoeting et al., Statistical Science 14, 1999; a Gaussian
process about a regression: O'Hagan, JRSS B 40, 1978).  Beyond the observed range some applications
begin to behave otherwise than anything they have shown (memory, switches, load balance): a share of
the draws walks away at random there.

A run that was stopped by its limit gives only a lower bound: each draw gets a run time for it, out
of what it expects above the limit (Tanner and Wong, JASA 82, 1987), and follows that one.

The residual is a Gaussian process on log run time over log nodes, of unknown scale.  It has
covariance tau² exp(-|log n - log n'| / reach): an Ornstein-Uhlenbeck process, the roughest of the
Matérn family, which passes through the observations without swinging between them as smoother ones
do.  A constant of unknown size (the scale of the run time) is integrated out under a flat prior.
Source: Rasmussen and Williams, *Gaussian Processes for Machine Learning*, equations 2.41 to 2.45.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from predictor.checks import LARGEST, need_nodes, need_positive, need_share
from predictor.models.averaged import shapes
from predictor.models.averaged.shapes import ShapePrior, Shapes
from predictor.models.base import need, register
from predictor.problems import Problem
from predictor.types import Curve, Point, Prediction

Floats = NDArray[np.float64]
DRAWS = 1024
#: Share of runs that were stopped by their limit because they hung, whatever the node count.
HUNG = 0.002
#: Shapes whose likelihood is lower than the best one's by so many powers of e are never drawn.
NEGLIGIBLE = 25.0
#: Ratios of node counts whose shapes are held: 32 KiB each.
_RATIOS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """Residual processes given the places of the observations, not yet their values.

    The first axis of all arrays but ``places`` runs over the processes.
    """

    places: Floats  #: log nodes of the observations
    reach: float  #: distance in log nodes over which correlation falls to 1/e
    tau: Floats  #: standard deviation of the process, log time
    noise: Floats  #: standard deviation of one new run, log time
    precision: Floats  #: inverse covariance of the observations
    log_volume: Floats  #: log determinant of the covariance, with that of the scale

    def evidence(self, left: Floats) -> Floats:
        """Log likelihood of observations less a shape, up to a constant.

        left: one row for each shape, one column for each observation.
        Returns Floats: one row for each process, one column for each shape.
        """
        ones = self.precision.sum(axis=2)
        outer = ones[:, :, None] * ones[:, None, :] / ones.sum(axis=1)[:, None, None]
        # The misfit is a sum of squares: one product with the roots of all processes.
        size, root = np.linalg.eigh(self.precision - outer)
        root = root * np.sqrt(np.maximum(size, 0.0))[:, None, :]
        parts, count = ones.shape
        white = root.transpose(0, 2, 1).reshape(parts * count, count) @ left.T
        white *= white
        misfit = white.reshape(parts, count, -1).sum(axis=1)
        values: Floats = -0.5 * (misfit + self.log_volume[:, None])
        return values

    def gain(self, targets: Floats) -> Floats:
        """Weights of the observations in scale plus residual at ``targets`` (log nodes).

        One matrix for each process: a row for each target, a column for each observation.
        """
        ones = self.precision.sum(axis=2)
        pull = self._pull(targets)
        missing = 1.0 - pull.sum(axis=2)
        weights: Floats = pull + missing[:, :, None] * (ones / ones.sum(axis=1)[:, None])[:, None]
        return weights

    def covariance(self, one: Floats, other: Floats) -> Floats:
        """Covariance of scale plus residual between places (log nodes), without noise.

        The shapes of ``one`` and ``other`` broadcast, behind the axis of the processes.
        """
        first, second = np.broadcast_arrays(one, other)
        a = first.ravel()
        b = second.ravel()
        scale = self.precision.sum(axis=(1, 2))
        pull = self._pull(a)
        near = self._near(b[:, None], self.places)
        left_out = self._near(a, b) - (pull * near).sum(axis=2)
        missing = (1.0 - pull.sum(axis=2)) * (1.0 - self._pull(b).sum(axis=2))
        values = self.tau[:, None] ** 2 * left_out + missing / scale[:, None]
        return np.asarray(values.reshape(-1, *first.shape))

    def _pull(self, targets: Floats) -> Floats:
        near = self._near(targets[:, None], self.places)
        return np.asarray(self.tau[:, None, None] ** 2 * (near @ self.precision))

    def _near(self, one: Floats, other: Floats) -> Floats:
        return np.asarray(np.exp(-np.abs(one - other) / self.reach))


def residuals(
    places: Floats, variances: Floats, *, tau: Floats, noise: Floats, reach: float
) -> Residuals:
    """Prepare residual processes for observations at ``places``.

    variances: those of the observations: one row for each process.
    tau, noise: standard deviations of log time, one for each process.
    Raises ValueError: a number is not finite, the reach not above zero, or a row of variances is
        missing.
    """
    need_positive("reach", reach)
    if variances.shape != (len(tau), len(places)):
        raise ValueError(f"variances of shape {variances.shape}: a row for each process is needed")
    if not all((np.abs(one) <= LARGEST).all() for one in (places, variances, tau, noise)):
        raise ValueError("places, variances and deviations of processes: all must be finite")
    near = np.exp(-np.abs(places[:, None] - places) / reach)
    own = variances[:, :, None] * np.eye(len(places))
    covariance = tau[:, None, None] ** 2 * near + own
    precision: Floats = np.linalg.inv(covariance).astype(float)
    volume: Floats = np.linalg.slogdet(covariance)[1].astype(float) + np.log(
        precision.sum(axis=(1, 2))
    )
    return Residuals(places, reach, tau, noise, precision, volume)


@dataclass(frozen=True, slots=True)
class AveragedSettings:
    """Prior of the parts; standard deviations of log time.

    ``wiggles`` and ``reach`` are those of the residual, ``noises`` those of single runs.  ``turn``
    is the share of applications that change beyond the observed range, and ``stray`` how far: the
    standard deviation after a factor of e in nodes.  ``between`` widens intervals between observed
    counts: what those of 21 families of applications needed to hold nine in ten, each family
    weighing the same (1.09 to 1.26 with one of them left out; beyond the range they need nothing).
    """

    prior: ShapePrior = field(default_factory=ShapePrior)
    wiggles: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3)
    reach: float = 2.0
    noises: tuple[float, ...] = (0.003, 0.01, 0.03)
    turn: float = 0.3
    stray: float = 0.3
    between: float = 1.16


@dataclass(frozen=True, slots=True)
class AveragedFit:
    """What the observations leave of the prior, as draws, from which all predictions follow."""

    curve: Curve
    settings: AveragedSettings
    posterior: "_Posterior" = field(repr=False, compare=False)  #: follows from the other two
    problems: tuple[Problem, ...] = ()
    model: str = "averaged"

    def predict(self, nodes: Sequence[int], level: float = 0.9) -> list[Prediction]:
        """See :class:`predictor.models.base.FittedModel`."""
        need_nodes(nodes)
        need_share("level", level)
        shares = (0.5 - level / 2, 0.5 + level / 2)
        median, low, high = np.exp(self._of_one_run(nodes, shares))
        deviation = _drawn(self.posterior, tuple(nodes)).deviation()
        rows = zip(nodes, median, low, high, deviation, strict=True)
        return [
            Prediction(int(n), float(t), float(low), float(high), level, float(sd))
            for n, t, low, high, sd in rows
        ]

    def quantiles(self, nodes: Sequence[int], shares: Sequence[float]) -> Floats:
        """Run times in seconds that these shares of new runs stay below: a row for each share."""
        need_nodes(nodes)
        need_share("share", *shares)
        return np.asarray(np.exp(self._of_one_run(nodes, shares)[1:]))

    def _of_one_run(self, nodes: Sequence[int], shares: Sequence[float]) -> Floats:
        """Log run time of one run: its median, then its quantiles; a row for each."""
        logs = _quantiles(_one_run(self.posterior, tuple(nodes)), (0.5, *shares))
        observed = [p.nodes for p in self.curve.points]
        between = [observed[0] < n < observed[-1] and n not in observed for n in nodes]
        factor = np.where(between, self.settings.between, 1.0)
        return np.asarray(logs[0] + factor * (logs - logs[0]))

    def most_informative(self, candidates: Sequence[int], targets: Sequence[int]) -> int:
        """Which of ``candidates`` to observe next: most is learned there about ``targets``.

        The variance of log time at the targets that one run is expected to take away, in all: were
        everything normal, that is the sum of cov(target, candidate)² / var(run at candidate).
        """
        need_nodes(candidates)
        need_nodes(targets)
        places = np.array([*candidates, *targets], dtype=float)
        own, rest = np.split(
            self.posterior.covariance(places, places[: len(candidates)]), [len(candidates)]
        )
        gained = (rest**2).sum(axis=0) / (np.diag(own) + self.posterior.noise.mean() ** 2)
        return int(candidates[int(gained.argmax())])


@register("averaged")
@dataclass(frozen=True, slots=True)
class Averaged:
    """Bayesian average over shapes of scaling; needs two node counts, is made for three or more."""

    min_points: int = 2
    settings: AveragedSettings = field(default_factory=AveragedSettings)

    def fit(self, curve: Curve) -> AveragedFit:
        """See :class:`predictor.models.base.Model`."""
        need(curve, self.min_points)
        return AveragedFit(curve, self.settings, _posterior(curve, self.settings))


@dataclass(frozen=True, slots=True, eq=False)
class _Draws:
    """A sample of what may be true, one draw a column and one node count a row; log seconds."""

    mean: Floats
    variance: Floats  #: of the curve
    noise: Floats  #: standard deviation of one run, for each draw
    unit: Floats  #: standard normal number of each draw

    def one_run(self) -> Floats:
        """Log run time of one new run: each row in rising order."""
        spread = np.sqrt(self.variance + self.noise**2)
        return np.sort(self.mean + spread * self.unit, axis=1)

    def deviation(self) -> Floats:
        """Half-width of the central 68 %: a standard deviation that long tails do not blow up."""
        logs = self.mean + np.sqrt(self.variance) * self.unit
        shares = (ndtr(-1.0), ndtr(1.0))
        below, _ = _places(shares, logs.shape[1])
        # Only these need to be where they were if all were sorted, which takes three times as long.
        ordered = np.partition(logs, np.append(below, below + 1), axis=1)
        low, high = _quantiles(ordered, shares)
        return np.asarray((high - low) / 2)

    def at_least(self, bound: float, row: int, covariance: Floats, share: Floats) -> "_Draws":
        """Take part in that a run at the node count of ``row`` took longer than ``bound``.

        bound: log seconds.
        covariance: of the curve at each node count with that at ``row``.
        share: one even number between 0 and 1 for each draw.
        """
        sd = np.sqrt(self.variance[row] + self.noise**2)
        longer = ndtr((self.mean[row] - bound) / sd)
        # A run that hung says nothing: its draw takes any time that it expected before.
        hung = HUNG / (HUNG + (1 - HUNG) * longer)
        idle = share < hung
        part = np.where(idle, share / hung, (share - hung) / np.maximum(1 - hung, 1e-12))
        off = -ndtri(np.clip((1 - part) * np.where(idle, 1.0, longer), 1e-300, 1 - 1e-12))
        step = covariance / sd
        left = np.maximum(self.variance - step**2, 0.0)
        return _Draws(self.mean + step * off, left, self.noise, self.unit)


@dataclass(frozen=True, slots=True, eq=False)
class _Posterior:
    """Draws of shape, residual and noise, by the likelihood of the observations."""

    curve: Curve
    settings: AveragedSettings
    nodes: Floats
    parts: Residuals
    part_of: NDArray[np.intp]  #: rising
    shapes: Shapes  #: those that were drawn, each once
    shape_of: NDArray[np.intp]
    left: Floats  #: observations less shape: a row for each draw
    unit: Floats
    turned: NDArray[np.bool_]  #: begins to behave otherwise beyond the observed range
    shares: Floats  #: a row for each bound

    @property
    def noise(self) -> Floats:
        """Standard deviation of one run, for each draw."""
        return np.asarray(self.parts.noise[self.part_of])

    def draws(self, targets: Floats) -> _Draws:
        """Draws at ``targets`` (numbers of nodes)."""
        bounds = self.curve.censored
        places = np.append(targets, [float(p.nodes) for p in bounds])
        variance = self.parts.covariance(np.log(places), np.log(places))[self.part_of].T
        variance = variance + self._walk(places, places)[:, None] * self.turned
        drawn = _Draws(self._mean(places), variance, self.noise, ndtri(self.unit))
        for i, (bound, share) in enumerate(zip(bounds, self.shares, strict=True)):
            row = len(targets) + i
            together = self._together(places, places[row])
            drawn = drawn.at_least(math.log(bound.time_s), row, together, share)
        count = len(targets)
        return _Draws(drawn.mean[:count], drawn.variance[:count], drawn.noise, drawn.unit)

    def covariance(self, places: Floats, others: Floats) -> Floats:
        """Covariance of the curve between numbers of nodes, over all draws."""
        mean = self._mean(places)
        other = self._mean(others)
        between = (mean - mean.mean(axis=1, keepdims=True)) @ other.T / DRAWS
        within = self.parts.covariance(np.log(places)[:, None], np.log(others)[None, :])
        share = np.bincount(self.part_of, minlength=len(within)) / DRAWS
        walk = self.settings.turn * self._walk(places[:, None], others[None, :])
        return np.asarray(between + np.tensordot(share, within, axes=1) + walk)

    def _mean(self, targets: Floats) -> Floats:
        """Compute the expected log time: targets by draws."""
        gain = self.parts.gain(np.log(targets))
        mean: Floats = shapes.log_time(self.shapes, targets / self.nodes[0]).T[:, self.shape_of]
        ends = np.searchsorted(self.part_of, np.arange(len(gain) + 1))
        for weights, first, last in zip(gain, ends, ends[1:], strict=False):
            mean[:, first:last] += weights @ self.left[first:last].T
        return mean

    def _together(self, places: Floats, bound: float) -> Floats:
        """Covariance of each draw's curve at ``places`` with that at ``bound``."""
        residual = self.parts.covariance(np.log(places), np.log(bound))[self.part_of].T
        return np.asarray(residual + self._walk(places, np.array(bound))[:, None] * self.turned)

    def _walk(self, one: Floats, other: Floats) -> Floats:
        """Covariance of the random walks beyond the observed range, one on either side of it."""
        first = self.nodes[0]
        last = self.nodes[-1]
        up = np.log(np.maximum(np.minimum(one, other) / last, 1.0))
        down = np.log(np.maximum(first / np.maximum(one, other), 1.0))
        return np.asarray(self.settings.stray**2 * (up + down))


def _posterior(curve: Curve, settings: AveragedSettings) -> _Posterior:
    """Weigh all shapes with all residuals and noises, and draw."""
    every = shapes.draw(settings.prior)
    nodes = np.array([float(p.nodes) for p in curve.points])
    times = np.log([p.time_s for p in curve.points])
    prior = settings.prior
    ratios = (nodes / nodes[0]).tolist()
    left = times - np.column_stack([_log_times(prior, ratio) for ratio in ratios])
    parts = _residuals(curve, settings)
    # Log likelihood of the spreads among repeats under each ``noise``: chi-squared.
    total = np.zeros(len(parts.noise))
    for point in curve.points:
        if point.repeats > 1:
            sd = np.hypot(parts.noise, curve.resolution_s / point.time_s / math.sqrt(6))
            total -= (point.repeats - 1) * (np.log(sd) + 0.5 * (point.spread / sd) ** 2)
    logs = parts.evidence(left) + total[:, None]
    for bound in curve.censored:
        logs += _survival(bound, parts, left, _log_times(prior, float(bound.nodes / nodes[0])))
    part_of, shape_of = np.divmod(_resample(logs.ravel()), len(left))
    used, place = np.unique(shape_of, return_inverse=True)
    unit, turn, *shares = shapes.spread_evenly(DRAWS, 2 + len(curve.censored))
    return _Posterior(
        curve=curve,
        settings=settings,
        nodes=nodes,
        parts=parts,
        part_of=part_of,
        shapes=shapes.take(every, used),
        shape_of=place,
        left=left[shape_of],
        unit=unit,
        turned=turn < settings.turn,
        shares=np.array(shares),
    )


@lru_cache(maxsize=_RATIOS)
def _log_times(prior: ShapePrior, ratio: float) -> Floats:
    """Log of T(ratio)/T(1) of all shapes: most curves have the same ratios of node counts."""
    logs = shapes.log_time(shapes.draw(prior), np.array([ratio]))[:, 0]
    logs.flags.writeable = False
    return logs


@lru_cache(maxsize=1)
def _drawn(posterior: _Posterior, nodes: tuple[int, ...]) -> _Draws:
    """Give the draws of a posterior: one table asks for several figures of them."""
    return posterior.draws(np.array(nodes, dtype=float))


@lru_cache(maxsize=1)
def _one_run(posterior: _Posterior, nodes: tuple[int, ...]) -> Floats:
    return _drawn(posterior, nodes).one_run()


def _residuals(curve: Curve, settings: AveragedSettings) -> Residuals:
    """Pair each residual with each noise; noise beyond the list only where repeats show it."""
    repeats = np.array([float(p.repeats) for p in curve.points])
    times = np.array([p.time_s for p in curve.points])
    # The difference of two readings cut to a whole unit has the variance 1/6.
    clock = (curve.resolution_s / times) ** 2 / 6
    freedom = max(sum(p.repeats - 1 for p in curve.points), 1)
    pooled = math.sqrt(sum((p.repeats - 1) * p.spread**2 for p in curve.points) / freedom)
    noises = (*settings.noises, pooled) if pooled > max(settings.noises) else settings.noises
    tau, noise = np.array(list(product(settings.wiggles, noises))).T
    places = np.log([float(p.nodes) for p in curve.points])
    variances = (noise[:, None] ** 2 + clock) / repeats
    return residuals(places, variances, tau=tau, noise=noise, reach=settings.reach)


def _survival(bound: Point, parts: Residuals, left: Floats, ahead: Floats) -> Floats:
    """Log probability that a run stopped by its limit would have taken longer."""
    place = np.log([float(bound.nodes)])
    mean = (parts.gain(place) @ left.T)[:, 0] + ahead
    sd = np.sqrt(parts.covariance(place, place) + parts.noise[:, None] ** 2)
    longer = ndtr((mean - math.log(bound.time_s)) / sd)
    return np.asarray(np.log(HUNG + (1.0 - HUNG) * longer))


def _resample(logs: Floats) -> NDArray[np.intp]:
    """Rising indices, each as often as its weight says (systematic resampling)."""
    top = logs.max()
    credible = np.flatnonzero(logs > top - NEGLIGIBLE)
    total = np.cumsum(np.exp(logs[credible] - top))
    drawn = np.searchsorted(total, (np.arange(DRAWS) + 0.5) / DRAWS * total[-1])
    return np.asarray(credible[drawn])


def _places(shares: Sequence[float], count: int) -> tuple[NDArray[np.intp], Floats]:
    """Places of quantiles among so many in rising order: below, and how far to the next one."""
    places = np.clip(np.asarray(shares) * count - 0.5, 0, count - 1)
    below = np.minimum(places.astype(int), count - 2)
    return below, places - below


def _quantiles(ordered: Floats, shares: Sequence[float]) -> Floats:
    """Quantiles of rows in rising order, one row for each of ``shares``."""
    below, part = _places(shares, ordered.shape[1])
    values: Floats = (ordered[:, below] * (1 - part) + ordered[:, below + 1] * part).T
    return values
