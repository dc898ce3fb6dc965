"""Requests with other tasks, CPUs, GPUs or segments than the runs had."""

import dataclasses

import pytest

from predictor.table import part_key
from predictor.types import Part, Tail
from sacct_ingest.runs.layout import Each, Layout, Unit
from slurm_plugin.config.setting_types import TimeUse
from slurm_plugin.config.settings import TimeLimit
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.made import NOW, history, job, table

FOUR = Layout(4, 4)


def test_a_request_with_other_tasks_than_all_runs_is_left_alone():
    tails = (Tail(0.9, table().high_s), Tail(0.99, table().high_s))
    four = table(layout=FOUR, tails=tails)
    made = advisor(tables=[four], time_limit=TimeLimit(use=TimeUse.SET))
    answer, row = submit(made, job(ntasks_per_node=1, time_limit=600))
    assert (answer.action, row.reason) == ("keep", "other_layout")
    assert submit(made, job(ntasks_per_node=4, time_limit=600))[0].action == "set"


@pytest.mark.parametrize("tasks", [1, 2])
def test_advice_says_what_differs(tasks):
    made = advisor(tables=[table(layout=FOUR)])
    advice = made.advise(job(min_nodes=1, max_nodes=1, num_tasks=tasks), now_s=NOW)
    assert (advice.verdict, advice.directive, advice.time_directive) == ("refused", "", "")
    assert "4 tasks and 4 CPUs" in advice.problems[0]
    assert f"{tasks} task" in advice.problems[0]


def test_a_request_gets_the_table_of_its_own_layout():
    parts = {"four": Layout(4, 4), "one": Layout(1, 1)}
    whole = dataclasses.replace(
        history(), parts=tuple(Part(key, layout) for key, layout in parts.items())
    )
    tables = [whole, *(table(key=key, layout=layout) for key, layout in parts.items())]
    made = advisor(tables=tables)
    keys = {n: submit(made, job(ntasks_per_node=n))[1].key for n in (1, 2, 4)}
    assert keys == {1: "one", 2: whole.key, 4: "four"}
    assert submit(made, job(ntasks_per_node=2))[1].verdict == "refused"


@pytest.mark.parametrize("tres", ["", "gres/gpu:1", "gres/gpu:1K"])
def test_a_request_with_other_gpus_than_all_runs_is_left_alone(tres):
    two = table(layout=dataclasses.replace(FOUR, gpus=2))
    made = advisor(tables=[two])
    answer, row = submit(made, job(ntasks_per_node=4, tres_per_node=tres))
    assert (answer.action, row.reason) == ("keep", "other_layout")
    same = submit(made, job(ntasks_per_node=4, tres_per_node="gres/gpu:a100:2"))[1]
    assert same.reason != "other_layout"
    asked = job(min_nodes=1, max_nodes=1, ntasks_per_node=4, tres_per_node=tres)
    advice = made.advise(asked, now_s=NOW)
    assert advice.verdict == "refused"
    assert "ll runs had 4 tasks, 4 CPUs and 2 GPUs on each node" in advice.problems[0]


def test_a_request_gets_the_table_of_its_own_gpus():
    parts = {"two": Layout(4, 4, gpus=2), "none": Layout(4, 4)}
    whole = dataclasses.replace(
        history(), parts=tuple(Part(key, layout) for key, layout in parts.items())
    )
    made = advisor(tables=[whole, *(table(key=k, layout=one) for k, one in parts.items())])
    devices = {"": "none", "gres/gpu:2": "two", "gres/gpu:3": whole.key}
    for tres, key in devices.items():
        assert submit(made, job(ntasks_per_node=4, tres_per_node=tres))[1].key == key


@pytest.mark.parametrize("segment", [3, 5, 16])
def test_node_counts_are_whole_segments(segment):
    made = advisor()
    answer, row = submit(made, job(segment_size=segment, min_nodes=segment, max_nodes=32))
    assert row.nodes % segment == 0
    assert answer.set is None or answer.set.min_nodes in (None, row.nodes)
    advice = made.advise(job(segment_size=segment, min_nodes=1, max_nodes=32), now_s=NOW)
    assert advice.rows
    assert all(one.nodes % segment == 0 for one in advice.rows)


def laid_out(layouts, *, unit=Unit.NODES):
    """Advisor that has a table for each of these layouts, and their identity's own."""
    own = dataclasses.replace(history(), unit=unit)
    keys = {part_key(own.key, str(i)): layout for i, layout in enumerate(layouts)}
    whole = dataclasses.replace(own, parts=tuple(Part(*one) for one in keys.items()))
    parts = [table(key=key, layout=layout, unit=unit) for key, layout in keys.items()]
    return advisor(tables=[whole, *parts])


def test_advice_puts_other_fillings_of_nodes_beside_the_jobs_own():
    made = laid_out([Layout(4, 4), Layout(2, 4), Layout(8, 8)])
    advice = made.advise(job(min_nodes=2, max_nodes=2, ntasks_per_node=4), now_s=NOW)
    assert [row.own for row in advice.layouts] == [False, True, False]
    assert [row.options for row in advice.layouts] == [
        f"--nodes={advice.nodes} --ntasks-per-node=2 --cpus-per-task=2",
        f"--nodes={advice.nodes} --ntasks-per-node=4",
        f"--nodes={advice.nodes} --ntasks-per-node=8",
    ]
    assert advice.layouts[0].layout == "2 tasks and 4 CPUs on each node"
    one = advice.layouts[1]
    assert one.size_hours == pytest.approx(advice.nodes * one.time_s / 3600)


def test_advice_puts_threads_of_other_tasks_beside_the_jobs_own():
    layouts = [Layout(tasks, each=Each.JOB, nodes=1) for tasks in (2, 4)]
    made = laid_out(layouts, unit=Unit.CPUS)
    asked = job(min_nodes=1, max_nodes=1, num_tasks=2, cpus_per_task=4, min_cpus=8)
    advice = made.advise(asked, now_s=NOW)
    size = advice.layouts[0].size
    assert [row.options for row in advice.layouts] == [
        f"--nodes=1 --ntasks={tasks} --cpus-per-task={size // tasks}" for tasks in (2, 4)
    ]


def test_advice_has_no_layouts_where_there_is_one_or_they_differ_in_two_sizes():
    for layouts in ([Layout(4, 4)], [Layout(4, 4), Layout(4, 8), Layout(8, 8)]):
        made = laid_out(layouts)
        advice = made.advise(job(min_nodes=2, max_nodes=2, ntasks_per_node=4), now_s=NOW)
        assert advice.rows
        assert advice.layouts == []
