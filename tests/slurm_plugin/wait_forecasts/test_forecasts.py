"""Outlooks: waits of the queue as it is, and the record of what came of them."""

import subprocess
from dataclasses import replace
from math import inf
from types import SimpleNamespace

import msgspec
import pytest

from predictor.waits import simulation
from predictor.waits.error_record import WaitClass, WaitRecord, class_of, error_of
from predictor.waits.features import FEATURES
from predictor.waits.regression import Ensemble, QueueWaitFit, Tree
from predictor.waits.workload import (
    ArrivalDemand,
    LimitShares,
    PastArrivals,
    PastRecord,
    PastShape,
    QueuePast,
    encode,
)
from sacct_ingest.text.admin_comment import Note, build
from slurm_plugin.protocol.request_messages import Selection
from slurm_plugin.protocol.status_messages import QueueOutlook
from slurm_plugin.slurm.cluster_state import RawJob, RawPartition, RawState
from slurm_plugin.slurm.limits import NodeBounds
from slurm_plugin.slurm.node_pool import NodeShare
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.slurm.snapshot import build as view
from slurm_plugin.wait_forecasts.forecasts import Outlooks, QueueRunTimes
from slurm_plugin.wait_forecasts.queued_starts import QueuedStarts
from tests.slurm_plugin.made import stored, table
from tests.slurm_plugin.wait_forecasts.test_simulated_queue import NOW, node, pending, running

CONF = SlurmConf(counts_memory=False)


def queued(made, *asked, **options):
    return list(made.queued_starts().queued(*asked, **options))


def outlooks(tables=None):
    return Outlooks(QueueRunTimes(lambda: tables or stored()), stopwatch=lambda: 0.0)


def visible(*jobs, nodes=4):
    nodes = [
        node(n, cpus_used=8 * any(f"n{n}" in j.node_names for j in jobs)) for n in range(nodes)
    ]
    return RawState(nodes=nodes, jobs=jobs, partitions=[RawPartition(name="batch", default=True)])


def attached(made, state, at_s=NOW):
    return made.add_wait_forecasts(view(state, CONF, cluster="pine", taken_s=at_s), state, CONF)


def wait_s(cluster, nodes=1, limit_s=60.0):
    part = cluster.partitions["batch"]
    return part.supply.wait(nodes, limit_s, now_s=cluster.taken_s, begin_s=0.0).median_s


def full(**fields):
    return visible(*(running(n, f"n{n}", end_s=NOW + 100_000, **fields) for n in range(4)))


def test_limits_stand_where_nothing_is_learned():
    assert wait_s(attached(outlooks(), full())) == pytest.approx(100_000, rel=0.1)


def test_jobs_are_recognised_by_their_name_and_end_when_their_like_did():
    learned = table(lambda _: 1_050.0, spread=1.01)
    job = full(user="alice", name="solve")
    assert wait_s(attached(outlooks(stored(learned)), job)) == pytest.approx(1_000, rel=0.1)
    other = full(user="bob", name="solve")
    assert wait_s(attached(outlooks(stored(learned)), other)) > 50_000


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


def test_what_came_of_estimates_is_recorded_and_corrects_the_next():
    made = outlooks()
    attached(made, full())
    waiting = pending(9, submit_s=NOW + 5)
    attached(made, replace(full(), jobs=[*full().jobs, waiting]), NOW + 10)
    assert len(made.corrections.record) == 0
    started = running(9, "n1", submit_s=NOW + 5, start_s=NOW + 65)
    attached(made, visible(started), NOW + 70)
    (error,) = made.corrections.record.errors
    assert (error.actual_s, error.at_s) == (60.0, NOW + 5)
    assert error.estimate_s == pytest.approx(100_000, rel=0.1)
    assert error.score < -3
    # Seen running at once: recorded at once.
    quick = running(10, "n2", submit_s=NOW + 75, start_s=NOW + 76)
    attached(made, visible(started, quick), NOW + 80)
    assert [one.actual_s for one in made.corrections.record.errors] == [60.0, 1.0]


def test_what_was_there_before_or_is_held_is_not_recorded():
    made = outlooks()
    before = pending(8, submit_s=NOW - 5)
    held = pending(9, submit_s=NOW + 5, reason="Dependency")
    attached(made, visible(before))
    attached(made, visible(before, held), NOW + 10)
    runs = [running(n, f"n{n - 8}", submit_s=NOW + 5, start_s=NOW + 20) for n in (8, 9)]
    attached(made, visible(*runs), NOW + 30)
    assert len(made.corrections.record) == 0


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


BEHIND = {"reason": "Dependency", "tres": {"cpu": 8.0}, "user": "alice", "name": "next"}


def test_a_chain_of_jobs_starts_as_those_before_end():
    """By what they are known to take, not by their limits."""
    learned = table(lambda _: 1_050.0, spread=1.01)
    known = {"user": "alice", "name": "solve", "limit_s": 100_000.0, "tres": {"cpu": 8.0}}
    first = running(1, "n0", end_s=NOW + 100_000, **known)
    second = pending(2, dependency="afterok:1(unfulfilled)", **BEHIND | known)
    third = pending(3, dependency="afterok:2(unfulfilled),afterany:1(unfulfilled)", **BEHIND)
    made = outlooks(stored(learned))
    attached(made, visible(first, second, third))
    rows = queued(made, [], user=None, own="alice")
    assert [row.start_s - NOW for row in rows] == pytest.approx([1_000, 2_050], rel=0.1)
    assert [row.condition for row in rows] == ["if job 1 ends well", "if job 2 ends well"]


def test_a_job_that_needs_only_the_start_of_another_waits_for_that():
    first = pending(9, tres={"cpu": 32.0}, nodes=4)
    state = full()
    made = outlooks()
    behind = pending(10, dependency="after:9(unfulfilled)", **BEHIND | {"user": "ann"})
    attached(made, replace(state, jobs=[*state.jobs, first, behind]))
    nine, ten = queued(made, [9, 10], user=None, own="")
    assert ten.start_s - nine.start_s == pytest.approx(60, rel=0.5)  # all nodes for its limit
    assert ten.condition == ""


@pytest.mark.parametrize("kind", ["singleton(unfulfilled)", "afterany:20_*(unfulfilled)"])
def test_all_tasks_and_all_jobs_of_a_name_are_waited_for(kind):
    ones = [
        running(21 + n, f"n{n}", end_s=NOW + 10_000 * (1 + n), array_id=20, tasks=f"{n}",
                user="alice", name="next")
        for n in range(3)
    ]  # fmt: skip
    made = outlooks()
    attached(made, visible(*ones, pending(30, dependency=kind, **BEHIND)))
    (row,) = queued(made, [], user=None, own="alice")
    assert row.start_s - NOW == pytest.approx(30_000, rel=0.1)


def test_a_job_behind_one_of_another_partition_starts_when_that_ends():
    nodes = [node(0), node(1, "other")]
    parts = [RawPartition(name="batch", default=True), RawPartition(name="other")]
    first = running(1, "n1", partitions=("other",), end_s=NOW + 5_000)
    behind = pending(2, dependency="afterany:1(unfulfilled)", **BEHIND)
    made = outlooks()
    attached(made, RawState(nodes=nodes, jobs=[first, behind], partitions=parts))
    (row,) = queued(made, [], user=None, own="alice")
    assert row.start_s - NOW == pytest.approx(5_000, rel=0.1)


@pytest.mark.parametrize(
    "dependency",
    [
        "", "afternotok:1(unfulfilled)", "afterok:1(failed)", "afterok:77(unfulfilled)",
        "afterany:1(unfulfilled)?afterany:2(unfulfilled)", "afterok:8(unfulfilled)",
        "afterburstbuffer:1(unfulfilled)", "after:1+10(unfulfilled)", "afterok:9(unfulfilled)",
        "aftercorr:1(unfulfilled)", "\x00(unfulfilled),afterok:(unfulfilled)",
    ],
)  # fmt: skip
def test_no_start_is_said_where_others_may_never_end_so(dependency):
    """Neither behind a failure, one that is not shown, a held one, nor one behind that."""
    ran = running(1, "n0", end_s=NOW + 500)
    held = pending(8, reason="JobHeldUser", user="alice")
    after_held = pending(9, dependency="afterok:8(unfulfilled)", **BEHIND)
    made = outlooks()
    attached(made, visible(ran, held, after_held, pending(10, dependency=dependency, **BEHIND)))
    rows = queued(made, [], user=None, own="alice")
    assert [(row.job_id, row.start_s, row.condition) for row in rows] == [
        (8, None, ""), (9, None, ""), (10, None, ""),
    ]  # fmt: skip


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


def learned_queue(*more):
    state = full(user="eve")
    return replace(state, jobs=[*state.jobs, *more])


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


def test_the_record_is_retained_now_and_then_and_read_again():
    made = outlooks()
    assert made.corrections.unsaved(now_s=NOW) is None
    test_what_came_of_estimates_is_recorded_and_corrects_the_next()
    attached(made, full())
    quick = running(10, "n2", submit_s=NOW + 1, start_s=NOW + 2)
    attached(made, visible(quick), NOW + 80)
    payload = made.corrections.unsaved(now_s=NOW + 80)
    assert payload and made.corrections.unsaved(now_s=NOW + 9_999) is None
    again = outlooks()
    again.corrections.restore(payload)
    assert len(again.corrections.record) == 1
    again.corrections.restore("{")
    assert len(again.corrections.record) == 1


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


def past_error(at_s, actual_s, *, corrected=False):
    of = WaitClass(True, "batch")
    made = error_of([1_000.0], of, at_s=at_s, actual_s=actual_s)
    return msgspec.structs.replace(made, corrected=corrected)


def test_the_record_begins_with_what_a_refit_made_of_the_past():
    made = outlooks()
    waits = PastRecord(errors=[past_error(n, 10_000.0) for n in range(60)])
    made.remember(encode(QueuePast(waits=waits)))
    assert len(made.corrections.record) == 60
    assert wait_s(attached(made, full())) > 300_000
    # That is the refit's to store, not nimod's.
    assert made.corrections.unsaved(now_s=NOW) is None
    # From the first error of nimod's own on, its own count.
    made.corrections.restore(encode([past_error(30, 500.0)]))
    assert [one.at_s for one in made.corrections.record.errors] == [*range(30), 30]


def test_errors_of_another_way_to_estimate_are_left_out():
    made = outlooks()
    made.corrections.restore(
        encode([past_error(100, 500.0), past_error(200, 500.0, corrected=True)])
    )
    assert [one.at_s for one in made.corrections.record.errors] == [100]
    waits = PastRecord(errors=[past_error(5, 10.0, corrected=True)], correction="{}")
    made.remember(encode(QueuePast(waits=waits)))
    assert [one.at_s for one in made.corrections.record.errors] == [5, 200]


@pytest.mark.parametrize("correction", ["{}", "another"])
def test_a_correction_that_cannot_be_read_is_left_out(correction, caplog):
    made = outlooks()
    if correction == "another":
        other = msgspec.structs.replace(tenfold(), features=["moon"])
        correction = encode(other)
    waits = PastRecord(errors=[past_error(1, 5.0, corrected=True)], correction=correction)
    made.remember(encode(QueuePast(waits=waits)))
    assert wait_s(attached(made, full())) == pytest.approx(100_000, rel=0.1)
    assert "waits are not corrected" in caplog.text
    assert len(made.corrections.record) == 0


def tenfold():
    """Correction that makes each wait ten times as long."""
    same = Ensemble(0.0, [Tree([-1], [1.0], [0], [0], [False])])
    return QueueWaitFit(
        features=list(FEATURES), level=0.9, jobs=500, median=same, low=same, high=same,
        margin=0.0, estimate=0, allowance_s=60.0,
    )  # fmt: skip


def test_what_a_refit_learned_corrects_waits_without_scikit_learn():
    made = outlooks()
    made.remember(encode(QueuePast(waits=PastRecord(correction=encode(tenfold())))))
    waiting = pending(9, submit_s=NOW - 5)
    cluster = attached(made, replace(full(), jobs=[*full().jobs, waiting]))
    assert wait_s(cluster) == pytest.approx(1_000_000, rel=0.1)
    assert made.queued_starts().starts[9].median_s == pytest.approx(1_000_000, rel=0.1)
    started = running(10, "n1", submit_s=NOW + 5, start_s=NOW + 65)
    attached(made, visible(started), NOW + 70)
    assert [one.corrected for one in made.corrections.record.errors] == [True]


def tenfold_of_those_with_running_jobs():
    running = FEATURES.index("own_running")
    tree = Tree([running, -1, -1], [0.5, 0.0, 1.0], [1, 0, 0], [2, 0, 0], [False] * 3)
    one = Ensemble(0.0, [tree])
    return msgspec.structs.replace(tenfold(), median=one, low=one, high=one)


def test_a_user_waits_for_what_that_user_has_in_the_queue():
    made = outlooks()
    correction = encode(tenfold_of_those_with_running_jobs())
    made.remember(encode(QueuePast(waits=PastRecord(correction=correction))))
    state = full(user="eve", tres={"cpu": 8.0})
    cluster = attached(made, state)

    def wait_of(user):
        part = cluster.partitions["batch"].for_job(
            NodeShare(), NodeBounds(low=1, high=4), user=user
        )
        return part.supply.wait(1, 60.0, now_s=NOW, begin_s=0.0).median_s

    assert wait_of("ann") == pytest.approx(100_000, rel=0.1)
    assert wait_of("eve") == pytest.approx(10 * wait_of("ann"), rel=0.01)
    # What came is compared with what was expected of this user.
    new = [pending(n, user=user, submit_s=NOW + 5) for n, user in ((9, "eve"), (10, "ann"))]
    attached(made, replace(state, jobs=[*state.jobs, *new]), NOW + 10)
    began = [
        running(n, "n1", user=user, submit_s=NOW + 5, start_s=NOW + 65)
        for n, user in ((9, "eve"), (10, "ann"))
    ]
    attached(made, visible(*began), NOW + 70)
    first, second = sorted(one.estimate_s for one in made.corrections.record.errors)
    assert second == pytest.approx(10 * first, rel=0.01)


def array(job_id, tasks, **fields):
    return pending(job_id, array_id=job_id, tasks=tasks, submit_s=NOW - 5, **fields)


def test_of_an_array_the_start_of_each_task_is_listed():
    made = outlooks()
    tasks = array(9, "3-7,12", jobs=6, nodes=4, tres={"cpu": 32.0}, user="ann")
    alone = pending(8, submit_s=NOW - 9, user="ann")
    attached(made, replace(full(), jobs=[*full().jobs, alone, tasks]))
    one, every = queued(made, [], user=None, own="ann")
    assert (one.job_id, one.task, one.last_s) == (8, None, None)
    assert (every.job_id, every.tasks, every.task) == (9, 6, None)
    asked = queued(made, [9] * 6, [3, 4, 5, 6, 7, 12], user=None, own="ann")
    assert [(row.array_id, row.task, row.tasks) for row in asked] == [
        (9, n, 1) for n in (3, 4, 5, 6, 7, 12)
    ]
    # Each takes all nodes, so that they start one after the other.
    starts = [row.start_s for row in asked]
    assert starts == sorted(set(starts))
    assert (starts[0], starts[-1]) == (every.start_s, every.last_s)
    # A task that started, or never was, and a task of a job that is no array.
    assert queued(made, [9, 9, 8], [2, 13, 0], user=None, own="ann") == []
    assert queued(made, [9], [4], user="bob", own="bob") == []


def test_a_task_with_a_record_of_its_own_is_detected_by_its_array():
    made = outlooks()
    requeued = pending(11, array_id=9, tasks="2")
    attached(made, replace(full(), jobs=[*full().jobs, array(9, "3-7", jobs=5), requeued]))
    (row,) = queued(made, [9], [2], user=None, own="")
    assert (row.job_id, row.array_id, row.task) == (11, 9, 2)
    assert [one.job_id for one in queued(made, [9], user=None, own="")] == [9, 11]
    assert [one.job_id for one in queued(made, [11], user=None, own="")] == [11]


def test_of_an_array_the_first_start_is_recorded_once():
    made = outlooks()
    attached(made, full())
    new = pending(9, array_id=9, tasks="1-4", jobs=4, submit_s=NOW + 5)
    attached(made, replace(full(), jobs=[*full().jobs, new]), NOW + 10)
    assert len(made.corrections.record) == 0

    def started(task, job_id, at_s):
        return running(
            job_id, f"n{task}", array_id=9, tasks=str(task), submit_s=NOW + 5, start_s=at_s
        )

    left = pending(9, array_id=9, tasks="2-4", jobs=3, submit_s=NOW + 5)
    attached(made, visible(started(1, 10, NOW + 65), left), NOW + 70)
    assert [one.actual_s for one in made.corrections.record.errors] == [60.0]
    rest = [started(1, 10, NOW + 65), started(2, 11, NOW + 80), started(3, 9, NOW + 90)]
    attached(made, visible(*rest), NOW + 100)
    assert [one.actual_s for one in made.corrections.record.errors] == [60.0]


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
