"""No limit or count follows from the run times of jobs that run as long as they are given."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.facts import LimitReached, ToLimit
from predictor.job_table import of_kind
from sacct_ingest.records import KeyLevel
from sacct_ingest.runs.submission import JobKind
from sacct_ingest.text.durations import duration_text
from slurm_plugin.decision.submitted_job import identity_of
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.reports.advice_answer import answer
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.made import NOW, job, table

SAVING = "#!/bin/sh\n#SBATCH --signal=B:USR1@120\nsrun ./solve\n"
TO_LIMIT = ToLimit(9, 12, 0.09)
AS_GIVEN = [kind for kind in JobKind if kind is not JobKind.WORK]


def learned(kind, **fields):
    fields = {
        "to_limit": TO_LIMIT,
        "limit_reached": LimitReached("TIMEOUT", 3, 3600.0, 9, 12),
    } | fields
    return of_kind(table(**fields), kind)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(AS_GIVEN),
    st.integers(1, 5000),
    st.sampled_from(["", "nimo:on", "nimo:time=set", "nimo:on,time=set"]),
    st.sampled_from([(1, 16), (4, 4)]),
)
def test_neither_limit_nor_count_is_changed_or_advised(kind, minutes, comment, nodes):
    made = advisor(tables=[learned(kind)])
    low, high = nodes
    request = job(time_limit=minutes, comment=comment, min_nodes=low, max_nodes=high)
    answer, _ = submit(made, request)
    assert answer.action == "keep"
    assert answer.set is None
    assert "--time" not in answer.message
    advice = made.advise(request, now_s=NOW)
    assert (advice.time_directive, advice.directive) == ("", "")
    assert not any(row.limit_s for row in advice.rows)
    assert advice.limit_text == ""
    assert any(kind.value.split()[0] in text.lower() for text in advice.problems)


def test_the_reason_says_why():
    answer, decision = submit(advisor(tables=[learned(JobKind.PILOT)]))
    assert answer.reason == decision.reason == Reason.NO_OWN_LENGTH


@pytest.mark.parametrize(
    ("script", "limited"), [(SAVING, False), ("#!/bin/sh\nsrun ./solve\n", True)]
)
def test_a_script_that_asks_for_a_warning_makes_runs_to_one_limit_their_kind(script, limited):
    """The accounting has the command line alone, and all runs had one limit."""
    made = advisor(tables=[table(to_limit=TO_LIMIT)])
    advice = made.advise(job(script=script, min_nodes=4, max_nodes=4, time_limit=5), now_s=NOW)
    assert bool(advice.time_directive) is limited
    assert any("9 of the last 12 runs did" in text for text in advice.problems) is not limited


@pytest.mark.parametrize(
    ("known", "script"),
    [
        (learned(JobKind.UNTIL_LIMIT, level="line", script="first"), "#!/bin/sh\nsrun ./solve\n"),
        (table(to_limit=TO_LIMIT, level="line", script="first"), SAVING),
    ],
    ids=["by its runs", "by its script"],
)
def test_an_edited_script_of_runs_to_their_limit_takes_neither_longer_nor_shorter(known, script):
    request = job(script=script, min_nodes=4, max_nodes=4, time_limit=60)
    known = replace(known, key=identity_of(request).key(KeyLevel.LINE))
    advice = advisor(tables=[known]).advise(request, now_s=NOW)
    edited = "The script was edited after its last run: whether it still runs until its limit is"
    assert advice.job_text == f"{edited} not known."
    assert "longer, or shorter" not in answer(advice, every_sentence=True)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5000), st.sampled_from([(1, 16), (4, 4), (30, 30)]))
def test_the_headline_of_a_job_that_runs_until_its_limit_is_that_limit(minutes, nodes):
    low, high = nodes
    request = job(time_limit=minutes, min_nodes=low, max_nodes=high)
    advice = advisor(tables=[learned(JobKind.UNTIL_LIMIT)]).advise(request, now_s=NOW)
    first = answer(advice).split("\n")[0]
    assert first.startswith(f"About {duration_text(60.0 * minutes)} on ")
    assert ", until its limit (" in first
    assert "doubtful" not in first
