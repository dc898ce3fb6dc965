"""Histories whose problem changed, and as many in which nothing did."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.curves.from_runs import build, drift_problem, follow, started
from predictor.sample import Sample
from predictor.types import Drift

COUNTS = (1, 2, 4, 8, 16)
DAY = 86_400.0


def history(
    seed, before, after=0, *, factor=1.0, noise=0.05, counts=COUNTS, later=(), outliers=0.0
):
    """One run a day of 600/n + 20 s, and ``factor`` times that after ``before`` runs."""
    chance = random.Random(seed)
    runs = []
    for day in range(before + after):
        nodes = chance.choice(later if later and day >= before else counts)
        time_s = (600 / nodes + 20) * chance.lognormvariate(0, noise)
        time_s *= factor if day >= before else 1.0
        time_s *= chance.uniform(1.5, 4) if chance.random() < outliers else 1.0
        runs.append(Sample(nodes, time_s, DAY * day + time_s))
    return runs


def noticed(runs):
    return follow(runs)[1] is not None


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.03, 0.3])
def test_the_rate_of_false_alarms_is_the_one_promised(noise, monkeypatch):
    # Any shift counts here, so that the test itself is judged; one history in a hundred may be
    # called drifting: of 500 at most 11 with 99 % confidence (binomial).
    monkeypatch.setattr("predictor.curves.from_runs.LEAST", 0.0)
    alarms = (noticed(history(seed, 40, noise=noise, outliers=0.03)) for seed in range(500))
    assert sum(alarms) <= 11


@pytest.mark.slow
@pytest.mark.parametrize("runs", [6, 15, 100])
def test_noise_alone_is_hardly_ever_called_drift(runs):
    assert sum(noticed(history(seed, runs, noise=0.15)) for seed in range(150)) <= 3


@pytest.mark.parametrize("factor", [0.6, 1.3, 2.0, 10.0])
def test_a_change_is_noticed_within_a_dozen_runs(factor):
    result = [noticed(history(seed, 30, 12, factor=factor)) for seed in range(40)]
    assert sum(result) >= 38


def test_a_slow_rise_is_followed():
    chance = random.Random(3)
    runs = [
        Sample(4, 100 * 1.02**day * chance.lognormvariate(0, 0.03), DAY * day) for day in range(60)
    ]
    (point,) = build(runs).points
    assert point.time_s == pytest.approx(100 * 1.02**60, rel=0.15)


def test_the_moment_and_the_size_of_a_change_are_reported():
    runs = history(1, 40, 12, factor=1.5)
    _, drift = follow(runs)
    assert drift.factor == pytest.approx(1.5, rel=0.05)
    assert drift.since_s == pytest.approx(40 * DAY, abs=2 * DAY)
    assert drift.runs == pytest.approx(12, abs=2)


@pytest.mark.parametrize("seed", range(5))
def test_the_curve_follows_a_change(seed):
    points = build(history(seed, 60, 30, factor=1.6)).points
    assert len(points) >= 3
    for point in points:
        assert point.time_s == pytest.approx(1.6 * (600 / point.nodes + 20), rel=0.12)
        assert point.spread < 0.15


def test_counts_that_were_not_run_since_are_scaled_and_reported():
    runs = history(2, 40, 10, factor=2.0, later=(2, 4))
    curve = build(runs)
    assert (curve.drift.renewed, curve.drift.stale) == ((2, 4), (1, 8, 16))
    assert [p.nodes for p in curve.points] == list(COUNTS)
    for point in curve.points:
        assert point.time_s == pytest.approx(2 * (600 / point.nodes + 20), rel=0.15)


def test_renewed_counts_that_make_a_curve_leave_older_runs_out():
    curve = build(history(2, 40, 15, factor=2.0, later=(2, 4, 8)))
    assert [p.nodes for p in curve.points] == [2, 4, 8]
    assert curve.drift.stale == ()


def test_of_two_changes_the_last_level_counts():
    first = history(4, 25, 15, factor=2.0)
    second = [
        replace(run, elapsed_s=run.elapsed_s * 5, end_s=run.end_s + 60 * DAY)
        for run in history(5, 15)
    ]
    for point in build([*first, *second]).points:
        assert point.time_s == pytest.approx(5 * (600 / point.nodes + 20), rel=0.12)


def test_tasks_that_start_together_do_not_drift():
    # The shortest task ends first: in the order of their ends run times only ever rise.
    chance = random.Random(0)
    times = [100 * chance.lognormvariate(0, 0.3) for _ in range(60)]
    assert not noticed([Sample(4, time, end_s=time) for time in times])


def test_node_counts_tried_one_after_the_other_are_no_drift():
    runs = sorted(history(6, 50), key=lambda run: run.nodes)
    assert not noticed([replace(run, end_s=DAY * i) for i, run in enumerate(runs)])


def test_two_problems_in_turn_are_no_drift():
    runs = [Sample(4, 300.0 if day % 2 else 100.0, DAY * day) for day in range(60)]
    assert not noticed(runs)


def test_a_few_outliers_are_no_drift():
    times = [300.0 if day in (7, 21, 22) else 100 + day % 3 for day in range(40)]
    runs = [Sample(4, time_s, DAY * day) for day, time_s in enumerate(times)]
    assert not noticed(runs)


def test_stopped_runs_are_carried_along():
    runs = history(2, 40, 10, factor=2.0, later=(2, 4))
    stopped = Sample(32, 30.0, DAY * 3, censored=True)
    followed, drift = follow([*runs, stopped])
    (remaining,) = (run for run in followed if run.censored)
    assert remaining.elapsed_s == pytest.approx(30.0 * drift.factor)


def cut_at(limit_s, runs):
    """What the runs were, had each been stopped after ``limit_s``."""
    return [
        Sample(run.nodes, limit_s, started(run) + limit_s, censored=True)
        if run.elapsed_s > limit_s
        else run
        for run in runs
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_problem_that_outgrew_its_limit_is_noticed(seed):
    runs = cut_at(300.0, history(seed, 30, 12, factor=3.0, counts=(4, 8)))
    _, drift = follow(runs)
    assert drift.since_s == pytest.approx(30 * DAY, abs=2 * DAY)
    # 170 s on 4 nodes, cut short at 300 s: all that is known is that they rose by so much.
    assert 1.6 < drift.factor < 3.3


def test_limits_that_were_always_too_short_are_no_drift():
    alarms = [noticed(cut_at(170.0, history(seed, 40, noise=0.2))) for seed in range(100)]
    assert sum(alarms) <= 3


def test_a_level_on_which_no_run_finished_yet_asks_for_one():
    runs = cut_at(200.0, history(1, 30, 10, factor=4.0, counts=(4,)))
    _, drift = follow(runs)
    assert (drift.renewed, drift.stale) == ((), (4,))
    assert drift_problem(drift).observe == 4


@given(st.integers(0, 20), st.floats(1e-3, 1e4, allow_nan=False), st.sampled_from([1.0, 1.6]))
def test_seconds_or_hours_make_no_difference(seed, unit, factor):
    runs = history(seed, 20, 12, factor=factor)
    other = [
        replace(run, elapsed_s=run.elapsed_s * unit, end_s=started(run) + run.elapsed_s * unit)
        for run in runs
    ]
    result, scaled = follow(runs)[1], follow(other)[1]
    assert (result is None) == (scaled is None)
    if result and scaled:
        assert scaled.factor == pytest.approx(result.factor)
        assert scaled.runs == result.runs


@pytest.mark.slow
@given(st.integers(0, 20), st.randoms(use_true_random=False))
def test_the_order_in_which_runs_are_given_does_not_matter(seed, chance):
    runs = history(seed, 20, 8, factor=1.5)
    mixed = runs.copy()
    chance.shuffle(mixed)
    assert follow(mixed) == follow(runs)


def test_the_problem_says_what_changed_and_what_to_run():
    reported = drift_problem(Drift(1_790_000_000.0, 1.42, 5, renewed=(8, 16), stale=(1, 2, 4)))
    assert reported.name == "drift"
    assert reported.text.startswith(
        "run times rose by 42% with the run of 2026-09-21; on 1, 2 and 4 "
    )
    assert reported.observe == 1
    followed = drift_problem(Drift(1_790_000_000.0, 0.5, 9, renewed=(4, 8, 16)))
    assert (
        followed.text
        == "run times fell by 50% with the run of 2026-09-21; earlier runs are left out"
    )
    assert followed.observe is None
