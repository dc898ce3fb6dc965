import numpy as np

from predictor.shapes import ShapePrior, Shapes, draw, log_time, spread_evenly


def test_a_shape_is_one_at_the_first_node_count() -> None:
    assert np.allclose(log_time(draw(ShapePrior(shapes=64)), np.array([1.0])), 0.0)


def test_amdahl_and_logarithmic_overhead_are_special_cases() -> None:
    one = np.array([1.0])
    shape = Shapes(0.1 * one, one, 0.02 * one, 1e-6 * one)
    x = np.array([2.0, 16.0])
    assert np.allclose(np.exp(log_time(shape, x))[0], 0.9 / x + 0.1 + 0.02 * np.log(x), rtol=1e-5)


def test_the_prior_is_covered_as_it_says() -> None:
    shapes, prior = draw(ShapePrior()), ShapePrior()
    assert abs(np.median(np.log(shapes.serial)) - np.log(prior.serial).mean()) < 0.05
    assert abs((shapes.growth < 1e-5).mean() - prior.collective) < 0.02
    assert abs((abs(shapes.exponent - 1) > 0.06).mean() - 0.23) < 0.02


def test_points_fill_the_cube_evenly() -> None:
    points = spread_evenly(1000, 3)
    counts, _ = np.histogramdd(points.T, bins=2)
    assert counts.min() > 115
    assert counts.max() < 135
