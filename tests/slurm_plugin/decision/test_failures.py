"""What users are told of runs that failed: in advice, at submission, whatever else there is."""

from dataclasses import replace
from random import Random

import pytest

from predictor.facts import Ending, Failures
from predictor.problems import Problem
from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.runs.submission import JobKind
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.decision.failures import failures_text
from slurm_plugin.decision.messages import problem_texts
from slurm_plugin.reports.advice_answer import answer
from tests.predictor.rows import row, submitted
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.decision.test_advice import advice
from tests.slurm_plugin.made import history, table

FIVE = Failures(5, 5, 20, 3.0, 3.2, 2, 299)
TEXT = "the last 5 runs failed after 3 s (exit 2); the last output was in slurm-299.out"


def told(failures, user="alice", script="", **fields):
    return failures_text(history(level="line", failures=failures, **fields), user, script)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, TEXT),
        ({"of": 5}, TEXT),
        ({"runs": 0, "of": 9}, TEXT.replace("the last 5 runs", "5 of the last 9 runs")),
        ({"runs": 1, "often": 1}, ""),
        ({"runs": 0, "often": 2}, ""),
        ({"runs": 1, "often": 1, "of": 1}, TEXT.replace("last 5 runs", "only run")),
        ({"high_s": 7200.0, "exit_code": None}, TEXT.replace("3 s (exit 2)", "3 s to 2 h")),
        ({"output": "%N.log"}, TEXT.partition(";")[0]),
        ({"output": "logs/%x-%j"}, TEXT.replace("slurm-299.out", "logs/cfd-299")),
        ({"array_job_id": 290, "array_task_id": 4}, TEXT.replace("299", "290_4")),
    ],
)
def test_runs_that_failed_are_told_with_time_code_and_file(given, text):
    assert told(replace(FIVE, name="cfd", **given)) == text


def test_a_script_names_the_file_unless_the_command_line_did():
    script = "#!/bin/sh\n#SBATCH -o all.out\n#SBATCH --error=%j.err\n./solve\n"
    assert told(FIVE, script=script).endswith(" in 299.err")
    assert told(replace(FIVE, output="own"), script=script).endswith(" in own")
    assert told(FIVE, script=script.replace("%j.err", "/dev/null")).endswith("(exit 2)")


def test_only_the_owner_is_told_of_work_that_ends_by_itself():
    assert told(FIVE, user="bob") == ""
    assert told(FIVE, owner="") == ""
    assert told(FIVE, kind=JobKind.SESSION) == ""
    assert told(None) == ""


def test_sbatch_tells_of_runs_in_a_row_and_advice_of_all_before_the_rest():
    known = table(failures=FIVE)
    assert submit(advisor(tables=[known]))[0].message.splitlines()[0] == f"nimo: {TEXT}"
    some = table(failures=replace(FIVE, runs=1))
    assert "failed" not in submit(advisor(tables=[some]))[0].message
    assert submit(advisor(mode=Mode.OBSERVE, tables=[known]))[0].message == ""
    for learned in (known, some):
        text = answer(advice(learned=replace(learned, level="line")))
        assert text.split("\n\n")[1].startswith("The last 5" if learned is known else "5 of the")


def test_failures_are_not_told_twice_and_a_serial_job_is_told_of_all_that_matters():
    names = ("drift", "unfinished", "no_curve", "failed_steps")
    problems = tuple(Problem(name, name) for name in names)
    endings = (Ending("FAILED", 5), Ending("COMPLETED", 4))
    serial = history(level="line", one_cpu=True, problems=problems, endings=endings, failures=FIVE)
    assert problem_texts(serial) == ["Unfinished.", "Failed_steps.", "Drift."]
    assert problem_texts(serial, "alice") == ["Failed_steps.", "Drift."]


def learned(states, elapsed_s):
    """Table of a serial command whose runs ended so."""
    rows = [
        replace(
            submitted(row(1, time_s, state), "sbatch solve.sh", user="alice"),
            job_id=i,
            start_s=10_000 * i,
            end_s=10_000 * i + 600,
            exit_code=2,
        )
        for i, (state, time_s) in enumerate(zip(states, elapsed_s, strict=True), start=1)
    ]
    (whole, *_) = tables_of(IdentityRuns(KeyLevel.SCRIPT, "key", rows, 0.0), TableSettings())
    return whole.table


@pytest.mark.parametrize("seed", range(30))
def test_the_more_often_the_last_runs_failed_the_warning_never_vanishes(seed):
    draw = Random(seed)
    ends = [JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY]
    states = draw.choices(ends, [6, 3, 1, 1], k=draw.randint(3, 30))
    states[0] = JobState.COMPLETED
    elapsed_s = [draw.choice([3.0, 40.0, 700.0, 5000.0]) for _ in states]
    spots = [i for i, state in enumerate(states) if state is not JobState.FAILED]
    warned = [False, False]
    for spot in draw.sample(spots, len(spots)):
        known = learned(states, elapsed_s)
        reported = advice(learned=known)
        now = [
            "failed after" in answer(reported),
            bool(failures_text(known, "alice", in_a_row=True)),
        ]
        assert now >= warned
        assert all(after or not before for before, after in zip(warned, now, strict=True))
        warned = now
        states[spot] = JobState.FAILED
        if draw.random() < 0.3:
            states.append(JobState.FAILED)
            elapsed_s.append(draw.choice([3.0, 5000.0]))
    assert warned == [True, True]


def test_the_table_says_which_runs_failed_in_the_end():
    ends = [JobState.COMPLETED] * 3 + [JobState.FAILED, JobState.COMPLETED] + [JobState.FAILED] * 2
    known = learned(ends, [600.0] * 3 + [3.0, 600.0, 3.0, 90.0])
    assert known.failures == Failures(2, 3, 7, 3.0, 90.0, 2, 7, name="solve")
    assert learned(ends[:3], [600.0] * 3).failures is None


def test_a_job_without_a_finished_run_is_told_why():
    known = learned([JobState.FAILED] * 4, [3.0] * 4)
    text = answer(advice(learned=known))
    assert text.splitlines()[0] == "There is no prediction."
    assert "The last 4 runs failed after 3 s (exit 2); the last output was in slurm-4.out." in text
