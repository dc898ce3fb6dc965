"""When a job may start that waits for others."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_plugin.slurm.cluster_state import Awaited, RawJob
from slurm_plugin.slurm.dependencies import JobTimes

NOW = 1_790_000_000.0
HOUR = 3600.0


def running(job_id, end_s, **fields):
    return RawJob(state="RUNNING", job_id=job_id, start_s=NOW - HOUR, end_s=end_s, **fields)


def pending(job_id, start_s=inf, end_s=inf, **fields):
    return RawJob(state="PENDING", job_id=job_id, start_s=start_s, end_s=end_s, **fields)


TIMES = JobTimes(
    [
        running(1, NOW + HOUR),
        running(2, NOW + 2 * HOUR),
        pending(3, NOW + 3 * HOUR, NOW + 4 * HOUR),
        pending(4),
        running(51, NOW + HOUR, array_id=50),
        running(52, NOW + 5 * HOUR, array_id=50),
        # Expected to take half an hour, of its limit of ten.
        running(7, NOW + 3 * HOUR, user="alice", name="chain"),
        running(8, NOW + HOUR, user="alice", name="chain"),
        running(9, NOW + 9 * HOUR, user="bob", name="chain"),
        running(
            6,
            NOW + 9 * HOUR,
            nodes=4,
            admin_comment="NIMO1:000000000019:n=4,req=1-16,t=5000,lo=4000,hi=5400,v=reliable,"
            "m=enforce,r=best_already",
        ),
    ],
    NOW,
)


@pytest.mark.parametrize(
    ("dependency", "jobs", "hours"),
    [
        ("afterok:1", (1,), 1),
        ("afterany:1:2", (1, 2), 2),
        ("afterok:1,afternotok:2", (1, 2), 2),
        ("afterok:2?afterany:1", (1,), 1),
        ("afterok:1:77", (1,), 1),
        ("afterok:77?afterok:1", (), -inf),
        ("afterok:77", (), -inf),
        ("singleton", (7, 8), 3),
        ("afterok:1,singleton", (1, 7, 8), 3),
        ("", (), -inf),
        ("afterok", (), -inf),
        ("afterok:,:x?", (), -inf),
        # A start, and minutes after it.
        ("after:1", (), -inf),
        ("after:1+90", (1,), 0.5),
        ("after:3", (3,), 3),
        ("afterok:3", (3,), 4),
        ("afterok:4", (4,), inf),
        ("afterok:1?afterok:4", (1,), 1),
        ("afterok:50", (50,), 5),
        ("aftercorr:50_2", (50,), 5),
        ("afterok:6", (6,), 0.5),
    ],
)
def test_what_a_job_waits_for(dependency, jobs, hours):
    begin_s = NOW + HOUR * hours
    assert TIMES.awaited(dependency, "alice", "chain") == Awaited(jobs, begin_s)


@given(st.text(alphabet="after:okny?,+_*0123456789 single", max_size=40))
def test_any_text_is_read(dependency):
    awaited = TIMES.awaited(dependency, "alice", "chain")
    assert bool(awaited.jobs) is (awaited.begin_s > NOW)


class Counted(list):
    """Jobs that count how often all of them are gone through."""

    times = 0

    def __iter__(self):
        self.times += 1
        return super().__iter__()


def test_no_submission_goes_through_all_jobs():
    jobs = Counted(TIMES.jobs)
    made = JobTimes(jobs, NOW)
    made.prepare()
    jobs.times = 0
    for dependency in ("afterok:1", "afterany:50", "singleton", "afterok:1?after:3"):
        assert made.awaited(dependency, "alice", "chain") == (
            TIMES.awaited(dependency, "alice", "chain")
        )
    assert jobs.times == 0


@pytest.mark.parametrize(
    ("dependency", "array", "hours", "last"),
    [
        # Tasks 1 and 2 run, 3 to 5 wait and start together; that with the index 7 has ended.
        ("aftercorr:60", "1-5", 1, 9),
        ("aftercorr:60", "2,3%1", 2, 9),
        ("aftercorr:60", "4", 9, 9),
        ("aftercorr:60", "7,1", -inf, 9),
        ("aftercorr:60,afterok:2", "1-5", 2, 9),
        # The whole array, a job that is none, and an array that Slurm refuses.
        ("afterok:60", "1-5", 9, -inf),
        ("aftercorr:2", "1-5", 2, -inf),
        ("aftercorr:60", "", 9, -inf),
        ("aftercorr:60", "x", 9, -inf),
    ],
)
def test_each_task_waits_for_that_of_its_own_index(dependency, array, hours, last):
    times = JobTimes(
        [
            running(2, NOW + 2 * HOUR),
            running(61, NOW + HOUR, array_id=60, tasks="1"),
            running(62, NOW + 2 * HOUR, array_id=60, tasks="2"),
            pending(60, NOW + 2 * HOUR, NOW + 9 * HOUR, array_id=60, tasks="3-5", jobs=3),
        ],
        NOW,
    )
    awaited = times.awaited(dependency, "alice", "chain", array)
    assert (awaited.begin_s, awaited.last_s) == (NOW + HOUR * hours, NOW + HOUR * last)
