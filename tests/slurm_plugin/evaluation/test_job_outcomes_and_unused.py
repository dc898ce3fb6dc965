"""What jobs had and did not use, by account and application."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from sacct_ingest.records import JobState
from slurm_plugin.evaluation.outcomes import anonymous
from slurm_plugin.evaluation.resource_usage import UnusedTally
from slurm_plugin.protocol.reasons import WORDS
from slurm_plugin.reports import sheets, terminal
from slurm_plugin.reports.terminal import render
from tests.slurm_plugin.reports.rows import decision, run, summarise

GIB = 2**30


def ended(**fields):
    own = {
        "cpus": 8, "elapsed_s": 3600.0, "cpu_s": 7200.0, "mem_bytes": GIB, "tasks": 2, "gpus": 4,
        "req_mem_bytes": 16 * GIB, "state": JobState.COMPLETED, "nodes": 1,
    }  # fmt: skip
    return replace(run(), **own | fields)


def unused(*runs, least=0.0, unit="nodes"):
    tally = UnusedTally()
    for one in runs:
        tally.add("solve", replace(decision(), account="physics", unit=unit), one)
    return tally.result(least_cpu_hours=least)


def test_cpus_gpus_and_memory_are_summed_up():
    (row,) = unused(ended(), ended())
    assert (row.account, row.application, row.jobs) == ("physics", "solve", 2)
    assert (row.cpu_hours, row.unused_cpu_hours, row.unused_cpus) == (16, 12, 0.75)
    assert row.gpu_hours == 8
    assert (row.mem_gib_hours, row.unused_mem_gib_hours) == (32, 28)


@pytest.mark.parametrize(("least", "rows"), [(5.9, 1), (6.1, 0)])
def test_small_amounts_are_not_named(least, rows):
    assert len(unused(ended(req_mem_bytes=None), least=least)) == rows


def test_what_was_used_is_not_named():
    assert unused(ended(cpu_s=7.9 * 3600, mem_bytes=8 * GIB)) == ()
    assert unused(ended(cpu_s=9e9, mem_bytes=90 * GIB)) == ()


def test_what_was_not_measured_says_nothing():
    assert unused(ended(cpu_s=None, mem_bytes=None)) == ()
    assert unused(ended(state=JobState.RUNNING)) == ()


def test_a_size_in_cpus_is_no_number_of_nodes():
    (row,) = unused(ended(tasks=None, nodes=8), unit="cpus")
    assert row.unused_mem_gib_hours == 15


def text(rows):
    report = replace(summarise([], confidence=0.9), unused=tuple(rows))
    console = Console(file=io.StringIO(), width=250, highlight=False)
    console.print(render(report, {}, width=console.width))
    return console.file.getvalue()


def test_the_report_says_it_and_hides_names_where_asked_for():
    report = replace(summarise([], confidence=0.9), unused=unused(ended()))
    console = Console(file=io.StringIO(), width=200, highlight=False)
    console.print(render(report, {}, width=console.width))
    assert (
        "physics, solve: 1 job did not use 6.0 of 8.0 CPU-hours and 14.0 of 16.0 GiB-hours "
        "of memory" in console.file.getvalue()
    )
    (hidden,) = anonymous(report).unused
    assert "physics" not in hidden.account
    assert "solve" not in hidden.application


def test_gpus_that_were_hardly_used():
    (row,) = unused(ended(gpu_percent=150.0), ended(gpu_percent=None))
    assert (row.gpu_hours, row.used_gpu_hours, row.idle_gpu_hours) == (8, 1.5, 2.5)
    # More than all is all.
    assert unused(ended(gpu_percent=900.0))[0].idle_gpu_hours == 0
    idle = ended(gpu_percent=0.0, cpu_s=None, mem_bytes=None)
    assert len(unused(idle)) == 1
    assert "did not use 4.0 of 4.0 GPU-hours" in text(unused(idle))


def test_what_the_advice_of_that_time_would_have_saved():
    before = [ended(mem_bytes=GIB)] * 3  # two tasks: two GiB of sixteen
    assert unused(*before)[0].saved_mem_gib_hours == 0
    (row,) = unused(*before, ended(mem_bytes=GIB), ended(mem_bytes=2 * GIB))
    assert (row.saved_mem_gib_hours, row.short_jobs) == (pytest.approx(16 - 2.4), 1)
    assert "and 13.6 GiB-hours, too little for 1 job" in text([row])
    # Of another size there is none yet, nor where less was asked for.
    assert unused(*before, ended(nodes=2))[0].saved_mem_gib_hours == 0
    assert unused(*before, ended(req_mem_bytes=2 * GIB))[0].saved_mem_gib_hours == 0


def test_what_sizes_by_the_jobs_before_would_have_saved_of_cpus_and_gpus():
    one = ended(gpu_percent=90.0, mem_bytes=None)  # two of eight CPUs, one of four GPUs
    (row,) = unused(*[one] * 4)
    assert (row.saved_cpu_hours, row.saved_gpu_hours, row.short_jobs) == (8 - 3, 4 - 2, 0)
    assert (row.least_cpus, row.least_gpus, row.least_mem_gib) == (2, 1, None)
    assert "none used more than 2 CPUs and 1 GPU; advice would have saved 5.0 CPU-h" in text([row])
    # A job that needs more than the three before would have had too little: nothing is saved.
    (row,) = unused(*[one] * 3, replace(one, cpu_s=4 * 3600.0, gpu_percent=250.0))
    assert (row.saved_cpu_hours, row.saved_gpu_hours, row.short_jobs) == (0, 0, 1)
    assert (row.least_cpus, row.least_gpus) == (4, 3)


TIMEOUT = JobState.TIMEOUT


def report(*pairs):
    return summarise(pairs, confidence=0.9)


def text_of(made):
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
