"""Changes submitted jobs to those of another plan: updates them, or submits them again.

A job whose node count, time limit or deadline alone is another is updated in place, as Slurm lets
its owner do while it waits (job_mgr.c, ``_update_job``); where it refuses, and where more differs,
the job and those that wait for it are cancelled and submitted again.  What waits for other jobs
loses no age by that.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sacct_ingest.errors import SlurmError
from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments.held_jobs import Run, command
from slurm_plugin.experiments.learn.description import in_units
from slurm_plugin.experiments.plan.chain import PlannedJob, command_line
from slurm_plugin.experiments.plan.state_file import ACTIVE, COMPLETED, PENDING, Submitted
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


#: sbatch's options that scontrol can change, by its own words.
_NUMBERS = {"--nodes": "NumNodes", "--time": "TimeLimit", "--deadline": "Deadline"}


def change(submitted: Submitted, new: Sequence[PlannedJob], path: Path, ask: Run) -> Iterator[str]:
    """Replace the jobs that have not begun, and say what differs.

    Jobs that give way are written down as leaving; :func:`settle` cancels them.

    submitted: what was submitted; it is changed, and written down.
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
        elif job.name in submitted.ids and (
            not renewed.isdisjoint(job.needs) or not _updated(submitted, before, job, ask)
        ):
            _leave(submitted, before)
            renewed.add(job.name)
        had, now = _where(before) if before else "", _where(job)
        if had != now:
            yield f"{job.name}: {now} instead of {had}" if had else f"{job.name}: new, {now}"
        made.append(job)
    for name in old.keys() - {job.name for job in new}:
        if name in submitted.ids:
            _leave(submitted, old[name])
        yield f"{name}: not needed any more"
    submitted.jobs = [*staying, *made]
    held_jobs.write(path, submitted)


def settle(submitted: Submitted, path: Path, ask: Run) -> list[str]:
    """Cancel the jobs that leave; name the steps whose jobs began before that and stay.

    Raises SlurmError: Slurm does not answer; the next call cancels them.
    """
    stayed = []
    for cluster in sorted({job.cluster for _, job in submitted.leaving}):
        own = [(one, job) for one, job in submitted.leaving if job.cluster == cluster]
        ask(["scancel", "--state=PENDING", *on(cluster), *(one for one, _ in own)])
        listed = ask(["squeue", "-h", "--me", "-t", "all", "-o", "%A|%T", *on(cluster)])
        states = dict(line.split("|") for line in listed.splitlines() if "|" in line)
        for job_id, job in own:
            state = states.get(job_id, "CANCELLED")
            if state == PENDING:
                continue
            submitted.leaving.remove((job_id, job))
            if state != "CANCELLED":
                # It had begun before it was cancelled.
                submitted.ids[job.name] = job_id
                others = [one for one in submitted.jobs if one.name != job.name]
                first = next(
                    (i for i, one in enumerate(others) if job.name in one.needs), len(others)
                )
                submitted.jobs = [*others[:first], job, *others[first:]]
                stayed.append(job.name)
    if stayed:
        submitted.astray = f"{', '.join(stayed)} began meanwhile"
    held_jobs.write(path, submitted)
    return stayed


def _limited(before: PlannedJob | None, job: PlannedJob) -> PlannedJob:
    """Leave a limit that holds the run as it is: it would be changed with each plan."""
    wants = _numbers(job)
    if before is None or "--deadline" in wants or _numbers(before)["--nodes"] != wants["--nodes"]:
        return job
    had, target = int(_numbers(before)["--time"]), int(wants["--time"])
    options = (f"--time={max(had, target)}" if o.startswith("--time=") else o for o in job.options)
    return replace(job, options=tuple(options))


def _updated(submitted: Submitted, before: PlannedJob, job: PlannedJob, ask: Run) -> bool:
    """Update a job to the new plan; False: that takes a new job."""
    had, target = _numbers(before), _numbers(job)
    if not _alike(submitted, before, job) or had.keys() != target.keys():
        return False
    words = {_NUMBERS[option]: value for option, value in target.items() if had[option] != value}
    if "NumNodes" in words:
        words["NumNodes"] = f"{words['NumNodes']}-{words['NumNodes']}"
    if words:
        pairs = [f"{word}={value}" for word, value in words.items()]
        where, job_id = on(job.cluster), submitted.ids[job.name]
        try:
            ask(["scontrol", *where, "update", f"JobId={job_id}", *pairs])
        except SlurmError:
            return False
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
    submitted.leaving.append((submitted.ids.pop(job.name), job))
    submitted.states.pop(job.name, None)


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
