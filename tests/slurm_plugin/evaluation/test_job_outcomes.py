"""Jobs one by one: what NIMO may have harmed comes first, guesses stand apart."""

import pytest

from sacct_ingest.records import JobState
from slurm_plugin.evaluation.outcomes import anonymous
from slurm_plugin.protocol.reasons import WORDS
from slurm_plugin.reports import sheets, terminal
from tests.slurm_plugin.reports.rows import decision, run, summarise

TIMEOUT = JobState.TIMEOUT


def report(*pairs):
    return summarise(pairs, confidence=0.9)


def text_of(made) -> str:
    console = terminal.console_for(terminal=False)
    with console.capture() as reported:
        console.print(terminal.render(made, WORDS))
    return reported.get()


def test_the_headline_counts_only_what_could_be_acted_on():
    sure = (decision(), run(elapsed_s=1100.0))
    doubtful = decision(verdict="doubtful", applied=False)
    guess = decision(key_level="name", verdict="doubtful", applied=False)
    made = report(sure, (doubtful, run(elapsed_s=9000.0)), (guess, run(elapsed_s=8000.0)))
    assert (made.accuracy.runs, made.guesses.runs) == (1, 2)
    assert made.accuracy.mape == pytest.approx(100 / 1100)
    assert "guesses" in text_of(made)


@pytest.mark.parametrize(
    ("fields", "state", "harmed"),
    [
        ({"given_limit_s": 1200}, TIMEOUT, True),
        ({}, TIMEOUT, True),  # it was given another node count
        ({}, JobState.DEADLINE, True),
        ({"given_limit_s": 1200}, JobState.COMPLETED, False),
        ({"given_limit_s": 1200}, JobState.FAILED, False),
        ({"nodes": 2}, TIMEOUT, False),  # it has what it asked for
        ({"applied": False, "given_limit_s": 1200}, TIMEOUT, False),
    ],
)
def test_jobs_that_a_limit_stopped_after_a_change_come_first(fields, state, harmed):
    made = report((decision(**fields), run(state=state, job_id=42)))
    assert [job.job_id for job in made.stopped] == ([42] if harmed else [])
    assert ("42" in text_of(made).partition("modes")[0]) is harmed


def test_they_are_ordered_by_job_id():
    stopped = ((decision(), run(state=TIMEOUT, job_id=number)) for number in (9, 7, 8))
    assert [job.job_id for job in report(*stopped).stopped] == [7, 8, 9]


def test_each_job_is_a_row():
    made = report(
        (decision(given_limit_s=1200), run(job_id=3, limit_s=1200)),
        (decision(applied=False, mode="observe"), run(job_id=4, nodes=2, elapsed_s=1500.0)),
    )
    rows = sheets.find(sheets.sheets_of(made, WORDS), "jobs").table().rows
    assert [row[:8] for row in rows] == [
        ["4", "wrf", "2", "30 min", "25 min", "2.0 h", "COMPLETED", "unchanged (observe)"],
        *[["3", "wrf", "4", "17 min", "17 min", "20 min", "COMPLETED",
           "4 nodes, limit 20 min (cheapest)"]],
    ]  # fmt: skip


def test_names_can_be_left_out():
    (job,) = anonymous(report((decision(), run()))).jobs
    assert (job.user, job.application) == ("user-1", "application-1")
