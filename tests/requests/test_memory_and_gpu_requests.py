"""The table of memory in docs/requests.md, in each of the three ways in."""

import time

import pytest

from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store
from tests.requests import rest
from tests.requests.conftest import REST_USER
from tests.requests.documented import memory_promises

ROWS = memory_promises("Memory")
SCRIPT = "#!/bin/sh\n#SBATCH --time=10\ntrue\n"


def shown(job):
    """Memory that a job asks for, as slurmctld shows it."""
    by_cpu = job.get("MinMemoryCPU")
    return f"{by_cpu} a CPU" if by_cpu else job["MinMemoryNode"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.request} {row.tag}")
def test_a_job_has_the_memory_that_is_documented(asking, row):
    script = asking.write_script("memory.sh", SCRIPT)
    since = time.time()
    options = ("--hold", "-Jhungry", f"--comment={row.tag}", *row.request.split())
    job = asking.cluster.job(asking.submit(*options, script=script))
    decision = asking.decision(since_s=since)
    assert (shown(job), decision.reason) == (row.memory, row.why)
    assert (decision.given_mem_mib is not None) is row.lowered


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.request} {row.tag}")
def test_over_slurmrestd_it_is_the_same(site, rest_socket, row):
    site.empty_queue()
    since = time.time()
    fields = {"name": "hungry", "comment": row.tag}
    job_id = rest.request(site.cluster, rest_socket, SCRIPT, row.request, **fields)
    decision = site.decision(since_s=since)
    job = site.cluster.job(job_id)
    site.cluster.wait(job_id)
    assert (decision.user, decision.reason) == (REST_USER, row.why)
    assert shown(job) == row.memory


#: Requests for GPUs, and how many the job gets in all.
GPUS = {
    "-N2 --gres=gpu:2": 4,
    "-N2 --gpus-per-node=1": 2,
    "-N2 --gpus=4": 4,
    "-N1 -n2 --gpus-per-task=1": 2,
    "-N2": None,
}


def test_gpus_of_runs_are_those_allocated(site):
    site.empty_queue()
    script = site.write_script("devices.sh", "#!/bin/sh\n#SBATCH --job-name=devices -t 5\n")
    jobs = {site.submit(*request.split(), script=script): request for request in GPUS}
    site.cluster.wait(*jobs, accounted=True)
    site.nimod.run("ingest")
    with Store.open(site.nimod.store, create=False) as store:
        rows = [row for _, rows in store.runs.by_key(KeyLevel.NAME) for row in rows]
    result = {jobs[row.job_id]: row.gpus for row in rows if row.job_id in jobs}
    assert result == GPUS
