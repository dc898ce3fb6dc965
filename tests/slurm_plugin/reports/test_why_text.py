"""A decision in sentences."""

import pytest

from sacct_ingest.records import JobState
from slurm_plugin.protocol.query_messages import explanation_of
from slurm_plugin.reports.why_text import explain
from tests.slurm_plugin.reports.rows import decision, run


def said(result, came=None) -> str:
    return explain(explanation_of(result, came), 17)


def test_a_changed_job():
    text = said(decision(given_limit_s=1200, confidence=0.9, request_wait_s=60.0), run())
    assert "Job 17 (ada/wrf) asked for 1 to 8 nodes in partition batch" in text
    assert (
        "recognised it as wrf by user, job name and command line; its prediction was reliable"
        in text
    )
    assert (
        "On 2 nodes, as asked, the predicted run time was 00:30:00, after a wait of 00:01:00."
        in text
    )
    assert (
        "On 4 nodes, as chosen, the predicted run time was 00:16:40 "
        "(90 % of runs: 00:15:00 to 00:18:20)" in text
    )
    assert "NIMO chose 4 nodes: " in text
    assert "The job was given 4 nodes and a time limit of 00:20:00." in text
    assert "It ran on 4 nodes for 00:16:40 after a wait of 00:00:10, and completed: 0 %" in text


def test_a_job_that_stayed_as_it_was():
    remaining = decision(
        action="keep", reason="unreliable_curve", applied=False, verdict="doubtful"
    )
    text = said(remaining)
    assert "NIMO left the node count as it was: the prediction is not reliable enough." in text
    assert "Nothing was changed." in text
    assert "The store has no outcome of this job yet" in text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"mode": "observe", "applied": False}, "Nothing was changed: in observe mode"),
        ({"action": "refuse", "reason": "deadline_missed"}, "The job was refused."),
        ({"key_level": "", "label": ""}, "NIMO had no finished run of this application."),
        ({"deadline_s": 1_790_009_000.0}, " and to end by "),
        ({"wait_s": None, "wait_most_s": 86_400.0}, "after a wait of at most 1-00:00:00 (by other"),
    ],
)
def test_what_else_can_be(fields, words):
    assert words in said(decision(**fields))


def test_a_job_that_its_limit_stopped():
    text = said(decision(given_limit_s=1200), run(state=JobState.TIMEOUT, elapsed_s=1200.0))
    assert text.endswith("and reached its time limit.")
