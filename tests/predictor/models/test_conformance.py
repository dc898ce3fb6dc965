"""Promises that all models make; a new model is tested by being registered."""

import math
import random
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import _parametric as parametric
from predictor.curves.from_runs import build
from predictor.models import adept, base
from predictor.models.averaged import model as averaged
from predictor.models.two_sizes import TwoSizes
from predictor.sample import Sample
from predictor.types import Curve, Point
from tests.predictor.example_curves import amdahl, curve_of, downey, drawn, sized

pytestmark = pytest.mark.kernels

TARGETS = [1, 2, 3, 7, 8, 16, 40, 64, 200]
CURVES = [
    drawn([1, 2, 4, 8], amdahl, noise=0.03),
    drawn([4, 16, 40, 90, 200], downey(50, 0.5)),
    drawn([2, 3, 5, 8, 13, 21], downey(30, 4.0), noise=0.05),
    curve_of([1, 2, 4], [100, 30, 9]),
    curve_of([2, 4, 8, 16], [50, 50, 50, 50]),
    curve_of([2, 4, 8, 16], [50, 60, 80, 120]),
    curve_of([1, 100, 10_000], [1e6, 1.1e4, 3e2]),
]

#: Tasks on each node vary, too.
HALF, FULL = (
    replace(curve, each=each)
    for curve, each in (
        (curve_of([1, 2, 4, 8], [80, 44, 26, 17]), 2),
        (drawn([1, 2, 16], amdahl), 4),
    )
)
CURVES += [sized([HALF, FULL], each) for each in (2, 4)]

every_model = pytest.mark.parametrize("name", base.names())
every_curve = pytest.mark.parametrize("curve", CURVES)


@st.composite
def any_curve(draw):
    nodes = sorted(draw(st.lists(st.integers(1, 5000), min_size=3, max_size=8, unique=True)))
    times = draw(st.lists(st.floats(0.01, 1e6), min_size=len(nodes), max_size=len(nodes)))
    return curve_of(nodes, times)


def test_the_models_are_registered():
    shipped = ("adept", "amdahl", "amdahl_log", "averaged", "two_sizes", "usl")
    assert set(shipped) <= set(base.names())
    made = {type(base.create(name)) for name in shipped}
    forms = {parametric.Amdahl, parametric.AmdahlLog, parametric.Usl}
    assert made == {adept.Adept, averaged.Averaged, TwoSizes} | forms


def test_the_contract_of_models_that_do_not_import_each_other_names_all():
    project = tomllib.loads((Path(base.__file__).parents[2] / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (independent,) = (one for one in contracts if one["type"] == "independence")
    modules = [model.__module__.split(".") for model in base.MODELS.values()]
    shipped = {".".join(parts[:3]) for parts in modules if parts[0] == "predictor"}
    assert shipped == set(independent["modules"])


@every_model
@every_curve
def test_predictions_are_positive_and_finite_and_inside_their_interval(name, curve):
    for p in base.create(name).fit(curve).predict(TARGETS):
        assert 0 < p.low_s <= p.time_s <= p.high_s < math.inf
        assert 0 <= p.curve_sd < math.inf
        assert p.level == 0.9


@every_model
@given(any_curve())
def test_no_curve_makes_a_model_fail(name, curve):
    last = curve.points[-1].nodes
    for p in base.create(name).fit(curve).predict([1, last, 4 * last]):
        assert 0 < p.low_s <= p.time_s <= p.high_s < math.inf


@every_model
@every_curve
def test_refitting_changes_nothing(name, curve):
    model = base.create(name)
    first = model.fit(curve)
    assert model.fit(curve) == first
    assert base.create(name).fit(curve) == first


@every_model
def test_the_order_of_runs_does_not_matter(name):
    runs = [Sample(n, 100 / n + n * k, end_s=10.0 * n + k) for n in (1, 2, 4, 8) for k in range(3)]
    shuffled = random.Random(0).sample(runs, len(runs))
    assert base.create(name).fit(build(runs)) == base.create(name).fit(build(shuffled))


def slower(curve, factor):
    points = tuple(replace(p, time_s=p.time_s * factor) for p in curve.points)
    others = tuple(slower(other, factor) for other in curve.others)
    return replace(curve, points=points, others=others)


@every_model
@every_curve
@pytest.mark.parametrize("factor", [1e-3, 3600.0])
def test_seconds_or_hours_make_no_difference(name, curve, factor):
    scaled = base.create(name).fit(slower(curve, factor)).predict(TARGETS)
    for one, other in zip(base.create(name).fit(curve).predict(TARGETS), scaled, strict=True):
        assert other.time_s == pytest.approx(one.time_s * factor, rel=1e-6)
        assert other.low_s == pytest.approx(one.low_s * factor, rel=1e-6)
        assert other.high_s == pytest.approx(one.high_s * factor, rel=1e-6)
        assert other.curve_sd == pytest.approx(one.curve_sd, rel=1e-6)


@every_model
def test_predictions_come_in_the_order_asked_for(name):
    fit = base.create(name).fit(CURVES[0])
    asked = [8, 1, 30, 1]
    assert [p.nodes for p in fit.predict(asked)] == asked
    singly = [fit.predict([n])[0].time_s for n in asked]
    assert [p.time_s for p in fit.predict(asked)] == pytest.approx(singly)


@every_model
@every_curve
def test_a_higher_level_is_a_wider_interval(name, curve):
    fit = base.create(name).fit(curve)
    for narrow, wide in zip(fit.predict(TARGETS, 0.5), fit.predict(TARGETS, 0.95), strict=True):
        assert wide.low_s < narrow.low_s
        assert narrow.high_s < wide.high_s
        assert narrow.time_s == wide.time_s


@every_model
def test_uncertainty_grows_with_the_distance_from_the_observations(name):
    result = base.create(name).fit(CURVES[0]).predict([8, 16, 32, 64])
    assert np.all(np.diff([p.curve_sd for p in result]) > 0)


@every_model
def test_repeats_that_scatter_widen_the_interval(name):
    def width(spread):
        points = tuple(replace(p, repeats=5, spread=spread) for p in CURVES[0].points)
        (p,) = base.create(name).fit(Curve(points)).predict([4])
        return p.high_s / p.low_s

    assert width(0.3) > width(0.01)


@every_model
def test_too_few_node_counts_are_an_error(name):
    model = base.create(name)
    few = Curve(tuple(Point(n, 10.0) for n in range(1, model.min_points)))
    with pytest.raises(base.TooFewPoints, match="are needed"):
        model.fit(few)


@every_model
def test_a_simple_law_is_recovered(name):
    fit = base.create(name).fit(drawn([1, 2, 4, 8, 16, 32], amdahl))
    for p in fit.predict([3, 6, 12, 24]):
        assert p.time_s == pytest.approx(float(amdahl(np.array(float(p.nodes)))), rel=0.02)


def test_names_are_unique():
    with pytest.raises(ValueError, match="two models"):
        base.register("usl")(object)


@every_model
@given(any_curve(), any_curve(), st.integers(1, 64), st.integers(1, 64), st.booleans())
def test_no_curves_of_two_sizes_make_a_model_fail(name, one, other, each, second, in_all):
    every = {each: replace(one, each=each), second: replace(other, each=second)}
    last = one.points[-1].nodes
    curve = replace(sized(every.values(), second), in_all=in_all)
    for p in base.create(name).fit(curve).predict([1, last, 4 * last]):
        assert 0 < p.low_s <= p.time_s <= p.high_s < math.inf


@pytest.mark.parametrize(
    ("ran", "power", "in_all"),
    [
        ({2: [1, 2, 4, 8, 16, 32], 4: [1, 8, 32], 8: [2, 16]}, -0.8, False),
        ({1: [1, 2, 4, 8, 16, 32], 2: [2, 8, 32], 4: [4, 16]}, 0.3, True),
    ],
    ids=["two sizes", "a size and its layout"],
)
@pytest.mark.parametrize("place", range(3))
def test_a_simple_law_of_two_sizes_is_found_again(ran, power, in_all, place):
    each = list(ran)[place]
    every = [
        replace(drawn(nodes, lambda n, k=k: amdahl(n) * k**power), each=k)
        for k, nodes in ran.items()
    ]
    fit = base.create("two_sizes").fit(replace(sized(every, each), in_all=in_all))
    for p in fit.predict([6, 12, 24] if in_all else [3, 6, 12, 24]):
        expected = float(amdahl(np.array(float(p.nodes)))) * each**power
        assert p.time_s == pytest.approx(expected, rel=0.04 if in_all else 0.03)
