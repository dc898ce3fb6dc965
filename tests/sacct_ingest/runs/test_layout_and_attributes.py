from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.runs.attributes import attributes, describe, numbers_of
from sacct_ingest.runs.layout import (
    UNKNOWN_GPUS,
    Each,
    Layout,
    Unit,
    any_layout,
    layouts,
    layouts_of_run,
    size_layouts,
)
from sacct_ingest.scripts.signature import identity_of_request
from slurm_plugin.decision.submitted_job import SubmittedJob
from slurm_plugin.protocol.request_messages import Job
from tests.predictor.rows import submitted
from tests.predictor.tables.test_parts import row


@dataclass(frozen=True)
class Sized:
    nodes: int
    tasks: int | None
    cpus: int
    node_type: str = ""
    gpus: int | None = None
    gpu_type: str = ""
    shape: str = ""


@pytest.mark.parametrize(
    ("runs", "layout"),
    [
        ([Sized(n, 4 * n, 8 * n) for n in (1, 2, 4)], Layout(4, 8)),
        ([Sized(n, 16, 16) for n in (1, 2, 4)], Layout(16, 16, in_all=True)),
        ([Sized(n, 16, 16, gpus=8) for n in (1, 2, 4)], Layout(16, 16, in_all=True, gpus=8)),
    ],
)
def test_full_nodes_and_a_fixed_number_in_all_are_one_layout_on_any_count(runs, layout):
    assert layouts(runs) == {layout: runs}


def test_other_tasks_on_the_same_nodes_are_another_layout():
    full = [Sized(n, 4 * n, 4 * n) for n in (1, 2, 4)]
    half = [Sized(n, 2 * n, 4 * n) for n in (1, 2)]
    assert layouts([*half, *full]) == {Layout(4, 4): full, Layout(2, 4): half}


def test_runs_without_a_number_of_tasks_join_those_with_as_many_cpus():
    runs = [Sized(1, 4, 4), Sized(2, None, 8), Sized(1, None, 2)]
    assert layouts(runs) == {Layout(4, 4): runs[:2], Layout(0, 2): runs[2:]}


def test_node_types_with_other_numbers_of_cpus_are_no_layouts():
    runs = [Sized(n, 8 * n, 36 * n, "old") for n in (1, 2)]
    runs += [Sized(n, 8 * n, 40 * n, "new") for n in (1, 2)]
    assert list(layouts(runs)) == [Layout(8)]
    assert len(layouts([*runs, Sized(1, 8, 12, "new")])) > 1


def test_layouts_in_words():
    assert str(Layout(1, 4)) == "1 task and 4 CPUs on each node"
    assert str(Layout(16, in_all=True)) == "16 tasks in all"


def test_other_gpus_on_the_same_nodes_are_another_layout():
    four = [Sized(n, 4 * n, 4 * n, gpus=4 * n) for n in (1, 2, 4)]
    one = [Sized(n, 4 * n, 4 * n, gpus=n) for n in (1, 2)]
    none = [Sized(1, 4, 4)]
    result = layouts([*none, *one, *four])
    assert result == {Layout(4, 4, gpus=4): four, Layout(4, 4, gpus=1): one, Layout(4, 4): none}


def test_runs_without_a_number_of_tasks_do_not_join_those_with_other_gpus():
    runs = [Sized(1, 4, 4, gpus=2), Sized(1, None, 4)]
    assert list(layouts(runs)) == [Layout(0, 4), Layout(4, 4, gpus=2)]


def test_gpus_match_their_number_and_what_is_left_open():
    had = Layout(4, 4, gpus=2)
    assert [Layout(4, 4, gpus=n).matches(had) for n in (2, None, 1, 0, UNKNOWN_GPUS)] == [
        *(True, True),
        *(False, False, False),
    ]
    assert not Layout(gpus=UNKNOWN_GPUS).matches(Layout())


def test_gpus_in_words():
    assert str(Layout(1, 4, gpus=2)) == "1 task, 4 CPUs and 2 GPUs on each node"
    assert str(Layout(gpus=1)) == "1 GPU on each node"
    assert str(Layout(0, 4, gpus=UNKNOWN_GPUS)) == (
        "4 CPUs and an unknown number of GPUs on each node"
    )


def test_gpus_of_another_type_are_another_layout():
    new = [Sized(n, 4 * n, 4 * n, gpus=n, gpu_type="a100") for n in (1, 2)]
    old = [Sized(n, 4 * n, 4 * n, gpus=n, gpu_type="v100") for n in (1, 2, 4)]
    one, other = (Layout(4, 4, gpus=1, gpu_type=name) for name in ("v100", "a100"))
    assert layouts([*new, *old]) == {one: old, other: new}
    assert [one.matches(given) for given in (one, other, Layout(4, 4, gpus=1))] == [
        *(True, False, True)
    ]
    assert str(one) == "4 tasks, 4 CPUs and 1 v100 GPU on each node"
    (each,) = size_layouts([Sized(1, 1, 8 * n, gpus=n, gpu_type="a100") for n in (1, 2)], Unit.GPUS)
    assert str(each) == "8 CPUs for each a100 GPU on 1 node"


@pytest.mark.parametrize("unit", [Unit.CPUS, Unit.GPUS])
def test_types_differ_in_layouts_of_all_units(unit):
    runs = [Sized(1, 1, 4, gpus=2, gpu_type=name) for name in ("a100", "v100")]
    assert len(size_layouts(runs, unit)) == len(any_layout(runs, unit)) == 2
    kinds = [{one.gpu_type for one in layouts_of_run(run)} for run in runs]
    assert kinds == [{"a100"}, {"v100"}]


def test_gpus_of_an_unknown_type_are_the_only_type_that_there_is():
    runs = [Sized(1, 4, 4, gpus=1, gpu_type=name) for name in ("a100", "")]
    assert layouts(runs) == {Layout(4, 4, gpus=1, gpu_type="a100"): runs}
    assert len(layouts([*runs, Sized(1, 4, 4, gpus=1, gpu_type="v100")])) == 3
    assert len(layouts([*runs, Sized(1, 4, 4)])) == 2


def test_a_type_without_a_number_in_words():
    assert str(Layout(gpus=None, each=Each.ANY, gpu_type="a100")) == "a100 GPUs"


DIR = "/scratch/ann"
LINE = "sbatch -N 2 --mem=4G run.sh KPAR=9 --input /scratch/ann/a.dat -v 4x4 5x5"
RUN = submitted(row(1, 2, 100.0), LINE, account="hpc", req_mem_bytes=2 * 4096 * 2**20, work_dir=DIR)
JOB = Job(
    user_name="ann",
    name="solve",
    account="hpc",
    time_limit=60,
    min_nodes=2,
    max_nodes=2,
    min_mem_per_node=4096,
    work_dir=DIR,
    argv=["/home/ann/run.sh", "KPAR=9", "--input", "a.dat", "-v", "4x4", "5x5"],
    script="#!/bin/sh\nsrun vasp\n",
)


def test_a_request_has_the_attributes_of_its_run():
    script = identity_of_request(
        user="ann", name="solve", comment="", script=JOB.script, argv=JOB.argv, work_dir=DIR
    ).script
    asked = SubmittedJob.of(JOB, None).attributes(JOB.account)
    assert asked == replace(RUN, script=script).attributes
    assert asked["KPAR"] == "9"
    assert asked["--input"] == "a.dat"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("time limit", {"limit_s": 7200}),
        ("memory", {"req_mem_bytes": 2**33 * 3}),
        ("account", {"account": "other"}),
        ("working directory", {"work_dir": "/elsewhere"}),
        ("KPAR", {"submit_line": "sbatch run.sh KPAR=1"}),
        ("script", {"script": "other"}),
    ],
)
def test_what_differs_shows(name, change):
    other = submitted(RUN, **{"submit_line": LINE} | change)
    assert other.attributes.get(name) != RUN.attributes.get(name)


WORDS = st.sampled_from(
    ["--steps=500", "4x4", "1e-3", "0", "N=12", "--np=64", "in.dat", "-v", "-3", "--size", "2G"]
)


@given(
    words=st.lists(WORDS, max_size=6),
    options=st.sampled_from(["", "--export=ALL,GRID=64 ", "--comment=nimo:size=4G ", "-t 90 "]),
    index=st.none() | st.integers(0, 100),
)
def test_numbers_of_a_run_are_those_of_its_attributes(words, options, index):
    run = submitted(RUN, f"sbatch {options}run.sh {' '.join(words)}", array_task_id=index)
    assert run.numbers == numbers_of(run.attributes)


def test_no_number_of_nodes_is_an_attribute():
    more = submitted(RUN, LINE, nodes=4, req_mem_bytes=4 * 4096 * 2**20)
    assert more.attributes == RUN.attributes


def test_nothing_has_no_attributes():
    assert attributes(()) == {}


def test_long_names_and_values_are_cut_in_words():
    assert len(describe({"in": "x" * 500})) < 60
    assert len(describe({"x" * 500: "in"})) < 60


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096M", "4G"), ("4294967296", "4G"), ("4GiB", "4G"), ("1.5M", "1.5M"), ("5000", "5000")],
)
def test_a_size_is_one_value_in_whatever_unit(text, size):
    assert attributes((), comment=f"nimo:size={text}") == {"size": size}


@pytest.mark.parametrize("unit", [None, Unit.CPUS, Unit.GPUS])
def test_jobs_of_another_shape_are_another_layout(unit):
    shapes = ["10 nodes + 1 node", "10 nodes + 2 nodes", ""]
    runs = [Sized(11, 11, 88, gpus=4, shape=shape) for shape in shapes]
    groups = layouts(runs) if unit is None else size_layouts(runs, unit)
    assert len(groups) == 3
    for layout, (run,) in groups.items():
        alike = [other for other in runs if any(map(layout.matches, layouts_of_run(other)))]
        assert alike == [run]
