"""What a job takes of its nodes is what a real slurmctld gives it."""

import time

import pytest

from sacct_ingest.scripts.job_script import parse_command_line
from slurm_plugin.config.setting_types import Source
from slurm_plugin.config.settings import Snapshot
from slurm_plugin.slurm.converters import tres
from slurm_plugin.slurm.footprint import footprint
from slurm_plugin.slurm.job_request import Submitter, job_fields, make_job
from slurm_plugin.slurm.partition_view import partition_for
from slurm_plugin.slurm.poller import ClusterPoller
from tests.processes import ProcessError, wait_until

RULES = {
    "plain": "",
    "by_cpu": "DefMemPerCPU=100",
    "by_node": "DefMemPerNode=300",
    "capped": "DefMemPerCPU=50 MaxMemPerCPU=100",
    "alone": "DefMemPerCPU=100 OverSubscribe=EXCLUSIVE",
    "capped_node": "MaxMemPerNode=500",
    "capped_default": "DefMemPerCPU=100 MaxMemPerNode=500",
    "capped_alone": "DefMemPerNode=300 MaxMemPerNode=500 OverSubscribe=EXCLUSIVE",
    "ample": "MaxMemPerNode=3000",
    "capped_cpu": "MaxMemPerCPU=400",
}
#: Of the whole cluster; the limit of a partition, for CPUs or nodes, replaces it.
SITE = "MaxMemPerNode=1900"
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
    "-N1 --mem=0",
    "-N1 -c3 --mem=700",
    "-N1 --ntasks-per-node=1 -c3 --mem=700",
    "-N1 -c4 --mem-per-cpu=150",
    "-N1 -n7 --mem-per-cpu=80",
    "-N1 --exclusive --mem-per-cpu=50",
)
NODE_MIB = 2000


@pytest.fixture(scope="module")
def cluster(slurm_cluster):
    """Cores of two CPUs, memory that is given out, and partitions that differ in its rules."""
    conf = [f"PartitionName={name} Nodes=ALL {rule}" for name, rule in RULES.items()]
    memory = "SelectTypeParameters=CR_Core_Memory"
    with slurm_cluster(nodes=4, cpus=8, threads=2, conf=[memory, SITE, *conf]) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def view(cluster):
    def run(argv, *, timeout_s):
        return cluster.run(*argv).stdout

    return ClusterPoller(time.time, how=Snapshot(source=Source.TEXT), run=run).look()


@pytest.fixture(scope="module")
def given(cluster):
    """What Slurm gave a job of each request in each partition; None: it lets none start."""
    asked = [(rule, request) for rule in RULES for request in REQUESTS]
    jobs = {one: submitted(cluster, *one) for one in asked}
    reasons = held(cluster)
    run = {one: job for one, job in jobs.items() if job and job not in reasons}
    cluster.wait(*run.values(), accounted=True)
    rows = cluster.sacct("-X", fields=("JobID", "AllocTRES"))
    amounts = {int(row["JobID"]): tres(row["AllocTRES"]) for row in rows}
    return {one: amounts[run[one]] if one in run else None for one in asked}


def submitted(cluster, rule, request):
    """Job of a request; None where Slurm refuses it: no node has so many CPUs."""
    try:
        return cluster.sbatch("-p", rule, *request.split(), "--wrap=true")
    except ProcessError as error:
        assert "node configuration is not available" in str(error), (rule, request)
        return None


def held(cluster):
    """Jobs that Slurm starts on no node for the memory that they ask for."""
    waiting = {}

    def others_ended():
        lines = cluster.run("squeue", "-h", "-o", "%i %r").stdout.splitlines()
        waiting.clear()
        waiting.update((int(job), reason) for job, _, reason in (x.partition(" ") for x in lines))
        return set(waiting.values()) <= {"MaxMemPerLimit"}

    wait_until(others_ended, what="jobs that may start")
    return set(waiting)


@pytest.mark.parametrize("rule", RULES)
def test_cpus_and_memory_of_a_job_on_a_node_are_what_slurm_gives(rule, view, given):
    partition = view.partitions[rule]
    for request in REQUESTS:
        command = parse_command_line(["sbatch", "-p", rule, *request.split(), "job.sh"])
        fields = job_fields(command, "#!/bin/sh\n", Submitter("u", 0, "/"), now_s=0.0)
        job = make_job(fields)
        made = footprint(job, partition)
        slurm = given[rule, request]
        fits = made.allowed and made.cpus <= partition.node_cpus
        assert fits is (slurm is not None), (rule, request)
        assert (partition_for(view, job).nodes > 0) is fits, (rule, request)
        if slurm is None:
            continue
        assert made.cpus == slurm["cpu"], (rule, request)
        assert min(made.mem_mib, NODE_MIB) == slurm["mem"], (rule, request)
