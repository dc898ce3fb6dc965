"""What a job takes of its nodes is what a real slurmctld gives it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest

from sacct_ingest.job_script import parse_command_line
from slurm_plugin.config import Snapshot, Source
from slurm_plugin.slurm.cluster_state import Cluster
from slurm_plugin.slurm.fields import tres
from slurm_plugin.slurm.footprint import footprint
from slurm_plugin.slurm.job_request import make_job
from slurm_plugin.slurm.poller import ClusterPoller
from tests.cluster import SlurmCluster
from tests.conftest import ClusterFactory

RULES = {
    "plain": "",
    "by_cpu": "DefMemPerCPU=100",
    "by_node": "DefMemPerNode=300",
    "capped": "DefMemPerCPU=50 MaxMemPerCPU=100",
    "alone": "DefMemPerCPU=100 OverSubscribe=EXCLUSIVE",
}
REQUESTS = (
    "-N1",
    "-N1 -c3",
    "-N1 --ntasks-per-node=3",
    "-N1 -n5",
    "-N1 --mem=400",
    "-N1 --mem-per-cpu=150",
    "-N1 --mem-per-cpu=150 -c2",
    "-N1 --exclusive",
    "-N1 --exclusive --mem=400",
    "-N1 --exclusive --mem-per-cpu=150",
    "-N1 --mem=700",
    "-N1 --ntasks-per-node=2 -c2 --mem=300",
)
NODE_MIB = 2000


@pytest.fixture(scope="module")
def cluster(slurm_cluster: ClusterFactory) -> Iterator[SlurmCluster]:
    """Cores of two CPUs, memory that is given out, and partitions that differ in its rules."""
    conf = [f"PartitionName={name} Nodes=ALL {rule}" for name, rule in RULES.items()]
    memory = "SelectTypeParameters=CR_Core_Memory"
    with slurm_cluster(nodes=4, cpus=8, threads=2, conf=[memory, *conf]) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def view(cluster: SlurmCluster) -> Cluster:
    def run(argv: Sequence[str], *, timeout_s: float) -> str:
        return cluster.run(*argv).stdout

    return ClusterPoller(time.time, how=Snapshot(source=Source.TEXT), run=run).look()


@pytest.fixture(scope="module")
def given(cluster: SlurmCluster) -> dict[tuple[str, str], dict[str, float]]:
    """What Slurm gave a job of each request in each partition."""
    asked = [(rule, request) for rule in RULES for request in REQUESTS]
    jobs = {one: cluster.sbatch("-p", one[0], *one[1].split(), "--wrap=true") for one in asked}
    cluster.wait(*jobs.values(), accounted=True)
    rows = cluster.sacct("-X", fields=("JobID", "AllocTRES"))
    found = {int(row["JobID"]): tres(row["AllocTRES"]) for row in rows}
    return {one: found[job_id] for one, job_id in jobs.items()}


@pytest.mark.parametrize("rule", RULES)
def test_cpus_and_memory_of_a_job_on_a_node_are_what_slurm_gives(
    rule: str, view: Cluster, given: dict[tuple[str, str], dict[str, float]]
) -> None:
    partition = view.partitions[rule]
    for request in REQUESTS:
        command = parse_command_line(["sbatch", *request.split(), "job.sh"])
        job = make_job(command, "#!/bin/sh\n", user="u", uid=0, work_dir="/", now_s=0.0)
        made = footprint(job, partition)
        slurm = given[rule, request]
        assert made.cpus == slurm["cpu"], (rule, request)
        assert min(made.mem_mib, NODE_MIB) == slurm["mem"], (rule, request)
