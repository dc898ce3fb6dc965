"""What a job takes of each of its nodes, as far as no real Slurm is needed to tell.

``tests/cluster/test_footprint.py`` asks one.
"""

from math import inf

import msgspec
import pytest

from predictor.memory import Memory
from slurm_plugin.config.setting_types import Mode, TimeUse, Trust
from slurm_plugin.config.settings import JobSettings, OptIn
from slurm_plugin.decision.eligibility import resolve
from slurm_plugin.decision.policy import decide
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.submitted_job import SubmittedJob
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm.cluster_state import Cluster
from slurm_plugin.slurm.footprint import footprint, memory_bytes
from slurm_plugin.slurm.partition_view import partition_for
from tests.slurm_plugin.made import NOW, job, partition, rules, table

GIB = 2**30


def test_cpus_memory_and_devices():
    asked = Job(
        ntasks_per_node=2, cpus_per_task=3, min_mem_per_cpu=100, tres_per_node="gres/gpu:a100:2"
    )
    taken = footprint(asked, partition(node_cpus=16))
    assert taken.amounts() == {"cpu": 6, "mem": 600, "gres/gpu": 2}
    assert footprint(Job(tres_per_node="gres:gpu"), partition()).gres == (("gpu", 1),)
    assert not taken.whole


def test_whole_nodes_come_with_all_their_cpus():
    assert footprint(Job(shared=0), partition(node_cpus=16)).cpus == 16
    assert footprint(Job(), partition(node_cpus=16, exclusive=True)).cpus == 16


def test_memory_for_each_cpu_of_a_whole_node():
    node = partition(node_cpus=64, node_mem_bytes=128 * GIB)
    asked = Job(shared=0, min_mem_per_cpu=2048)
    assert memory_bytes(asked, node) == 128 * GIB


def test_a_job_without_memory_or_with_all_of_it_has_the_nodes():
    assert footprint(Job(), partition()).mem_mib == inf
    assert footprint(Job(min_mem_per_node=0), partition(mem_cpu_mib=100)).mem_mib == inf
    assert memory_bytes(Job(min_mem_per_node=0), partition(mem_cpu_mib=100)) is None


def test_without_a_cluster_only_what_the_job_says_is_available():
    assert memory_bytes(Job(min_mem_per_cpu=100, cpus_per_task=3), None) == 300 * 2**20
    assert memory_bytes(Job(min_mem_per_cpu=100, shared=0), None) is None
    assert memory_bytes(Job(), None) is None


def test_of_several_partitions_the_one_that_gives_least_memory_counts():
    parts = [partition(name=name, mem_cpu_mib=mib) for name, mib in (("a", 500), ("b", 100))]
    every = {part.name: part for part in parts}
    look = Cluster(name="pine", taken_s=NOW, partitions=every, default_partition="a")
    asked = Job(partition="a,b", min_nodes=1)
    assert memory_bytes(asked, partition_for(look, asked)) == 100 * 2**20


def test_memory_beyond_what_the_partition_allows_on_a_node():
    """What a real slurmctld starts, and what it holds for ever (MaxMemPerLimit)."""
    capped = partition(mem_cpu_mib=100, max_mem_node_mib=500, node_cpus=8, threads_core=2)
    assert footprint(Job(min_mem_per_node=500), capped).allowed
    assert not footprint(Job(min_mem_per_node=501), capped).allowed
    # CPUs that only fill up a core do not count.
    assert footprint(Job(min_mem_per_cpu=150, cpus_per_task=3), capped).mem_mib == 600
    assert footprint(Job(min_mem_per_cpu=150, cpus_per_task=3), capped).allowed
    assert not footprint(Job(min_mem_per_cpu=150, cpus_per_task=4), capped).allowed
    assert not footprint(Job(shared=0), capped).allowed, "8 CPUs of 100 MiB"


def test_all_memory_of_a_node_is_more_than_a_lower_limit_allows():
    asked = Job(min_mem_per_node=0)
    for node_gib, allowed in ((1, True), (2, True), (3, False)):
        node = partition(node_mem_bytes=node_gib * GIB, max_mem_node_mib=2048)
        assert footprint(asked, node).allowed is allowed
        assert footprint(Job(), node).allowed is allowed, "there is no default"
    assert not footprint(asked, partition(max_mem_node_mib=2048)).allowed, "size unknown"


@pytest.mark.parametrize(
    ("fields", "whole_tasks", "split_tasks"),
    [
        ({}, 7, 7),
        ({"cpus_per_task": 3}, 6, 7),
        ({"num_tasks": 3, "cpus_per_task": 2, "min_nodes": 1}, 6, 9),
        ({"num_tasks": 4, "min_nodes": 2, "max_nodes": 2}, 7, 8),
        ({"ntasks_per_node": 2, "cpus_per_task": 2}, 8, 8),
        ({"ntasks_per_node": 3}, 9, 9),
        ({"cpus_per_task": 8}, 8, 8),
    ],
)
def test_memory_brings_cpus(fields, whole_tasks, split_tasks):
    """``MaxMemPerCPU=100`` and 700 MiB need seven CPUs: of whole tasks before Slurm 24.11."""
    capped = partition(max_mem_cpu_mib=100, node_cpus=8)
    job = Job(min_mem_per_node=700, **fields)
    assert footprint(job, capped).cpus == split_tasks
    assert footprint(job, msgspec.structs.replace(capped, whole_tasks=True)).cpus == whole_tasks


def test_all_memory_of_a_node_brings_the_cpus_for_it():
    whole = partition(max_mem_cpu_mib=100, node_cpus=8, node_mem_bytes=2 * GIB)
    assert footprint(Job(min_mem_per_node=0), whole).cpus == 21, "more than it has"
    assert footprint(Job(shared=0), whole).cpus == 21


def chosen(part, **fields):
    """Node count for a job that is known to need 5.6 GiB on a node, however many there are."""
    need = int(5.6 * GIB)
    recorded = table(memory=(Memory(4, need), Memory(8, need), Memory(10, need)))
    one = job(**fields)
    site = JobSettings(mode=Mode.ENFORCE, time_limit=TimeUse.OFF, trust=Trust.AUTO)
    asked = resolve(SubmittedJob.of(one, part), None, settings=site, opt_in=OptIn(), now_s=NOW)
    made = decide(Situation(asked, recorded, part.supply, rules(), NOW))
    return made.chosen.nodes if made.chosen else None


def test_the_sites_default_memory_bounds_the_counts_as_the_users_own_does():
    """``DefMemPerCPU=4096`` and one CPU a node give 4 GiB; no count is known to need so little."""
    by_default = partition(mem_cpu_mib=4096, node_mem_bytes=64 * GIB)
    ample = partition(mem_cpu_mib=8192, node_mem_bytes=64 * GIB)
    assert chosen(by_default) == 16
    assert chosen(by_default) == chosen(by_default, min_mem_per_node=4096)
    assert chosen(ample) < 16
