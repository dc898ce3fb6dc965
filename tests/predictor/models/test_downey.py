import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.models.downey import (
    VarianceMode,
    max_useful,
    parallelism_of,
    serial_time_of,
    sigma_of,
    speedup,
    terms,
)

PARALLELISM, SIGMA = st.floats(1, 2000), st.floats(0, 20)


def test_without_variance_speedup_is_linear_up_to_the_parallelism():
    assert speedup([1, 4, 16, 64], 16, 0).tolist() == [1, 4, 16, 16]


@pytest.mark.parametrize(
    ("n", "A", "sigma", "expected"),
    [
        # Table 1, one value for each piece, computed by hand.
        (10, 20, 0.5, 20 * 10 / (20 + 0.25 * 9)),
        (30, 20, 0.5, 20 * 30 / (0.5 * 19.5 + 30 * 0.75)),
        (40, 20, 0.5, 20),
        (10, 20, 2, 10 * 20 * 3 / (2 * 29 + 20)),
        (60, 20, 2, 20),
    ],
)
def test_table_1(n, A, sigma, expected):
    assert speedup([n], A, sigma)[0] == pytest.approx(expected)


@given(PARALLELISM, SIGMA)
def test_speedup_starts_at_one_rises_and_ends_at_the_parallelism(A, sigma):
    n = np.unique(np.geomspace(1, 3 * max_useful(A, sigma) + 2, 200))
    s = speedup(n, A, sigma)
    assert s[0] == pytest.approx(1)
    assert (np.diff(s) >= -1e-9 * A).all()
    assert (s <= n * (1 + 1e-9)).all()
    assert s[-1] == pytest.approx(A)


@given(PARALLELISM)
def test_the_modes_agree_where_they_meet(A):
    n = np.geomspace(1, 4 * A, 50)
    assert np.allclose(speedup(n, A, 1.0), speedup(n, A, 1.0 + 1e-12))


@given(PARALLELISM, SIGMA)
def test_run_time_is_linear_in_two_amplitudes(A, sigma):
    mode = VarianceMode.HIGH if sigma > 1 else VarianceMode.LOW
    end = np.array(A + A * sigma - sigma if sigma > 1 else A)
    x = np.array(sigma if sigma > 1 else sigma / 2)
    amplitude = np.array(7.0)
    n = np.geomspace(1, 3 * end + 1, 100)
    p, q = terms(mode, n, end)
    serial = serial_time_of(mode, end, x, amplitude)
    assert np.allclose(amplitude * (p + x * q), serial / speedup(n, A, sigma))
    assert parallelism_of(mode, end, x) == pytest.approx(A)
    assert sigma_of(mode, x) == pytest.approx(sigma)
