"""Nodes beyond the knee, and what jobs had and did not use, worked out by hand."""

from collections import Counter
from dataclasses import replace
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.prediction_table import PredictionTable, Recorded
from predictor.problems import Problem
from predictor.tables.run_facts import change_of
from predictor.types import Verdict
from sacct_ingest.records import JobState
from sacct_ingest.runs.layout import Unit
from slurm_plugin.config.settings import Band
from slurm_plugin.evaluation.accuracy import Comparison
from slurm_plugin.evaluation.diagnoses import JobUsage, records_of
from slurm_plugin.evaluation.diagnoses import problems as problems_of
from slurm_plugin.evaluation.feedback import judge
from slurm_plugin.evaluation.outcomes import OutcomeTally, anonymous
from slurm_plugin.evaluation.resource_usage import UnusedTally
from slurm_plugin.protocol.reasons import WORDS
from slurm_plugin.reports import sheets, terminal
from slurm_plugin.reports.sheets import sheets_of
from slurm_plugin.reports.terminal import render
from tests.slurm_plugin.reports.rows import decision, run, summarise

NODES = (1, 2, 4, 8)
TIMES = (800.0, 420.0, 240.0, 200.0)


def table(verdict=Verdict.RELIABLE, knee=4):
    return PredictionTable(
        level="line", key="ab12", label="wrf", model="m", verdict=verdict, problems=(),
        nodes=NODES, median_s=TIMES, low_s=TIMES, high_s=TIMES, curve_sd=(0.0,) * 4,
        confidence=0.9, observed=(), knee=knee, max_useful=8, runs=9, mem_node_bytes=None,
        fitted_s=0.0,
    )  # fmt: skip


def used(runs, **given):
    usage = JobUsage()
    fields = {"requested_nodes": 8, "nodes": 8, "applied": False, **given}
    for _ in range(runs):
        usage.add("wrf", decision(**fields), run(nodes=8, elapsed_s=250.0))
    return usage


def wasted(usage, made, least=0.0):
    result = usage.waste({("line", "ab12"): made}, least_node_hours=least)
    return [round(3600 * one.wasted_node_hours) for one in result]


def test_what_is_beyond_the_knee():
    (result,) = used(4).waste({("line", "ab12"): table()}, least_node_hours=0.0)
    # 8 x 250 s each; at the knee 4 x 250 x 240/200 = 1200 s.
    assert (result.user, result.runs, result.nodes, result.knee) == ("ada", 4, (8, 8), 4)
    assert round(3600 * result.node_hours) == 8000
    assert round(3600 * result.wasted_node_hours) == 3200
    assert (round(result.efficiency, 2), round(result.slower, 2)) == (0.6, 1.2)


def test_nobody_is_nagged_about_trifles():
    assert wasted(used(4), table(), least=3201 / 3600) == []
    assert wasted(used(4), table(), least=3199 / 3600) == [3200]
    assert wasted(used(2), table()) == []


def test_who_had_a_reason_is_not_named():
    assert wasted(used(4, deadline_s=1.0), table()) == []
    assert wasted(used(4, applied=True, requested_nodes=2), table()) == []


def test_only_reliable_curves_tell():
    assert wasted(used(4), table(Verdict.DOUBTFUL)) == []
    assert wasted(used(4), table(knee=None)) == []
    assert wasted(used(4), table(knee=8)) == []


def test_problems_as_large_as_their_nodes_waste_nothing():
    flat = replace(table(knee=1), median_s=(250.0,) * 4, low_s=(240.0,) * 4, high_s=(260.0,) * 4)
    assert wasted(used(4), replace(flat, change=change_of((), Unit.NODES))) == []


def test_a_report_shows_what_became_of_the_last_predictions():
    """In words on the terminal, and without names where these are left out."""
    record = (Recorded(repeated=True, predictions=40, median_error=0.03, inside=36),)
    text = "several problems: run times differ by in (runs with in=secret.dat)"
    problems = (Problem("several_problems", text),)
    made = replace(table(), record=record, problems=problems, unit=Unit.CPUS)
    asked = Counter({("line", "ab12"): 2})
    tally = OutcomeTally(0.9)
    tally.add(decision(), run(nodes=8, elapsed_s=250.0))
    report = tally.report(records=records_of([made], asked), problems=problems_of([made], asked))
    shown = "\n".join(render(report, {}, width=120))
    assert "reliable: the last 40 predictions on CPU counts that ran before: half off" in shown
    assert "secret.dat" in shown
    hidden = anonymous(report)
    assert [row.application for row in hidden.records] == ["application-1"]
    assert "secret" not in str(hidden)


def test_the_best_next_run_is_counted_as_the_curve_is():
    asked = Counter({("line", "ab12"): 2})
    problem = (Problem("uncertain", "", observe=16),)
    made = [replace(table(), problems=problem, unit=unit) for unit in (Unit.GPUS, Unit.NODES)]
    report = OutcomeTally(0.9).report(problems=problems_of(made, asked))
    (sheet,) = (one for one in sheets_of(report, {}) if one.name == "problems")
    counts = next(field for field in sheet.columns if field.title == "counts")
    assert [counts.of(row) for row in sheet.rows] == ["GPUs", "nodes"]


def test_sizes_in_cpus_have_a_knee_of_their_own():
    sized, over_cpus = used(4, unit="cpus"), replace(table(), unit=Unit.CPUS)
    (result,) = sized.waste({("line", "ab12"): over_cpus}, least_node_hours=0.0)
    assert (result.unit, round(3600 * result.wasted_node_hours)) == (Unit.CPUS, 3200)
    # Of nodes nothing is said by a curve over CPUs.
    assert wasted(sized, table()) == wasted(used(4), over_cpus) == []


def outcomes(*ratios, spread=1.05, cut=False):
    said = {"predicted_s": 100.0, "low_s": 100.0 / spread, "high_s": 100.0 * spread, "cut": cut}
    return [Comparison(actual_s=100.0 * r, ended_s=i, **said) for i, r in enumerate(ratios)]


def off(*ratios, before=False, **fields):
    result = judge(outcomes(*ratios, **fields), Band(), off=before)
    return result.off


def test_good_predictions_stay_on_and_bad_ones_go_off():
    assert not off(1.0, 0.95, 1.1, 1.2)
    assert off(3.0, 3.1, 2.9)
    assert off(0.3, 0.31, 0.3)


def test_one_run_that_went_wrong_says_nothing():
    assert not off(1.0, 1.0, 1.0, 1.0, 50.0)


def test_the_last_runs_count():
    assert off(*[1.0] * 50, *[3.0] * 6)
    assert not off(*[3.0] * 50, *[1.0] * 6, before=True)


def test_too_few_say_nothing():
    assert judge(outcomes(3.0, 3.0), Band(), off=False) is None


def test_the_way_back_is_narrower_than_the_way_out():
    assert not off(1.4, 1.4, 1.4)
    assert off(1.4, 1.4, 1.4, before=True)
    assert not off(1.2, 1.2, 1.2, before=True)


def test_a_wide_prediction_has_a_wide_band():
    assert not off(2.5, 2.5, 2.5, spread=3.0)
    assert off(3.5, 3.5, 3.5, spread=3.0)


def test_a_run_that_was_stopped_took_at_least_that_long():
    assert off(3.0, 3.0, 3.0, cut=True)
    # Stopped before its predicted time, it may have been as predicted.
    assert judge(outcomes(0.5, 0.5, 0.5, cut=True), Band(), off=False) is None


@given(st.lists(st.floats(0.01, 100.0), min_size=3, max_size=12), st.booleans())
def test_whoever_is_let_back_would_not_be_sent_out(ratios, before):
    if not off(*ratios, before=True):
        assert not off(*ratios, before=before)


@pytest.mark.parametrize("before", [False, True])
def test_the_band_that_was_used_is_reported(before):
    result = judge(outcomes(1.1, 1.1, 1.1), Band(), off=before)
    assert log(result.high) == pytest.approx(log(1.25 if before else 1.5))
    assert result.low == pytest.approx(1 / result.high)
    assert (result.ratio, result.runs) == (pytest.approx(1.1), 3)


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
    return "\n".join(render(report, {}, width=250))


def test_the_report_says_it_and_hides_names_where_asked_for():
    report = replace(summarise([], confidence=0.9), unused=unused(ended()))
    assert (
        "physics, solve: 1 job left 6.0 of 8.0 CPU-hours and 14.0 of 16.0 GiB-hours "
        "of memory unused." in "\n".join(render(report, {}, width=200))
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
    assert "left 4.0 of 4.0 GPU-hours unused." in text(unused(idle))


def test_what_the_advice_of_that_time_would_have_saved():
    before = [ended(mem_bytes=GIB)] * 3  # two tasks: two GiB of sixteen
    assert unused(*before)[0].saved_mem_gib_hours == 0
    (row,) = unused(*before, ended(mem_bytes=GIB), ended(mem_bytes=2 * GIB))
    assert (row.saved_mem_gib_hours, row.short_jobs) == (pytest.approx(16 - 2.4), 1)
    assert "and 13.6 GiB-hours, but was too little for 1 job." in text([row])
    # Of another size there is none yet, nor where less was asked for.
    assert unused(*before, ended(nodes=2))[0].saved_mem_gib_hours == 0
    assert unused(*before, ended(req_mem_bytes=2 * GIB))[0].saved_mem_gib_hours == 0


def test_what_sizes_by_the_jobs_before_would_have_saved_of_cpus_and_gpus():
    one = ended(gpu_percent=90.0, mem_bytes=None)  # two of eight CPUs, one of four GPUs
    (row,) = unused(*[one] * 4)
    assert (row.saved_cpu_hours, row.saved_gpu_hours, row.short_jobs) == (8 - 3, 4 - 2, 0)
    assert (row.least_cpus, row.least_gpus, row.least_mem_gib) == (2, 1, None)
    assert "None used more than 2 CPUs and 1 GPU.  Advice would have saved 5.0 CPU" in text([row])
    # A job that needs more than the three before would have had too little: nothing is saved.
    (row,) = unused(*[one] * 3, replace(one, cpu_s=4 * 3600.0, gpu_percent=250.0))
    assert (row.saved_cpu_hours, row.saved_gpu_hours, row.short_jobs) == (0, 0, 1)
    assert (row.least_cpus, row.least_gpus) == (4, 3)


TIMEOUT = JobState.TIMEOUT


def report(*pairs):
    return summarise(pairs, confidence=0.9)


def text_of(made):
    return "\n".join(terminal.render(made, WORDS))


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
    rows = sheets.find(sheets.sheets_of(made, WORDS), "jobs").cells()
    assert [row[:8] for row in rows] == [
        ["4", "wrf", "2", "30 min", "25 min", "2 h", "COMPLETED", "unchanged (observe)"],
        *[["3", "wrf", "4", "17 min", "17 min", "20 min", "COMPLETED",
           "4 nodes, limit 20 min (cheapest)"]],
    ]  # fmt: skip


def test_names_can_be_left_out():
    (job,) = anonymous(report((decision(), run()))).jobs
    assert (job.user, job.application) == ("user-1", "application-1")
