"""A partition counted in CPUs or GPUs: what of it is free, and what one of them costs."""

import pytest

from predictor.types import PredictionTable
from sacct_ingest.runs.layout import Layout, Unit
from slurm_plugin.decision.context_builder import in_sizes
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.slurm.partition_view import partition_for
from tests.slurm_plugin.decision.submitting import advisor
from tests.slurm_plugin.decision.test_sizes import DEVICES, FREE, THREADS, look, one_node, sized
from tests.slurm_plugin.made import NOW, job, table

GPU = {"tres_per_node": "gres/gpu:1", "cpus_per_task": 4}


def view(table: PredictionTable, whole: Partition, **fields: object) -> Partition:
    request = one_node(**{"cpus_per_task": 1} | fields)
    made = in_sizes(request, table, (1, 2, 4), lambda _job: whole, own=1, margin=1.2)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("table", "fields", "total"), [(sized(), {}, 64), (sized(DEVICES, Unit.GPUS), GPU, 16)]
)
def test_the_price_counts_the_cpus_or_gpus_of_all_nodes(table, fields, total):
    """A node is shared: one of its sixteen CPUs holds up others by a sixteenth of it."""
    whole = look(FREE).partitions["batch"]
    assert whole.nodes == 4
    assert view(table, whole, **fields).nodes == total


@pytest.mark.parametrize(("waiting", "fewer"), [(0, False), (40, True)])
def test_a_queue_makes_cpus_dear(waiting, fewer):
    request = one_node(
        cpus_per_task=1, min_cpus=1, comment="nimo:cpus=1-16", script="#!/bin/sh\n./x\n"
    )
    made = advisor(tables=[sized(THREADS)], look=look(FREE, queue=waiting))
    _, row = made.submit(request, via="job_submit", now_s=NOW)
    assert row.nodes is not None
    assert (row.nodes < 12) is fewer


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"ntasks_per_node": 4}, 0.25),
        ({"ntasks_per_node": 1, "tres_per_node": "gres/gpu:2"}, 0.5),
        ({"ntasks_per_node": 1, "min_mem_per_node": 12_000}, 0.75),
        ({"ntasks_per_node": 4, "shared": 0}, 1.0),
    ],
)
def test_a_range_of_nodes_is_charged_for_what_it_takes_of_each(fields, part):
    """Others can use the rest: a queue makes such nodes less dear."""
    job_on_nodes = job(min_nodes=1, max_nodes=4, num_tasks=None, **fields)
    where = look(FREE)
    seen = partition_for(where, job_on_nodes)
    assert seen.node_part == part


def test_the_price_of_part_of_a_node_is_that_part():
    counts = []
    for tasks in (1, 16):
        made = advisor(tables=[table(layout=Layout(gpus=None))], look=look(FREE, queue=4))
        request = job(min_nodes=1, max_nodes=4, ntasks_per_node=tasks, min_cpus=tasks)
        _, row = made.submit(request, via="job_submit", now_s=NOW)
        assert row.nodes is not None
        counts.append(row.nodes)
    assert counts[0] > counts[1]
