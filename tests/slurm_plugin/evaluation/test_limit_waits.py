"""What limits far above the need cost in waits: the queue goes twice through EASY backfilling."""

from dataclasses import replace

import pytest

from sacct_ingest.records import JobState
from sacct_ingest.store import DecisionSelection, RunRow, Store
from slurm_plugin.evaluation.limit_waits import replay_shorter_limits, shorter_limit
from slurm_plugin.evaluation.waste_data import collect
from tests.predictor.rows import job, row

HOUR_S = 3600


def run(submit_s: int, cpus: int, elapsed_s: int, limit_s: int, **given: object) -> RunRow:
    """Make a start of a job, which began when it was submitted."""
    times = {"submit_s": submit_s, "start_s": submit_s, "eligible_s": submit_s}
    values = {"cpus": cpus, "limit_s": limit_s, "node_list": "n1", **times}
    return replace(row(1, elapsed_s), **values | given)


def queue(short_limit_s: int, **given: object) -> list[RunRow]:
    """Jobs on four CPUs: two runs wait for an hour, and a short one could go before the second."""
    hour = {"user": "bob", "name": "long"}
    before = [run(1000 * n, 1, 600, short_limit_s, **given) for n in range(3)]
    return [
        *before,
        run(10_000, 2, HOUR_S, HOUR_S, **hour),
        run(10_010, 4, HOUR_S, HOUR_S, **hour | {"start_s": 10_000 + HOUR_S}),
        run(10_020, 2, 600, short_limit_s, **given),
    ]


def test_a_job_whose_limit_is_far_above_the_need_goes_first_with_a_shorter_one():
    waits = replay_shorter_limits(queue(10 * HOUR_S))
    assert waits is not None
    assert (waits.starts, waits.shorter) == (6, 1)
    # The wide job waits until the hour is over; so does the short one, and an hour more.
    assert waits.wait_s * 6 == pytest.approx((HOUR_S - 10) + (2 * HOUR_S - 20))
    assert waits.shorter_wait_s * 6 == pytest.approx(HOUR_S - 10)
    assert waits.saved == pytest.approx(1 - (HOUR_S - 10) / (3 * HOUR_S - 30))


def test_where_no_limit_is_far_above_the_need_nothing_is_replayed():
    assert replay_shorter_limits(queue(1700)) is None
    assert replay_shorter_limits([]) is None


def test_runs_that_had_not_ended_say_nothing():
    jobs = queue(10 * HOUR_S)
    late = [replace(one, submit_s=10_000, start_s=10_000) for one in jobs[:3]]
    assert replay_shorter_limits([*late, *jobs[3:]]) is None


def test_failures_say_nothing_of_the_need():
    assert replay_shorter_limits(queue(10 * HOUR_S, state=JobState.FAILED)) is None


def test_partitions_of_other_nodes_and_other_clusters_have_queues_of_their_own():
    elsewhere = {"partition": "debug", "node_list": "n2"}
    for where in (elsewhere, elsewhere | {"cluster": "oak"}, {"cluster": "oak"}):
        waits = replay_shorter_limits(queue(10 * HOUR_S, **where))
        assert waits is not None
        assert waits.wait_s * 6 == waits.shorter_wait_s * 6 == pytest.approx(HOUR_S - 10)


@pytest.mark.parametrize(
    ("elapsed_s", "limit_s", "longest_s", "shorter_s"),
    [
        (600, 36_000, 600.0, 720.0),
        (719, 36_000, 600.0, 720.0),
        (721, 36_000, 600.0, None),  # it would have been ended
        (600, 1_800, 600.0, None),  # near enough
        (5, 3_600, 5.0, 60.0),
        (5, 59, 5.0, None),
        (600, None, 600.0, None),
        (600, 36_000, None, None),
    ],
)
def test_shorter_limits(elapsed_s, limit_s, longest_s, shorter_s):
    assert shorter_limit(run(0, 1, elapsed_s, limit_s), longest_s) == shorter_s


@pytest.mark.parametrize("chosen", [{}, {"user": "ann"}, {"account": "a"}, {"only_user": "ann"}])
def test_only_whole_queues_are_replayed(chosen):
    start_s = 1_790_000_000
    with Store.open("sqlite://") as store:
        store.runs.add(
            job(
                number, 1, one.elapsed_s, user=user, cpus=one.cpus, limit_s=one.limit_s,
                submit_s=start_s + one.submit_s, start_s=start_s + (one.start_s or 0),
                name=one.name, account="a", node_list="n1",
            )
            for number, (user, one) in enumerate((one.user, one) for one in queue(10 * HOUR_S))
        )  # fmt: skip
        report = collect(store, DecisionSelection(**chosen), table_of=lambda _: None)
    assert report.limits is not None
    assert (report.limits.waits is not None) == (not chosen)
