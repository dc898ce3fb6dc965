"""The table of CPUs, tasks and GPUs in docs/requests.md, in each of the three ways in."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from sacct_ingest.records import DecisionRow
from tests.requests import rest
from tests.requests.conftest import REST_USER
from tests.requests.documented import size_promises

pytestmark = pytest.mark.releases

ROWS = size_promises("CPUs, tasks and GPUs")
#: Says what the job finds around it.
LOOK = """\
#!/bin/sh
#SBATCH --time=10
env | grep -E '^SLURM_(NTASKS|CPUS_PER_TASK|GPUS_ON_NODE)='
srun sh -c 'echo $(hostname) ${SLURM_GPUS_ON_NODE:-0}' > $SLURM_JOB_ID.step
echo STARTED=$(wc -l < $SLURM_JOB_ID.step)
echo STEP_GPUS=$(head -n 1 $SLURM_JOB_ID.step | cut -d " " -f 2)
"""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job as Slurm has it while held, the decision on it, and what it finds when it runs."""

    job: dict[str, str]
    decision: DecisionRow
    placed: dict[str, str]


def program(row):
    if "gpu" in row.tag or "gres" in row.request:
        return "devices"
    return "ranks" if "-n" in row.request.split() else "threads"


def by_sbatch(site):
    """Submit every request of the table; then let them run together."""
    script, held = site.write_script("sized.sh", LOOK), {}
    for row in ROWS:
        if row.chosen:
            site.settled()
        since = time.time()
        pattern, end = ("%A_%a.out", "_0") if "--array" in row.request else ("%A.out", "")
        options = ["--hold", f"-J{program(row)}", f"--comment={row.tag}", "-o", pattern]
        job_id = site.submit(*options, *row.request.split(), script=script)
        output = site.cluster.layout.work / f"{job_id}{end}.out"
        held[row] = site.cluster.job(job_id), site.decision(since_s=since), output
    jobs = [job["JobId"] for job, _, _ in held.values()]
    site.cluster.run("scontrol", "release", ",".join(jobs))
    site.cluster.wait(*map(int, jobs))
    return {row: Submitted(job, one, read(output)) for row, (job, one, output) in held.items()}


def read(output):
    return dict(line.split("=", 1) for line in output.read_text().splitlines())


@pytest.fixture(scope="module")
def submitted(asking):
    """Submit every request."""
    return by_sbatch(asking)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.request} {row.tag}")
def test_decided_as_documented(site, submitted, row):
    job, decision, placed = (getattr(submitted[row], n) for n in ("job", "decision", "placed"))
    assert (decision.reason, decision.applied) == (row.why, row.chosen)
    holds(row, job, decision)
    tasks = filled(row.tasks, decision)
    assert placed.get("SLURM_NTASKS", "") == tasks
    assert placed.get("SLURM_CPUS_PER_TASK", "") == filled(row.cpus_per_task, decision)
    assert placed["STARTED"] == (tasks or "1")
    if row.gpus:
        assert placed["SLURM_GPUS_ON_NODE"] == filled(row.gpus, decision)
        assert placed["STEP_GPUS"] == filled(row.gpus, decision)


def filled(cell, decision):
    return str(decision.nodes) if cell == "n" else cell


def holds(row, job, decision):
    """Check what slurmctld shows of a job."""
    if row.chosen:
        assert decision.nodes > 1
    if row.cpus:
        assert job["NumCPUs"] == filled(row.cpus, decision)
    if row.tasks:
        assert job["NumTasks"] == filled(row.tasks, decision)
    if row.cpus_per_task:
        assert job["CPUs/Task"] == filled(row.cpus_per_task, decision)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.request} {row.tag}")
def test_over_slurmrestd_it_is_the_same(site, rest_socket, row):
    site.empty_queue()
    site.settled()
    since = time.time()
    array = "--array" in row.request
    fields = {"name": program(row), "comment": row.tag}
    fields |= {"standard_output": "rest-%A_%a.out"} if array else {}
    job_id = rest.request(site.cluster, rest_socket, LOOK, row.request, **fields)
    decision = site.decision(since_s=since)
    assert (decision.user, decision.reason, decision.applied) == (REST_USER, row.why, row.chosen)
    holds(row, site.cluster.job(job_id), decision)
    site.cluster.wait(job_id)
    placed = read(site.cluster.layout.work / f"rest-{job_id}{'_0' * array}.out")
    # sbatch puts what was asked for there, slurmrestd does not.
    assert placed.get("SLURM_CPUS_PER_TASK", "") in ("", filled(row.cpus_per_task, decision))
    assert placed["STARTED"] == (filled(row.tasks, decision) or "1")
