import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from predictor.models.averaged.shapes import ShapePrior, draw, log_time, spread_evenly, take

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


@pytest.mark.parametrize(("count", "dimensions"), [(-1, 2), (3, 0)])
def test_points_need_a_count_and_a_dimension(count, dimensions):
    with pytest.raises(ValueError, match="must be"):
        spread_evenly(count, dimensions)


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


@pytest.mark.parametrize("ratio", [0.0, -1.0, np.inf, np.nan])
def test_a_ratio_of_node_counts_is_finite_and_above_zero(ratio):
    with pytest.raises(ValueError, match="finite and above 0"):
        log_time(draw(PRIOR), np.array([1.0, ratio]))


def test_shapes_are_taken_by_their_places():
    shapes, places = draw(PRIOR), np.array([7, 7, 3])
    some = take(shapes, places)
    x = np.array([0.5, 3.0])
    assert np.array_equal(log_time(some, x), log_time(shapes, x)[places])


def test_shapes_are_hashed_and_compared_as_objects():
    """Arrays have no one answer to whether they are equal."""
    every, places = draw(PRIOR), np.array([1, 2])
    assert len({every, take(every, places), take(every, places)}) == 3
