"""Tasks and CPUs for a chosen node count: the rows are what Slurm 22.05 sends for each request."""

from dataclasses import replace

import pytest

from sacct_ingest.runs.layout import UNKNOWN_GPUS, Layout
from slurm_plugin.decision.eligibility import fixed_layout
from slurm_plugin.decision.sizes import AskedSizes, change_for, layouts_of, size_layouts_of
from slurm_plugin.protocol.decision_messages import Change
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.protocol.request_messages import Job
from tests.slurm_plugin.made import partition

SCRIPT = "#!/bin/sh\nsrun ./solve\n"


def request(script=SCRIPT, **fields):
    return Job(script=script, **fields)


FREE = {
    "-N 1-8": request(min_nodes=1, max_nodes=8, min_cpus=1),
    "-N 1-4 --ntasks-per-node=2": request(min_nodes=1, max_nodes=4, ntasks_per_node=2, min_cpus=1),
    "-N 1-4 -c 2": request(min_nodes=1, max_nodes=4, cpus_per_task=2, min_cpus=2),
    "-N 1-8 --ntasks-per-node=2 -c 2": request(
        min_nodes=1, max_nodes=8, ntasks_per_node=2, cpus_per_task=2, min_cpus=2
    ),
    "-N 1-4 -c 2 (24.11)": request(
        min_nodes=1, max_nodes=4, cpus_per_task=2, min_cpus=2, tres_per_task="cpu:2"
    ),
    "-N 1-4 -c 2 (26.05)": request(
        min_nodes=1, max_nodes=4, cpus_per_task=2, min_cpus=2, tres_per_task="cpu=2"
    ),
    "-N 1-4 --exclusive": request(min_nodes=1, max_nodes=4, min_cpus=1, shared=0),
    "salloc -N 1-8": request(script="", min_nodes=1, max_nodes=8, min_cpus=1),
    "--ntasks-per-node=2": request(num_tasks=2, ntasks_per_node=2, min_cpus=2),
    "-N 4 --ntasks-per-node=2 -c 2": request(
        min_nodes=4, max_nodes=4, num_tasks=8, ntasks_per_node=2, cpus_per_task=2, min_cpus=16
    ),
}

FIXED = {
    "-n 16": request(num_tasks=16, min_cpus=16),
    "-N 2-4 -n 8": request(min_nodes=2, max_nodes=4, num_tasks=8, min_cpus=8),
    "-N 1-8 -n 2": request(min_nodes=1, max_nodes=2, num_tasks=2, min_cpus=2),
    "-N 1-4 -n 4 --ntasks-per-node=2": request(
        min_nodes=1, max_nodes=4, num_tasks=4, ntasks_per_node=2, min_cpus=4
    ),
    "srun -N 1-8 --ntasks-per-node=2": request(
        script="", min_nodes=1, max_nodes=8, num_tasks=2, ntasks_per_node=2, min_cpus=2
    ),
    "srun --ntasks-per-node=2": request(script="", num_tasks=2, ntasks_per_node=2, min_cpus=2),
    "-N 4 --ntasks-per-node=2 --overcommit": request(
        min_nodes=4, max_nodes=4, num_tasks=8, ntasks_per_node=2, min_cpus=4
    ),
    "--ntasks-per-socket=2": request(ntasks_per_socket=2, min_cpus=1),
}


@pytest.mark.parametrize("job", FREE.values(), ids=FREE)
def test_layouts_that_follow_the_nodes(job):
    assert fixed_layout(job) is None


@pytest.mark.parametrize("job", FIXED.values(), ids=FIXED)
def test_layouts_that_a_number_of_tasks_fixes(job):
    assert fixed_layout(job) is Reason.FIXED_TASKS


@pytest.mark.parametrize("field", ["tres_per_job", "tres_per_socket", "tres_per_task"])
def test_devices_in_total_fix_the_layout(field):
    assert fixed_layout(request(**{field: "gres/gpu:8"})) is Reason.FIXED_CPUS


def test_devices_of_each_node_do_not():
    assert fixed_layout(request(min_nodes=1, max_nodes=4, tres_per_node="gres/gpu:4")) is None


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("-N 1-8", Change(min_nodes=3, max_nodes=3, min_cpus=3)),
        ("-N 1-4 --ntasks-per-node=2", Change(min_nodes=3, max_nodes=3, min_cpus=6)),
        ("-N 1-8 --ntasks-per-node=2 -c 2", Change(min_nodes=3, max_nodes=3, min_cpus=12)),
        ("--ntasks-per-node=2", Change(min_nodes=3, max_nodes=3, num_tasks=6, min_cpus=6)),
    ],
)
def test_everything_that_depends_on_the_count_is_changed_and_nothing_else(name, change):
    assert change_for(FREE[name], 3) == change


#: Of a job that has all of its nodes.
OPEN = Layout(gpus=None)
CORES = partition(node_cpus=16, threads_core=2)


@pytest.mark.parametrize(
    ("fields", "each", "in_all"),
    [
        ({"min_nodes": 1, "max_nodes": 8}, Layout(0, 2), None),
        ({"min_nodes": 1, "max_nodes": 8, "ntasks_per_node": 4}, Layout(4, 4), None),
        (
            {"min_nodes": 1, "max_nodes": 8, "ntasks_per_node": 1, "cpus_per_task": 3},
            Layout(1, 4),
            None,
        ),
        ({"min_nodes": 1, "max_nodes": 1, "num_tasks": 2}, Layout(2, 2), Layout(2, 2, in_all=True)),
        ({"min_nodes": 4, "max_nodes": 4}, Layout(0, 2), Layout(0, 8, in_all=True)),
        ({"min_nodes": 1, "max_nodes": 8, "num_tasks": 16}, None, Layout(16, in_all=True)),
        ({"num_tasks": 16}, Layout(16, 16), Layout(16, 16, in_all=True)),
        ({"min_nodes": 1, "max_nodes": 8, "shared": 0}, OPEN, replace(OPEN, in_all=True)),
    ],
)
def test_the_layout_that_runs_must_have_had(fields, each, in_all):
    made = layouts_of(AskedSizes.of(request(**fields), CORES))
    assert made == tuple(one for one in (each, in_all) if one is not None)


def test_without_a_cluster_only_tasks_are_available():
    assert layouts_of(
        AskedSizes.of(request(min_nodes=1, max_nodes=8, ntasks_per_node=4), None)
    ) == (Layout(4),)


ON_TWO = {"min_nodes": 2, "max_nodes": 2}
UP_TO_EIGHT = {"min_nodes": 1, "max_nodes": 8}


@pytest.mark.parametrize(
    ("fields", "gpus"),
    [
        (ON_TWO | {"tres_per_node": "gres/gpu:4"}, [4, 8]),
        (ON_TWO | {"tres_per_node": "gres:gpu:a100:4,gres:gpu:v100:2"}, [6, 12]),
        (ON_TWO | {"tres_per_job": "gres/gpu:8"}, [4, 8]),
        (ON_TWO | {"tres_per_task": "gres/gpu:2", "num_tasks": 4}, [4, 8]),
        (ON_TWO | {"tres_per_task": "cpu:2,gres/gpu=2", "ntasks_per_node": 2}, [4, 8]),
        (ON_TWO | {"tres_per_task": "gres/gpu:2"}, [UNKNOWN_GPUS, UNKNOWN_GPUS]),
        (ON_TWO | {"tres_per_socket": "gres/gpu:2"}, [UNKNOWN_GPUS, UNKNOWN_GPUS]),
        (ON_TWO | {"tres_per_node": "gres/gpu:1K"}, [UNKNOWN_GPUS, UNKNOWN_GPUS]),
        (ON_TWO | {"tres_per_node": "gres/nic:1"}, [0, 0]),
        (ON_TWO | {"tres_per_node": "gres/gpu:4", "shared": 0}, [None, None]),
        (UP_TO_EIGHT | {"tres_per_node": "gres/gpu:4"}, [4]),
        (UP_TO_EIGHT | {"tres_per_task": "gres/gpu:1", "ntasks_per_node": 4}, [4]),
        (UP_TO_EIGHT | {"tres_per_job": "gres/gpu:8"}, [8]),
        ({"tres_per_job": "gres/gpu:8"}, [8, 8]),
    ],
)
def test_gpus_on_each_node_and_in_all(fields, gpus):
    assert [one.gpus for one in layouts_of(AskedSizes.of(request(**fields), CORES))] == gpus


def test_gpus_without_a_cluster_are_those_asked_for():
    made = layouts_of(AskedSizes.of(request(**UP_TO_EIGHT, tres_per_node="gres/gpu:4"), None))
    assert made == (Layout(gpus=4), Layout(in_all=True, gpus=UNKNOWN_GPUS))


@pytest.mark.parametrize(
    ("tres", "named"),
    [
        ({"tres_per_node": "gres/gpu:A100:2"}, "a100"),
        ({"tres_per_job": "gres/gpu:v100:1,gres/gpu:a100:1"}, "a100+v100"),
        ({"tres_per_node": "gres/gpu:2"}, ""),
        ({"tres_per_node": "gres/gpu:a100:2,gres/gpu:1"}, ""),
        ({}, ""),
    ],
)
def test_types_of_gpus_that_a_job_names(tres, named):
    job = request(**ON_TWO, **tres)
    assert {one.gpu_type for one in layouts_of(AskedSizes.of(job, CORES))} == {named}
    assert {one.gpu_type for one in size_layouts_of(AskedSizes.of(job, CORES))} == {named}


def test_memory_that_brings_cpus_leaves_both_layouts_open():
    """Runs may have used the CPUs that came with their memory, or not."""
    small = partition(node_cpus=16, max_mem_cpu_mib=1000)
    job = request(min_nodes=1, max_nodes=1, cpus_per_task=4, min_mem_per_node=8000)
    assert [one.cpus for one in layouts_of(AskedSizes.of(job, small))] == [8, 4, 8, 4]
    assert AskedSizes.of(job, small).cpus == 4
    own = request(min_nodes=1, max_nodes=1, cpus_per_task=4, min_mem_per_cpu=2000)
    assert [one.cpus for one in layouts_of(AskedSizes.of(own, small))] == [8, 8]
    assert AskedSizes.of(own, small).cpus == 8
