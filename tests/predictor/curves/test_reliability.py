from math import exp

import pytest

from predictor.curves.reliability import (
    NINE_IN_TEN,
    ReliabilitySettings,
    curve_problems,
    downey_doubts,
    verdict_on,
    verdicts,
    wide_interval,
)
from predictor.job_table import within_cluster
from predictor.problems import Problem
from predictor.types import Curve, Point, Prediction, Verdict
from tests.predictor.example_curves import curve_of
from tests.slurm_plugin.made import table

CURVE = curve_of([2, 4, 8, 16], [80, 40, 20, 10])
SETTINGS = ReliabilitySettings()


def judged(nodes, curve_sd, *names, special=""):
    prediction = Prediction(nodes, 30.0, 25.0, 35.0, 0.9, curve_sd)
    problems = [Problem(name, "") for name in names]
    (verdict,) = verdicts(CURVE, [prediction], problems, SETTINGS, special=special)
    return verdict


@pytest.mark.parametrize(
    ("curve_sd", "expected"),
    [
        (0.0, Verdict.RELIABLE),
        (0.11, Verdict.RELIABLE),
        (0.112, Verdict.DOUBTFUL),
        (0.42, Verdict.DOUBTFUL),
        (0.43, Verdict.REFUSED),
    ],
)
def test_nine_in_ten_medians_must_lie_within_the_factor(curve_sd, expected):
    assert judged(4, curve_sd) is expected


@pytest.mark.parametrize("name", ["stepwise", "declining_or_anomaly"])
def test_what_the_end_leaves_open_is_held_against_what_lies_beyond_only(name):
    assert judged(16, 0.05, name) is Verdict.RELIABLE
    assert judged(17, 0.05, name) is Verdict.DOUBTFUL
    assert judged(17, 0.05) is Verdict.RELIABLE


def test_repeats_that_differ_are_held_against_every_prediction():
    assert judged(4, 0.05, "noisy_repeats") is Verdict.DOUBTFUL
    assert judged(4, 0.05, "anomaly") is Verdict.RELIABLE


@pytest.mark.parametrize("name", ["high_fitting_error", "linear_section", "alternative_fit"])
def test_problems_of_downeys_model_are_held_against_its_own_predictions(name):
    assert judged(17, 0.05, name) is Verdict.RELIABLE
    assert name in downey_doubts(CURVE.points, 17)
    assert (name in downey_doubts(CURVE.points, 16)) is (name == "high_fitting_error")


def test_node_counts_that_the_application_is_not_made_for_are_refused():
    assert judged(6, 0.01, special="powers of two") is Verdict.REFUSED
    assert judged(8, 0.01, special="powers of two") is Verdict.RELIABLE


def test_the_words_say_where_it_is_uncertain():
    counts = ([17, 20], [16], [5, 9], [1, 17, 20])
    made = [wide_interval(nodes, 16, 9, SETTINGS) for nodes in counts]
    where = ("from 17 nodes on", "on 16 nodes", "on 5 to 9 nodes", "on 1 node and from 17 nodes on")
    said = "the prediction may be off by more than 20 %"
    assert [one.text for one in made] == [f"{one} {said}" for one in where]
    inside = within_cluster(table(problems=made), 16)  # which only reports what it can run
    assert inside.problems == tuple(made[1:])


def test_repeats_that_scatter_are_a_problem():
    def names(spread, time_s=1000.0):
        curve = Curve((Point(4, time_s, 3, spread),), resolution_s=1.0)
        return [p.name for p in curve_problems(curve, SETTINGS)]

    assert names(0.4) == ["noisy_repeats"]
    assert names(0.2) == []
    assert names(0.4, time_s=2.0) == []


def test_of_scattered_repeats_the_worst_are_named():
    points = (Point(4, 900.0, 3, 0.3), Point(8, 500.0, 3, 0.5), Point(16, 300.0, 3, 0.4))
    (problem,) = curve_problems(Curve(points), SETTINGS)
    assert problem.text.startswith("runs on 8 nodes differ by 65%: ")


def test_a_spread_up_to_the_noise_is_none():
    assert curve_problems(Curve((Point(4, 900.0, 3, 0.25),)), SETTINGS) == ()
    assert curve_problems(Curve((Point(4, 900.0, 3, 0.2500001),)), SETTINGS) != ()
    # The clock counts in proportion to the time.
    coarse = Curve((Point(4, 2.0, 3, 0.5), Point(8, 400.0, 3, 0.5)), resolution_s=1.0)
    (problem,) = curve_problems(coarse, SETTINGS)
    assert problem.text.startswith("runs on 8 nodes")


@pytest.mark.parametrize(("nodes", "inside"), [(1, False), (2, True), (3, True), (16, True)])
def test_the_observed_range_begins_at_its_first_and_ends_at_its_last(nodes, inside):
    assert (judged(nodes, 0.05, "stepwise") is Verdict.RELIABLE) is inside
    assert ("alternative_fit" not in downey_doubts(CURVE.points, nodes)) is inside
    assert "high_fitting_error" in downey_doubts(CURVE.points, nodes)


def test_the_factors_themselves_are_still_good_enough():
    def at(sd):
        settings = ReliabilitySettings(
            reliable_factor=exp(NINE_IN_TEN * 0.1), doubtful_factor=exp(NINE_IN_TEN * 0.4)
        )
        return verdict_on(Prediction(4, 30.0, 25.0, 35.0, 0.9, sd), settings)

    assert [at(sd) for sd in (0.1, 0.1001)] == [Verdict.RELIABLE, Verdict.DOUBTFUL]
    assert [at(sd) for sd in (0.4, 0.4001)] == [Verdict.DOUBTFUL, Verdict.REFUSED]


@pytest.mark.parametrize(
    ("survived_s", "expected"), [(35.0, Verdict.RELIABLE), (35.1, Verdict.DOUBTFUL)]
)
def test_a_run_that_outlasted_the_interval_contradicts(survived_s, expected):
    curve = Curve(CURVE.points, censored=(Point(4, survived_s),))
    prediction = Prediction(4, 30.0, 25.0, 35.0, 0.9, 0.01)
    other = Prediction(8, 0.4, 0.3, 0.5, 0.9, 0.01)
    assert verdicts(curve, [prediction, other], [], SETTINGS) == (expected, Verdict.RELIABLE)
