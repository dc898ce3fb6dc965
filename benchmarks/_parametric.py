"""Parametric forms: sums of simple terms in the number of nodes, fitted to relative error.

==============  ============================  ====================================================
``amdahl``      T = a/n + b                   Amdahl, AFIPS 1967
``amdahl_log``  T = a/n + b + c·log2(n+1)     with the cost of tree-shaped collectives
``usl``         T = a/n + b + c·n             spans Gunther's universal scalability law
==============  ============================  ====================================================

All coefficients are non-negative (Lawson and Hanson's algorithm), so that no prediction is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from predictor.checks import need_nodes
from predictor.curves.reliability import Uncertainty, around, measure
from predictor.models.base import need, register
from predictor.problems import Problem
from predictor.types import Curve, Point, Prediction

Floats = NDArray[np.float64]


def inverse(n: Floats) -> Floats:
    """Work that divides among the nodes."""
    return 1 / n


def constant(n: Floats) -> Floats:
    """Work that does not."""
    return np.ones_like(n)


def logarithm(n: Floats) -> Floats:
    """Overhead of tree-shaped communication; n + 1, so that no time is zero on one node."""
    return np.log2(n + 1)


def linear(n: Floats) -> Floats:
    """Overhead of communication with every node."""
    return n


FORMS: dict[str, tuple[Callable[[Floats], Floats], ...]] = {
    "amdahl": (inverse, constant),
    "amdahl_log": (inverse, constant, logarithm),
    "usl": (inverse, constant, linear),
}


def evaluate(form: str, coefficients: Sequence[float], nodes: Floats) -> Floats:
    """Run time in seconds of ``form`` at ``nodes``."""
    columns = np.stack([term(nodes) for term in FORMS[form]], axis=1)
    times: Floats = columns @ np.asarray(coefficients)
    return times


def solve(form: str, points: Sequence[Point]) -> tuple[float, ...]:
    """Non-negative coefficients that minimise the sum of squared relative errors."""
    nodes = np.array([float(p.nodes) for p in points])
    times = np.array([p.time_s for p in points])
    rows = np.stack([term(nodes) for term in FORMS[form]], axis=1) / times[:, None]
    scale = rows.max(axis=0)
    scale[scale == 0] = 1.0
    weights, _ = nnls(rows / scale, np.ones(len(points)))
    return tuple(float(w) for w in weights / scale)


@dataclass(frozen=True, slots=True)
class ParametricFit:
    """Coefficients of one form, in the order of its terms in ``FORMS``."""

    model: str
    coefficients: tuple[float, ...]
    uncertainty: Uncertainty
    problems: tuple[Problem, ...] = ()

    def predict(self, nodes: Sequence[int], level: float = 0.9) -> list[Prediction]:
        """See :class:`predictor.models.base.FittedModel`."""
        need_nodes(nodes)
        medians = evaluate(self.model, self.coefficients, np.asarray(nodes, dtype=float))
        return around(nodes, medians, self.uncertainty, level)


def _left_out(form: str, points: Sequence[Point]) -> list[float]:
    """Log error at each point when the form is fitted to the others; empty with two or fewer."""
    errors = []
    for i, point in enumerate(points if len(points) > 2 else ()):
        others = [*points[:i], *points[i + 1 :]]
        predicted = evaluate(form, solve(form, others), np.array([float(point.nodes)]))
        errors.append(log(float(predicted[0]) / point.time_s))
    return errors


def _fit(form: str, curve: Curve, min_points: int) -> ParametricFit:
    need(curve, min_points)
    # Two points are enough for non-negative coefficients, if not for all of them.
    errors = _left_out(form, curve.points)
    return ParametricFit(form, solve(form, curve.points), measure(curve, errors))


@register("amdahl")
@dataclass(frozen=True, slots=True)
class Amdahl:
    """A part that divides and one that does not."""

    min_points: int = 2

    def fit(self, curve: Curve) -> ParametricFit:
        """See :class:`predictor.models.base.Model`."""
        return _fit("amdahl", curve, self.min_points)


@register("amdahl_log")
@dataclass(frozen=True, slots=True)
class AmdahlLog:
    """Amdahl with an overhead that grows with log n."""

    min_points: int = 3

    def fit(self, curve: Curve) -> ParametricFit:
        """See :class:`predictor.models.base.Model`."""
        return _fit("amdahl_log", curve, self.min_points)


@register("usl")
@dataclass(frozen=True, slots=True)
class Usl:
    """Amdahl with an overhead that grows with n."""

    min_points: int = 3

    def fit(self, curve: Curve) -> ParametricFit:
        """See :class:`predictor.models.base.Model`."""
        return _fit("usl", curve, self.min_points)
