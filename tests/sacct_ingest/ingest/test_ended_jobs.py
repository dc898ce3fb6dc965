"""Jobs that ended a moment ago: what the accounting has of them, and what is still in the queue."""

from dataclasses import dataclass

import pytest

from sacct_ingest.errors import SacctError, SlurmError
from sacct_ingest.ingest.ended_jobs import ended_jobs
from sacct_ingest.job_run import JobRun
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.store import RunRow
from tests.sacct_ingest.records import SUBMIT_S, run, step

NOW_S = SUBMIT_S + 1000


@dataclass
class Accounting:
    """What sacct says; None: it does not answer."""

    rows: list[JobRun] | None

    def of_jobs(self, job_ids, begin_s, end_s, _tally):
        assert begin_s < SUBMIT_S and end_s > NOW_S
        if self.rows is None:
            raise SacctError("no answer")
        return [row for row in self.rows if row.job_id in job_ids]


def queued(job_id, end_s, state="COMPLETED"):
    words = (job_id, state, 2, 8, "batch", "physics", "normal", SUBMIT_S, SUBMIT_S + 10, end_s)
    return "\x1f".join(map(str, (*words, "/home/ada", "wrf", "wrf.sh d01"))) + "\n"


def asked(accounting, queue, *job_ids):
    def squeue(_argv):
        if queue is None:
            raise SlurmError("no answer")
        return queue

    return ended_jobs(
        job_ids, since_s=SUBMIT_S, now_s=NOW_S, squeue=squeue, user="ada", accounting=accounting
    )


def test_a_job_is_what_a_store_would_make_of_its_row(store):
    row = run(partition="batch", node_list="pine[1-2]", steps=(step(step="batch"), step()))
    store.runs.add([row])
    (made,) = asked(Accounting([row]), None, 17).values()
    ((_, (stored,)),) = store.runs.by_key(KeyLevel.LINE)
    beside = {"run_id", "node_list", "steps"}  # only one of the two has them
    for name in set(RunRow.__slots__) - beside:
        assert getattr(made, name) == getattr(stored, name), name
    assert made.attributes == stored.attributes
    assert list(made.steps) == store.runs.steps_of([stored.run_id])[stored.run_id]


def test_what_is_on_its_way_to_the_accounting_is_waited_for():
    there = run(partition="batch")
    half, runs_on = run(job_id=18), run(job_id=19, partition="batch", end_s=None)
    queue = queued(18, NOW_S - 31) + queued(19, NOW_S - 29) + queued(20, NOW_S - 500)
    found = asked(Accounting([there, half, runs_on]), queue, 17, 18, 19)
    assert found.keys() == {17, 18}
    assert (found[18].partition, found[18].elapsed_s) == ("batch", NOW_S - 31 - SUBMIT_S - 10)


def test_without_accounting_the_queue_is_believed_at_once():
    found = asked(Accounting(None), queued(17, NOW_S, "FAILED") + queued(18, NOW_S, "RUNNING"), 17)
    assert {n: one.state for n, one in found.items()} == {17: JobState.FAILED}
    with pytest.raises(SlurmError):
        asked(Accounting(None), None, 17)
