import os
import subprocess
import sys

import pytest

from sacct_ingest.records import JobState
from slurm_plugin.protocol.query_messages import explanation_of
from slurm_plugin.protocol.reasons import WORDS
from slurm_plugin.reports.headline import title_of
from slurm_plugin.reports.terminal import render
from slurm_plugin.reports.why_text import explain
from tests.slurm_plugin.reports.rows import AT_S, decision, run, summarise

REASONS = {"array": "it is a job array"}


def shown(pairs):
    report = summarise(pairs, confidence=0.9)
    return "\n".join([title_of(report), *render(report, REASONS, width=120)])


def test_nothing_decided_is_one_sentence():
    assert title_of(summarise([], confidence=0.9)) == (
        "No decision is recorded for this selection; nimod records one at each submission."
    )


def test_all_figures_are_there():
    text = shown(
        [
            (decision(), run(elapsed_s=1250.0)),
            (decision(action="keep", applied=False, reason="array"), run(state=JobState.FAILED)),
            (decision(deadline_s=AT_S + 5000), run(elapsed_s=1000.0)),
        ]
    )
    assert text.startswith("3 decisions, ")
    assert ", 3 with an outcome\n" in text
    assert "set 2, keep 1" in text
    assert "2 runs compared: 10.0 % off on average (MAPE); the median run took 1.12" in text
    assert "50 % of 2 inside the 90 % interval" in " ".join(text.split())
    assert "1 met, 0 missed, 0 refused, 0 still open" in text
    assert "2 jobs ran on another count than asked for\n" in text
    assert "2.5 node-hours; as asked about 2.2 (2.0 to 2.5)\n" in text
    assert "1  it is a job array" in text
    assert "wrf" in text.split("Applications")[1]


def test_tries_are_told_where_no_other_job_was_changed():
    tried = decision(reason="learning", requested_nodes=2)
    text = " ".join(shown([(tried, run(elapsed_s=3600.0))]).split())
    assert "promises 1 try of 1 application took 4.0 node-hours" in text


def test_a_reason_without_words_stands_for_itself():
    assert "1  new_reason" in shown(
        [(decision(action="keep", applied=False, reason="new_reason"), None)]
    )


def test_a_change_that_came_too_late_is_no_mode():
    report = summarise([(decision(mode="enforce", applied=False), None)], confidence=0.9)
    text = "\n".join(render(report, WORDS, width=120))
    assert "because\n  1  the change came too late for the job\n" in text


def test_a_name_is_never_markup():
    assert "[red]wrf[/nonsense]" in shown([(decision(label="[red]wrf[/nonsense]"), None)])


def test_how_waits_came_true():
    pairs = [(decision(), run(start_s=int(AT_S) + 90, eligible_s=None))] * 5
    reported = shown(pairs)
    assert "started at once" in reported
    assert (
        "80 % of 5 jobs started within 1.5 min of the predicted time; 100 % more than a minute"
        in reported
    )


_TO_NOBODY = """
import sys
from slurm_plugin.cli.exit_status import guarded
from slurm_plugin.cli.command_context import print_parts
sys.exit(guarded("nimo", lambda: print_parts(["modes"]) or 0))
"""


def test_a_reader_that_is_gone_ends_it_as_it_ends_all_commands():
    reader, writer = os.pipe()
    os.close(reader)
    argv = [sys.executable, "-c", _TO_NOBODY]
    done = subprocess.run(argv, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def said(result, came=None):
    return explain(explanation_of(result, came), 17)


def test_a_changed_job():
    text = said(decision(given_limit_s=1200, confidence=0.9, request_wait_s=60.0), run())
    assert "Job 17 (ada/wrf) asked for 1 to 8 nodes in partition batch" in text
    assert (
        "recognised it as wrf by user, job name and command line; its prediction was reliable"
        in text
    )
    assert "On 2 nodes, as asked, the predicted run time was 30 min, after a wait of 1 min." in text
    assert (
        "On 4 nodes, as chosen, the predicted run time was 17 min "
        "(90 % of runs: 15 to 18 min)" in text
    )
    assert "NIMO chose 4 nodes: " in text
    assert "The job was given 4 nodes and a time limit of 20 min." in text
    assert "It ran on 4 nodes for 17 min after a wait of 10 s, and completed, as predicted." in text


def test_a_job_that_got_its_range_back():
    text = explain(explanation_of(decision(), run(nodes=3)), 17, opened_s=1_795_256_400.0)
    assert "It did not start as planned, and got its own range back at " in text
    assert ": 1 to 8 nodes." in text
    assert (
        "These are not the 4 nodes that NIMO chose: it got its own range back, or its user" in text
    )
    assert "own range back" not in said(decision(), run())
    assert "own range back" not in said(decision(applied=False), run(nodes=3))


def test_a_job_that_stayed_as_it_was():
    remaining = decision(
        action="keep", reason="unreliable_curve", applied=False, verdict="doubtful"
    )
    text = said(remaining)
    assert "NIMO left the node count as it was: the prediction is not reliable enough." in text
    assert "Nothing was changed." in text
    assert "The store has no outcome of this job yet" in text
    failed = explain(explanation_of(remaining, None), 17, with_outcome=False)
    assert "outcome" not in failed, "what happened is said before"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"mode": "observe", "applied": False}, "Nothing was changed: in observe mode"),
        ({"action": "refuse", "reason": "deadline_missed"}, "The job was refused."),
        ({"key_level": "", "label": ""}, "NIMO had no finished run of this application."),
        ({"deadline_s": 1_790_009_000.0}, " and to end by "),
        ({"wait_s": None, "wait_most_s": 86_400.0}, "after a wait of at most 24 h (by other"),
    ],
)
def test_what_else_can_be(fields, words):
    assert words in said(decision(**fields))


def test_a_job_that_its_limit_stopped():
    text = said(decision(given_limit_s=1200), run(state=JobState.TIMEOUT, elapsed_s=1200.0))
    assert text.endswith("and reached its time limit.")


def test_what_a_note_does_not_say_is_not_made_up():
    unknown = {"requested_nodes": None, "request_predicted_s": None, "key_level": "", "via": "note"}
    text = said(decision(action="keep", applied=False, **unknown))
    assert "On 4 nodes, as asked, the predicted run time was" in text
    assert "no finished run" not in text
    assert "On 4 nodes, as chosen," in said(decision(**unknown))


def test_a_job_that_ended_before_it_started_did_not_run():
    text = said(decision(), run(nodes=1, state=JobState.DEADLINE, elapsed_s=0.0))
    assert text.endswith("It never ran, and was ended by its deadline after a wait of 10 s.")
    assert "It ran on 1 node" in said(decision(), run(nodes=1, state=JobState.FAILED, elapsed_s=0))


def test_a_job_that_took_what_was_predicted():
    assert said(decision(), run(elapsed_s=1001.0)).endswith("and completed, as predicted.")
    assert said(decision(), run(elapsed_s=900.0)).endswith(": 10 % shorter than predicted.")
