"""Submitting the jobs of a plan, each once, whatever happens meanwhile."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments.held_jobs import Run, command
from slurm_plugin.experiments.plan.chain import PlannedJob, command_line
from slurm_plugin.experiments.plan.state_file import ACTIVE, COMPLETED, Submitted
from slurm_plugin.slurm.commands import SubmissionRefused

#: State of a job that sbatch refused; Slurm has no word for it.
REFUSED = "REFUSED"

#: Submits a script with these arguments and gives the job's id.
Sbatch = Callable[[Sequence[str], str], str]


def on(cluster: str) -> list[str]:
    """Option that sends a command to a cluster; none for the one that is near."""
    return [f"--clusters={cluster}"] if cluster else []


def submit_ready(
    submitted: Submitted, path: Path, submit: Sbatch = held_jobs.submit, ask: Run = command
) -> list[PlannedJob]:
    """Submit all jobs whose dependencies Slurm can hold; give those that were.

    A dependency on a job of another cluster is impossible in Slurm: such a job is submitted when
    that one has completed.  The record is written before each job and after it; a job that was
    written down as about to be submitted is looked for by its name first.

    Raises SubmissionRefused: a job was refused; those before it are submitted; SlurmError: Slurm
        does not answer.
    """
    clusters = {job.name: job.cluster for job in submitted.jobs}
    done = []
    for job in submitted.jobs:
        if job.name in submitted.ids or not _ready(job, submitted, clusters):
            continue
        job_id = find(submitted, job, ask) if job.name in submitted.trying else ""
        submitted.ids[job.name] = job_id or _submit(submitted, job, path, submit, clusters)
        submitted.trying.remove(job.name)
        held_jobs.write(path, submitted)
        done.append(job)
    return done


def find(submitted: Submitted, job: PlannedJob, ask: Run) -> str:
    """Id of a job that may have been submitted; empty: it was not."""
    name = submitted.name(job.name)
    return held_jobs.find(name, submitted.submitted_s, ask, on(job.cluster))


def waits_elsewhere(jobs: Iterable[PlannedJob]) -> list[str]:
    """Name the jobs that need one of another cluster."""
    planned = list(jobs)
    clusters = {job.name: job.cluster for job in planned}
    return [job.name for job in planned if any(clusters[n] != job.cluster for n in job.needs)]


def _submit(
    submitted: Submitted, job: PlannedJob, path: Path, submit: Sbatch, clusters: dict[str, str]
) -> str:
    own = {
        name: submitted.ids[name]
        for name in job.needs
        if clusters[name] == job.cluster and submitted.state(name) != COMPLETED
    }
    if job.name not in submitted.trying:
        submitted.trying.append(job.name)
        submitted.tried[job.name] = submitted.tried.get(job.name, 0) + 1
        held_jobs.write(path, submitted)
    try:
        return submit(command_line(job, submitted.name(job.name), own), job.script)
    except SubmissionRefused:
        submitted.trying.remove(job.name)
        submitted.states[job.name] = REFUSED
        held_jobs.write(path, submitted)
        raise


def _ready(job: PlannedJob, submitted: Submitted, clusters: dict[str, str]) -> bool:
    return submitted.state(job.name) in ACTIVE and all(
        submitted.state(name) == COMPLETED
        or (name in submitted.ids and clusters[name] == job.cluster)
        for name in job.needs
    )
