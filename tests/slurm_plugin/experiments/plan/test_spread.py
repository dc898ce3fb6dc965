"""When a plan ends, against closed forms: log-normal steps, shared errors, waits."""

from itertools import pairwise
from math import exp, log, sqrt
from statistics import NormalDist

import numpy as np
import pytest

from slurm_plugin.experiments.plan.plans import ends
from slurm_plugin.experiments.plan.run_times import TaskEstimate
from slurm_plugin.experiments.plan.schedule import PlanSchedule, Step

NOW = 1_000.0
Z95 = NormalDist().inv_cdf(0.95)


def step(name, estimate, start_s=NOW, ready_s=None, **also):
    ready_s = start_s if ready_s is None else ready_s
    given = {"needs": (), "pool": "p", "nodes": 1, **also}
    return Step(name, start_s, start_s + estimate.time_s, ready_s, estimate, **given)


def chain(*estimates):
    """Steps one after the other, each in need of the one before."""
    made = []
    for number, estimate in enumerate(estimates):
        start_s = made[-1].end_s if made else NOW
        needs = (made[-1].name,) if made else ()
        made.append(step(f"s{number}", estimate, start_s, needs=needs))
    return ends(schedule(*made), NOW)


def schedule(*steps):
    return PlanSchedule(steps, {}, max((one.end_s for one in steps), default=NOW), 0.0)


def took(drawn, share):
    return float(np.quantile(drawn, share)) - NOW


def test_a_step_is_log_normal_on_each_side():
    drawn = chain(TaskEstimate(100.0, 0.1, 0.3))
    assert took(drawn, 0.5) == pytest.approx(100.0, rel=0.02)
    assert took(drawn, 0.05) == pytest.approx(100 * exp(-0.1 * Z95), rel=0.02)
    assert took(drawn, 0.95) == pytest.approx(100 * exp(0.3 * Z95), rel=0.03)
    for deadline in (80.0, 100.0, 130.0):
        sd = 0.1 if deadline < 100 else 0.3
        share = NormalDist().cdf(log(deadline / 100) / sd)
        assert (drawn <= NOW + deadline).mean() == pytest.approx(share, abs=0.03)


def test_what_is_sure_takes_its_time():
    drawn = chain(TaskEstimate(100.0), TaskEstimate(50.0))
    assert set(drawn) == {NOW + 150.0}
    assert (drawn <= NOW + 150.0).mean() == 1.0
    assert (drawn <= NOW + 149.9).mean() == 0.0


def test_steps_of_their_own_even_out_and_those_of_one_group_do_not():
    """Four steps of 100 s: sd 10 % each gives 5 % of the sum, or 10 % if all is one error."""
    own = chain(*[TaskEstimate(100.0, 0.1, 0.1)] * 4)
    one = chain(*[TaskEstimate(100.0, 0.1, 0.1, 0.1, "app")] * 4)
    apart = chain(*[TaskEstimate(100.0, 0.1, 0.1, 0.1, f"app {n}") for n in range(4)])
    assert np.std(np.log(own - NOW)) == pytest.approx(0.05, rel=0.06)
    assert np.std(np.log(apart - NOW)) == pytest.approx(0.05, rel=0.06)
    assert np.std(np.log(one - NOW)) == pytest.approx(0.1, rel=0.06)
    assert took(one, 0.95) == pytest.approx(400 * exp(0.1 * Z95), rel=0.01)


def test_a_shared_part_is_shared_and_the_rest_is_not():
    """Of 0.1 in all 0.06 is common: two steps correlate by 0.36."""
    drawn = chain(*[TaskEstimate(100.0, 0.1, 0.1, 0.06, "app")] * 2)
    sd = sqrt(0.1**2 * (2 + 2 * 0.36)) / 2
    assert np.std(np.log(drawn - NOW)) == pytest.approx(sd, rel=0.05)


def test_the_latest_of_several_is_later_than_its_own():
    """Two independent steps side by side: the chance of both is the product."""
    both = ends(
        schedule(
            step("a", TaskEstimate(100.0, 0.2, 0.2)), step("b", TaskEstimate(100.0, 0.2, 0.2))
        ),
        NOW,
    )
    for deadline in (90.0, 100.0, 120.0):
        share = NormalDist().cdf(log(deadline / 100) / 0.2) ** 2
        assert (both <= NOW + deadline).mean() == pytest.approx(share, abs=0.03)


def test_a_wait_for_others_is_drawn_and_exceeds_1_45_once_in_twenty():
    waits = ends(schedule(step("a", TaskEstimate(1e-9), NOW + 100.0, NOW)), NOW)
    assert took(waits, 0.5) == pytest.approx(100.0, rel=0.02)
    assert took(waits, 0.95) == pytest.approx(145.0, rel=0.02)


def test_a_wait_for_the_plan_s_own_steps_is_theirs():
    """The second waits for the nodes of the first: its start is the other's end, whenever."""
    first = step("a", TaskEstimate(100.0, 0.3, 0.3))
    second = step("b", TaskEstimate(10.0), first.end_s, NOW)
    drawn = ends(schedule(first, second), NOW)
    alone = ends(schedule(first), NOW)
    assert drawn == pytest.approx(alone + 10.0)
    elsewhere = step("b", TaskEstimate(10.0), first.end_s, NOW, pool="q")
    apart = ends(schedule(first, elsewhere), NOW)
    assert np.std(apart - alone) > 1.0


def test_a_wait_of_both_kinds_is_drawn_in_its_part():
    """40 s for the plan's own step, 60 s more for other people's jobs."""
    first = step("a", TaskEstimate(40.0))
    second = step("b", TaskEstimate(1e-9), NOW + 100.0, NOW)
    drawn = ends(schedule(first, second), NOW)
    assert took(drawn, 0.5) == pytest.approx(100.0, rel=0.01)
    assert took(drawn, 0.95) == pytest.approx(40.0 + 60 * 1.45, rel=0.02)


def test_steps_that_ended_before_or_started_later_hold_nothing_up():
    """Ready at 50: a step that ended at 40 is none that it waited for."""
    early = step("a", TaskEstimate(40.0, 0.5, 0.5))
    late = step("b", TaskEstimate(1e-9), NOW + 100.0, NOW + 50.0)
    drawn = ends(schedule(early, late), NOW)
    # What is waited for is 50 s of others' jobs after the moment of planning.
    assert took(drawn, 0.5) < 100.0


def test_quantiles_rise_and_the_draws_are_the_same_each_time():
    drawn = chain(TaskEstimate(100.0, 0.1, 0.3), TaskEstimate(30.0, 0.2, 0.1))
    again = chain(TaskEstimate(100.0, 0.1, 0.3), TaskEstimate(30.0, 0.2, 0.1))
    assert (drawn == again).all()
    assert len(drawn) == 2_000
    assert all(a <= b for a, b in pairwise(np.quantile(drawn, np.linspace(0, 1, 11))))


def test_a_plan_of_nothing_has_ended():
    assert (ends(schedule(), NOW) == NOW).all()
