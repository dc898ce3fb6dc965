"""Linear regression on chosen terms, held against least squares written out."""

from itertools import product
from math import inf, nan

import numpy as np
import pytest

from predictor.occupancy.functions import Function, Shape, Term
from predictor.occupancy.regression import learn, linear

pytestmark = pytest.mark.kernels

GRID = [{"x": x, "y": y} for x, y in product((1.0, 2.0, 3.0, 5.0, 8.0), (1.0, 2.0, 4.0))]
REFERENCE = {"x": 2.0, "y": 4.0}
X = np.array([one["x"] for one in GRID]) / 2
Y = np.array([one["y"] for one in GRID]) / 4


def terms_of(values, **also):
    function, _ = learn(GRID, list(values), reference=REFERENCE, attributes=("x", "y"), **also)
    return {str(term) for term in function.terms}


@pytest.mark.parametrize(
    ("values", "terms"),
    [
        (3 + 2 * X, {"x"}),
        (3 + 2 / X, {"1/x"}),
        (1 + 5 * Y, {"y"}),
        (1 + 2 / X + 3 * Y, {"1/x", "y"}),
        (4 + 2 * X * Y, {"x y"}),
        (4 + 2 / X / Y, {"1/x 1/y"}),
        (7 + 0 * X, set()),
        (4 + 2 * np.maximum(X - 1.5, 0), {"(x - 1.5)+"}),
    ],
)
def test_the_terms_of_exact_values_are_detected(values, terms):
    assert terms_of(values) == terms


@pytest.mark.parametrize(
    "values", [3 + 2 * X, 1 + 2 / X + 3 * Y, 4 + 2 * X * Y, 4 + np.maximum(X - 1.5, 0)]
)
def test_exact_values_are_predicted_everywhere(values):
    function, left_out = learn(GRID, list(values), reference=REFERENCE, attributes=("x", "y"))
    assert [function(one) for one in GRID] == pytest.approx(list(values))
    assert left_out == pytest.approx(values, rel=1e-6)
    assert function.press < 1e-9
    assert function.scale == pytest.approx(np.abs(values).mean())


def test_a_hidden_amount_makes_terms_that_exceed_it():
    samples = [
        {"x": x, "busy": b} for x, b in product((1.0, 2.0, 3.0, 4.0, 6.0, 8.0), (1.0, 2.0, 3.0))
    ]
    values = [max(0.0, one["x"] - 2 * one["busy"]) for one in samples]
    reference = {"x": 1.0, "busy": 1.0}
    function, _ = learn(samples, values, reference=reference, attributes=("x",), hides="busy")
    assert str(function.terms[0]) == "(x - 2 busy)+"
    assert function({"x": 7.0, "busy": 1.5}) == pytest.approx(4.0, rel=1e-6)
    straight, _ = learn(samples, values, reference=reference, attributes=("x",))
    assert all(term.other == "" for term in straight.terms)


@pytest.mark.parametrize("sizes", [None, [float(n) for n in range(1, 16)]])
def test_left_out_predictions_are_those_of_least_squares_without_the_sample(sizes):
    """PRESS of the chosen terms; errors count relative to each sample's size."""
    rng = np.random.default_rng(1)
    values = (3 + 2 * X) * rng.lognormal(0, 0.1, len(X))
    function, left_out = learn(
        GRID, list(values), reference=REFERENCE, attributes=("x",), sizes=sizes
    )
    assert [str(term) for term in function.terms] == ["x"]
    weights = 1 / np.array(sizes or [1.0] * len(X))
    design = np.column_stack([np.ones(len(X)), X])
    theta = np.linalg.lstsq(design * weights[:, None], values * weights, rcond=None)[0]
    assert function.scale * function.constant == pytest.approx(theta[0])
    assert function.scale * function.coefficients[0] == pytest.approx(theta[1])
    missed = []
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        own = np.linalg.lstsq(
            (design * weights[:, None])[rest], (values * weights)[rest], rcond=None
        )[0]
        assert left_out[i] == pytest.approx(design[i] @ own)
        missed.append((left_out[i] - values[i]) * weights[i] / weights.mean())
    press = np.sqrt(np.mean(np.square(missed))) / np.abs(values).mean()
    assert function.press == pytest.approx(press)


def test_a_term_has_to_lower_the_error_by_fifteen_per_cent():
    """Plus and minus one around 10, with a slope that is just worth it or just not."""
    levels = np.array([1.0, 2.0] * 8)
    sign = np.array([1.0, 1.0, -1.0, -1.0] * 4)

    def errors(slope):
        values = 10 + sign + slope * levels
        parts = []
        for design in (np.ones((16, 1)), np.column_stack([np.ones(16), levels])):
            hat = design @ np.linalg.pinv(design)
            parts.append(np.sqrt(np.mean(((values - hat @ values) / (1 - np.diag(hat))) ** 2)))
        return parts[0], parts[1]

    slopes = np.linspace(0.2, 2.0, 181)
    share = np.array([b / a for a, b in map(errors, slopes)])
    below, above = slopes[share > 0.851][-1], slopes[share < 0.849][0]
    for slope, terms in ((below, set()), (above, {"x"})):
        samples = [{"x": one} for one in levels.tolist()]
        values = 10 + sign + slope * levels
        result, _ = learn(samples, list(values), reference={"x": 1.0}, attributes=("x",))
        assert {str(term) for term in result.terms} == terms


def test_errors_below_a_thousandth_or_below_the_noise_need_no_term():
    assert terms_of(1000 + 0.7 * (X - X.mean())) == set()
    assert terms_of(1000 + 9 * (X - X.mean())) == {"x"}
    assert terms_of(1000 + 9 * (X - X.mean()), noise=50.0) == set()
    assert terms_of(1000 + 9 * (X - X.mean()), noise=5.0) == {"x"}


@pytest.mark.parametrize(("count", "most"), [(2, 0), (3, 1), (4, 1), (5, 2), (6, 2), (7, 3)])
def test_each_term_needs_two_samples(count, most):
    rng = np.random.default_rng(3)
    names = ("a", "b", "c", "d")
    result = 0
    for _ in range(20):
        samples = [{n: float(rng.uniform(1, 9)) for n in names} for _ in range(count)]
        values = [1 + 5 * one["a"] + 9 * one["b"] + 7 / one["c"] + one["d"] for one in samples]
        function, _ = learn(samples, values, reference=samples[0], attributes=names)
        result = max(result, len(function.terms))
    assert result == most


def test_three_levels_do_not_bend_and_four_do():
    for levels, bent in (((1.0, 2.0, 3.0), False), ((1.0, 2.0, 3.0, 4.0), True)):
        samples = [{"x": x} for x in levels for _ in range(3)]
        values = [max(0.0, one["x"] - 2.0) for one in samples]
        function, _ = learn(samples, values, reference={"x": 1.0}, attributes=("x",))
        assert any(term.shape is Shape.ABOVE for term in function.terms) is bent


def test_products_need_runs_that_vary_both():
    """One attribute at a time (Lmax-I1) says nothing of how they work together."""
    lines = [{"x": x, "y": 1.0} for x in (1.0, 2.0, 3.0, 5.0)]
    lines += [{"x": 1.0, "y": y} for y in (2.0, 3.0, 5.0)]
    values = [4 + 2 * one["x"] * one["y"] for one in lines]
    function, _ = learn(lines, values, reference={"x": 1.0, "y": 1.0}, attributes=("x", "y"))
    assert all(term.times is None for term in function.terms)


@pytest.mark.parametrize(("apart", "count"), [(0.015, 1), (0.008, 0)])
def test_an_attribute_that_differs_by_less_than_one_per_cent_has_no_term(apart, count):
    samples = [{"x": 1 + apart * sign} for sign in (-1, 1, -1, 1)]
    values = [one["x"] for one in samples]
    function, _ = learn(samples, values, reference={"x": 1.0}, attributes=("x",))
    assert len(function.terms) == count


def test_products_of_later_terms_are_weighted_like_all_others():
    samples = [{"x": float(x), "y": float(y)} for x in (1, 2, 3, 4, 5) for y in (1, 2, 4)]
    values = [1 + max(0.0, one["x"] - 2) * one["y"] for one in samples]
    function, left_out = learn(
        samples, values, reference={"x": 1.0, "y": 1.0}, attributes=("x", "y"), sizes=values
    )
    assert [str(term) for term in function.terms][-1] == "(x - 2)+ y"
    assert left_out == pytest.approx(values)


def test_products_as_first_terms_have_to_be_clearly_better():
    """With them the error of these runs is 2.6 instead of 2.9 per cent."""
    rows = [(1, 9, 8.36), (2, 9, 9.64), (2, 1, 7.57), (2, 3, 8.1), (2, 3, 7.69), (2, 3, 8.43),
            (4, 3, 10.01), (1, 9, 8.41), (4, 3, 9.91)]  # fmt: skip
    samples = [{"x": float(x), "y": float(y)} for x, y, _ in rows]
    values = [value for _, _, value in rows]
    function, _ = learn(samples, values, reference=samples[0], attributes=("x", "y"))
    assert [str(term) for term in function.terms] == ["x", "y"]


def test_a_product_is_of_different_attributes():
    """x² is none: it is told by a line and bends."""
    function, _ = learn(GRID, list(1 + X**2), reference=REFERENCE, attributes=("x", "y"))
    factors = [(one.attribute, one.times.attribute) for one in function.terms if one.times]
    assert all(one != other for one, other in factors)


def test_linear_is_least_squares_of_the_given_terms():
    rng = np.random.default_rng(5)
    values = rng.uniform(1, 9, len(X))
    sizes = rng.uniform(1, 3, len(X))
    terms = [Term("x", Shape.INVERSE), Term("y", Shape.LINEAR)]
    design = np.column_stack([np.ones(len(X)), 1 / X, Y])
    for given in (None, sizes.tolist()):
        weights = np.ones(len(X)) if given is None else 1 / sizes
        theta = np.linalg.lstsq(design * weights[:, None], values * weights, rcond=None)[0]
        function = linear(GRID, list(values), reference=REFERENCE, terms=terms, sizes=given)
        made = [function.scale * one for one in (function.constant, *function.coefficients)]
        assert made == pytest.approx(theta)
        assert function.value(GRID[3]) == pytest.approx(design[3] @ theta)


def test_what_did_not_vary_has_no_part_in_a_linear_function():
    samples = [{"x": x, "y": 3.0} for x in (1.0, 2.0, 4.0)]
    terms = [Term("x", Shape.LINEAR), Term("y", Shape.LINEAR)]
    function = linear(samples, [2.0, 4.0, 8.0], reference=samples[0], terms=terms)
    assert function.coefficients[1] == 0.0
    assert function({"x": 3.0, "y": 99.0}) == pytest.approx(6.0)
    single = linear(samples[:1], [5.0], reference=samples[0], terms=terms)
    assert single({"x": 3.0, "y": 1.0}) == pytest.approx(5.0)


def test_functions_are_never_below_zero_but_their_values_may_be():
    function = Function({"x": 2.0}, 10.0, 1.0, (Term("x", Shape.LINEAR),), (-2.0,))
    assert function.value({"x": 4.0}) == pytest.approx(-30.0)
    assert function({"x": 4.0}) == 0.0
    assert function({"x": 0.5}) == pytest.approx(5.0)
    assert str(function) == "10 + -20 x"
    assert str(Function({}, 2.0, 0.0)) == "0"
    assert str(Function({"x": 1.0}, 2.0, 0.0, (Term("x", Shape.LINEAR),), (3.0,))) == "6 x"
    with pytest.raises(ValueError, match="attribute x is missing"):
        function({"y": 1.0})


def test_terms_and_their_products():
    amounts = {"x": 4.0, "c": 2.0}
    assert Term("x", Shape.LINEAR)(amounts) == 4.0
    assert Term("x", Shape.ABOVE, 5.0)(amounts) == 0.0
    pair = Term("x", Shape.INVERSE, times=Term("c", Shape.LINEAR))
    assert pair(amounts) == 0.5
    assert str(pair) == "1/x c"
    # A bend that is not given is none.
    assert Term("x", Shape.ABOVE)(amounts) == 4.0


def test_a_function_by_itself_has_no_error_and_each_attribute_a_reference():
    assert Function({}, 2.0, 1.0).press == 0.0
    with pytest.raises(ValueError, match=r"attribute x of the reference is 0\.0"):
        linear([{"x": 1.0}], [2.0], reference={}, terms=[Term("x", Shape.LINEAR)])


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"samples": []}, "no sample to learn from"),
        ({"values": [nan] * len(GRID)}, "not finite"),
        ({"values": [inf] * len(GRID)}, "not finite"),
        ({"sizes": [1.0]}, "one above zero is needed for each sample"),
        ({"sizes": [0.0] * len(GRID)}, "one above zero is needed for each sample"),
        ({"sizes": [1.0] * (len(GRID) - 1) + [inf]}, "one above zero is needed for each sample"),
        ({"samples": [{"x": 0.0, "y": 1.0}] * len(GRID)}, "attribute x is 0.0"),
        ({"samples": [{"x": inf, "y": 1.0}] * len(GRID)}, "attribute x is inf"),
        ({"samples": [{"y": 1.0}] * len(GRID)}, "attribute x is None"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(changed, why):
    given = {
        "samples": GRID,
        "values": [1.0] * len(GRID),
        "reference": REFERENCE,
        "attributes": ("x", "y"),
        **changed,
    }
    with pytest.raises(ValueError, match=why):
        learn(given.pop("samples"), given.pop("values"), **given)


def test_many_distinct_values_have_few_bends():
    """The cost is linear in the number of samples."""
    rng = np.random.default_rng(2)
    samples = [{"x": float(x)} for x in rng.uniform(1, 9, 400)]
    values = [max(0.0, one["x"] - 4.0) for one in samples]
    function, _ = learn(samples, values, reference={"x": 1.0}, attributes=("x",))
    for x in (2.0, 4.0, 6.0, 8.0):
        assert function({"x": x}) == pytest.approx(max(0.0, x - 4.0), abs=0.1)
