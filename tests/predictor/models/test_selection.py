import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.curves.reliability import belongs
from predictor.models.base import TooFewPoints
from predictor.models.selection import fit_curve
from predictor.types import Curve, Point, Prediction, Verdict
from tests.predictor.example_curves import amdahl, curve_of, downey, drawn

pytestmark = pytest.mark.kernels

NODES = [1, 2, 4, 8, 16]


def names(choice, nodes):
    return [p.name for p in choice.judge(choice.predict(nodes))[1]]


def test_fewer_than_three_node_counts_are_no_curve():
    with pytest.raises(TooFewPoints):
        fit_curve(curve_of([1, 2], [10, 5]))


@pytest.mark.parametrize("formula", [amdahl, downey(24, 0.2), lambda n: 100 / n + 1.5 * n])
def test_nothing_jumps_where_the_observed_range_ends(formula):
    choice = fit_curve(drawn([16, 32, 64, 128, 256], formula, noise=0.05))
    at, after = choice.predict([256, 257])
    assert after.time_s == pytest.approx(at.time_s, rel=0.02)
    assert after.low_s < after.time_s < after.high_s


def test_inside_is_reliable_far_beyond_is_not():
    choice = fit_curve(drawn(NODES, amdahl))
    assert choice.fit.model == "averaged"
    judged = choice.judge(choice.predict([3, 16, 64, 1024]))
    assert judged[0] == (Verdict.RELIABLE, Verdict.RELIABLE, Verdict.DOUBTFUL, Verdict.REFUSED)


def test_what_is_doubtful_has_a_reason_and_a_fix():
    choice = fit_curve(drawn(NODES, amdahl))
    (problem,) = (
        p for p in choice.judge(choice.predict(list(range(1, 65))))[1] if p.name == "wide_interval"
    )
    assert 16 < problem.observe <= 32
    assert "off by more than 20 %" in problem.text


def test_a_wide_gap_is_asked_about_first():
    choice = fit_curve(curve_of([1, 2, 512], [100, 70, 10]))
    problems = choice.judge(choice.predict([4, 16, 64, 256, 1024]))[1]
    (problem,) = (p for p in problems if p.name == "wide_interval")
    assert problem.text.startswith("on 4 to 256 nodes")
    assert 8 < problem.observe < 256


@given(st.integers(2, 64), st.floats(0.0, 0.2))
def test_the_observation_asked_for_narrows_what_is_uncertain(first, serial):
    def time(n):
        return 1000 * ((1 - serial) / n + serial)

    nodes = [first, 2 * first, 4 * first]
    choice, far = fit_curve(curve_of(nodes, [time(n) for n in nodes])), 8 * first
    reported = choice.judge(choice.predict([far]))[1]
    for problem in reported:
        if problem.name == "wide_interval" and problem.observe:
            more = [*nodes, problem.observe]
            (after,) = fit_curve(curve_of(more, [time(n) for n in more])).predict([far])
            assert after.curve_sd < choice.predict([far])[0].curve_sd


@pytest.mark.parametrize("model", ["adept", "averaged"])
@pytest.mark.parametrize("formula", [lambda n: 30 + 800 / n, lambda n: 100 / n, amdahl])
def test_no_problem_is_said_twice(model, formula):
    choice = fit_curve(drawn(NODES, formula, noise=0.02), model)
    problems = choice.judge(choice.predict([*NODES, 64]))[1]
    assert len(set(problems)) == len(problems)


def test_models_are_named_that_were_not_loaded_yet():
    code = (
        "from predictor.models import base\n"
        "try: base.create('nix')\n"
        "except base.UnknownModel as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "no model is called nix; there are: adept, averaged, two_sizes\n"


def test_adept_disputes_only_where_it_trusts_itself():
    choice = fit_curve(drawn([2, 4, 8, 14, 20, 40, 80], downey(24, 0.2)))
    assert not choice.second.problems
    own = choice.predict([10])[0]
    far = own.time_s * 1.5
    off = Prediction(10, far, 0.95 * far, 1.05 * far, 0.9, 0.02)
    judged = choice.judge([off])
    assert judged[0] == (Verdict.DOUBTFUL,)
    assert [(p.name, p.observe) for p in judged[1]] == [("disagreement", 10)]
    assert choice.judge([replace(off, low_s=0.5 * far)])[0] == (Verdict.RELIABLE,)
    unfit = fit_curve(curve_of(NODES, [100, 80, 30, 26, 9]))
    assert "high_fitting_error" in {p.name for p in unfit.second.problems}
    assert unfit.judge([replace(off, nodes=3)])[0] == (Verdict.RELIABLE,)


def test_how_badly_downeys_model_fits_is_not_held_against_another():
    choice = fit_curve(curve_of(NODES, [100, 80, 30, 26, 9]))
    assert "high_fitting_error" not in names(choice, [3])
    assert "alternative_fit" in names(choice, [3])


@pytest.mark.parametrize(
    ("out", "factors"), [([6, 7], [1.8, 2.6]), ([4], [1.6])], ids=["declining", "slow"]
)
def test_what_adept_leaves_out_it_does_not_dispute(out, factors):
    nodes = 2 ** np.arange(8)
    times = downey(40 if len(out) > 1 else 150, 0.8)(nodes)
    times[out] *= factors
    points = zip(nodes.tolist(), times.tolist(), strict=True)
    choice = fit_curve(Curve(tuple(Point(n, t, 5, 0.01) for n, t in points)))
    predictions = choice.predict(nodes.tolist())
    others = choice.second.roughly(nodes.tolist())
    far = [p for p, t in zip(predictions, others, strict=True) if abs(t / p.time_s - 1) > 0.2]
    # It would say something else there, and is not asked.
    assert {p.nodes for p in far} >= set(nodes[out].tolist())
    judged = choice.judge(predictions)
    assert "disagreement" not in [problem.name for problem in judged[1]]
    assert [judged[0][i] for i in out] == [Verdict.RELIABLE] * len(out)


def test_what_adept_proposes_is_passed_on():
    choice = fit_curve(drawn([1, 2, 4, 8], lambda n: 100 / n))
    assert "linear_section" in names(choice, [4, 16])


@pytest.mark.parametrize("nodes", [1, 64])
@pytest.mark.parametrize("factor", [1.05, 1.2])
def test_a_run_cut_short_bounds_median_and_interval(nodes, factor):
    curve = drawn([2, 4, 8, 16], amdahl, noise=0.03)
    (free,) = fit_curve(curve).predict([nodes])
    bound = factor * free.time_s
    choice = fit_curve(replace(curve, censored=(Point(nodes, bound),)))
    (after,) = choice.predict([nodes])
    assert bound < after.time_s < 1.3 * bound
    assert after.low_s > max(0.8 * bound, free.low_s)
    assert after.high_s > free.high_s
    reported = [(p.name, p.observe) for p in choice.problems if p.name == "cut_short"]
    assert reported == [("cut_short", nodes)]


def test_a_bound_is_followed_on_its_own_side_of_the_observations():
    curve = drawn([2, 4, 8, 16], amdahl, noise=0.03)
    free = fit_curve(curve).predict([1, 6, 64, 128])
    cut = fit_curve(replace(curve, censored=(Point(64, 1.3 * free[2].time_s),)))
    ratios = [a.time_s / b.time_s for a, b in zip(cut.predict([1, 6, 64, 128]), free, strict=True)]
    assert ratios[:2] == pytest.approx([1.0, 1.0], abs=0.03)
    assert min(ratios[2:]) > 1.3


def test_a_run_cut_short_early_changes_nothing():
    curve = drawn([2, 4, 8, 16], amdahl)
    (free,) = fit_curve(curve).predict([1])
    choice = fit_curve(replace(curve, censored=(Point(1, 0.5 * free.time_s),)))
    assert choice.predict([1])[0].time_s == pytest.approx(free.time_s, rel=0.02)
    assert "cut_short" not in {p.name for p in choice.problems}


def test_a_run_that_seems_to_have_hung_moves_nothing_but_casts_doubt():
    curve = drawn([2, 4, 8, 16], amdahl)
    (free,) = fit_curve(curve).predict([1])
    choice = fit_curve(replace(curve, censored=(Point(1, 10 * free.time_s),)))
    assert choice.predict([1])[0].time_s == pytest.approx(free.time_s, rel=0.02)
    judged = choice.judge(choice.predict([1, 4]))
    assert judged[0] == (Verdict.DOUBTFUL, Verdict.RELIABLE)
    assert "cut_short" in {p.name for p in judged[1]}


def test_an_application_made_for_powers_of_two_is_fitted_on_them_alone():
    nodes = np.array([2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])
    power = np.log2(nodes) % 1 == 0
    times = downey(100, 0.8)(nodes.astype(float))
    choice = fit_curve(curve_of(nodes.tolist(), times * np.where(power, 1, 1.4)))
    assert choice.special == "powers of two"
    predicted = choice.predict(nodes.tolist())
    assert [p.time_s for p, own in zip(predicted, power, strict=True) if own] == pytest.approx(
        times[power], rel=0.02
    )
    judged = choice.judge(choice.predict([6, 8, 512]))
    assert judged[0][:2] == (Verdict.REFUSED, Verdict.RELIABLE)
    asked = [p.observe for p in judged[1] if p.name == "wide_interval"]
    assert all(n is None or belongs("powers of two", n) for n in asked)
