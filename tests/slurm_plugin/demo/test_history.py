"""The made-up history must look like what a cluster's accounting holds."""

from itertools import pairwise
from random import Random

import pytest

from sacct_ingest.records import JobState
from slurm_plugin.demo.history import NODES, applications, make_runs, node_names
from slurm_plugin.demo.sandbox import DELIMITER, sacct_text

END_S = 1_795_000_000


@pytest.fixture(scope="module")
def runs():
    return make_runs(applications("ada"), end_s=END_S, rng=Random(7), days=30)


def test_the_same_seed_gives_the_same_history(runs):
    again = make_runs(applications("ada"), end_s=END_S, rng=Random(7), days=30)
    other = make_runs(applications("ada"), end_s=END_S, rng=Random(8), days=30)
    assert again == runs
    assert other != runs


def test_the_day_of_the_week_changes_nothing(runs):
    later = make_runs(applications("ada"), end_s=END_S + 2 * 86_400, rng=Random(7), days=30)
    assert [run.submit_s - 2 * 86_400 for run in later] == [run.submit_s for run in runs]
    assert [(run.name, run.nodes, run.elapsed_s) for run in later] == [
        (run.name, run.nodes, run.elapsed_s) for run in runs
    ]


def test_no_node_is_given_to_two_jobs_at_once(runs):
    changes = sorted(
        (moment, change)
        for run in runs
        for moment, change in ((run.start_s or 0, run.nodes), (run.end_s or 0, -run.nodes))
    )
    in_use = 0
    for _, change in changes:
        in_use += change
        assert 0 <= in_use <= NODES


def test_times_are_in_order_and_inside_the_window(runs):
    for run in runs:
        assert END_S - 30 * 86_400 <= run.submit_s < run.start_s <= run.end_s < END_S
        assert run.end_s - run.start_s == run.elapsed_s
    assert all(a.submit_s <= b.submit_s for a, b in pairwise(runs))


def test_jobs_end_in_all_the_ways_jobs_do(runs):
    states = {run.state for run in runs}
    assert {
        JobState.COMPLETED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.TIMEOUT,
        JobState.OUT_OF_MEMORY,
    } <= states


def test_run_times_scatter_around_the_truth_of_their_application():
    wrf = next(a for a in applications("ada") if a.name == "wrf-d02")
    rng = Random(1)
    times = sorted(wrf.run_s(8, rng) for _ in range(401))
    assert times[200] == pytest.approx(wrf.time_s(8), rel=0.01)
    assert wrf.time_s(8) == pytest.approx(150 + 27_000 / 8 + 18 * 3)


def test_array_tasks_share_the_first_tasks_id(runs):
    tasks = [run for run in runs if run.array_job_id is not None]
    assert tasks
    assert all(run.job_id == (run.array_job_id or 0) + (run.array_task_id or 0) for run in tasks)


def test_sacct_text_has_a_row_for_each_job_and_step(runs):
    lines = list(sacct_text(runs[:50]))
    header = lines[0].rstrip("\n").split(DELIMITER)
    rows = [
        dict(zip(header, line.rstrip("\n").split(DELIMITER), strict=True)) for line in lines[1:]
    ]
    assert len(rows) == sum(1 + len(run.steps) for run in runs[:50])
    first = rows[0]
    assert first["JobIDRaw"] == str(runs[0].job_id)
    assert first["TimelimitRaw"] == str((runs[0].limit_s or 0) // 60)
    assert rows[1]["JobIDRaw"] == f"{runs[0].job_id}.batch"


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([0], "pine01"), ([0, 1, 2], "pine[01-03]"), ([8, 0, 1, 30], "pine[01-02,09,31]")],
)
def test_node_names_are_folded_as_slurm_does(indexes, text):
    assert node_names(indexes) == text
