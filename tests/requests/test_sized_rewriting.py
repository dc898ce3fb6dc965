"""The commands whose CPUs, tasks and GPUs cli_filter rewrites, on a real Slurm."""

import re
import time

import pytest

from tests.requests.documented import size_promises
from tests.requests.test_rewriting import run
from tests.requests.test_sized_requests import filled, holds
from tests.requests.test_sized_requests import program as application

ROWS = size_promises("Sizes rewritten in cli_filter")
#: What the job finds around it, on one line each, and what its job is in slurmctld.
LOOK = (
    "for name in SLURM_NTASKS SLURM_CPUS_PER_TASK; do printenv $name || echo; done; "
    "scontrol -o show job $SLURM_JOB_ID | grep JobId="
)


def gpus_of(job):
    """Count the GPUs that a job was allocated."""
    result = re.search(r"gres/gpu=(\d+)", job.get("AllocTRES") or job["TRES"])
    return result[1] if result else "0"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.request} {row.tag}")
def test_sized_before_the_command_counts_its_tasks(rewriting, row):
    rewriting.settled()
    since = time.time()
    program, *options = row.request.split()
    mine = (f"-J{application(row)}", "-t", "10", f"--comment={row.tag}", *options)
    result = run(rewriting, program, mine, LOOK)
    assert len(result) == 4, result
    tasks, cpus_per_task, shown, began = result
    decision = rewriting.decision(since_s=since)
    job = dict(word.split("=", 1) for word in shown.split() if "=" in word)
    assert (decision.reason, decision.applied) == (row.why, row.chosen)
    assert job.get("Comment", "") == row.tag
    if row.chosen:
        assert decision.via == "cli_filter"
        assert f"NIMO1:{decision.decision_id}:" in shown or "AdminComment" not in job
    holds(row, job, decision)
    assert tasks == filled(row.tasks, decision)
    assert cpus_per_task == filled(row.cpus_per_task, decision)
    assert began == (tasks or "1")
    if row.gpus:
        assert gpus_of(job) == filled(row.gpus, decision)


def test_a_step_inside_a_job_keeps_its_size(rewriting):
    since = time.time()
    inside = "srun -n 2 --comment=nimo:tasks=1-8 -J ranks sh -c 'echo $SLURM_STEP_NUM_TASKS'"
    done = rewriting.cluster.run("salloc", "-Jx", "-N1", "-n4", "-t10", "sh", "-c", inside)
    assert done.stdout.split() == ["2", "2"]
    assert len(rewriting.made(since)) == 1


def test_without_nimod_a_size_is_as_it_was_asked_for(rewriting):
    rewriting.nimod.stop()
    try:
        options = ("-Jranks", "-t10", "-N1", "-n2", "--comment=nimo:tasks=1-8")
        done = rewriting.cluster.run("salloc", *options, "sh", "-c", "echo $SLURM_NTASKS")
    finally:
        rewriting.nimod.start()
        rewriting.settled()
    assert done.stdout.split() == ["2"]
