"""Outlooks: waits of the queue as it is."""

import subprocess
from dataclasses import replace
from math import exp, inf
from statistics import median
from types import SimpleNamespace

import msgspec
import pytest

from predictor.facts import ToLimit
from predictor.waits import simulation
from predictor.waits.error_record import WaitRecord, class_of, error_of
from predictor.waits.workload import (
    ArrivalDemand,
    LimitShares,
    PastArrivals,
    PastRecord,
    PastShape,
    QueuePast,
    encode,
)
from sacct_ingest.runs.submission import JobKind
from sacct_ingest.text.admin_comment import Note, build
from slurm_plugin.protocol.request_messages import Selection
from slurm_plugin.protocol.status_messages import QueueOutlook
from slurm_plugin.slurm.cluster_state import RawJob, RawReservation
from slurm_plugin.wait_forecasts.forecasts import Outlooks, QueueRunTimes
from slurm_plugin.wait_forecasts.queued_starts import QueuedStarts
from tests.slurm_plugin.made import stored, table
from tests.slurm_plugin.wait_forecasts.outlooks_of_queues import (
    attached,
    full,
    learned_queue,
    outlooks,
    queued,
    visible,
    wait_s,
)
from tests.slurm_plugin.wait_forecasts.test_simulated_queue import NOW, pending, running


def test_limits_stand_where_nothing_is_learned():
    assert wait_s(attached(outlooks(), full())) == pytest.approx(100_000, rel=0.1)


def test_jobs_are_recognised_by_their_name_and_end_when_their_like_did():
    learned = table(lambda _: 1_050.0, spread=1.01)
    job = full(user="alice", name="solve")
    assert wait_s(attached(outlooks(stored(learned)), job)) == pytest.approx(1_000, rel=0.1)
    other = full(user="bob", name="solve")
    assert wait_s(attached(outlooks(stored(learned)), other)) > 50_000


@pytest.mark.parametrize("hours", [1, 8])
def test_jobs_that_run_until_their_limit_end_with_their_own_one(hours):
    """Also where no run had it."""
    runs = {"kind": JobKind.UNTIL_LIMIT, "to_limit": ToLimit(9, 10, None, 0.9)}
    learned = table(lambda _: 7_000.0, spread=1.01, asked_limit_s=7_200.0, **runs)
    state = full(user="alice", name="solve", limit_s=3_600.0 * hours)
    log_run_s, _ = QueueRunTimes(lambda: stored(learned))(state.jobs[0])
    assert exp(median(log_run_s)) == pytest.approx(3_600.0 * hours, rel=0.02)


def test_a_name_that_sbatch_gave_says_nothing_of_a_job():
    learned = table(lambda _: 1_050.0, spread=1.01, level="name", key="alice/wrap")
    wrapped = full(user="alice", name="wrap")
    assert wait_s(attached(outlooks(stored(learned)), wrapped)) > 50_000


def test_what_a_user_ran_otherwise_says_nothing_of_a_job():
    learned = table(lambda _: 1_050.0, spread=1.01, level="user", key="alice")
    job = full(user="alice", name="other")
    assert wait_s(attached(outlooks(stored(learned)), job)) > 50_000


def noted(**fields):
    """Jobs with a note of how long they take."""
    note = Note(decision_id="3f9a0c12b7de", nodes=1, low=1, high=1, **fields)
    return full(user="alice", name="solve", admin_comment=build(note))


def test_a_note_says_more_than_the_name_but_a_doubtful_one_may_be_a_guess():
    sure = {"verdict": "reliable", "mode": "advise", "reason": "cheapest"}
    made = outlooks(stored(table(lambda _: 9_050.0, spread=1.01)))
    job = noted(time_s=550, low_s=540, high_s=560, **sure)
    assert wait_s(attached(made, job)) == pytest.approx(500, rel=0.1)
    guess = {"verdict": "doubtful", "mode": "enforce", "reason": "no_curve"}
    job = noted(time_s=6, low_s=5, high_s=7, **guess)
    assert wait_s(attached(outlooks(), job)) > 50_000


def test_the_shares_of_limits_that_a_user_uses_stand_for_unknown_jobs():
    made = outlooks()
    made.remember(
        encode(QueuePast(shares=LimitShares(site=(-1.0,) * 3, users={"eve": (-4.0,) * 3})))
    )
    quick = full(user="eve", limit_s=100_050.0)
    assert wait_s(attached(made, quick)) == pytest.approx(100_050 * 0.0183 - 50, rel=0.1)
    assert wait_s(attached(outlooks(), quick)) > 50_000


def test_an_outlook_stays_while_a_new_one_would_cost_too_much():
    ticks = iter(range(100))
    made = Outlooks(QueueRunTimes(stored), stopwatch=lambda: float(next(ticks)))
    attached(made, full())
    assert wait_s(attached(made, visible(), NOW + 30)) > 50_000
    assert wait_s(attached(made, visible(), NOW + 61)) < 60


def test_trouble_leaves_the_waits_of_the_limits(caplog):
    made = outlooks()
    made.corrections.record = None
    assert wait_s(attached(made, full())) == 100_000
    attached(made, full(), NOW + 100)
    assert len([one for one in caplog.records if "time limits stand in" in one.message]) == 1
    made.corrections.record = WaitRecord()
    assert attached(made, full(), NOW + 200).partitions["batch"].outlook is not None


def test_jobs_booked_since_stand_before_the_next():
    part = attached(outlooks(), visible()).partitions["batch"]
    times = {"now_s": NOW, "begin_s": 0.0}
    assert part.supply.wait(2, 60.0, **times).median_s == 0.0
    busy = attached(outlooks(), visible(running(1, "n0", end_s=NOW + 9_000))).partitions["batch"]
    later = busy.promise(2, NOW, NOW + 60)
    assert busy.supply.wait(3, 60.0, **times).median_s == 0.0
    assert later.supply.wait(3, 60.0, **times).median_s > 1_000
    assert busy.blocked(NOW + 500).supply.wait(1, 60.0, **times).median_s == 500.0


def test_jobs_that_wait_have_an_estimate_of_their_own():
    made = outlooks()
    state = full()
    attached(made, replace(state, jobs=[*state.jobs, pending(9, tres={"cpu": 8.0})]))
    assert made.queued_starts().starts[9].median_s == pytest.approx(100_000, rel=0.1)


def test_a_job_behind_others_starts_when_the_queue_lets_expect_their_ends():
    """By what such runs took, not by limits; behind one that waits, by its start in the queue."""
    known = {"user": "alice", "name": "solve", "nodes": 4, "limit_s": 100_000.0}
    state = full()
    behind = pending(9, tres={"cpu": 8.0}, **known)
    runs = running(5, "n0", end_s=NOW + 100_000, **known)
    made = outlooks(stored(table(key="alice/solve")))
    cluster = attached(made, replace(state, jobs=[*state.jobs, behind, runs]))
    run_s = table().median_s[table().nodes.index(4)]

    def begin_s(dependency):
        return cluster.awaited(dependency, "alice", "next").begin_s - NOW

    assert begin_s("afterok:5") == pytest.approx(run_s - 100, abs=0.2 * run_s)
    start_s = made.queued_starts().starts[9].median_s
    assert begin_s("after:9") == pytest.approx(start_s)
    assert begin_s("afterok:9") == pytest.approx(start_s + run_s, rel=0.1)
    assert begin_s("afterok:1") == pytest.approx(100_000)


def test_jobs_that_wait_are_corrected_as_others_of_their_size():
    made = outlooks()
    small, whole = (
        class_of(100_000.0, partition="batch", share=s, at_s=0.0, waiting=1) for s in (0.25, 1.0)
    )
    errors = [
        error_of([1_000.0], of, at_s=n, actual_s=actual_s)
        for n in range(60)
        for of, actual_s in ((small, 1_000.0), (whole, 100_000.0))
    ]
    made.remember(encode(QueuePast(waits=PastRecord(errors=errors))))
    state = full()
    attached(made, replace(state, jobs=[*state.jobs, pending(9, tres={"cpu": 8.0})]))
    assert made.queued_starts().starts[9].median_s == pytest.approx(100_000, rel=0.2)


@pytest.mark.parametrize("tasks", ["", "0-9"])
def test_no_correction_moves_a_job_before_its_begin(tasks):
    made = outlooks()
    small = class_of(3_600.0, partition="batch", share=0.25, at_s=0.0, waiting=1)
    errors = [error_of([3_600.0], small, at_s=n, actual_s=10.0) for n in range(60)]
    made.remember(encode(QueuePast(waits=PastRecord(errors=errors))))
    later = {"reason": "BeginTime", "start_s": NOW + 3_600.0, "user": "ann"}
    fields = {"tasks": tasks, "jobs": 10, "array_id": 9} if tasks else {}
    attached(made, visible(pending(9, **later, **fields)))
    (row,) = queued(made, [9], user=None, own="ann")
    moments_s = [row.start_s, row.low_s, row.high_s, row.last_s]
    assert row.start_s is not None
    assert min(moment_s for moment_s in moments_s if moment_s is not None) >= NOW + 3_600


def test_a_job_that_a_reservation_keeps_from_its_nodes_starts_after_it():
    upgrade = RawReservation(
        name="upgrade",
        start_s=NOW + 60,
        end_s=NOW + 6_000,
        node_names=("n0", "n1", "n2", "n3"),
        flags=frozenset({"MAINT"}),
    )
    job = pending(9, user="ann", limit_s=600.0, reason="ReqNodeNotAvail", reserved=True)
    made = outlooks()
    attached(made, replace(visible(job), reservations=[upgrade]))
    (row,) = queued(made, [9], user=None, own="")
    assert row.start_s - NOW == pytest.approx(6_000, rel=0.01)
    made = outlooks()
    attached(made, replace(visible(replace(job, reserved=False)), reservations=[upgrade]))
    (row,) = queued(made, [9], user=None, own="")
    assert row.start_s is None


def test_who_asks_gets_the_starts_of_the_jobs_that_are_visible():
    made = outlooks()
    mine = pending(9, user="ann", name="solve", tres={"cpu": 8.0}, start_s=NOW + 7.0)
    other = pending(10, user="bob", tres={"cpu": 8.0})
    held = pending(11, user="ann", reason="JobHeldUser")
    attached(made, learned_queue(mine, other, held))

    def ids(*args, **options):
        return [row.job_id for row in queued(made, *args, **options)]

    assert ids([], user=None, own="ann") == [9, 11]
    assert ids([10, 9, 1, 77, 10], user=None, own="ann") == [10, 9]
    assert ids([9, 10], user="ann", own="ann") == [9]
    assert ids([], user=None, own="ann", selection=Selection(user="bob")) == [10]
    assert ids([], user="ann", own="ann", selection=Selection(user="bob")) == []
    assert ids([9, 10], user=None, own="ann", selection=Selection(user="bob")) == [10]
    assert ids([], user=None, own="ann", selection=Selection(partition="batch")) == [9, 10, 11]
    assert ids([], user=None, own="ann", selection=Selection(partition="debug")) == []
    first, second = queued(made, [9, 11], user=None, own="ann")
    assert first.low_s < first.start_s < first.high_s
    assert first.start_s == pytest.approx(NOW + 100_000, rel=0.1)
    assert (first.slurm_start_s, first.name, first.reason) == (NOW + 7.0, "solve", "Priority")
    assert (second.start_s, second.reason) == (None, "JobHeldUser")


def test_a_job_that_waits_still_does_not_start_in_the_past():
    ticks = iter(range(100))
    made = Outlooks(QueueRunTimes(stored), stopwatch=lambda: float(next(ticks)))
    # All nodes are free.
    state = visible(pending(9, user="ann", tres={"cpu": 8.0}))
    attached(made, state)
    (row,) = queued(made, [9], user=None, own="ann")
    assert row.low_s == NOW
    attached(made, state, NOW + 30)
    assert made.made_s == NOW
    (row,) = queued(made, [9], user=None, own="ann")
    assert row.low_s == row.start_s == NOW + 30


def test_the_outlook_of_partitions_is_reported_for_small_and_large_jobs():
    made = outlooks()
    attached(made, visible(nodes=8))
    small, large = made.partition_waits()
    assert (small.nodes, large.nodes, small.wait_s) == (1, 2, 0.0)


def test_the_past_of_the_cluster_tells_of_unknown_jobs_and_of_those_to_come():
    made, state = outlooks(), learned_queue(pending(9, tres={"cpu": 8.0}))
    attached(made, state)
    shapes = [PastShape(4, 32, 5_000.0, 5_000.0)]
    past = QueuePast(
        shares=LimitShares(site=(-3.0,) * 3),
        arrivals={"batch": PastArrivals(per_s=0.01, ahead=0.5, shapes=shapes)},
    )
    made.remember(encode(QueuePast(shares=past.shares)))
    quiet = wait_s(attached(made, learned_queue(pending(9, limit_s=60.0)), NOW + 100))
    made.remember(encode(past))
    busy = wait_s(attached(made, learned_queue(pending(9, limit_s=60.0)), NOW + 200), nodes=4)
    assert quiet == pytest.approx(100_000, rel=0.2)  # squeue shows no limits of what runs
    assert busy > quiet
    made.remember("{")
    assert attached(made, state, NOW + 300).partitions["batch"].outlook is not None


def test_what_jobs_to_come_want_is_a_share_of_the_partition():
    made = outlooks()
    nodes, cpus = (ArrivalDemand((3_600.0,), ((0.0, most),)) for most in (4.0, 16.0))
    shapes = [PastShape(4, 32, 5_000.0, 5_000.0)]
    busy = PastArrivals(per_s=0.01, ahead=0.0, shapes=shapes, node_demand=nodes, cpu_demand=cpus)
    made.remember(encode(QueuePast(arrivals={"batch": busy})))
    outlook = attached(made, visible(nodes=8)).partitions["batch"].outlook
    # Jobs share these eight nodes of eight CPUs each.
    assert outlook.arriving(60.0, 1.0) == pytest.approx(16 / 64)
    assert outlook.arriving(60.0, 0.5) == pytest.approx(8 / 64)


def test_the_outlook_goes_to_the_pages_at_most_once_a_minute():
    made = outlooks()
    assert made.outlook(now_s=NOW) is None
    attached(made, visible(nodes=6))
    shown = msgspec.json.decode(made.outlook(now_s=NOW) or "", type=QueueOutlook)
    assert [row.nodes for row in shown.partitions] == 4 * [1, 2, 4, 6]
    assert [row.limit_s / 3600 for row in shown.partitions[::4]] == [1, 4, 12, 24]
    (use,) = shown.uses
    assert (use.partitions, use.nodes) == (["batch"], 6)
    assert made.outlook(now_s=NOW + 100) is None
    attached(made, visible(nodes=6), NOW + 30)
    assert made.outlook(now_s=NOW + 30) is None
    assert made.outlook(now_s=NOW + 61) is not None


def test_unknown_jobs_may_take_all_of_their_limit():
    times = QueueRunTimes(stored)
    times.remember(LimitShares(site=(-4.0,) * 40))
    state = full(user="eve", limit_s=100_050.0)
    log_run_s, _ = times(state.jobs[0])
    assert len(log_run_s) == 40
    assert sum(one > 11.5 for one in log_run_s) == 6  # the logarithm of the limit
    assert list(log_run_s) == sorted(log_run_s)


def fail(*_args, **_fields):
    raise AssertionError("this is not for here")


def test_an_outlook_asks_slurm_nothing(monkeypatch, caplog):
    monkeypatch.setattr(subprocess, "Popen", fail)
    made = outlooks()
    cluster = attached(made, learned_queue(pending(9, tres={"cpu": 8.0})))
    assert cluster.partitions["batch"].outlook is not None
    assert queued(made, [9], user=None, own="")[0].start_s is not None
    assert not caplog.records


def test_a_submission_looks_its_wait_up(monkeypatch):
    """No queue is run forward and no record is gone through for it."""
    cluster = attached(outlooks(), full())
    monkeypatch.setattr(simulation, "run_forward", fail)
    monkeypatch.setattr(WaitRecord, "estimate", fail)
    assert wait_s(cluster) == pytest.approx(100_000, rel=0.1)


@pytest.mark.parametrize("submit_s", [inf, 99.0])
def test_of_a_job_that_came_before_or_at_no_known_time_nothing_is_expected(submit_s):
    starts = QueuedStarts(latest={"batch": SimpleNamespace(made_s=100.0)})
    job = RawJob(state="PENDING", partitions=("batch",), reason="Priority", submit_s=submit_s)
    assert starts.expected(job) is None
