"""Rows of the accounting that are one job: its starts, and components of a heterogeneous one."""

import random
from dataclasses import dataclass
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.store import Store
from sacct_ingest.store.rows import RetentionTimes
from slurm_plugin.reports.why_text import explain_run
from tests.sacct_ingest.records import SUBMIT_S, decision, run

_NODES = (10, 2, 1)
_STOPPED = (JobState.REQUEUED, JobState.PREEMPTED, JobState.NODE_FAIL, JobState.BOOT_FAIL)
_ENDED = (JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT, JobState.CANCELLED)
#: More than the days within which a job is started again.
_OTHER_EPOCH_S = 40 * 86_400


@dataclass(frozen=True)
class Job:
    """A job as it was: how long each start took and how it ended, and what its components had."""

    job_id: int
    submit_s: int
    starts: tuple[tuple[int, JobState], ...]
    components: tuple[int, ...]

    def rows(self):
        """Give the rows that the accounting has of it."""
        at = self.submit_s
        for elapsed_s, state in self.starts:
            for offset, nodes in enumerate(self.components):
                several = len(self.components) > 1
                yield run(
                    job_id=self.job_id + offset,
                    het_job_id=self.job_id if several else None,
                    het_offset=offset if several else None,
                    submit_s=at,
                    start_s=at + 5,
                    end_s=at + 5 + elapsed_s,
                    elapsed_s=float(elapsed_s),
                    state=state,
                    nodes=nodes,
                    cpus=8 * nodes,
                    submit_line="sbatch coupled.sh",
                )
            at += 5 + elapsed_s

    @property
    def facts(self):
        """What has to be stored of it."""
        return (
            tuple((float(elapsed_s), state) for elapsed_s, state in self.starts),
            sum(self.components),
            len(self.components) if len(self.components) > 1 else 0,
        )


@st.composite
def _jobs(draw):
    """Jobs whose ids are used again, now and then."""
    jobs = []
    for number in range(draw(st.integers(1, 5))):
        stopped = draw(st.lists(st.sampled_from(_STOPPED), max_size=3))
        states = (*stopped, draw(st.sampled_from(_ENDED)))
        again = number and draw(st.booleans())
        jobs.append(
            Job(
                job_id=jobs[-1].job_id if again else 100 + 10 * number,
                submit_s=(jobs[-1].submit_s if again else SUBMIT_S) + number * _OTHER_EPOCH_S,
                starts=tuple((draw(st.integers(1, 20_000)), state) for state in states),
                components=_NODES[: draw(st.integers(1, 3))],
            )
        )
    return jobs


def _stored(store):
    """Give the facts of all jobs of ada's that are stored."""
    jobs = store.runs.of_key(KeyLevel.USER, "ada")
    return sorted(
        (tuple((one.elapsed_s, one.state) for one in job.starts), job.nodes, len(job.components))
        for job in jobs
    )


@settings(max_examples=150, deadline=None)
@given(jobs=_jobs(), seed=st.integers(0, 2**16), parts=st.integers(1, 6))
def test_a_job_is_one_record_in_whatever_order_its_rows_are_read(jobs, seed, parts):
    rows = [row for job in jobs for row in job.rows()]
    random.Random(seed).shuffle(rows)
    with Store.open("sqlite://") as store:
        for part in range(parts):
            store.runs.add(rows[part::parts])
        store.runs.add(rows)  # once more: nothing changes
        assert _stored(store) == sorted(job.facts for job in jobs)


def test_twelve_hours_in_four_starts(store):
    starts = ((14_280, JobState.REQUEUED),) * 3 + ((1800, JobState.COMPLETED),)
    job = Job(2000, SUBMIT_S, starts, (4,))
    for row in job.rows():
        store.runs.add([row])
    (stored,) = store.runs.of_key(KeyLevel.USER, "ada")
    assert [one.elapsed_s for one in stored.starts] == [14_280, 14_280, 14_280, 1800]
    assert sum(one.elapsed_s for one in stored.starts) == 44_640
    assert stored.state is JobState.COMPLETED
    assert stored.starts[0].state is JobState.REQUEUED
    assert stored.starts[0].limit_s == 3600
    # Queues see each start.
    assert len(list(store.runs.started())) == 4


def test_a_job_that_was_started_again_says_so(store):
    starts = ((14_280, JobState.REQUEUED),) * 3 + ((1800, JobState.COMPLETED),)
    store.runs.add(Job(2000, SUBMIT_S, starts, (4,)).rows())
    (stored,) = store.runs.of_job(2000)
    assert "It ran 12 h in 4 starts, the longest 4 h." in explain_run(stored, None)


def test_components_are_one_job_of_their_shape(store):
    rows = list(Job(1000, SUBMIT_S, ((3600, JobState.COMPLETED),), _NODES).rows())
    store.runs.add(rows[:1])
    store.runs.add(rows[1:])
    (stored,) = store.runs.of_key(KeyLevel.USER, "ada")
    assert (stored.nodes, stored.cpus, stored.elapsed_s) == (13, 104, 3600)
    assert stored.shape == "10 nodes, 80 CPUs + 2 nodes, 16 CPUs + 1 node, 8 CPUs"


def test_ids_of_another_user_are_no_start_of_this_job(store):
    first = run(state=JobState.REQUEUED)
    store.runs.add([first, run(submit_s=SUBMIT_S + 110, user="bob")])
    assert len(store.runs.of_key(KeyLevel.USER, "ada")) == 1
    assert len(store.runs.of_key(KeyLevel.USER, "bob")) == 1


def test_the_decision_of_a_submission_is_that_of_the_job_that_was_started_again(store):
    job = Job(17, SUBMIT_S, ((100, JobState.PREEMPTED), (300, JobState.COMPLETED)), (2,))
    first, last = job.rows()
    store.decisions.add([decision(script="5c", line="11")])
    store.runs.add([first])
    assert store.decisions.join_outcomes() == 1
    store.runs.add([last])
    store.decisions.join_outcomes()
    (pair,) = store.decisions.with_outcomes()
    assert pair[1].elapsed_s == 300
    # It is recognised by what was submitted, though the accounting has no script.
    (stored,) = store.runs.of_key(KeyLevel.SCRIPT, "5c")
    assert len(stored.starts) == 2


def test_a_task_that_was_started_again_has_the_key_of_its_arrays_decision(store):
    def task(number, **more):
        return run(job_id=50 + number, array_job_id=50, array_task_id=number, **more)

    store.decisions.add([decision(script="5c", line="11")])
    store.runs.add([task(0)])
    assert store.decisions.join_outcomes() == 1
    stopped, last = task(1, state=JobState.REQUEUED), task(1, submit_s=SUBMIT_S + 200)
    store.runs.add([stopped, last])
    stored = {job.job_id: len(job.starts) for job in store.runs.of_key(KeyLevel.SCRIPT, "5c")}
    assert stored == {50: 1, 51: 2}


def test_each_component_keeps_its_decision(sqlite_store):
    first, last = Job(17, SUBMIT_S, ((100, JobState.COMPLETED),), (2, 1)).rows()
    ids = ["a" * 12, "b" * 12]
    sqlite_store.decisions.add([decision(decision_id=one) for one in ids])
    notes = [f"NIMO1:{one}:n=2" for one in ids]
    pieces = zip((first, last), notes, strict=True)
    sqlite_store.runs.add([structs.replace(run, admin_comment=note) for run, note in pieces])
    assert sqlite_store.decisions.join_outcomes() == 2
    assert sqlite_store.decisions.join_outcomes() == 0
    outcomes = {one.decision_id: run.nodes for one, run in sqlite_store.decisions.with_outcomes()}
    assert outcomes == {ids[0]: 2, ids[1]: 1}


def test_a_start_that_is_read_later_has_its_identity_fitted_anew(store):
    job = Job(17, SUBMIT_S, ((100, JobState.NODE_FAIL), (300, JobState.COMPLETED)), (2,))
    first, last = job.rows()
    store.runs.add([last])
    store.changes.collect()
    waiting = partial(store.changes.pages, KeyLevel.USER, 10)
    store.changes.done([(KeyLevel.USER, key, mark) for page in waiting() for key, mark in page])
    assert not list(waiting())
    store.runs.add([first])
    store.changes.collect()
    assert [key for page in waiting() for key, _ in page] == ["ada"]


def test_all_rows_of_a_job_go_with_it(store):
    stopped = Job(17, SUBMIT_S, ((100, JobState.PREEMPTED), (300, JobState.FAILED)), _NODES)
    completed = Job(50, SUBMIT_S, ((100, JobState.REQUEUED), (300, JobState.COMPLETED)), (2,))
    store.runs.add([*stopped.rows(), *completed.rows()])
    times = RetentionTimes(runs=SUBMIT_S + 10_000)
    (counted,) = store.prune(times, dry_run=True)
    assert counted.rows == 6
    store.prune(times)
    (stored,) = store.runs.of_key(KeyLevel.USER, "ada")
    assert len(stored.starts) == store.runs.count() == 2
