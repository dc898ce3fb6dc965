"""Exchanges the waiting jobs of a plan for those of another.

A job whose node count, time limit or deadline alone is another is updated in place, as Slurm lets
its owner do while it waits (job_mgr.c, ``_update_job``); where it refuses, and where more differs,
the job and those that wait for it are cancelled and submitted again.  What waits for other jobs
loses no age by that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from msgspec import structs

from slurm_plugin.experiments.held_jobs import HeldJobs
from slurm_plugin.experiments.learn.description import in_units
from slurm_plugin.experiments.plan.chain import PlannedJob
from slurm_plugin.experiments.plan.state_file import COMPLETED, Submitted

#: sbatch's options that scontrol can change, by its own words.
_NUMBERS = {"--nodes": "NumNodes", "--time": "TimeLimit", "--deadline": "Deadline"}


def exchange(submitted: Submitted, new: Sequence[PlannedJob], queue: HeldJobs) -> Iterator[str]:
    """Replace the jobs that have not begun, and say what differs.

    Those that give way are unwanted from then on.

    submitted: what was submitted; it is changed.
    new: all jobs that are to be there besides those that have begun or ended.
    """
    old = {job.name: job for job in submitted.jobs if submitted.pending(job.name)}
    staying = [job for job in submitted.jobs if job.name not in old]
    made: list[PlannedJob] = []
    renewed: set[str] = set()
    for job in (_limited(old.get(one.name), one) for one in new):
        before = old.get(job.name)
        if before is None:
            renewed.add(job.name)
        elif job.name in submitted.steps and (
            not renewed.isdisjoint(job.needs) or not _updated(submitted, before, job, queue)
        ):
            _leave(submitted, before)
            renewed.add(job.name)
        had = _where(before) if before else ""
        now = _where(job)
        if had != now:
            yield f"{job.name}: {now} instead of {had}" if had else f"{job.name}: new, {now}"
        made.append(job)
    for name in old.keys() - {job.name for job in new}:
        if name in submitted.steps:
            _leave(submitted, old[name])
        yield f"{name}: not needed any more"
    submitted.jobs = [*staying, *made]


def _limited(before: PlannedJob | None, job: PlannedJob) -> PlannedJob:
    """Leave a limit that holds the run as it is: it would be changed with each plan."""
    wants = _numbers(job)
    if before is None or "--deadline" in wants or _numbers(before)["--nodes"] != wants["--nodes"]:
        return job
    had = int(_numbers(before)["--time"])
    target = int(wants["--time"])
    options = (f"--time={max(had, target)}" if o.startswith("--time=") else o for o in job.options)
    return replace(job, options=tuple(options))


def _updated(submitted: Submitted, before: PlannedJob, job: PlannedJob, queue: HeldJobs) -> bool:
    """Update a job to the new plan; False: that takes a new job."""
    had = _numbers(before)
    target = _numbers(job)
    if not _alike(submitted, before, job) or had.keys() != target.keys():
        return False
    words = {_NUMBERS[option]: value for option, value in target.items() if had[option] != value}
    if "NumNodes" in words:
        words["NumNodes"] = f"{words['NumNodes']}-{words['NumNodes']}"
    job_id = submitted.job_id(job.name)
    if words and not (job_id and queue.on(job.cluster).update(job_id, words)):
        return False
    run = submitted.steps[job.name]
    limit_s = job.limit_s + submitted.overrun_s
    submitted.steps[job.name] = structs.replace(run, nodes=job.nodes, limit_s=limit_s)
    return True


def _alike(submitted: Submitted, before: PlannedJob, job: PlannedJob) -> bool:
    """Whether two jobs differ in nothing but numbers."""
    waits = [
        {name for name in one.needs if submitted.state(name) != COMPLETED} for one in (before, job)
    ]
    return (
        waits[0] == waits[1]
        and (before.cluster, before.script) == (job.cluster, job.script)
        and _others(before) == _others(job)
    )


def _leave(submitted: Submitted, job: PlannedJob) -> None:
    run = submitted.steps.pop(job.name)
    submitted.others.append(structs.replace(run, replaced=job))


def _numbers(job: PlannedJob) -> dict[str, str]:
    pairs = (option.partition("=") for option in job.options)
    return {name: value for name, _, value in pairs if name in _NUMBERS}


def _others(job: PlannedJob) -> list[str]:
    return [option for option in job.options if option.partition("=")[0] not in _NUMBERS]


def _where(job: PlannedJob) -> str:
    step = job.step
    if not step.nodes:
        return step.pool
    nodes = f"{step.nodes} node{'s' if step.nodes > 1 else ''} at {step.pool}"
    if step.resources:
        nodes += f" with {in_units(dict(step.resources))}"
    return nodes + (", reading in place" if step.remote else "")
