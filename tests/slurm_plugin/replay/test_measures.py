"""What is said of schedules."""

import numpy as np
import pytest

from predictor.waits.easy import ReplaySchedule
from slurm_plugin.replay.workload import Workload, compare, guard_held, measure, utilisation

WORK = Workload(
    submit_s=np.array([0.0, 0.0, 100.0]),
    nodes=np.array([2, 4, 1]),
    run_s=np.array([100.0, 5.0, 100.0]),
    limit_s=np.array([200.0, 200.0, 200.0]),
    wait_s=np.zeros(3),
    users=("ada", "bob", "ada"),
    cluster_nodes=4,
)


def made(start_s: list[float], run_s: list[float], nodes: list[int]) -> ReplaySchedule:
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

    def remaining(moved: list[bool]) -> float:
        result = np.array(moved)
        return guard_held(WORK, RIGID, other, result, ratio=1.25, allowance_s=60.0)

    # 185 s are 1.25 times 100 s and a minute; 300 s in the place of 105 s are more.
    assert remaining([True, False, True]) == 0.5
    assert remaining([True, False, False]) == 1.0
    assert remaining([False, False, True]) == 0.0
    assert remaining([False, False, False]) == 1.0
