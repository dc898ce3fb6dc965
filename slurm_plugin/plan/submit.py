"""Submitting the jobs of a plan."""

import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sacct_ingest.errors import SlurmError
from slurm_plugin.plan import record
from slurm_plugin.plan.chain import Job, command_line
from slurm_plugin.plan.record import Submitted

_TIMEOUT_S = 60.0
#: States in which a job is done with, and well.
COMPLETED = "COMPLETED"

#: Submits a script with these arguments and gives the job's id.
Sbatch = Callable[[Sequence[str], str], str]


def sbatch(argv: Sequence[str], script: str) -> str:
    """Submit a script and give the job's id.

    Raises
    ------
    SlurmError
        Sbatch is not there, refused the job, or did not answer.
    """
    try:
        done = subprocess.run(
            argv, input=script, text=True, capture_output=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmError(f"sbatch: {error}; are Slurm's commands there?") from error
    if done.returncode:
        told = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise SlurmError(f"{told[-1]} ({' '.join(argv[2:5])})")
    return done.stdout.strip().splitlines()[-1].partition(";")[0]


def submit_ready(submitted: Submitted, path: Path, submit: Sbatch = sbatch) -> list[Job]:
    """Submit all jobs whose dependencies Slurm can hold; give those that were.

    A dependency on a job of another cluster cannot be told to Slurm: such a job is submitted when
    that one has completed.  The record is written after each job.

    Raises
    ------
    SlurmError
        A job was refused; those before it are submitted.
    """
    clusters = {job.name: job.cluster for job in submitted.jobs}
    done = []
    for job in submitted.jobs:
        if job.name in submitted.ids or not _ready(job, submitted, clusters):
            continue
        own = {
            name: submitted.ids[name]
            for name in job.needs
            if clusters[name] == job.cluster and submitted.states.get(name) != COMPLETED
        }
        submitted.ids[job.name] = submit(command_line(job, own), job.script)
        record.save(path, submitted)
        done.append(job)
    return done


def waits_elsewhere(jobs: Iterable[Job]) -> list[str]:
    """Name the jobs that need one of another cluster."""
    known = list(jobs)
    clusters = {job.name: job.cluster for job in known}
    return [job.name for job in known if any(clusters[n] != job.cluster for n in job.needs)]


def _ready(job: Job, submitted: Submitted, clusters: dict[str, str]) -> bool:
    return all(
        name in submitted.ids
        and (clusters[name] == job.cluster or submitted.states.get(name) == COMPLETED)
        for name in job.needs
    )
