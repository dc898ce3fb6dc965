import numpy as np
import pytest

from predictor.models.averaged.model import Floats, Residuals, residuals

PLACES = np.log([1.0, 2.0, 4.0])
VALUES = np.array([[0.3, 0.1, 0.2], [1.0, 1.0, 1.0]])


def process(tau: float, sd: float) -> Residuals:
    return residuals(
        PLACES, np.full((1, 3), sd**2), tau=np.array([tau]), noise=np.array([sd]), reach=2.0
    )


TAU, NOISE, REACH = np.array([0.1, 0.5]), np.array([0.02, 0.3]), 1.3
VARIANCES = np.array([[0.0004, 0.0002, 0.001], [0.09, 0.03, 0.2]])


def bordered(tau: float, variances: Floats) -> Floats:
    """Covariance of the observations with a row of ones: the flat prior of the scale."""
    made = np.ones((4, 4))
    made[:3, :3] = tau**2 * np.exp(-np.abs(PLACES[:, None] - PLACES) / REACH) + np.diag(variances)
    made[3, 3] = 0.0
    return made


def test_processes_weigh_by_the_restricted_likelihood():
    part = residuals(PLACES, VARIANCES, tau=TAU, noise=NOISE, reach=REACH)
    likely = []
    for tau, variances in zip(TAU, VARIANCES, strict=True):
        border = bordered(tau, variances)
        inner = np.linalg.inv(border)[:3, :3]
        volume = np.log(-np.linalg.det(border))
        likely.append([-0.5 * (row @ inner @ row + volume) for row in VALUES])
    assert np.allclose(part.evidence(VALUES), likely)


def test_expectation_and_covariance_are_those_of_kriging():
    part = residuals(PLACES, VARIANCES, tau=TAU, noise=NOISE, reach=REACH)
    one, other = np.log([0.5, 3.0, 4.0]), np.log([20.0, 0.25])
    together = part.covariance(one[:, None], other[None, :])
    gains = part.gain(one)
    for i, (tau, variances) in enumerate(zip(TAU, VARIANCES, strict=True)):
        inverse = np.linalg.inv(bordered(tau, variances))
        first, second = (
            np.vstack([tau**2 * np.exp(-np.abs(PLACES[:, None] - at) / REACH), np.ones(len(at))])
            for at in (one, other)
        )
        before = tau**2 * np.exp(-np.abs(one[:, None] - other) / REACH)
        assert np.allclose(together[i], before - first.T @ inverse @ second)
        assert np.allclose(gains[i], (first.T @ inverse)[:, :3])


@pytest.mark.parametrize("at", range(4))
def test_each_number_of_a_process_is_finite(at):
    places, variances, tau, noise = (one.copy() for one in (PLACES, VARIANCES, TAU, NOISE))
    (places, variances, tau, noise)[at].flat[0] = np.inf
    with pytest.raises(ValueError, match="all must be finite"):
        residuals(places, variances, tau=tau, noise=noise, reach=REACH)


@pytest.mark.parametrize("variances", [VARIANCES[:1], VARIANCES[:, :2], VARIANCES[0]])
def test_each_process_has_a_row_of_variances(variances):
    with pytest.raises(ValueError, match="a row for each process"):
        residuals(PLACES, variances, tau=TAU, noise=NOISE, reach=REACH)


def test_a_process_has_a_reach():
    with pytest.raises(ValueError, match="reach"):
        residuals(PLACES, VARIANCES, tau=TAU, noise=NOISE, reach=0.0)


def test_processes_are_hashed_and_compared_as_objects():
    """Arrays have no one answer to whether they are equal."""
    assert len({process(0.1, 0.01), process(0.1, 0.01)}) == 2
