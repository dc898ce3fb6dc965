"""Sums of products in two doubles, held against fractions."""

from fractions import Fraction

import numpy as np
import pytest

from predictor.node_types.product_form import add, gram


def exactly(rows: np.ndarray) -> list[list[Fraction]]:
    columns = rows.shape[1]
    return [
        [sum(Fraction(row[i]) * Fraction(row[j]) for row in rows.tolist()) for j in range(columns)]
        for i in range(columns)
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 5_000])
def test_sums_hold_thirty_digits(count):
    rng = np.random.default_rng(count)
    rows = rng.lognormal(0, 8, (count, 3))
    high, low = gram(rows)
    expected = exactly(rows)
    for i in range(3):
        for j in range(3):
            made = Fraction(float(high[i, j])) + Fraction(float(low[i, j]))
            assert abs(made / expected[i][j] - 1) < Fraction(1, 10**29)
            assert abs(low[i, j]) <= 2.0**-52 * high[i, j]


def test_what_is_added_and_taken_away_leaves_nothing():
    rng = np.random.default_rng(3)
    big, small = rng.lognormal(12, 3, (1_000, 2)), rng.lognormal(-12, 1, (5, 2))
    total = add(gram(big), gram(small))
    high, low = gram(big)
    left = add(total, (-high, -low))
    assert np.allclose(left[0], gram(small)[0], rtol=1e-4)


def test_no_rows_are_nothing():
    high, low = gram(np.empty((0, 2)))
    assert not high.any()
    assert not low.any()


@pytest.mark.parametrize("bad", [np.ones(3), np.full((2, 2), np.nan), np.full((1, 2), np.inf)])
def test_rows_are_of_finite_numbers(bad):
    with pytest.raises(ValueError, match="all finite, are needed"):
        gram(bad)
