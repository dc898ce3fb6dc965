"""What each state of a job means for what is stored, kept and predicted."""

import pytest

from predictor.tables.run_facts import runs_of
from sacct_ingest.ingest.into_store import to_store
from sacct_ingest.records import ENDED_CODES, JobState, KeyLevel
from sacct_ingest.store import Store
from sacct_ingest.store.rows import RetentionTimes
from tests.sacct_ingest.records import SUBMIT_S, run, runs_with


def test_what_the_states_mean():
    assert {state for state in JobState if state.cut_short} == {JobState.TIMEOUT, JobState.DEADLINE}
    assert {state for state in JobState if state.says_run_time} == {
        JobState.COMPLETED,
        JobState.TIMEOUT,
        JobState.DEADLINE,
    }
    assert not any(state.says_run_time and not state.ended for state in JobState)
    assert {state for state in JobState if state.ended and not state.final} == {JobState.REQUEUED}
    assert {state for state in JobState if state.may_lack_memory} == {
        JobState.FAILED,
        JobState.REQUEUED,
    }
    assert ",".join(sorted(ENDED_CODES)) == "BF,CA,CD,DL,F,NF,OOM,PR,RQ,RS,RV,TO"


@pytest.mark.parametrize("state", JobState)
def test_prune_leaves_all_that_predictions_are_made_of(state):
    with Store.open("sqlite://") as store:
        store.runs.add([run(state=state, submit_s=SUBMIT_S, end_s=SUBMIT_S + 100)])
        used = runs_of(runs_with(store, KeyLevel.USER, "ada"))
        store.prune(RetentionTimes(runs=SUBMIT_S + 1000))
        assert runs_of(runs_with(store, KeyLevel.USER, "ada")) == used
        assert store.runs.count() == len(used)


@pytest.mark.parametrize("state", JobState)
def test_a_run_is_stored_once_its_row_changes_no_more(state):
    given = run(state=state, end_s=SUBMIT_S + 100)
    assert (to_store(given) is given) is state.ended
