"""What is said of a job that did not complete."""

from dataclasses import replace
from pathlib import Path

import pytest

from sacct_ingest.records import JobState
from slurm_plugin.cli.failed_job import FailedJob, story
from slurm_plugin.evaluation.enough import Lack
from slurm_plugin.reports.failed_text import happened, missing_folder_lines
from slurm_plugin.slurm.ended_job import EndedJob


def failed(code=0, signal=0, **fields):
    return EndedJob(
        job_id=7,
        submit_s=0,
        state=JobState.FAILED,
        user="ada",
        name="job.sh",
        exit_code=code,
        exit_signal=signal,
        **fields,
    )


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (failed(signal=9), "failed after 0 s (signal 9)."),
        (failed(code=1), "failed after 0 s (exit 1)."),
        (failed(code=1, signal=53), "failed after 0 s (exit 1)."),
        (failed(signal=52), "did not start: Slurm could not run its script."),
        (failed(signal=53), "did not start: Slurm could not open its input or output file."),
        (failed(signal=54), "did not start: Slurm failed in its prolog on the node."),
    ],
)
def test_errors_of_slurm_are_not_taken_for_signals(run, words):
    assert happened(run, Lack.NOTHING) == f"Job 7 (ada/job.sh) {words}"


@pytest.mark.parametrize(
    ("by", "who"),
    [
        ("1001", "its user"),
        ("ada", "its user"),
        ("0", "root, as by an administrator"),
        ("1002", "user 1002"),
        ("ben", "ben"),
    ],
)
def test_who_cancelled_a_job_is_named(by, who):
    run = replace(failed(uid=1001, elapsed_s=3.0), state=JobState.CANCELLED, cancelled_by=by)
    assert happened(run, Lack.NOTHING) == f"Job 7 (ada/job.sh) was cancelled by {who} after 3 s."


def test_the_folder_that_an_output_lacks_is_named(tmp_path):
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH --output=logs/%j.out\nsrun ./x\n")
    run = failed(signal=53, submit_line="sbatch job.sh", work_dir=str(tmp_path))
    assert story(FailedJob(7, [run], [run])) == [
        "Job 7 (ada/job.sh) did not start: Slurm could not open its input or output file.",
        "Slurm makes no folder for its output. To make it:",
        f"  mkdir -p {tmp_path}/logs",
    ]
    (tmp_path / "logs").mkdir()
    assert len(story(FailedJob(7, [run], [run]))) == 1


def test_nothing_is_made_where_something_else_failed(tmp_path):
    assert missing_folder_lines(failed(code=1), tmp_path / "logs") == []
    assert missing_folder_lines(failed(signal=52), tmp_path / "logs") == []
    assert missing_folder_lines(failed(signal=53), Path("a b"))[1] == "  mkdir -p 'a b'"
