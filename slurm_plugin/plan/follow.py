"""Following the jobs of a plan: what they do, and whether they are late."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sacct_ingest.errors import SlurmError
from slurm_plugin.plan import record
from slurm_plugin.plan.chain import Job, dependents
from slurm_plugin.plan.record import Submitted
from slurm_plugin.plan.submit import COMPLETED, Sbatch, sbatch, submit_ready
from slurm_plugin.reports.text import clock
from slurm_plugin.slurm.commands import run

_TIMEOUT_S = 60.0
#: Less than this is not told as being late.
_SLIP_S = 30.0
_ACTIVE = frozenset({
    "PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD",
    "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "SPECIAL_EXIT",
})  # fmt: skip

#: Runs a command and gives its text.
Run = Callable[[Sequence[str]], str]


@dataclass(frozen=True, slots=True)
class Seen:
    """What Slurm says of a job."""

    state: str
    start_s: float | None
    end_s: float | None

    @property
    def ended(self) -> bool:
        """Whether it does no more."""
        return self.state not in _ACTIVE


def command(argv: Sequence[str]) -> str:
    """Run one of Slurm's commands."""
    return run(argv, timeout_s=_TIMEOUT_S)


def follow(
    submitted: Submitted,
    path: Path,
    *,
    interval_s: float,
    ask: Run = command,
    submit: Sbatch = sbatch,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """Give a line for all that happens, until every job has ended.

    Asks squeue once a round for all jobs of a cluster, and sacct for those that squeue has
    forgotten.  A job that failed takes those that need it with it: they are cancelled.  A round in
    which Slurm does not answer is told and tried again.
    """
    while _open(submitted):
        try:
            for name, seen in look(submitted, ask).items():
                yield from _told(submitted, name, seen, ask)
            record.save(path, submitted)
            for job in submit_ready(submitted, path, submit):
                yield f"{job.name}: submitted as {submitted.ids[job.name]}"
        except SlurmError as error:
            yield f"Slurm does not answer, trying again: {error}"
        if _open(submitted):
            sleep(interval_s)


def look(submitted: Submitted, ask: Run) -> dict[str, Seen]:
    """Ask for all jobs that had not ended.

    Raises
    ------
    SlurmError
        A command failed.
    """
    found: dict[str, Seen] = {}
    open_jobs = [job for job in _open(submitted) if job.name in submitted.ids]
    for cluster in sorted({job.cluster for job in open_jobs}):
        own = {submitted.ids[job.name]: job.name for job in open_jobs if job.cluster == cluster}
        where = [f"--clusters={cluster}"] if cluster else []
        queue = ask(["squeue", "-h", "--me", "-t", "all", "-o", "%A|%T|%S|%e", *where])
        seen = _read(queue)
        if gone := [job_id for job_id in own if job_id not in seen]:
            seen |= _read(_accounted(gone, submitted, where, ask))
        found |= {name: seen[job_id] for job_id, name in own.items() if job_id in seen}
    return found


def failed(submitted: Submitted) -> list[str]:
    """Name the jobs that did not complete."""
    return [
        job.name
        for job in submitted.jobs
        if submitted.states.get(job.name, COMPLETED) not in (COMPLETED, *_ACTIVE)
    ]


def expected_end_s(submitted: Submitted) -> float:
    """When all will have ended, if what is left takes as long as planned."""
    ends: dict[str, float] = {}
    for job in submitted.jobs:
        before_s = max((ends[name] for name in job.needs if name in ends), default=0.0)
        planned_s = job.end_s - job.start_s
        likely_s = max(before_s, job.start_s) + planned_s
        ends[job.name] = submitted.ended_s.get(job.name, likely_s)
    return max(ends.values())


def _open(submitted: Submitted) -> list[Job]:
    return [job for job in submitted.jobs if submitted.states.get(job.name, "PENDING") in _ACTIVE]


def _told(submitted: Submitted, name: str, seen: Seen, ask: Run) -> Iterator[str]:
    """Note what is new about a job, and say it."""
    before = submitted.states.get(name, "PENDING")
    # What was cancelled this round, for another failed, was seen as waiting still.
    if before not in _ACTIVE or submitted.states.get(name) == seen.state:
        return
    submitted.states[name] = seen.state
    job = next(job for job in submitted.jobs if job.name == name)
    if not seen.ended:
        if seen.state != "PENDING":
            yield f"{name}: {seen.state}{_slip(seen.start_s, job.start_s)}"
        return
    submitted.ended_s[name] = seen.end_s or job.end_s
    yield f"{name}: {seen.state}{_slip(seen.end_s, job.end_s)}"
    if seen.state != COMPLETED:
        yield from _give_up(submitted, name, seen.state, ask)
    elif submitted.ended_s[name] - job.end_s > _SLIP_S:
        yield _outlook(submitted)


def _give_up(submitted: Submitted, name: str, state: str, ask: Run) -> Iterator[str]:
    """Cancel what needs a job that failed."""
    lost = dependents(submitted.jobs, name)
    fresh = [one for one in lost if submitted.states.get(one, "PENDING") in _ACTIVE]
    for job in submitted.jobs:
        if job.name in fresh and job.name in submitted.ids:
            where = [f"--clusters={job.cluster}"] if job.cluster else []
            ask(["scancel", *where, submitted.ids[job.name]])
    submitted.states |= dict.fromkeys(fresh, "CANCELLED")
    if fresh:
        yield f"{', '.join(fresh)}: cancelled, for {name} is {state} (job {submitted.ids[name]})"


def _outlook(submitted: Submitted) -> str:
    end_s = expected_end_s(submitted)
    planned_s = max(job.end_s for job in submitted.jobs)
    text = f"behind the plan: all ended by {clock(end_s)} now, {clock(planned_s)} as planned"
    if submitted.deadline_s is None:
        return text
    kept = "keeps" if end_s <= submitted.deadline_s else "misses"
    return f"{text}; that {kept} the deadline {clock(submitted.deadline_s)}"


def _slip(seen_s: float | None, planned_s: float) -> str:
    if seen_s is None or abs(seen_s - planned_s) < _SLIP_S:
        return ""
    late_s = seen_s - planned_s
    return f", {abs(late_s):.0f} s {'later' if late_s > 0 else 'earlier'} than planned"


def _accounted(ids: Iterable[str], submitted: Submitted, where: Sequence[str], ask: Run) -> str:
    since = f"uts{int(submitted.submitted_s)}"
    fields = "JobIDRaw,State,Start,End"
    listed = ",".join(ids)
    return ask(["sacct", "-n", "-X", "-P", "-S", since, "-j", listed, "-o", fields, *where])


def _read(text: str) -> dict[str, Seen]:
    found = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) == 4:
            job_id, state, start, end = fields
            # "CANCELLED by 1000"
            found[job_id] = Seen(state.split()[0], _moment(start), _moment(end))
    return found


def _moment(text: str) -> float | None:
    return float(text) if text.isdecimal() else None


def summary(submitted: Submitted) -> Mapping[str, int]:
    """Count the jobs in each state."""
    states = [submitted.states.get(job.name, "PENDING") for job in submitted.jobs]
    return {state: states.count(state) for state in dict.fromkeys(states)}
