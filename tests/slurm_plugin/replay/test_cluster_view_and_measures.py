"""What the policy sees of a replayed cluster."""

from math import inf

import numpy as np
import pytest

from predictor.waits.easy import Engine, JobShape, ReplaySchedule
from slurm_plugin.replay.measures import compare, guard_held, measure, utilisation
from slurm_plugin.replay.what_if import DAY_S, ClusterViewer, planned
from slurm_plugin.replay.workload import Workload


def test_nodes_come_free_by_the_limits():
    made = planned(2, [(50.0, 1), (50.0, 1), (90.0, 4)], [], 10.0)
    assert made.times_s == (10.0, 50.0, 90.0)
    assert made.free == (2, 4, 8)


def test_waiting_jobs_take_their_place_in_order():
    made = planned(2, [(50.0, 6)], [JobShape(8, 20.0, 1.0), JobShape(2, 30.0, 1.0)], 0.0)
    # The first starts at 50, the second fits in before it.
    assert made.earliest_start(8, 1.0) == 70.0
    assert made.free_at(10.0) == 0
    assert made.free_at(40.0) == 2
    assert made.free_at(60.0) == 0


def test_a_job_that_would_not_fit_in_before_waits():
    made = planned(2, [(50.0, 6)], [JobShape(8, 20.0, 1.0), JobShape(2, 60.0, 1.0)], 0.0)
    assert made.free_at(10.0) == 2
    assert made.free_at(75.0) == 6


def test_more_nodes_than_ever_are_free_never_start():
    assert planned(2, [(50.0, 6)], [JobShape(9, 1.0, 1.0)], 0.0).earliest_start(8, 1.0) == 50.0
    assert planned(2, [(50.0, 6)], [], 0.0).earliest_start(9, 1.0) == inf


def test_the_mean_queue_has_a_memory_of_a_day():
    engine = Engine(1)
    viewer = ClusterViewer(engine, [1.0] * 5)
    observed = []

    def shape_of(job, now_s):
        observed.append(viewer.look(now_s))
        return JobShape(1, 10 * DAY_S, 1.0 if job == 0 else 10 * DAY_S)

    engine.run([0.0, 5.0, 6.0, 6.0 + DAY_S, 6.0 + 9 * DAY_S], shape_of)
    assert [part.queue for part in observed] == [0, 0, 0, 1, 2]
    assert observed[2].queue_mean == 0.0
    assert observed[3].queue_mean == pytest.approx(1 - 1 / 2.718281828)
    assert observed[4].queue_mean == pytest.approx(2.0, abs=0.01)


#: Three jobs on four nodes; their limits are ten times what is expected of them.
SHAPES = [JobShape(3, 1000.0, 100.0), JobShape(4, 500.0, 50.0), JobShape(1, 10.0, 5.0)]
EXPECTED = [100.0, 50.0, 5.0]


def waits_at(moment, asked, expected=EXPECTED):
    """Medians for sizes and limits, of a job that is submitted at a moment."""
    engine = Engine(4)
    viewer = ClusterViewer(engine, [*expected, 10.0])
    waits = []

    def shape_of(job, now_s):
        if now_s == moment:
            part = viewer.look(now_s)
            made = (part.supply.wait(n, limit, now_s=now_s, begin_s=-inf) for n, limit in asked)
            waits.extend(one.median_s for one in made)
        return [*SHAPES, JobShape(1, 2000.0, 10.0)][job]

    engine.run([0.0, 1.0, 40.0, moment], shape_of)
    return waits


def test_waits_follow_from_expected_run_times():
    # The first ends at 100, not at its limit of 1000, and the second 50 s later.
    assert waits_at(60.0, [(4, 100.0)]) == [90.0]


def test_a_job_that_backfills_starts_at_once():
    # One node is free.  The job ahead needs all four once the first reaches its limit, at 1000.
    assert waits_at(60.0, [(1, 940.0), (1, 941.0), (2, 940.0)]) == [0.0, 90.0, 90.0]


def test_a_job_that_outlives_what_was_expected_is_expected_to_run_for_half_as_long_again():
    late = [10.0, 50.0, 5.0]
    assert waits_at(60.0, [(4, 100.0)], late) == [30.0 + 50.0]


def test_no_job_is_expected_to_outlive_its_limit():
    assert waits_at(60.0, [(4, 100.0)], [1e6, 50.0, 5.0]) == [940.0 + 50.0]
    assert waits_at(60.0, [(4, 100.0)], [100.0, 1e6, 5.0]) == [40.0 + 500.0]


def test_a_job_larger_than_the_cluster_never_starts():
    assert waits_at(60.0, [(5, 100.0)]) == [inf]


WORK = Workload(
    submit_s=np.array([0.0, 0.0, 100.0]),
    nodes=np.array([2, 4, 1]),
    run_s=np.array([100.0, 5.0, 100.0]),
    limit_s=np.array([200.0, 200.0, 200.0]),
    wait_s=np.zeros(3),
    users=("ada", "bob", "ada"),
    cluster_nodes=4,
)


def made(start_s, run_s, nodes):
    start = np.array(start_s)
    return ReplaySchedule(start, start + np.array(run_s), np.array(nodes))


RIGID = made([0.0, 100.0, 105.0], [100.0, 5.0, 100.0], [2, 4, 1])


def test_means_over_the_jobs():
    result = measure(WORK, RIGID)
    assert result.jobs == 3
    assert result.wait_s == pytest.approx((0 + 100 + 5) / 3)
    assert result.response_s == pytest.approx((100 + 105 + 105) / 3)
    # The job of five seconds counts as one of ten.
    assert result.slowdown == pytest.approx((1.0 + 10.5 + 1.05) / 3)
    assert result.node_s == 200 + 20 + 100


def test_some_of_the_jobs_may_be_looked_at():
    assert measure(WORK, RIGID, np.array([False, True, False])).response_s == 105.0


def test_no_job_at_all_means_zero():
    assert measure(WORK, RIGID, np.zeros(3, dtype=bool)).response_s == 0.0


def test_utilisation_counts_while_jobs_come():
    assert utilisation(WORK, RIGID) == pytest.approx(200 / 400)


def test_comparison_says_who_is_worse_off():
    other = made([0.0, 50.0, 300.0], [50.0, 5.0, 100.0], [4, 4, 1])
    result = compare(WORK, RIGID, other)
    assert result.response_ratio == pytest.approx((50 + 55 + 300) / 310)
    assert result.worse_off == pytest.approx(1 / 3)
    assert result.worse_by == pytest.approx(300 / 105)
    assert result.much_worse == pytest.approx(1 / 3)
    assert result.much_better == 0.0
    assert result.slowdown == (measure(WORK, RIGID).slowdown, measure(WORK, other).slowdown)
    assert compare(WORK, other, RIGID).much_better == pytest.approx(1 / 3)


def test_a_few_seconds_are_not_worse():
    other = made([0.0, 130.0, 105.0], [100.0, 5.0, 100.0], [2, 4, 1])
    assert compare(WORK, RIGID, other).worse_off == 0.0


def test_the_guard_is_judged_by_what_came_of_the_moved_jobs():
    other = made([0.0, 100.0, 300.0], [185.0, 5.0, 100.0], [1, 4, 2])

    def remaining(moved):
        result = np.array(moved)
        return guard_held(WORK, RIGID, other, result, ratio=1.25, allowance_s=60.0)

    # 185 s are 1.25 times 100 s and a minute; 300 s in the place of 105 s are more.
    assert remaining([True, False, True]) == 0.5
    assert remaining([True, False, False]) == 1.0
    assert remaining([False, False, True]) == 0.0
    assert remaining([False, False, False]) == 1.0
