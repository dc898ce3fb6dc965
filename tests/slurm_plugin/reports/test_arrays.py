"""Job arrays in a report: summed up, without names where none are wanted."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from sacct_ingest.store import ArrayRow, DecisionSelection, Store
from slurm_plugin.config.settings import Config
from slurm_plugin.evaluation.outcomes import anonymous
from slurm_plugin.evaluation.report_data import collect
from slurm_plugin.reports.page import page
from slurm_plugin.reports.sheets import sheets_of
from slurm_plugin.reports.terminal import render
from tests.sacct_ingest.records import run as stored_run
from tests.slurm_plugin.reports.rows import decision, run, summarise

ARRAY = ArrayRow(
    cluster="pine", array_job_id=40, user="ada", account="physics", name="sweep", submit_s=1,
    tasks=9, completed=8, shortest_s=60.0, mean_s=90.0, longest_s=120.0, cpu_had_s=800.0,
    cpu_used_s=200.0, mem_bytes=3 * 2**29,
)  # fmt: skip


def test_a_table_lists_them():
    report = replace(summarise([], confidence=0.9), arrays=(ARRAY,))
    (sheet,) = [one for one in sheets_of(report, {}) if one.name == "arrays"]
    shown = [field.text(ARRAY) for field in sheet.fields]
    assert shown[:5] == ["40", "ada", "sweep", "9", "8"]
    assert shown[-2:] == ["25 %", "1.5"]
    some = replace(summarise([(decision(), run())], confidence=0.9), arrays=(ARRAY,))
    assert "sweep" in page(some, {}, now_s=0.0)


@pytest.mark.parametrize("pairs", [[], [(decision(), run())]])
def test_they_are_there_with_and_without_a_decision(pairs):
    report = replace(summarise(pairs, confidence=0.9), arrays=(ARRAY,))
    console = Console(file=io.StringIO(), width=80)
    console.print(render(report, {}))
    text = console.file.getvalue()
    assert "Job arrays, the newest first\narray" in text
    assert ("Applications" in text) is bool(pairs)
    shown = page(report, {}, now_s=0.0)
    assert 'id="of-job-arrays"' in shown
    assert ('id="of-decisions"' in shown) is bool(pairs)
    assert "<h2" not in page(summarise([], confidence=0.9), {}, now_s=0.0)


def test_names_are_hidden_where_that_is_asked_for():
    report = replace(summarise([], confidence=0.9), arrays=(ARRAY,))
    (hidden,) = anonymous(report).arrays
    assert {"ada", "physics", "sweep"}.isdisjoint({hidden.user, hidden.account, hidden.name})


def test_a_report_takes_them_out_of_the_store(tmp_path):
    with Store.open(f"sqlite:///{tmp_path}/nimo.db") as store:
        store.runs.add([stored_run(array_job_id=17, array_task_id=0)])
        (one,) = collect(store, DecisionSelection(), config=Config()).arrays
        assert (one.array_job_id, one.tasks) == (17, 1)
        # Reasons and applications are those of decisions.
        assert collect(store, DecisionSelection(reason="off"), config=Config()).arrays == ()
        assert collect(store, DecisionSelection(), config=Config(), application="x").arrays == ()
