"""Starts of jobs behind others, and of tasks of arrays."""

from dataclasses import replace

import pytest

from slurm_plugin.slurm.cluster_state import RawPartition, RawState
from tests.slurm_plugin.made import stored, table
from tests.slurm_plugin.wait_forecasts.outlooks_of_queues import (
    attached,
    full,
    outlooks,
    queued,
    visible,
    wait_s,
)
from tests.slurm_plugin.wait_forecasts.test_simulated_queue import NOW, node, pending, running

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


def test_each_task_waits_for_the_one_with_its_index():
    """Task 1 runs and the two others start at once: all three end after so long.

    The task 7 is there no more: what waits for it waits for nodes alone.
    """
    each = {"user": "alice", "name": "next", "tres": {"cpu": 8.0}, "limit_s": 10_000.0}
    runs = running(21, "n0", end_s=NOW + 5_000, array_id=20, tasks="1", **each)
    waits = pending(20, array_id=20, tasks="2-3", jobs=2, **each)
    narrow = {"tres": {"cpu": 1.0}, "limit_s": 1_000.0, "user": "alice", "name": "then"}
    behind = pending(
        30, array_id=30, tasks="1-3,7", jobs=4, reason="Dependency",
        dependency="aftercorr:20_*(unfulfilled)", **narrow,
    )  # fmt: skip
    made = outlooks()
    attached(made, visible(runs, waits, behind))
    starts = []
    for task in (1, 2, 3, 7):
        (row,) = queued(made, [30], [task], user=None, own="alice")
        starts.append(row.start_s - NOW)
    assert starts[:3] == pytest.approx([5_000, 10_000, 10_000], rel=0.1)
    assert starts[3] < 4_000


LIMITED = {"reason": "QOSMaxJobsPerUserLimit", "tres": {"cpu": 1.0}, "limit_s": 1_000.0}
LIMITED |= {"user": "alice", "qos": "short", "account": "physics"}


@pytest.mark.parametrize(
    ("reason", "others"),
    [
        ("QOSMaxJobsPerUserLimit", {"user": "bob"}),
        ("QOSMaxJobsPerAccountLimit", {"account": "chemistry"}),
        ("QOSGrpJobsLimit", {"qos": "long"}),
        ("AssocMaxJobsLimit", {"user": "bob"}),
        ("AssocGrpJobsLimit", {"account": "chemistry"}),
    ],
)
def test_beyond_a_limit_of_jobs_each_takes_the_place_of_one_before(reason, others):
    """Two run at once.  What another group runs ends first, and lets nobody start."""
    same = LIMITED | {"reason": reason}
    runs = [
        running(1, "n0", end_s=NOW + 4_000, **same),
        running(2, "n1", end_s=NOW + 3_000, **same),
        running(3, "n2", end_s=NOW + 500, **same | others),
    ]
    waits = [pending(11 + n, priority=9 - n, **same) for n in range(2)]
    array = pending(20, array_id=20, tasks="1-3", jobs=3, priority=1, **same)
    made = outlooks()
    attached(made, visible(*runs, *waits, array))
    starts = {row.job_id: row for row in queued(made, [], user=None, own="alice")}
    begins = [starts[11].start_s, starts[12].start_s, starts[20].start_s, starts[20].last_s]
    expected = [3_000, 4_000, 4_000, 5_000]
    assert [moment_s - NOW for moment_s in begins] == pytest.approx(expected, rel=0.2)


def test_beyond_a_limit_of_which_no_job_is_shown_no_start_is_said():
    made = outlooks()
    attached(made, visible(running(1, "n0", user="bob", qos="short"), pending(11, **LIMITED)))
    (row,) = queued(made, [11], user=None, own="alice")
    assert row.start_s is None


def test_each_of_one_job_waits_for_it_as_a_whole():
    first = running(1, "n0", end_s=NOW + 5_000)
    made = outlooks()
    behind = pending(2, dependency="aftercorr:1(unfulfilled)", **BEHIND)
    attached(made, visible(first, behind))
    (row,) = queued(made, [], user=None, own="alice")
    assert row.start_s - NOW == pytest.approx(5_000, rel=0.1)
    assert row.condition == "if job 1 ends well"


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
        "aftercorr:77(unfulfilled)", "\x00(unfulfilled),afterok:(unfulfilled)",
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


def throttled(jobs, **fields):
    """An array of tasks 3 and on of an hour and 100 s, two at once, of which 1 and 2 run."""
    each = {"user": "alice", "name": "solve", "tres": {"cpu": 8.0}, "limit_s": 3_700.0}
    of_array = {"array_id": 20, **each}
    ran = [
        running(20 + n, f"n{n}", start_s=NOW - ran_s, end_s=NOW - ran_s + 3_700, tasks=f"{n}",
                **of_array)
        for n, ran_s in ((1, 1_000.0), (2, 0.0))
    ]  # fmt: skip
    named = {"tasks": f"3-{2 + jobs}" if jobs > 1 else "3", "jobs": jobs, "at_once": 2}
    waits = {"reason": "JobArrayTaskLimit", "priority": 9, **named, **of_array}
    return [*ran, pending(20, **waits | fields)]


#: When two tasks at once start and end, of which the first two have run for 1,000 s and 0 s.
STARTS = [2_700, 3_700, 6_400, 7_400]


@pytest.mark.parametrize("reason", ["JobArrayTaskLimit", "Priority", "Resources"])
def test_tasks_of_an_array_with_a_limit_start_as_those_before_them_end(reason):
    """Whatever reason Slurm shows; the job behind the array starts when its last task ends."""
    then = pending(30, dependency="afterok:20_*(unfulfilled)", **BEHIND)
    made = outlooks()
    attached(made, visible(*throttled(4, reason=reason), then))
    tasks = queued(made, [20] * 4, [3, 4, 5, 6], user=None, own="alice")
    assert [row.start_s - NOW for row in tasks] == pytest.approx(STARTS, rel=0.05)
    every, behind = queued(made, [20, 30], user=None, own="alice")
    assert every.last_s - NOW == pytest.approx(STARTS[-1], rel=0.05)
    assert behind.start_s - NOW == pytest.approx(STARTS[-1] + 3_700, rel=0.05)
    assert behind.condition == "if job 20 ends well"


def test_the_last_task_of_an_array_waits_for_one_though_its_name_has_no_limit():
    made = outlooks()
    attached(made, visible(*throttled(1, at_once=None)))
    (row,) = queued(made, [20], user=None, own="alice")
    assert row.start_s - NOW == pytest.approx(STARTS[0], rel=0.05)


def test_tasks_behind_an_array_with_a_limit_wait_for_their_own():
    """Though they are allowed one at a time, too."""
    narrow = {"tres": {"cpu": 1.0}, "limit_s": 100.0, "user": "alice", "name": "then"}
    behind = pending(
        30, array_id=30, tasks="3-6", jobs=4, at_once=1, reason="Dependency",
        dependency="aftercorr:20_*(unfulfilled)", **narrow,
    )  # fmt: skip
    made = outlooks()
    attached(made, visible(*throttled(4), behind))
    rows = queued(made, [30] * 4, [3, 4, 5, 6], user=None, own="alice")
    expected = [start_s + 3_700 for start_s in STARTS]
    assert [row.start_s - NOW for row in rows] == pytest.approx(expected, rel=0.05)


def test_tasks_that_wait_for_others_of_their_array_are_no_queue_for_new_jobs():
    made = outlooks()
    seen = attached(made, visible(*throttled(400)))
    assert wait_s(seen, nodes=2) == 0.0
    assert seen.partitions["batch"].outlook.waiting == 0


def test_advice_on_a_job_behind_such_an_array_starts_when_it_has_ended():
    made = outlooks()
    seen = attached(made, visible(*throttled(4)))
    last_s = NOW + STARTS[-1] + 3_700
    assert seen.awaited("afterok:20", "alice", "next", "").begin_s == pytest.approx(last_s, abs=400)
    each = seen.awaited("aftercorr:20", "alice", "next", "3-6")
    assert each.begin_s - NOW == pytest.approx(STARTS[0] + 3_700, rel=0.05)
    assert each.last_s == pytest.approx(last_s, abs=400)
