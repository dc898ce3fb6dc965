import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.curves.from_runs import CurveSettings, build
from predictor.sample import Sample


def runs(nodes, *times, censored=False):
    return [Sample(nodes, t, end_s=1e6 * i, censored=censored) for i, t in enumerate(times)]


def test_repeats_become_their_median():
    (point,) = build(runs(4, 10.0, 11.0, 10.4)).points
    assert (point.nodes, point.time_s, point.repeats) == (4, 10.4, 3)
    assert point.spread == pytest.approx(0.0479, abs=1e-4)


def test_points_come_in_rising_order_of_nodes():
    curve = build([*runs(8, 3.0), *runs(2, 9.0), *runs(4, 5.0)])
    assert [p.nodes for p in curve.points] == [2, 4, 8]


def test_an_obvious_outlier_is_dropped():
    curve = build(runs(4, 100.0, 101.0, 99.0, 100.5, 300.0))
    assert curve.points[0].repeats == 4
    assert curve.points[0].time_s == pytest.approx(100.25)


@pytest.mark.parametrize("times", [(95.0, 100.0, 105.0, 110.0, 90.0), (100.0, 100.0, 104.0)])
def test_ordinary_scatter_is_retained_also_beside_two_equal_runs(times):
    assert build(runs(4, *times)).points[0].repeats == len(times)


def test_two_runs_cannot_tell_which_is_the_outlier():
    curve = build(runs(4, 100.0, 300.0))
    assert curve.points[0].repeats == 2
    assert curve.points[0].spread > 0.7


def test_only_the_last_runs_count():
    curve = build(runs(4, *[50.0] * 10, *[100.0] * 3), CurveSettings(recent=3))
    assert curve.points[0].time_s == 100.0


def test_the_newest_runs_count_twice():
    # Five percent are too little to be called drift.
    old = [Sample(4, 100.0, end_s=float(day)) for day in range(15)]
    new = [Sample(4, 105.0, end_s=float(day)) for day in range(15, 25)]
    assert build([*old, *new]).points[0].time_s == 105.0
    assert build([*old, *new], CurveSettings(newest=1)).points[0].time_s == 100.0


def test_where_every_run_was_stopped_the_curve_knows_a_lower_bound():
    curve = build([*runs(4, 10.0), *runs(1, 30.0, 60.0, censored=True)])
    assert [p.nodes for p in curve.points] == [4]
    assert [(p.nodes, p.time_s) for p in curve.censored] == [(1, 60.0)]


def test_stopped_runs_raise_the_median():
    finished, stopped = runs(4, 10.0, 11.0, 12.0), runs(4, 12.5, 12.5, censored=True)
    assert build(finished).points[0].time_s == 11.0
    assert build([*finished, *stopped]).points[0].time_s == 12.0


def test_a_run_stopped_early_says_little():
    finished = runs(4, 10.0, 11.0, 12.0)
    assert build([*finished, *runs(4, 1.0, censored=True)]).points[0].time_s == 11.0


def test_runs_that_were_cut_off_crowd_no_finished_one_out():
    recent = CurveSettings().recent
    cut_off = runs(4, *[1.0] * (2 * recent), censored=True)
    curve = build([*runs(4, *[10.0] * 5), *(replace(run, end_s=99.0) for run in cut_off)])
    assert [(point.nodes, point.time_s) for point in curve.points] == [(4, 10.0)]


@given(st.lists(st.tuples(st.integers(1, 5), st.floats(0.1, 1e4), st.booleans()), max_size=30))
def test_a_curve_does_not_depend_on_the_order_of_runs(raw):
    given_ = [Sample(n, t, end_s=t, censored=c) for n, t, c in raw]
    assert build(given_) == build(given_[::-1])


def test_each_run_is_held_against_those_before_it_outliers_included():
    curve = build([*runs(4, 100.0, 110.0, 100.0, 300.0), *runs(8, 50.0)])
    assert curve.surprises == pytest.approx(
        [math.log(1.1), math.log(100 / 105), math.log(3.0)], abs=1e-9
    )


def test_a_run_stopped_after_what_was_expected_is_a_surprise_without_end():
    stopped = [Sample(4, t, end_s=9e9 + t, censored=True) for t in (60.0, 200.0)]
    assert build([*runs(4, 100.0), *stopped]).surprises == (math.inf,)
    assert build(stopped).surprises == ()


def test_what_was_before_a_change_of_level_surprises_still():
    old = [Sample(4, 100.0, end_s=1e4 * day) for day in range(12)]
    new = [Sample(4, 200.0, end_s=1e4 * day) for day in range(12, 24)]
    curve = build([*old, *new])
    assert curve.points[0].time_s == 200.0
    assert max(curve.surprises) == pytest.approx(math.log(2.0))
