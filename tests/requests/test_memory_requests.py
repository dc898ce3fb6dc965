"""The table of memory in docs/requests.md, in each of the three ways in."""

from __future__ import annotations

import time

import pytest

from tests.requests import rest
from tests.requests.conftest import REST_USER
from tests.requests.documented import memory_promises

ROWS = memory_promises("Memory")
SCRIPT = "#!/bin/sh\n#SBATCH --time=10\ntrue\n"


def shown(job: dict[str, str]) -> str:
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
