"""Run time over two sizes that vary together, such as nodes, and tasks or GPUs on each of them.

Log time is a curve of one size plus a line in the log of the other::

    log T(n, k) = f(log n) + b log k        or        log T(n, k) = f(log n·k) + b log k

In the first form nodes scale as they do whatever they hold.  In the second the number of all tasks
counts, and ``b`` says what sharing a node costs.  Where ``n`` counts the CPUs or GPUs of the whole
job and ``k`` is how they are laid out (tasks, nodes), it is the first form, and ``b`` is what that
layout costs.  Forms are fitted with a parabola for ``f`` and a normal prior of ``b`` (Gelman et
al., *Bayesian Data Analysis*, 3rd edition, section 14.8).  The one with the least Akaike
information criterion moves the runs of other second sizes to the one that is asked for.  What it
leaves is a curve over one size, for any model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from predictor.checks import comparable, need_share
from predictor.models.base import FittedModel, create, need, quantiles, register
from predictor.problems import Problem
from predictor.types import Curve, Point, Prediction

Floats = NDArray[np.float64]
#: Terms of the parabola, and the spread of log run time that observations have at least.
_TERMS, _NOISE = 3, 0.03
#: Mean and standard deviation of ``b``: where nodes count, more on each of them make it faster.
_OF_NODES, _OF_ALL = (-0.6, 0.5), (0.0, 0.3)


@dataclass(frozen=True, slots=True)
class Translation:
    """How runs of one second size become those of another."""

    all_count: bool  #: the product of both sizes is what the curve is over
    slope: float  #: ``b``
    slope_sd: float
    noise: float = 0.0  #: standard deviation of log time that neither size explains

    def curve(self, curve: Curve) -> Curve:
        """Curve of the second size that is asked for: own runs, and others' where it has none."""
        points = {point.nodes: point for point in curve.points}
        nearest = sorted(curve.others, key=lambda o: (abs(log(o.each / curve.each)), o.each))
        for other in nearest:
            for point in other.points:
                nodes = self._nodes(point.nodes, other.each, curve.each)
                if nodes:
                    time_s = point.time_s * exp(self.slope * log(curve.each / other.each))
                    points.setdefault(nodes, Point(nodes, time_s))
        merged = tuple(points[nodes] for nodes in sorted(points))
        return replace(curve, points=merged, others=())

    def deviation(self, curve: Curve, nodes: int) -> float:
        """Give the standard deviation of log time that the slope leaves; 0: it was not needed."""
        own = [point.nodes for point in curve.points]
        if not curve.others or (own and own[0] <= nodes <= own[-1]):
            return 0.0
        # Runs of its own, if any, fix the level: what is left grows with the distance from them.
        far = max(abs(log(one.each / curve.each)) for one in curve.others)
        return hypot(self.slope_sd * far, self.noise)

    def _nodes(self, nodes: int, each: int, asked: int) -> int:
        """Nodes with as many in all; 0 where that is no whole number."""
        if not self.all_count:
            return nodes
        return nodes * each // asked if nodes * each % asked == 0 else 0


@dataclass(frozen=True, slots=True)
class TwoSizesFit:
    """A fit to the runs of all second sizes, translated to one of them."""

    own: Curve
    fit: FittedModel
    translation: Translation
    model: str = "two_sizes"

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What the model of one size holds against its predictions."""
        return self.fit.problems

    def predict(self, nodes: Sequence[int], level: float = 0.9) -> list[Prediction]:
        """See :class:`predictor.models.base.FittedModel`."""
        need_share("level", level)
        reach = NormalDist().inv_cdf(0.5 + level / 2)
        return [self._widened(one, reach) for one in self.fit.predict(nodes, level)]

    def quantiles(self, nodes: Sequence[int], shares: Sequence[float]) -> Floats:
        """Run times in seconds that these shares of new runs stay below: a row for each share."""
        rows = quantiles(self.fit, nodes, shares)
        medians = [one.time_s for one in self.fit.predict(nodes)]
        added = [self.translation.deviation(self.own, n) for n in nodes]
        reaches = [NormalDist().inv_cdf(share) for share in shares]
        return np.array(
            [
                [_beyond(*one, reach) for one in zip(medians, row, added, strict=True)]
                for row, reach in zip(rows.tolist(), reaches, strict=True)
            ]
        )

    def _widened(self, one: Prediction, reach: float) -> Prediction:
        added = self.translation.deviation(self.own, one.nodes)
        return replace(
            one,
            low_s=_beyond(one.time_s, one.low_s, added, reach),
            high_s=_beyond(one.time_s, one.high_s, added, reach),
            curve_sd=hypot(one.curve_sd, added),
        )


def _beyond(middle_s: float, end_s: float, added: float, reach: float) -> float:
    """End of an interval, where log time has a further standard deviation."""
    if added == 0.0:
        return end_s
    far = hypot(log(end_s / middle_s), reach * added)
    return middle_s * exp(far if end_s >= middle_s else -far)


@register("two_sizes")
@dataclass(frozen=True, slots=True)
class TwoSizes:
    """Model of two sizes; ``inner`` is the registered one of the curve that they leave."""

    min_points: int = 2
    inner: str = "averaged"

    def fit(self, curve: Curve) -> TwoSizesFit:
        """See :class:`predictor.models.base.Model`; a curve without others is one of one size."""
        translation = translation_of(curve)
        merged = translation.curve(curve)
        need(merged, self.min_points)
        return TwoSizesFit(curve, create(self.inner).fit(merged), translation)


def translation_of(curve: Curve) -> Translation:
    """Fit the forms to all observations, and give the better one."""
    every = [one for one in (curve, *curve.others) if one.points]
    if len(every) < 2:
        return Translation(all_count=False, slope=0.0, slope_sd=0.0)
    rows = [(p.nodes, one.each, log(p.time_s)) for one in every for p in one.points]
    if curve.in_all:
        return _fitted(rows, all_count=False, prior=_OF_ALL)[1]
    ways = ((True, _OF_ALL), (False, _OF_NODES))
    fits = [_fitted(rows, all_count=all_count, prior=prior) for all_count, prior in ways]
    return min(fits, key=lambda one: comparable(one[0]))[1]


def _fitted(
    rows: Sequence[tuple[int, int, float]], *, all_count: bool, prior: tuple[float, float]
) -> tuple[float, Translation]:
    """Regress log time on a parabola in one size and a line in the other; criterion first."""
    nodes, each, logs = np.array(rows, dtype=float).T
    size = np.log(nodes * each if all_count else nodes)
    mean, sd = prior
    terms = min(len(np.unique(size)), _TERMS)
    columns = np.column_stack([np.vander(size - size.mean(), terms), np.log(each / each.mean())])
    noise = _NOISE
    for _ in range(2):  # the prior's weight depends on the noise, which the first turn says
        held = np.zeros((1, columns.shape[1]))
        held[0, -1] = noise / sd
        stacked = np.vstack([columns, held])
        aims = np.append(logs, mean * noise / sd)
        solved = np.linalg.lstsq(stacked, aims, rcond=None)[0]
        squares = float(np.sum((logs - columns @ solved) ** 2))
        noise = max((squares / max(len(logs) - terms - 1, 1)) ** 0.5, _NOISE)
    variance = noise**2 * np.linalg.pinv(stacked.T @ stacked)[-1, -1]
    criterion = len(logs) * log(squares / len(logs) + _NOISE**2) + 2 * (terms + 1)
    slope = float(solved[-1])
    return criterion, Translation(all_count, slope, float(min(variance**0.5, sd)), noise)
