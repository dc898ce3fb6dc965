"""Waits of the past: queues as they were, jobs that were asked about, what was expected."""

import pytest

from predictor.waits.backtest import (
    PastJob,
    PastRunTimes,
    mean_number,
    past_waits,
    queue_groups,
    walk,
)
from predictor.waits.features import FEATURES
from tests.slurm_plugin.reports.rows import run as run_row


def job(submit_s, start_s, run_s, *, units=4, limit_s=1_000.0, user="eve"):
    return PastJob(
        user=user,
        partition="batch",
        units=units,
        limit_s=limit_s,
        submit_s=submit_s,
        start_s=start_s,
        run_s=run_s,
    )


def feature(one, name):
    return one.features[FEATURES.index(name)]


def test_a_job_is_asked_about_with_what_ran_and_waited_at_its_submission():
    ended = job(0.0, 0.0, 50.0)
    runs = job(10.0, 60.0, 2_000.0, limit_s=3_600.0)
    waits = job(70.0, 2_060.0, 100.0)
    last = job(100.0, 2_160.0, 10.0)
    (*_, one) = walk([ended, runs, waits, last])
    assert (one.asked_s, one.actual_s) == (100.0, 2_060.0)
    assert (feature(one, "running"), feature(one, "waiting")) == (1.0, 1.0)
    assert feature(one, "used") == 1.0
    assert feature(one, "units_ahead") == 1.0
    # Limits are all there is so far: 3,600 s less 40, and then the limit of the job ahead.
    assert one.draws_s == pytest.approx([3_560.0 + 1_000.0] * len(one.draws_s), rel=0.01)
    assert one.of.partition == "batch" and one.of.waits


def test_what_a_user_has_in_the_queue_is_counted_apart():
    runs = job(0.0, 0.0, 5_000.0, limit_s=7_200.0, units=6)
    theirs = job(0.0, 0.0, 5_000.0, units=2, user="bob")
    waits = job(1_000.0, 5_000.0, 100.0, limit_s=3_600.0)
    (*_, mine) = walk([runs, theirs, waits, job(3_600.0, 5_100.0, 10.0)])
    (*_, other) = walk([runs, theirs, waits, job(3_600.0, 5_100.0, 10.0, user="bob")])
    (*_, third) = walk([runs, theirs, waits, job(3_600.0, 5_100.0, 10.0, user="ann")])
    own = ("own_running", "own_used", "own_limits_running", "own_waiting", "own_units_ahead")
    assert [feature(mine, name) for name in own] == [1.0, 0.75, 0.75, 1.0, 0.5]
    assert feature(mine, "own_limits_ahead") == 0.5
    assert [feature(other, name) for name in own] == [1.0, 0.25, 0.0, 0.0, 0.0]
    assert [feature(third, name) for name in own] == [0.0] * 5


def test_the_future_says_nothing():
    past = [job(10.0 * n, 10.0 * n, 5.0) for n in range(20)]
    (*_, one) = walk([*past, job(500.0, 500.0, 5.0)])
    later = [job(600.0 + n, 9_000.0 + n, 50_000.0, units=400) for n in range(5)]
    again = next(w for w in walk([*past, job(500.0, 500.0, 5.0), *later]) if w.asked_s == 500.0)
    # Only the size of the queue is taken from the whole past.
    assert again.draws_s == one.draws_s


def test_run_times_are_expected_to_be_those_of_the_last_two_alike():
    jobs = [job(0.0, 0.0, run_s) for run_s in (100.0, 300.0, 7.0)] + [job(0.0, 0.0, 7.0, units=2)]
    times = PastRunTimes(jobs)
    for number in range(4):
        times.submit(number)
    assert times.of(3) == ()
    times.end(0)
    times.end(1)
    again = PastRunTimes([*jobs, *[job(0.0, 0.0, 200.0)] * 200])
    for number in range(204):
        again.submit(number)
        again.end(number)
    assert again.of(203)[20] == pytest.approx(5.3, abs=0.01)  # log 200 s


def test_the_more_jobs_alike_have_ended_the_less_the_errors_of_others_count():
    """Errors of others spread over two decades; those alike all took 100 s."""

    def spread(alike):
        others = [job(0.0, 0.0, 10.0 ** (n % 3 + 1), units=2) for n in range(200)]
        jobs = [*others, *[job(0.0, 0.0, 100.0)] * (alike + 1)]
        times = PastRunTimes(jobs)
        for number in range(len(jobs)):
            times.submit(number)
            if number < len(jobs) - 1:
                times.end(number)
        quantiles = times.of(len(jobs) - 1)
        assert list(quantiles) == sorted(quantiles)
        return quantiles[30] - quantiles[9]

    few, many = spread(2), spread(20)
    assert few > 0.5
    assert many < 0.1


def test_partitions_with_the_same_nodes_share_a_queue():
    def run(n, partition, nodes):
        return run_row(job_id=n, submit_s=n, start_s=n, partition=partition, node_list=nodes)

    lists = (("batch", "n[1-4]"), ("short", "n[1-3]"), ("gpu", "g[1-2]"), ("a", ""), ("b", ""))
    groups = queue_groups([run(n, *one) for n, one in enumerate(lists)])
    assert groups["batch"] == groups["short"] != groups["gpu"]
    assert groups["a"] != groups["b"]


def test_no_more_questions_are_asked_than_allowed_and_all_in_the_order_of_time():
    runs = [
        run_row(
            job_id=n,
            submit_s=10 * n,
            eligible_s=None,
            start_s=10 * n,
            partition=("a", "b")[n % 2],
            elapsed_s=5.0,
        )
        for n in range(1_000)
    ]
    asked = past_waits(runs, asks=100)
    assert 80 <= len(asked) <= 100
    assert [one.asked_s for one in asked] == sorted(one.asked_s for one in asked)
    assert {one.of.partition for one in asked} == {"a", "b"}


def test_fewer_jobs_are_asked_about_where_each_question_costs_more():
    few = [job(10.0 * n, 10.0 * n, 9.0) for n in range(500)]
    assert mean_number(few) == 1.0
    many = [job(10.0 * n, 10.0 * n, 5_000.0) for n in range(500)]
    assert mean_number(many) == pytest.approx(250, rel=0.1)


def test_a_crowded_past_costs_no_more(monkeypatch):
    monkeypatch.setattr("predictor.waits.backtest.MOST_JOBS", 5_000)
    runs = [
        run_row(job_id=n, submit_s=10 * n, eligible_s=None, start_s=10 * n, elapsed_s=1_000.0)
        for n in range(1_000)
    ]
    assert len(past_waits(runs, asks=1_000)) == pytest.approx(50, abs=10)
