"""What users read: sentences that read as translated are gone, and what they said is still said."""

import ast
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
import pytest

import slurm_plugin
from predictor.facts import ResourceUse
from predictor.memory import UNBOUNDED, Memory
from predictor.problems import Problem
from predictor.table import at
from predictor.types import Verdict
from sacct_ingest.runs.layout import Unit
from sacct_ingest.runs.submission import JobKind
from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.cli.commands.wait import sentence
from slurm_plugin.decision import messages
from slurm_plugin.decision.advice import advice_of
from slurm_plugin.decision.levers import deadline
from slurm_plugin.decision.policy import decide
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.submitted_job import submitted
from slurm_plugin.protocol.decision_messages import Change
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.protocol.status_messages import WaitRow, Waits
from slurm_plugin.reports.advice_answer import answer
from slurm_plugin.reports.curve_text import render
from tests.slurm_plugin.made import NOW, history, job, partition, rules, table

ROOT = Path(slurm_plugin.__file__).parents[1]
GONE = (
    "Slurm will end this job before it starts",
    "95 % sure that it is",
    "each row: what a job that asks for",
    "not counted is what they waited",
    "There are run times of one CPU",
    "No run of this command is known",
    "it would run out of memory",
    "More nodes would leave too few free",
    "What is to do?",
    "The queue was run forward",
    "later than on 8, for 0.0041 CPU-hours less; 95 %",
)


@cache
def strings(path):
    """Texts in a source: literals joined as Python joins them, templates and pages whole."""
    text = path.read_text()
    if path.suffix != ".py":
        return [" ".join(text.split())]
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            parts = [one.value if isinstance(one, ast.Constant) else "{}" for one in node.values]
            found.append("".join(parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(" ".join(node.value.split()))
    return found


@pytest.mark.parametrize("old", GONE)
def test_no_source_page_or_manual_says_it_the_old_way(old):
    folders = [ROOT / one for one in ("slurm_plugin", "predictor", "sacct_ingest", "docs")]
    paths = [path for folder in folders for path in folder.rglob("*")]
    said = [
        path
        for path in [*paths, ROOT / "README.md"]
        if path.suffix in (".py", ".lua", ".j2", ".js", ".md")
        and any(old in one for one in strings(path))
    ]
    assert said == []


def case(learned, part=None, **asked):
    request = Request(**({"low": 1, "high": 16, "limit_s": 7200.0} | asked))
    request = msgspec.structs.replace(request, **submitted(job()))
    part = part or partition()
    return Situation(request, learned, part.supply, rules(), NOW, partition=part)


def test_a_job_that_hardly_makes_its_deadline_is_told_by_when_it_has_to_start():
    made = case(None, low=16, high=16, limit_s=60.0, deadline_s=NOW + 90)
    text = deadline.text_of(decide(made), made.request, now_s=NOW)
    assert "should make its deadline" in text
    assert "if it starts within 30 s" in text
    assert "its time limit of 1 min is too long" in text


def test_what_a_change_costs_at_most_is_certain_by_so_much():
    made = advice_of(case(table(), low=1, high=16, asked_limit_s=7200.0))
    rows = [replace(row, recommended=row.nodes == 8) for row in made.rows]
    rows = [replace(row, no_later=0.5, later_s=450.0) for row in rows]
    text = answer(replace(made, rows=rows, nodes=8, asked=16), every_sentence=True)
    later_s = rows[7].time_s - rows[15].time_s
    assert f"It ends {duration_text(later_s)} later than on 16" in text
    assert "(95 % certain: at most 7.5 min later)" in text


def test_a_table_of_one_job_says_whose_run_times_they_are():
    text = render(replace(table(), asked=8), width=200)
    assert "predicted run times of jobs that ask for 8 nodes, on other counts" in text


def test_one_cpu_each_time_is_said_with_its_time_and_runs():
    serial = replace(table(nodes=(1,), observed=(1,)), one_cpu=True)
    assert (
        messages.verdict_text(serial) == "All runs used one CPU: no run shows what more would do."
    )


def test_that_runs_used_one_cpu_is_said_once():
    serial = table(nodes=(1,), observed=(1,), one_cpu=True, verdict=Verdict.DOUBTFUL)
    advice = replace(advice_of(case(serial, low=1, high=1)), problems=[])
    assert advice.reason == "All its runs used one CPU, so one node is enough."
    for every in (False, True):
        assert answer(advice, every_sentence=every).count("one CPU") == 1


def test_a_new_command_says_whose_jobs_its_times_are_of():
    guess = history(level="user", key="ada")
    said = messages.verdict_text(guess)
    assert said == "Low confidence: based on all your jobs, not on this application."


@pytest.mark.parametrize(
    ("mib", "said"), [(180, ["2 nodes need about 240M each; you ask for 180M."]), (480, [])]
)
def test_a_run_that_would_help_and_does_not_fit_names_the_memory_that_it_needs(mib, said):
    near = Problem("wide_interval", "between 1 and 4 nodes", 2)
    needs = tuple(Memory(nodes, 480 * 2**20 // nodes) for nodes in (2, 4, 8))
    learned = table(problems=(near,), memory=needs)
    made = case(learned, mem_node_bytes=mib * 2**20)
    assert messages.short_memory(made, 1.0) == said
    assert [one for one in advice_of(made).problems if "need about" in one] == said
    assert advice_of(made).observe == (None if said else 2)


def short_of(learned, written=None, **asked):
    made = case(learned, **({"low": 8, "high": 8} | asked))
    return messages.short_of(made, decide(made).request, written)


def test_a_limit_that_such_runs_surely_reach_is_named_at_submission():
    learned = table(owner="alice")
    row = at(learned, 8)
    takes = duration_range(row.low_s, row.high_s)
    said = short_of(learned, asked_limit_s=60.0)
    assert said == [f"nimo: such runs take {takes}, and the time limit is 1 min"]
    assert short_of(learned, asked_limit_s=row.low_s) == []
    assert short_of(learned, Change(time_limit=600), asked_limit_s=60.0) == []
    assert short_of(table(owner="bob"), asked_limit_s=60.0) == []
    assert short_of(table(owner="alice", verdict=Verdict.DOUBTFUL), asked_limit_s=60.0) == []
    assert short_of(table(owner="alice", kind=JobKind.SESSION), asked_limit_s=60.0) == []


def test_memory_that_runs_needed_more_than_is_named_at_submission():
    learned = table(owner="alice", memory=(Memory(8, 158 * 2**20),))
    said = short_of(learned, mem_node_bytes=80 * 2**20)
    assert said == ["nimo: its runs needed up to 158M on a node, and it asks for 80M"]
    assert short_of(learned, mem_node_bytes=158 * 2**20) == []
    assert short_of(learned) == []
    assert short_of(learned, low=4, high=4, mem_node_bytes=80 * 2**20) == []
    ended = table(owner="alice", memory=(Memory(8, UNBOUNDED),))
    assert short_of(ended, mem_node_bytes=80 * 2**20) == []


@pytest.mark.parametrize("mib", [10, 80, 157, 158, 400])
def test_advice_and_submission_say_the_same_of_too_little_memory(mib):
    learned = table(owner="alice", memory=(Memory(8, 158 * 2**20),))
    made = case(learned, low=8, high=8, mem_node_bytes=mib * 2**20)
    at_submission = short_of(learned, mem_node_bytes=mib * 2**20)
    shown = answer(advice_of(made))
    said = "Its runs needed up to 158M on a node, and it asks for"
    assert (said in shown) is (mib < 158)
    assert bool(at_submission) is (mib < 158)


@pytest.mark.parametrize(
    ("name", "limit_s", "said"),
    [
        ("gpu", 3 * 86_400.0, True),
        ("gpu", 86_400.0, False),
        ("gpu", None, False),
        ("gpu,batch", 3 * 86_400.0, False),
    ],
)
@pytest.mark.parametrize("learned", [None, table()])
def test_a_limit_that_its_partition_does_not_allow_is_named(learned, name, limit_s, said):
    part = msgspec.structs.replace(partition(), name=name, max_time_s=86_400.0)
    text = advice_of(case(learned, part, limit_s=limit_s)).limit_text
    expected = "Its time limit is 3 days, and partition gpu allows 24 h: as it is, Slurm may never"
    assert text == (f"{expected} start it." if said else "")


@pytest.mark.parametrize(
    ("asked", "used", "runs", "said"),
    [
        (2, 0.48, 12, "Its runs used 48 % of their GPUs at most, and it asks for 2: 1 GPU may"),
        (4, 0.6, 12, "Its runs used 60 % of their GPUs at most, and it asks for 4: 3 GPUs may"),
        (2, 0.0, 3, "Its runs used 0 % of their GPUs at most, and it asks for 2: 1 GPU may"),
        (4, 0.8, 12, ""),
        (1, 0.1, 12, ""),
        (2, 0.48, 2, ""),
    ],
)
def test_gpus_that_runs_did_not_use_are_named(asked, used, runs, said):
    use = ResourceUse(Unit.GPUS, used, used, used, runs, 0, 0)
    resources = submitted(job(tres_per_job=f"gres/gpu:{asked}"))["resources"]
    request = Request(low=1, high=1, resources=resources)
    text = messages.unused_gpus_text(request, table(uses=(use,)))
    assert text == (f"{said} be enough." if said else "")
    assert messages.unused_gpus_text(request, table()) == ""
    advice = advice_of(msgspec.structs.replace(case(table(uses=(use,))), request=request))
    assert text in advice.size_text


def test_nodes_that_others_are_kept_for_are_not_said_to_be_too_few():
    assert any("this site keeps them free for others" in one.text for one in Reason)


def test_pages_and_wait_say_what_to_do_next_and_when_the_forecast_was_made():
    overview = (ROOT / "slurm_plugin/web/templates/overview.html.j2").read_text()
    assert "<h2>What to do next</h2>" in overview
    said = sentence(Waits(made_s=NOW - 2, recorded=40), now_s=NOW)
    assert re.search(r"Queue forecast updated 2 s ago \(.*\), 40 starts recorded\.", said)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("starts", [(), (None,), (None, None), (None, NOW), (NOW,)])
def test_moments_are_explained_where_a_table_has_some(own, starts):
    rows = [WaitRow(job_id=number, start_s=start) for number, start in enumerate(starts, 1)]
    said = sentence(Waits(rows=rows, own=own, made_s=NOW - 2), now_s=NOW)
    assert ('"starts"' in said) == any(starts)
