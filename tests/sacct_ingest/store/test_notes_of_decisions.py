"""Decisions that are read from the notes of jobs."""

import pytest

from sacct_ingest.records import JobState
from sacct_ingest.store.rows import RetentionTimes
from tests.sacct_ingest.records import SUBMIT_S, decision, run
from tests.sacct_ingest.store.joined_decisions import NOTE

FIELDS = "n=4,req={},t=312,lo=290,hi=340,v=reliable,m=enforce,r=cheapest"
FULL_NOTE = f"NIMO1:0123456789ab:{FIELDS.format('1-8')},tl=20"


def test_a_decision_that_nimod_could_not_record_is_read_from_the_note(store):
    """Killed after its answer: the job has the note, the store has nothing."""
    store.runs.add([run(admin_comment=FULL_NOTE, nodes=4, req_nodes=4)])
    assert store.decisions.join_outcomes() == 1
    [(row, outcome)] = store.decisions.with_outcomes()
    assert outcome is not None
    assert (row.decision_id, row.via, row.user, row.at_s) == (
        "0123456789ab",
        "note",
        "ada",
        SUBMIT_S,
    )
    assert (row.nodes, row.min_nodes, row.max_nodes, row.applied) == (4, 1, 8, True)
    assert (row.predicted_s, row.low_s, row.high_s, row.given_limit_s) == (312, 290, 340, 1200)
    assert (row.mode, row.reason, row.verdict) == ("enforce", "cheapest", "reliable")
    assert row.requested_nodes is None
    assert store.decisions.join_outcomes() == 0
    assert len(list(store.decisions.with_outcomes())) == 1


@pytest.mark.parametrize(
    ("end", "of_run", "count", "told"),
    [
        (",a=8-205", {"nodes": 4, "req_nodes": 4}, "1-8", (8, 205.0, "nodes", True)),
        (",a=8-205", {"nodes": 4, "req_nodes": 4}, "8-8", (8, 205.0, "nodes", True)),  # proven
        (",a=8-205", {"nodes": 8, "req_nodes": 8}, "8-8", (8, 205.0, "nodes", False)),
        (",a=4-312", {"nodes": 4, "req_nodes": 4}, "4-4", (4, 312.0, "nodes", False)),
        (",a=8-205,u=cpus", {"nodes": 1, "req_nodes": 1}, "1-8", (8, 205.0, "cpus", True)),
        ("", {"nodes": 4, "req_nodes": 4}, "1-8", (None, None, "nodes", True)),  # an older note
    ],
)
def test_a_note_says_which_count_the_job_would_have_had(store, end, of_run, count, told):
    note = f"NIMO1:0123456789ab:{FIELDS.format(count)}{end}"
    store.runs.add([run(admin_comment=note, **of_run)])
    store.decisions.join_outcomes()
    [(row, _)] = store.decisions.with_outcomes()
    assert (row.requested_nodes, row.request_predicted_s, row.unit, row.applied) == told


@pytest.mark.parametrize(("written", "levels"), [(False, ["INFO"]), (True, ["WARNING"])])
def test_only_where_a_nimod_records_is_it_a_warning_that_one_is_missing(
    store, caplog, written, levels
):
    """A user's own store has decisions from notes alone."""
    caplog.set_level("INFO")
    if written:
        store.decisions.add([decision(decision_id="f" * 12, via="job_submit")])
    store.runs.add([run(admin_comment=FULL_NOTE)])
    store.decisions.join_outcomes()
    said = [one for one in caplog.records if "from jobs' notes" in one.message]
    assert [one.levelname for one in said] == levels


def test_what_nimod_records_late_replaces_what_was_read_from_the_note(store):
    store.runs.add([run(admin_comment=FULL_NOTE)])
    store.decisions.join_outcomes()
    store.decisions.add([decision(via="job_submit", requested_nodes=8)])
    assert store.decisions.join_outcomes() == 1
    [(row, outcome)] = store.decisions.with_outcomes()
    assert (row.via, row.requested_nodes) == ("job_submit", 8)
    assert outcome is not None


def test_a_requeued_job_and_an_array_have_one_decision(store):
    store.runs.add(
        [
            run(admin_comment=FULL_NOTE, state=JobState.REQUEUED),
            run(admin_comment=FULL_NOTE, submit_s=SUBMIT_S + 60),
            run(admin_comment=FULL_NOTE, submit_s=SUBMIT_S + 60, job_id=18),
        ]
    )
    store.decisions.join_outcomes()
    [(row, outcome)] = store.decisions.with_outcomes()
    assert (row.at_s, outcome.job_id) == (SUBMIT_S + 60, 17)


def test_deleted_decisions_do_not_come_back_from_notes(store):
    store.runs.add([run(admin_comment=FULL_NOTE)])
    store.decisions.join_outcomes()
    store.prune(RetentionTimes(decisions=SUBMIT_S + 10))
    store.decisions.join_outcomes()
    assert list(store.decisions.with_outcomes()) == []


@pytest.mark.parametrize("comment", ["NIMO1:0123456789ab:n=4", "NIMO1:0123456789ab:n=x,req=1-8"])
def test_a_note_that_cannot_be_read_makes_no_decision(store, comment):
    store.runs.add([run(admin_comment=comment)])
    store.decisions.join_outcomes()
    assert list(store.decisions.with_outcomes()) == []


@pytest.mark.parametrize(
    ("fields", "applied"),
    [
        ({"nodes": 1}, False),
        ({"nodes": 4}, True),
        ({"nodes": 1, "admin_comment": NOTE}, True),  # shrunk since
    ],
)
def test_a_decision_that_came_too_late_is_not_recorded_as_applied(store, fields, applied):
    chosen = {"action": "set", "mode": "enforce", "requested_nodes": 1, "nodes": 4}
    store.decisions.add([decision(**chosen, applied=True)])
    store.runs.add([run(**fields)])
    store.decisions.join_outcomes()
    ((recorded, outcome),) = store.decisions.with_outcomes()
    assert (recorded.applied, outcome is not None) == (applied, True)
