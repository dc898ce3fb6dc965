"""The product-limit estimate: published numbers, and what holds of any observations."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.product_limit import ProductLimit

#: Remission times in weeks with 6-mercaptopurine, and whether they were cut off (Freireich et al.,
#: Blood 21, 1963), with the shares that Kalbfleisch and Prentice print (2002, table 1.1).
MERCAPTOPURINE = [
    *((6, False), (6, False), (6, False), (6, True), (7, False), (9, True), (10, False)),
    *((10, True), (11, True), (13, False), (16, False), (17, True), (19, True), (20, True)),
    *((22, False), (23, False), (25, True), (32, True), (32, True), (34, True), (35, True)),
]
SURVIVING = {6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}

OBSERVATIONS = st.lists(st.tuples(st.floats(0.1, 1e6), st.booleans()), min_size=1, max_size=60)
SHARES = st.floats(0.01, 1.0)


def test_published_estimates():
    estimate = ProductLimit.of(MERCAPTOPURINE)
    shares = dict(zip(estimate.values, estimate.reached, strict=True))
    assert {value: round(1 - share, 3) for value, share in shares.items()} == SURVIVING
    assert estimate.median() == 23
    assert estimate.quantile(0.6) is None


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=60), SHARES)
def test_without_any_cut_off_it_is_the_empirical_quantile(values, share):
    place = max(math.ceil(share * len(values) - 1e-6) - 1, 0)
    estimate = ProductLimit.of((value, False) for value in values)
    assert estimate.quantile(share) == pytest.approx(sorted(values)[place])
    assert estimate.median() == pytest.approx(float(np.median(values)))


@given(OBSERVATIONS, SHARES)
def test_no_quantile_is_below_what_more_than_the_rest_outlasted(observations, share):
    end = ProductLimit.of(observations).quantile(share)
    if end is not None:
        longer = sum(value > end for value, _ in observations)
        assert longer <= (1 - share) * len(observations) + 1e-6


@given(OBSERVATIONS, SHARES)
def test_what_was_cut_off_makes_no_quantile_shorter(observations, share):
    value, _ = observations[0]
    whole = ProductLimit.of([(value, False), *observations[1:]]).quantile(share)
    cut_off = ProductLimit.of([(value, True), *observations[1:]]).quantile(share)
    assert cut_off is None or (whole is not None and cut_off >= whole)
