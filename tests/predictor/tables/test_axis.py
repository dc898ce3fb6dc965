"""What a curve is over, and tables over CPUs and GPUs."""

from dataclasses import replace
from random import Random

import pytest

from predictor.job_table import over_nodes
from predictor.tables.split import axis_of, on_axis
from predictor.types import Verdict
from sacct_ingest.runs.layout import Each, Layout, Unit
from tests.predictor.rows import submitted
from tests.predictor.tables.test_parts import made, row


def sized(number, elapsed_s, *, cpus, tasks=None, gpus=None, nodes=1):
    return replace(row(number, nodes, elapsed_s), cpus=cpus, tasks=tasks, gpus=gpus)


def time_s(size):
    return 600 / size + 20


def threads(*, first=0, nodes=1):
    return [
        sized(first + i, time_s(n), cpus=n, tasks=1, nodes=nodes)
        for i, n in enumerate((1, 2, 4, 8) * 2)
    ]


def only(rows):
    (table,) = made(rows)
    return table


def test_one_node_with_more_cpus_for_each_task_is_a_curve_over_cpus():
    table = only(threads())
    assert (table.unit, table.layout) == (Unit.CPUS, Layout(1, each=Each.JOB, nodes=1))
    assert table.verdict is Verdict.RELIABLE
    assert [point.nodes for point in table.observed] == [1, 2, 4, 8]
    assert str(table.layout) == "1 task in all on 1 node"


def test_one_node_with_more_tasks_is_a_curve_over_cpus():
    runs = [sized(i, time_s(n), cpus=2 * n, tasks=n) for i, n in enumerate((1, 2, 4, 8) * 2)]
    table = only(runs)
    assert (table.unit, table.layout) == (Unit.CPUS, Layout(cpus=2, each=Each.TASK, nodes=1))


def test_tasks_that_slurm_spread_unevenly_are_tasks_though_times_are_rounded():
    spread = [(2, 2, 15), (1, 1, 27), (1, 1, 27), (2, 4, 9), (6, 8, 5), (5, 8, 6), (2, 2, 15)]
    rows = [
        sized(i, time_s, cpus=tasks, tasks=tasks, nodes=nodes)
        for i, (nodes, tasks, time_s) in enumerate([*spread, (4, 4, 9)])
    ]
    assert axis_of(rows).unit is Unit.CPUS


def test_more_gpus_with_as_many_cpus_each_are_a_curve_over_gpus():
    runs = [sized(i, time_s(n), cpus=4 * n, gpus=n) for i, n in enumerate((1, 2, 4, 8) * 2)]
    table = only(runs)
    assert (table.unit, table.layout.each) == (Unit.GPUS, Each.GPU)
    fixed = [replace(one, cpus=16) for one in runs]
    assert only(fixed).layout == Layout(cpus=16, gpus=None, each=Each.JOB, nodes=1)


def test_threads_and_tasks_of_as_many_cpus_are_no_repeats():
    ranks = [replace(one, tasks=one.cpus, elapsed_s=3 * one.elapsed_s) for one in threads(first=20)]
    tables = made([*threads(), *ranks])
    assert len(tables) > 2  # the parts, besides the whole
    assert all(table.unit is Unit.CPUS for table in tables)


def test_without_steps_the_submission_says_how_many_tasks_there_were():
    ranks = [submitted(one, f"sbatch -N1 -n{one.cpus} job.sh", tasks=None) for one in threads()]
    assert only(ranks).layout == Layout(cpus=1, each=Each.TASK, nodes=1)
    # The memory of a batch step is that of all its processes.
    table = only([replace(one, mem_bytes=100) for one in ranks])
    assert {one.mem_bytes for one in table.memory} == {100}
    few = [submitted(one, f"sbatch -c {one.cpus} job.sh", tasks=None) for one in threads()]
    assert only(few).layout == Layout(1, each=Each.JOB, nodes=1)
    unknown = [submitted(one, "sbatch job.sh", tasks=None) for one in threads()]
    assert only(unknown).layout == Layout(each=Each.JOB, nodes=1)


def half_and_whole(power):
    shapes = [(nodes, each) for nodes in (1, 2, 4, 8) for each in (18, 36)] * 2
    return [
        sized(i, 9000 / (n * each**power) + 20, cpus=n * each, tasks=n * each, nodes=n)
        for i, (n, each) in enumerate(shapes)
    ]


def test_half_filled_nodes_are_one_curve_over_cpus_where_the_number_alone_counts():
    table = only(half_and_whole(1.0))
    assert (table.unit, table.layout) == (Unit.CPUS, Layout(each=Each.ANY))


def test_half_filled_nodes_are_curves_over_nodes_where_they_run_otherwise():
    whole, *parts = made(half_and_whole(0.3))
    assert {one.unit for one in (whole, *parts)} == {Unit.NODES}
    assert len(parts) == 2


def test_nodes_stay_the_unit_where_cpus_explain_little():
    mixed = [
        replace(one, elapsed_s=one.elapsed_s * (1 + 9 * (i % 3)))
        for i, one in enumerate(half_and_whole(1.0))
    ]
    assert axis_of(mixed).unit is Unit.NODES


def test_problems_speak_the_unit():
    table = only(threads()[:2])
    assert (
        table.problems[0].text == "finished runs on 1 and 2 CPUs only; a curve needs 3 CPU counts"
    )


def test_memory_is_that_of_the_whole_job():
    runs = [replace(one, mem_bytes=100, tasks=4, nodes=2, cpus=8) for one in threads()]
    assert {one.mem_bytes for one in on_axis(runs, Unit.CPUS)} == {400}
    assert on_axis(runs, Unit.GPUS) == []


def test_a_curve_over_cpus_says_how_long_jobs_with_so_many_on_each_node_take():
    table = only([replace(one, mem_bytes=100) for one in half_and_whole(1.0)])
    nodes = over_nodes(table, 36)
    assert nodes.unit is Unit.NODES
    assert nodes.nodes[:3] == (1, 2, 3)
    assert nodes.median_s[1] == pytest.approx(table.median_s[table.nodes.index(72)])
    assert [point.nodes for point in nodes.observed] == [1, 2, 4, 8]
    assert {one.mem_bytes for one in nodes.memory} == {3600}
    assert over_nodes(table, 10**6) is None


def test_cpus_added_for_memory_are_not_repeats_of_cpus_asked_for():
    """Four CPUs that got sixteen for their memory are a point at four, not at sixteen."""
    asked = threads()
    bound = [
        replace(one, cpus=16, req_cpus=one.cpus, cpu_s=one.cpus * one.elapsed_s * 0.9)
        for one in threads(first=20)
    ]
    table = only([*asked, *bound])
    assert table.unit is Unit.CPUS
    assert [(point.nodes, point.repeats) for point in table.observed] == [
        (n, 4) for n in (1, 2, 4, 8)
    ]


def test_gpus_of_two_types_are_two_curves():
    runs = []
    for first, name, scale in ((0, "a100", 1.0), (20, "v100", 3.0)):
        runs += [
            replace(
                sized(first + i, scale * time_s(n), cpus=4 * n, gpus=n), gpu_types=f"{name}={n}"
            )
            for i, n in enumerate((1, 2, 4, 8) * 2)
        ]
    whole, *parts = made(runs)
    assert {part.layout.gpu_type for part in parts} == {"a100", "v100"}
    assert all(part.verdict is Verdict.RELIABLE for part in parts)
    assert whole.verdict is not Verdict.RELIABLE


def test_half_filled_nodes_are_not_repeats_of_filled_ones():
    """As many CPUs, half as many tasks: the number of CPUs alone says nothing of both."""
    full = [sized(i, time_s(4 * n), cpus=4 * n, tasks=4 * n, nodes=n) for i, n in NODES]
    half = [sized(20 + i, 1.5 * time_s(4 * n), cpus=4 * n, tasks=2 * n, nodes=n) for i, n in NODES]
    whole, *parts = made([*full, *half])
    assert len({part.layout for part in parts}) == 2
    assert all(point.repeats == 2 for part in parts for point in part.observed)
    assert whole.verdict is not Verdict.RELIABLE


NODES = tuple(enumerate((1, 2, 4, 8) * 2))


def test_nodes_are_the_unit_where_cpus_say_the_same():
    """Each layout has as many CPUs on each node: over CPUs the same fit has other numbers."""
    filled = [(n, 8) for n in (1, 2, 4, 8)] * 3
    half = [(n, 4) for n in (1, 8)] * 3
    for seed in range(12):  # in some of them the last digit of a criterion is less over CPUs
        noise = Random(seed)
        rows = [
            sized(
                i,
                float(int((16000 / n / each**0.7 + 60) * noise.uniform(0.98, 1.02))),
                cpus=8 * n,
                tasks=each * n,
                nodes=n,
            )
            for i, (n, each) in enumerate(filled + half)
        ]
        assert axis_of(rows).unit is Unit.NODES


def test_runs_of_several_layouts_are_not_said_to_have_too_few_counts():
    whole, *_ = made(half_and_whole(0.3))
    assert len(whole.observed) >= 3
    assert {"no_curve", "layouts"} & {one.name for one in whole.problems} == {"layouts"}
