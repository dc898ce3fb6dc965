import numpy as np
import pytest

from predictor.residual import Floats, Residuals, residuals

PLACES = np.log([1.0, 2.0, 4.0])
VALUES = np.array([[0.3, 0.1, 0.2], [1.0, 1.0, 1.0]])


def process(tau: float, sd: float) -> Residuals:
    return residuals(
        PLACES, np.full((1, 3), sd**2), tau=np.array([tau]), noise=np.array([sd]), reach=2.0
    )


def expected(part: Residuals, values: Floats, targets: Floats) -> Floats:
    return np.asarray(values @ part.gain(targets)[0].T)


def test_a_residual_without_noise_passes_through_its_observations() -> None:
    part = process(0.3, 1e-6)
    assert np.allclose(expected(part, VALUES, PLACES), VALUES, atol=1e-6)
    assert np.all(part.covariance(PLACES, PLACES) < 1e-6)


def test_the_evidence_is_that_of_a_normal_distribution_with_a_flat_scale() -> None:
    # A proper but very wide prior of the scale must rank rows alike.
    part = process(0.1, 0.02)
    near = np.exp(-np.abs(PLACES[:, None] - PLACES) / 2.0)
    wide = 0.1**2 * near + 0.02**2 * np.eye(3) + 1e6
    likely = [-0.5 * row @ np.linalg.solve(wide, row) for row in VALUES]
    ((first, second),) = part.evidence(VALUES)
    assert first - second == pytest.approx(likely[0] - likely[1], abs=1e-3)


def test_a_shift_of_all_values_shifts_the_expectation() -> None:
    part, targets = process(0.1, 0.01), np.log([3.0, 64.0])
    moved = expected(part, VALUES + 7.0, targets)
    assert np.allclose(moved, expected(part, VALUES, targets) + 7.0)


def test_covariance_is_what_an_observation_there_would_explain() -> None:
    near, far = np.log([8.0]), np.log([16.0])
    part = process(0.1, 0.01)
    more = residuals(
        np.append(PLACES, near),
        np.full((1, 4), 0.01**2),
        tau=np.array([0.1]),
        noise=np.array([0.01]),
        reach=2.0,
    )
    explained = part.covariance(near, far) ** 2 / (part.covariance(near, near) + 0.01**2)
    left = part.covariance(far, far) - explained
    assert more.covariance(far, far) == pytest.approx(left)
