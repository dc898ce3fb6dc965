"""A queue run forward, against cases that can be worked out by hand."""

from math import inf, log
from statistics import median

import numpy as np
import pytest
from scipy.special import ndtr

from predictor.types import Prediction
from predictor.waits import simulation
from predictor.waits.easy import JobShape
from predictor.waits.estimate import log_quantiles
from predictor.waits.history import SPANS_S, arrival_demand
from predictor.waits.simulation import Arrivals, QueuedJob, QueueState, run_forward, starts_behind
from predictor.waits.workload import ArrivalDemand

HOUR = 3600.0


def exactly(seconds):
    return log_quantiles(Prediction(1, seconds, seconds, seconds, level=0.9))


def waits(state, units, limit_s=HOUR):
    return run_forward(state, seed=1).grid.draws(units, limit_s)


def running(units, run_s, *, limit_s=50 * HOUR, ran_s=0.0, **fields):
    return QueuedJob(units=units, limit_s=limit_s, log_run_s=exactly(run_s), ran_s=ran_s, **fields)


def test_an_idle_cluster_starts_at_once_and_has_no_more_than_it_has():
    state = QueueState(units=8)
    assert set(waits(state, 8)) == {0.0}
    assert waits(state, 9) is None


def test_running_jobs_end_when_they_are_predicted_to_and_not_at_their_limits():
    state = QueueState(units=8, running=[running(6, 1000.0, ran_s=400.0)])
    assert set(waits(state, 2)) == {0.0}
    assert waits(state, 3) == pytest.approx([600.0] * 20)


def test_limits_stand_where_nothing_is_predicted():
    state = QueueState(units=8, running=[QueuedJob(units=8, limit_s=HOUR, ran_s=600.0)])
    assert waits(state, 1) == pytest.approx([3000.0] * 20)


def test_a_job_that_is_overdue_may_end_at_any_time_but_not_behind_its_limit():
    late = running(8, 1000.0, ran_s=5000.0, limit_s=2 * HOUR)
    draws = waits(QueueState(units=8, running=[late]), 1)
    assert 0 < draws[0] < draws[-1] <= 2 * HOUR - 5000.0


def test_jobs_ahead_start_in_their_order_and_short_ones_pass():
    state = QueueState(
        units=8,
        running=[running(6, 1000.0, limit_s=2000.0)],
        waiting=[running(8, 500.0, limit_s=HOUR, number=7)],
    )
    forward = run_forward(state)
    assert forward.starts_s[7] == pytest.approx([1000.0] * 20)
    # Two nodes are free for as long as the limits of what runs keep the first waiting.
    assert set(forward.grid.draws(2, 1800.0)) == {0.0}
    assert forward.grid.draws(2, HOUR) == pytest.approx([1500.0] * 20)
    assert forward.grid.draws(4, 300.0) == pytest.approx([1500.0] * 20)


def test_units_in_use_are_those_that_run_then_those_that_wait():
    state = QueueState(
        units=8,
        running=[running(6, 2 * HOUR, limit_s=3 * HOUR), running(1, HOUR, limit_s=2 * HOUR)],
        waiting=[running(8, HOUR, limit_s=HOUR, number=7)],
        closings=[(5 * HOUR, 9 * HOUR, 3)],
    )
    use = run_forward(state).use
    assert use.step_s == 450.0  # of six hours
    hours = [1, 9, 17, 25, 33, 41]  # a moment after each of them has begun
    assert [use.running[i] for i in hours] == pytest.approx([7, 6, 0, 0, 0, 0])
    assert [use.waiting[i] for i in hours] == pytest.approx([0, 0, 8, 0, 0, 0])
    assert [use.closed[i] for i in hours] == [0, 0, 0, 0, 0, 3]


def test_the_time_that_is_looked_at_is_as_long_as_most_jobs_need():
    def span_s(run_s):
        state = QueueState(units=8, running=[running(4, run_s, limit_s=1000 * HOUR)])
        use = run_forward(state).use
        return use.step_s * (len(use.running) - 1)

    hours = [span_s(run_s) / HOUR for run_s in (HOUR, 20 * HOUR, 50 * HOUR, 900 * HOUR)]
    assert hours == [6, 24, 72, 168]
    assert run_forward(QueueState(units=8)).use.running[0] == 0.0
    busy = QueueState(units=8, running=[running(8, HOUR)], waiting=[running(8, HOUR)])
    assert run_forward(busy, only=(1, HOUR)).use is None


def test_reservations_keep_jobs_out_that_would_reach_into_them():
    state = QueueState(units=8, closings=[(HOUR, 3 * HOUR, 6)])
    grid = run_forward(state).grid
    assert set(grid.draws(8, HOUR)) == {0.0}
    assert set(grid.draws(2, 2 * HOUR)) == {0.0}
    assert grid.draws(4, 2 * HOUR) == pytest.approx([3 * HOUR] * 20)


def test_jobs_that_run_go_on_though_their_limits_reach_into_a_reservation():
    there = [running(6, 2 * HOUR), running(1, HOUR)]
    waiting = [running(8, 600.0, limit_s=HOUR, number=1)]
    state = QueueState(units=8, running=there, waiting=waiting, closings=[(5 * HOUR, 9 * HOUR, 3)])
    first_s, last_s = 2 * HOUR * 0.99, 2 * HOUR * 1.01
    assert first_s <= run_forward(state).starts_s[1][0] <= last_s
    behind = QueuedJob(units=8, limit_s=HOUR)
    alone = QueueState(units=8, running=there, closings=state.closings)
    assert first_s <= starts_behind(alone, [behind], draws=1)[0, 0] <= last_s


def test_a_job_waits_until_a_reservation_is_over_even_if_nothing_runs():
    waiting = [running(8, 100.0, limit_s=2 * HOUR, number=1)]
    state = QueueState(units=8, waiting=waiting, closings=[(0.0, HOUR, 4)])
    assert run_forward(state).starts_s[1] == pytest.approx([HOUR] * 20)


def test_jobs_start_no_earlier_than_they_may():
    later = running(8, 100.0, limit_s=200.0, number=3, begin_s=900.0)
    assert run_forward(QueueState(units=8, waiting=[later])).starts_s[3][0] == 900.0


def test_jobs_that_come_first_though_they_come_later_delay_the_others():
    state = {"units": 8, "running": [running(8, 1000.0)], "waiting": [running(8, 1000.0, number=1)]}
    shapes = [JobShape(8, 500.0, 500.0)]
    few = QueueState(**state, arrivals=Arrivals(per_s=1 / 100, ahead=0.0, shapes=shapes))
    many = QueueState(**state, arrivals=Arrivals(per_s=1 / 100, ahead=0.1, shapes=shapes))
    assert median(waits(few, 8)) == pytest.approx(2000.0)
    assert median(waits(many, 8)) > 2400.0


def test_uncertain_run_times_spread_the_waits():
    unsure = log_quantiles(Prediction(1, 1000.0, 250.0, 4000.0, level=0.9))
    state = QueueState(units=4, running=[QueuedJob(units=4, limit_s=9 * HOUR, log_run_s=unsure)])
    draws = waits(state, 1)
    assert draws[0] < 700.0 < 1400.0 < draws[-1]
    assert median(draws) == pytest.approx(1000.0, rel=0.5)


def test_jobs_of_one_application_deviate_alike():
    unsure = log_quantiles(Prediction(1, 1000.0, 250.0, 4000.0, level=0.9))

    def spread(applications):
        waiting = [
            QueuedJob(units=1, limit_s=9 * HOUR, log_run_s=unsure, application=application)
            for application in applications
        ]
        draws = waits(QueueState(units=1, running=[running(1, 1.0)], waiting=waiting), 1)
        return log(draws[-1] / draws[0])

    assert spread([1] * 50) > 1.5 * spread([0] * 50)


def test_the_end_of_a_long_queue_is_represented():
    waiting = [running(1, 100.0, limit_s=100.0, number=n) for n in range(4_000)]
    (draw, *_) = waits(QueueState(units=10, waiting=waiting), 10)
    assert draw == pytest.approx(40_000.0, rel=0.02)


def test_jobs_that_stand_for_others_start_at_the_pace_of_those_before(monkeypatch):
    waiting = [
        running(1 + n % 8, 100.0 + 13 * (n % 11), limit_s=400.0 + 100 * (n % 5), number=n)
        for n in range(3_000)
    ]
    state = QueueState(units=32, waiting=waiting)
    whole = run_forward(state, seed=1)
    monkeypatch.setattr(simulation, "_WHOLE", 600)
    monkeypatch.setattr(simulation, "_BEHIND", 300)
    fewer = run_forward(state, seed=1)
    assert len(fewer.starts_s) == 900
    off = [
        median(fewer.starts_s[n]) / median(whole.starts_s[n]) for n in fewer.starts_s if n >= 600
    ]
    assert median(off) == pytest.approx(1.0, abs=0.1)
    assert fewer.grid.draws(8, HOUR)[0] == pytest.approx(whole.grid.draws(8, HOUR)[0], rel=0.1)
    (start_s,) = starts_behind(state, [QueuedJob(units=8, limit_s=HOUR)], draws=1)[0]
    assert start_s == pytest.approx(whole.grid.draws(8, HOUR)[0], rel=0.1)


def test_what_takes_too_long_counts_as_starting_at_the_horizon():
    state = QueueState(units=1, running=[QueuedJob(units=1, limit_s=inf)])
    assert run_forward(state, horizon_s=1000.0).grid.draws(1, HOUR)[0] == 1000.0


def test_the_normal_distribution_is_that_of_scipy():
    z = np.linspace(-9.0, 9.0, 20_001)
    assert np.abs(simulation.normal_cdf(z) - ndtr(z)).max() < 1e-7


def test_of_an_array_the_start_of_each_task_is_detected():
    tasks = [running(8, 100.0 * n, limit_s=HOUR, number=5) for n in (1, 2, 3)]
    alone = running(8, 50.0, limit_s=HOUR, number=6)
    state = QueueState(units=8, running=[running(8, 1000.0)], waiting=[*tasks, alone])
    forward = run_forward(state)
    assert forward.starts_s[5] == pytest.approx([1000.0] * 20)
    assert [median(draws) for draws in forward.tasks_s[5]] == pytest.approx([1000, 1100, 1300])
    assert 6 not in forward.tasks_s


def test_without_a_queue_the_first_end_that_frees_enough_counts():
    """Jobs that run hold 12 of 14 units, and end after 350, 650 and 850 seconds."""
    jobs = [running(units, run_s, ran_s=50.0) for units, run_s in ((4, 900), (2, 400), (6, 700))]
    state = QueueState(units=14, running=jobs)
    ends = {2: 0.0, 3: 350.0, 4: 350.0, 5: 650.0, 10: 650.0, 11: 850.0, 14: 850.0}
    for units, expected in ends.items():
        forward = run_forward(state, only=(units, HOUR), horizon_s=10 * HOUR)
        (draws,) = forward.grid.draws_s[0]
        assert draws == pytest.approx([expected] * len(draws))


#: A job of two nodes every minute and a half that runs for five minutes, for a week.
SUBMIT_S = [90.0 * n for n in range(6_720)]


def steady():
    count = len(SUBMIT_S)
    return arrival_demand(SUBMIT_S, [2] * count, [300.0] * count)


def test_the_jobs_of_a_span_are_counted_together():
    made = steady()
    # None comes within a minute of another; one within two; of later ones four run at once.
    assert [made.within(span_s, 0.5) for span_s in (60, 120, 240, 480, 960)] == [0, 2, 4, 8, 8]
    assert made.within(61.0, 0.5) == 2


def test_what_ends_is_there_for_the_next():
    end_to_end = arrival_demand(SUBMIT_S, [2] * len(SUBMIT_S), [90.0] * len(SUBMIT_S))
    assert end_to_end.within(3_600.0, 1.0) == 2


def test_levels_lie_between_the_calm_and_the_busy_moments():
    size = [1 if n % 10 else 100 for n in range(len(SUBMIT_S))]
    made = arrival_demand(SUBMIT_S, size, [30.0] * len(SUBMIT_S))
    assert (made.within(120.0, 0.5), made.within(120.0, 1.0)) == (1, 100)
    levels = [made.within(120.0, level / 20) for level in range(21)]
    assert levels == sorted(levels)


def test_spans_that_the_history_does_not_hold_are_unknown():
    hour = SUBMIT_S[:40]
    made = arrival_demand(hour, [1] * 40, [60.0] * 40)
    assert made.spans_s[-1] < 3_600.0
    assert made.within(hour[-1], 0.5) == inf
    assert steady().within(SPANS_S[-1] + 1, 0.5) == inf


@pytest.mark.parametrize("count", [0, 1, 5])
def test_few_jobs_say_nothing(count):
    some = SUBMIT_S[:count]
    made = arrival_demand(some, [1] * count, [1.0] * count)
    assert made == ArrivalDemand()
    assert made.within(1.0, 0.8) == inf


def test_other_units_scale_the_demand():
    assert steady().scaled(1 / 16).within(240.0, 0.5) == 4 / 16


def test_a_job_to_begin_later_starts_then_though_nothing_else_waits():
    short = QueuedJob(units=1, limit_s=10.0)
    later = QueuedJob(units=1, limit_s=60.0, begin_s=1_000.0, number=5)
    forward = run_forward(QueueState(units=4, running=[short], waiting=[later]))
    assert set(forward.starts_s[5]) == {1_000.0}
