"""What a start of a job is evidence of."""

import pytest

from sacct_ingest.records import JobState, KeyLevel, Says
from sacct_ingest.runs.evidence import evidence_of, failed_steps
from sacct_ingest.store import Store
from tests.sacct_ingest.records import run, runs_with, step

MIB = 1 << 20
#: What states say of run time and memory; the others say nothing.
SAID = {
    JobState.COMPLETED: (Says.WHOLE, Says.WHOLE),
    **dict.fromkeys(
        (
            *(JobState.TIMEOUT, JobState.DEADLINE, JobState.PREEMPTED, JobState.REQUEUED),
            *(JobState.NODE_FAIL, JobState.CANCELLED),
        ),
        (Says.AT_LEAST, Says.AT_LEAST),
    ),
    JobState.OUT_OF_MEMORY: (Says.NOTHING, Says.AT_LEAST),
}


def stored(**given):
    """The run as the store gives it."""
    with Store.open("sqlite://") as store:
        store.runs.add([run(user="ada", name="solve", **given)])
        (row,) = runs_with(store, KeyLevel.NAME, "ada/solve")
        return row


@pytest.mark.parametrize("state", [state for state in JobState if state.ended])
def test_each_state(state):
    said = evidence_of(stored(state=state, mem_bytes=100 * MIB, req_mem_bytes=4000 * MIB))
    assert (said.run_time, said.memory) == SAID.get(state, (Says.NOTHING, Says.NOTHING))
    if said.memory is Says.NOTHING:
        assert said.mem_bytes == 0


def test_a_start_that_did_not_run_says_nothing():
    assert evidence_of(stored(state=JobState.CANCELLED, elapsed_s=0.0)).run_time is Says.NOTHING


def test_what_ran_out_of_memory_needed_all_that_it_had():
    given = {"mem_bytes": 100 * MIB, "nodes": 2, "tasks": 2, "req_mem_bytes": 4000 * MIB}
    said = evidence_of(stored(state=JobState.OUT_OF_MEMORY, **given))
    assert said.lacked_memory
    assert said.mem_bytes == 2000 * MIB


def test_completed_with_steps_that_did_not_is_doubtful():
    good = [step(step="batch"), step(step="extern", state=JobState.CANCELLED)]
    bad = [*good, step(step="0", state=JobState.CANCELLED), step(step="1", state=JobState.FAILED)]
    assert failed_steps(good) == 0
    assert not evidence_of(stored(steps=tuple(good))).doubtful
    assert stored(steps=tuple(bad)).failed_steps == 2
    assert evidence_of(stored(steps=tuple(bad))).doubtful
    assert evidence_of(stored(steps=tuple(bad))).run_time is Says.WHOLE
