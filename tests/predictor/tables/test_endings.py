"""How runs ended and where they worked, and what that says of a prediction."""

from dataclasses import replace

import pytest

from predictor.table import folder_digest, for_inputs
from predictor.tables.parts import tables_of
from predictor.tables.run_facts import limit_reached
from predictor.tables.settings import TableSettings
from predictor.types import Verdict
from sacct_ingest.records import JobState, KeyLevel
from tests.predictor.tables.test_build import row

START = 1_790_000_000


def table_of(rows, level=KeyLevel.LINE):
    (table,) = tables(rows, level)
    return table


def tables(rows, level=KeyLevel.LINE):
    made = tables_of(level, "key", rows, now_s=START, settings=TableSettings())
    return [one.table for one in made if one.table is not None]


def ended(state, number, elapsed_s=600.0):
    return [row(4, elapsed_s + i, state) for i in range(number)]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (JobState.TIMEOUT, "all 10 runs of this command reached their time limit"),
        (JobState.FAILED, "all 10 runs of this command failed"),
        (JobState.OUT_OF_MEMORY, "all 10 runs of this command ran out of memory"),
    ],
)
def test_a_command_that_never_finished_has_a_table_that_says_so(state, words):
    table = table_of(ended(state, 10))
    assert (table.verdict, table.nodes, table.runs) == (Verdict.REFUSED, (), 0)
    assert [problem.text for problem in table.problems] == [words]


def test_what_the_cluster_or_a_person_ended_says_nothing():
    rows = ended(JobState.CANCELLED, 5) + ended(JobState.NODE_FAIL, 5)
    assert tables(rows) == []


def test_half_of_the_runs_failing_is_reported_beside_the_prediction():
    rows = [row(n, 600.0 / n) for n in (1, 2, 4)]
    mixed = table_of(ended(JobState.FAILED, 2) + ended(JobState.TIMEOUT, 1, 9.0) + rows)
    assert "unfinished" in {problem.name for problem in mixed.problems}
    (text,) = (p.text for p in mixed.problems if p.name == "unfinished")
    assert text == "of the last 6 runs of this command 2 failed, 1 reached its time limit"
    few = table_of(ended(JobState.FAILED, 2) + rows)
    assert "unfinished" not in {problem.name for problem in few.problems}


def test_a_new_work_dir_lowers_the_verdict():
    recorded = table_of([replace(row(n, 600.0 / n), work_dir="/data/a") for n in (1, 2, 4, 8)])
    assert recorded.work_dirs == (folder_digest("/data/a"),)
    assert for_inputs(recorded, "/data/a/", None) is recorded
    assert for_inputs(recorded, "", None) is recorded
    elsewhere = for_inputs(recorded, "/data/b", None)
    assert elsewhere.verdict is not Verdict.RELIABLE
    assert Verdict.RELIABLE not in elsewhere.verdicts
    assert elsewhere.problems[0].name == "new_work_dir"


def test_where_each_run_has_its_own_work_dir_a_new_one_says_nothing():
    rows = [replace(row(n, 600.0 / n), work_dir=f"/data/{n}") for n in (1, 2, 4, 8)]
    recorded = table_of(rows)
    assert for_inputs(recorded, "/data/b", None) is recorded


def test_a_tag_names_the_problem_wherever_it_runs():
    rows = [replace(row(n, 600.0 / n), work_dir="/data/a") for n in (1, 2, 4, 8)]
    recorded = table_of(rows, KeyLevel.TAG)
    assert for_inputs(recorded, "/data/b", recorded.last_s + 1) is recorded


def test_an_input_that_changed_since_the_last_run_lowers_the_verdict():
    recorded = table_of([replace(row(n, 600.0 / n), end_s=START) for n in (1, 2, 4, 8)])
    assert recorded.last_s == START - 75
    assert for_inputs(recorded, "", recorded.last_s - 1) is recorded
    changed = for_inputs(recorded, "", recorded.last_s + 1)
    assert changed.verdict is not Verdict.RELIABLE
    assert changed.problems[0].name == "new_input"


def stopped(state, limit_s, mem_bytes=8_000):
    return replace(row(4, 600.0, state), limit_s=limit_s, req_mem_bytes=mem_bytes)


@pytest.mark.parametrize(
    ("ends", "reached"),
    [
        ([(JobState.TIMEOUT, 600)] * 2, ("TIMEOUT", 2, 600.0)),
        ([(JobState.TIMEOUT, 600), (JobState.TIMEOUT, 300), (JobState.TIMEOUT, 300)],
         ("TIMEOUT", 2, 300.0)),
        ([(JobState.TIMEOUT, 600), (JobState.CANCELLED, 600), (JobState.TIMEOUT, 600)],
         ("TIMEOUT", 2, 600.0)),
        ([(JobState.OUT_OF_MEMORY, 600), (JobState.OUT_OF_MEMORY, 900)],
         ("OUT_OF_MEMORY", 2, 2_000.0)),
        ([(JobState.TIMEOUT, 600), (JobState.TIMEOUT, 900)], None),
        ([(JobState.TIMEOUT, 600), (JobState.COMPLETED, 600), (JobState.TIMEOUT, 600)], None),
        ([(JobState.FAILED, 600)] * 3, None),
    ],
)  # fmt: skip
def test_a_limit_that_ended_the_latest_runs_in_a_row_is_noted(ends, reached):
    made = limit_reached([stopped(*one) for one in ends])
    assert (made and (made.state, made.runs, made.limit)) == reached


@pytest.mark.parametrize(("often", "of"), [(3, 9), (3, 30), (2, 9), (3, 31)])
def test_a_limit_that_ended_a_tenth_of_its_runs_is_noted(often, of):
    ends = [(JobState.TIMEOUT, 600)] * often + [(JobState.COMPLETED, 600)] * (of - often)
    made = limit_reached([stopped(*one) for one in [(JobState.COMPLETED, 900), *ends]])
    assert (made and (made.runs, made.often, made.of)) == (
        (0, often, of) if often == 3 and of <= 30 else None
    )


def test_runs_that_fail_at_once_are_reported_and_others_are_not():
    done = [row(4, 600.0) for _ in range(8)]
    texts = [
        [one.text for one in table_of(ended(JobState.FAILED, *early) + done).problems]
        for early in ((3, 7.0), (3, 70.0), (2, 7.0))
    ]
    assert "3 of the last 11 runs failed within 9 s: their output may say why" in texts[0]
    assert not any("failed" in text for other in texts[1:] for text in other)
