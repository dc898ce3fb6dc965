"""The average over shapes against its formulas in docs/model-parts.md, written another way.

Scale and residual are kriged by the bordered system of equations, in which the flat prior of the
scale is a row of ones.  Quantiles are NumPy's.  Only the evenly spread points are the model's own.
"""

import math
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm, truncnorm

from predictor.models import base
from predictor.models.averaged import shapes
from predictor.models.averaged.model import Averaged, AveragedFit, AveragedSettings
from predictor.models.averaged.shapes import ShapePrior, draw, log_time, spread_evenly, take
from predictor.problems import Problem
from predictor.types import Curve, Point
from tests.predictor import example_curves
from tests.predictor.example_curves import amdahl, downey

pytestmark = pytest.mark.kernels

Floats = NDArray[np.float64]
DOCS = Path(__file__).parents[3] / "docs"
DRAWS, HUNG = 1024, 0.002
TARGETS = (1, 2, 3, 4, 6, 8, 11, 16, 20, 64)


@dataclass(frozen=True)
class Expected:
    """Log time of each draw (rows) at each place."""

    mean: Floats
    covariance: Floats
    noise: Floats
    unit: Floats

    def quantiles(self, shares, *, of_curve=False):
        variance = np.diagonal(self.covariance, axis1=1, axis2=2)
        noise = 0.0 if of_curve else self.noise[:, None]
        logs = self.mean + np.sqrt(variance + noise**2) * self.unit[:, None]
        return np.quantile(logs, shares, axis=0, method="hazen")


def shape_times(settings, ratios):
    """Log of T(x) / T(1): shapes by ratios."""
    every = shapes.draw(settings.prior)
    rows = []
    for f, p, c, q in zip(every.serial, every.exponent, every.overhead, every.growth, strict=True):
        cost = np.where(ratios > 1, (ratios**q - 1) / q, 0.0)
        rows.append(np.log((1 - f) * ratios**-p + f + c * cost))
    return np.array(rows)


def noises_of(curve, settings):
    repeated = [p for p in curve.points if p.repeats > 1]
    if not repeated:
        return settings.noises
    weights = [p.repeats - 1 for p in repeated]
    shown = math.sqrt(np.average([p.spread**2 for p in repeated], weights=weights))
    return (*settings.noises, shown) if shown > max(settings.noises) else settings.noises


def walk(curve, settings, places):
    """Covariance of a walk of its own on either side of the observed range."""
    up = np.maximum(np.log(places / curve.points[-1].nodes), 0)
    down = np.maximum(np.log(curve.points[0].nodes / places), 0)
    return np.asarray(settings.stray**2 * (np.minimum.outer(up, up) + np.minimum.outer(down, down)))


def drawn(curve, settings, places):
    """Draws before any bound counts, but weighed by the bounds."""
    nodes = np.array([float(p.nodes) for p in curve.points])
    times = np.array([p.time_s for p in curve.points])
    repeats = np.array([p.repeats for p in curve.points])
    spread = np.array([p.spread for p in curve.points])
    clock = curve.resolution_s**2 / (6 * times**2)
    count, bounds = len(nodes), curve.censored
    everywhere = np.concatenate([nodes, places, [float(b.nodes) for b in bounds]])
    distance = np.abs(np.subtract.outer(np.log(everywhere), np.log(everywhere)))
    shape = shape_times(settings, everywhere / nodes[0])
    logs, means, covariances, noises = [], [], [], []
    for tau, noise in product(settings.wiggles, noises_of(curve, settings)):
        near = tau**2 * np.exp(-distance / settings.reach)
        border = np.ones((count + 1, count + 1))
        border[-1, -1] = 0.0
        border[:count, :count] = near[:count, :count] + np.diag((noise**2 + clock) / repeats)
        inverse = np.linalg.inv(border)
        to = np.vstack([near[:count, count:], np.ones(len(everywhere) - count)])
        covariance = near[count:, count:] - to.T @ inverse @ to
        scatter = np.sqrt(noise**2 + clock)
        spreads = -((repeats - 1) * (np.log(scatter) + 0.5 * (spread / scatter) ** 2)).sum()
        for one in shape:
            left = np.log(times) - one[:count]
            mean = one[count:] + (to.T @ inverse)[:, :count] @ left
            misfit = left @ inverse[:count, :count] @ left
            log = spreads - 0.5 * (misfit + np.linalg.slogdet(border)[1])
            for i, bound in enumerate(bounds, start=len(places)):
                sd = math.sqrt(covariance[i, i] + noise**2)
                log += math.log(HUNG + (1 - HUNG) * norm.sf(math.log(bound.time_s), mean[i], sd))
            logs.append(log)
            means.append(mean)
            covariances.append(covariance)
            noises.append(noise)
    weights = np.exp(np.array(logs) - max(logs))
    total = np.cumsum(weights)
    rows = np.searchsorted(total, (np.arange(DRAWS) + 0.5) / DRAWS * total[-1])
    unit = norm.ppf(shapes.spread_evenly(DRAWS, 2 + len(bounds))[0])
    return Expected(
        np.array(means)[rows], np.array(covariances)[rows], np.array(noises)[rows], unit
    )


def expected(curve, settings, targets):
    places = np.array(targets, dtype=float)
    every = np.append(places, [float(b.nodes) for b in curve.censored])
    plain = drawn(curve, settings, places)
    _, turn, *shares = shapes.spread_evenly(DRAWS, 2 + len(curve.censored))
    turned = (turn < settings.turn)[:, None, None]
    covariance = plain.covariance + turned * walk(curve, settings, every)
    first, mean = covariance, plain.mean
    for i, (bound, share) in enumerate(zip(curve.censored, shares, strict=True), start=len(places)):
        sd = np.sqrt(covariance[:, i, i] + plain.noise**2)
        least = (math.log(bound.time_s) - mean[:, i]) / sd
        hung = HUNG / (HUNG + (1 - HUNG) * norm.sf(least))
        idle = share < hung
        inside = np.where(idle, 0.5, (share - hung) / (1 - hung))
        off = np.where(
            idle, norm.ppf(np.where(idle, share / hung, 0.5)), truncnorm.ppf(inside, least, np.inf)
        )
        step = first[:, :, i] / sd[:, None]
        mean = mean + step * off[:, None]
        covariance = covariance - step[:, :, None] * step[:, None, :]
    count = len(places)
    return Expected(mean[:, :count], covariance[:, :count, :count], plain.noise, plain.unit)


ONE = AveragedSettings(ShapePrior(shapes=1), (0.1,), 2.0, (0.03,), 0.0, 0.3, 1.16)
SEVERAL = AveragedSettings(ShapePrior(shapes=7), (0.03, 0.2), 1.5, (0.02, 0.05), 0.4, 0.5, 1.3)
PLAIN = Curve(tuple(Point(n, t) for n, t in ((2, 300.0), (4, 170.0), (8, 90.0), (16, 64.0))))
TWO = Curve(PLAIN.points[:2])
REPEATED = Curve(
    (Point(2, 300.0, 4, 0.02), Point(4, 170.0), Point(8, 90.0, 2, 0.09), Point(16, 64.0, 3, 0.2))
)
COARSE = Curve(
    (Point(2, 40.0, 2, 0.05), Point(4, 21.0, 3, 0.03), Point(8, 12.0), Point(16, 7.0)),
    resolution_s=1.0,
)
#: As much as the largest noise of the list, exactly.
AS_LISTED = Curve((Point(2, 40.0, 5, 0.5), Point(4, 21.0), Point(8, 12.0, 5, 0.5)))
LISTED = replace(SEVERAL, noises=(0.25, 0.5))
#: So many runs that their likelihood is no double unless it is one relative to the best.
MANY = Curve(tuple(replace(p, repeats=200, spread=0.02) for p in PLAIN.points))
BOUND = replace(PLAIN, censored=(Point(32, 45.0),))
BOUND_BELOW = replace(PLAIN, censored=(Point(1, 700.0),))
BOUND_INSIDE = replace(PLAIN, censored=(Point(6, 128.0),))
FAR_BOUND = replace(PLAIN, censored=(Point(32, 60.0),))
TWO_BOUNDS = replace(PLAIN, censored=(Point(1, 650.0), Point(32, 40.0)))
CASES = [
    (PLAIN, ONE),
    (PLAIN, replace(ONE, turn=1.0)),
    (PLAIN, SEVERAL),
    (TWO, SEVERAL),
    (REPEATED, ONE),
    (REPEATED, SEVERAL),
    (COARSE, SEVERAL),
    (AS_LISTED, LISTED),
    (MANY, SEVERAL),
    (BOUND, ONE),
    (BOUND, SEVERAL),
    (BOUND_BELOW, SEVERAL),
    (BOUND_INSIDE, replace(SEVERAL, turn=0.0)),
    (FAR_BOUND, SEVERAL),
    (TWO_BOUNDS, ONE),
    (PLAIN, AveragedSettings()),
]
every_case = pytest.mark.parametrize(("curve", "settings"), CASES)


def fitted(curve, settings):
    return Averaged(settings=settings).fit(curve)


def inside(curve):
    """Which targets lie between two observed node counts."""
    nodes = [p.nodes for p in curve.points]
    return np.array([n not in nodes and min(nodes) < n < max(nodes) for n in TARGETS])


def stretched(logs, median, curve, settings):
    return np.asarray(median + np.where(inside(curve), settings.between, 1.0) * (logs - median))


@every_case
@pytest.mark.parametrize("level", [0.9, 0.5])
def test_medians_intervals_and_deviations_follow_the_formulas(curve, settings, level):
    draws = expected(curve, settings, TARGETS)
    median, *ends = draws.quantiles([0.5, (1 - level) / 2, (1 + level) / 2])
    low, high = (stretched(end, median, curve, settings) for end in ends)
    below, above = draws.quantiles(norm.cdf([-1.0, 1.0]), of_curve=True)
    made = fitted(curve, settings).predict(TARGETS, level)
    assert np.log([p.time_s for p in made]) == pytest.approx(median, abs=1e-7)
    assert np.log([p.low_s for p in made]) == pytest.approx(low, abs=1e-7)
    assert np.log([p.high_s for p in made]) == pytest.approx(high, abs=1e-7)
    assert [p.curve_sd for p in made] == pytest.approx((above - below) / 2, abs=1e-7)


@every_case
def test_quantiles_follow_the_formulas_up_to_the_last_draws(curve, settings):
    shares = [0.0001, 0.0007, 0.2, 0.5, 0.77, 0.9993, 0.9999]
    logs = expected(curve, settings, TARGETS).quantiles([0.5, *shares])
    made = np.log(fitted(curve, settings).quantiles(TARGETS, shares))
    assert made == pytest.approx(stretched(logs[1:], logs[0], curve, settings), abs=1e-7)


CANDIDATES = (1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 14, 16, 18, 21, 24, 28, 32, 40, 64, 100)


def ranked(fit, targets):
    left, order = list(CANDIDATES), []
    while left:
        order.append(fit.most_informative(left, targets))
        left.remove(order[-1])
    return order


@pytest.mark.parametrize(
    ("curve", "settings"),
    [
        (PLAIN, ONE),
        (PLAIN, SEVERAL),
        (PLAIN, replace(SEVERAL, turn=0.0)),
        (REPEATED, SEVERAL),
        (COARSE, replace(SEVERAL, noises=(0.1, 0.4))),
        (PLAIN, AveragedSettings()),
    ],
)
@pytest.mark.parametrize("targets", [(3, 6, 11), (1, 5, 12, 20, 32), (64,), (1,)])
def test_the_next_run_is_where_most_variance_goes(curve, settings, targets):
    draws = drawn(curve, settings, np.array([*CANDIDATES, *targets], dtype=float))
    every = np.array([*CANDIDATES, *targets], dtype=float)
    covariance = np.cov(draws.mean.T, bias=True) + draws.covariance.mean(axis=0)
    covariance += settings.turn * walk(curve, settings, every)
    count = len(CANDIDATES)
    variance = covariance.diagonal()[:count] + draws.noise.mean() ** 2
    gained = (covariance[count:, :count] ** 2).sum(axis=0) / variance
    order = [CANDIDATES[i] for i in np.argsort(-gained)]
    assert ranked(fitted(curve, settings), targets) == order


@dataclass(frozen=True)
class IntervalsAlone:
    """A fit that has its predictions only."""

    fit: AveragedFit
    model: str = "intervals"
    problems: tuple[Problem, ...] = ()

    def predict(self, nodes, level=0.9):
        return self.fit.predict(nodes, level)


def test_a_fit_without_a_choice_of_its_own_observes_where_its_interval_is_widest():
    fit = fitted(PLAIN, SEVERAL)
    assert fit.most_informative((3, 1000), (3,)) == 3
    assert base.most_informative(fit, (3, 1000), (3,)) == 3
    assert base.most_informative(IntervalsAlone(fit), (3, 1000), (3,)) == 1000
    assert base.most_informative(IntervalsAlone(fit), (1000, 3), (3,)) == 1000


def test_a_fit_without_quantiles_of_its_own_has_the_ends_of_its_intervals():
    fit = fitted(PLAIN, SEVERAL)
    made = base.quantiles(IntervalsAlone(fit), (3, 64), (0.6, 0.95))
    highs = [[p.high_s for p in fit.predict((3, 64), level)] for level in (0.2, 0.9)]
    assert made == pytest.approx(np.array(highs))
    # Of its own it has those below one half, too.
    assert base.quantiles(fit, (3,), (0.1,)) == fit.quantiles((3,), (0.1,))


def test_two_node_counts_are_enough():
    assert Averaged().min_points == 2
    assert Averaged().fit(TWO).predict([4])[0].time_s == pytest.approx(170, rel=0.1)


def test_the_defaults_are_those_of_the_page():
    page = " ".join((DOCS / "model-parts.md").read_text().split())
    settings, prior = AveragedSettings(), ShapePrior()
    low, high = prior.overhead
    for text in (
        rf"\tau \in \{{{', '.join(map(str, settings.wiggles))}\}}",
        rf"\sigma \in \{{{', '.join(map(str, settings.noises))}\}}",
        rf"e^{{-|\log n - \log n'|/{settings.reach:g}}}",
        f"{settings.turn * 100:g} % of the draws take a random walk",
        rf"deviation ${settings.stray}\sqrt",
        f"{prior.shapes:,} shapes cover",
        rf"${prior.serial[0] * 1e4:g}\cdot10^{{-4}} \dots {prior.serial[1]}$",
        rf"$10^{{{math.log10(low):.3g}}} \dots {high}$",
        f"${prior.exponent_sd}$ (for {prior.uneven * 100:g} % of the shapes ${prior.uneven_sd}$)",
        f"$q = 0$ for {prior.collective * 100:g} %",
    ):
        assert text in page
    records = " ".join((DOCS / "records.md").read_text().split())
    assert f"They are {settings.between} times as wide" in records


@pytest.mark.parametrize("formula", [amdahl, downey(64, 0.5), lambda n: 500 / n + 3 * np.log2(n)])
def test_clean_curves_are_recovered_inside_and_near_the_range(formula):
    fit = Averaged().fit(example_curves.drawn([1, 2, 4, 8], formula))
    for nodes, tolerance in ((3, 0.02), (6, 0.03), (16, 0.12)):
        expected = float(formula(np.array([nodes]))[0])
        assert fit.predict([nodes])[0].time_s == pytest.approx(expected, rel=tolerance)


def test_fits_of_other_curves_in_between_change_no_prediction():
    """What fits have in common is worked out once; nothing of one curve is left in another."""
    first = example_curves.drawn([1, 2, 4, 8], amdahl)
    other = example_curves.drawn([2, 4, 8, 16], downey(6.0, 1.0))
    fit = Averaged().fit(first)
    before = fit.predict([3, 8, 32]), fit.quantiles([3, 8, 32], [0.95]).tolist()
    steeper = Averaged().fit(other)
    assert steeper.predict([3, 8, 32]) != before[0]
    assert (fit.predict([3, 8, 32]), fit.quantiles([3, 8, 32], [0.95]).tolist()) == before
    assert Averaged().fit(first).predict([3, 8, 32]) == before[0]
    narrow = AveragedSettings(prior=ShapePrior(serial=(3e-4, 1e-3)))
    assert Averaged(settings=narrow).fit(first).predict([3, 8, 32]) != before[0]


PRIOR = ShapePrior(
    shapes=200,
    serial=(0.01, 0.5),
    overhead=(1e-4, 0.2),
    exponent_sd=0.05,
    uneven=0.4,
    uneven_sd=0.5,
    collective=0.25,
)


def test_points_are_multiples_of_powers_of_the_generalised_golden_ratio():
    counted = np.arange(1, 6)
    for dimensions in (1, 2, 5):
        root = brentq(lambda x, d=dimensions: x ** (d + 1) - x - 1, 1.0, 2.0, xtol=1e-15)
        rows = [np.modf(0.5 + counted / root**d)[0] for d in range(1, dimensions + 1)]
        assert np.allclose(spread_evenly(5, dimensions), rows, atol=1e-12)
    assert spread_evenly(1, 1)[0, 0] == pytest.approx(0.5 + 0.6180339887498949 - 1)
    assert spread_evenly(0, 3).shape == (3, 0)


def test_each_parameter_has_the_distribution_of_the_prior():
    shapes = draw(PRIOR)
    serial, overhead, exponent, growth, kind = spread_evenly(200, 5)
    assert np.allclose(shapes.serial, 0.01 * 50**serial)
    assert np.allclose(shapes.overhead, 1e-4 * 2000**overhead)
    wide = norm.ppf(exponent, 1.0, np.where(kind < 0.4, 0.5, 0.05))
    assert np.allclose(shapes.exponent, np.minimum(np.maximum(wide, 0.3), 1.7))
    assert shapes.exponent.min() == 0.3
    assert shapes.exponent.max() == 1.7
    # A uniform number above the share of the collective ones is one again, squared.
    beyond = [((u - 0.25) / 0.75) ** 2 if u > 0.25 else 0.0 for u in growth]
    assert np.allclose(shapes.growth, np.maximum(beyond, 1e-6), rtol=1e-9, atol=0)
    assert shapes.growth.min() == 1e-6


def test_log_time_is_the_formula_below_and_above_the_first_node_count():
    shapes, x = draw(PRIOR), np.array([0.25, 0.5, 1.0, 2.0, 64.0])
    for i, row in enumerate(log_time(shapes, x)):
        f, p, c, q = (
            part[i] for part in (shapes.serial, shapes.exponent, shapes.overhead, shapes.growth)
        )
        cost = np.where(x > 1, np.expm1(q * np.log(x)) / q, 0.0)
        assert np.allclose(np.exp(row), (1 - f) * x**-p + f + c * cost)


def test_shapes_are_taken_by_their_places():
    shapes, places = draw(PRIOR), np.array([7, 7, 3])
    some = take(shapes, places)
    x = np.array([0.5, 3.0])
    assert np.array_equal(log_time(some, x), log_time(shapes, x)[places])
