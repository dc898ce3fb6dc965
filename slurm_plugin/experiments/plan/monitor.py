"""Follows the jobs of a plan: reports their states, and plans again where they are late."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sacct_ingest.errors import NimoError, SlurmError
from sacct_ingest.text.durations import duration_text
from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments.held_jobs import Run, command
from slurm_plugin.experiments.plan.chain import PlannedJob, dependents
from slurm_plugin.experiments.plan.resubmit import REFUSED, Sbatch, change, on, settle, submit_ready
from slurm_plugin.experiments.plan.state_file import ACTIVE, COMPLETED, PENDING, Submitted
from slurm_plugin.slurm.commands import SubmissionRefused
from slurm_plugin.text.formatting import clock

if TYPE_CHECKING:
    from slurm_plugin.experiments.plan.replan import Replan

#: Less than this is not reported as late, in seconds and as a share of what a step takes.
SLIP_S, _SLIP = 30.0, 0.1
#: A step that waits for nodes is late again when it has waited so much longer, as a share.
_PATIENCE = 0.3

#: Plans the steps that have not begun; None: there are none.
Planner = Callable[[Submitted], "Replan | None"]


@dataclass(frozen=True, slots=True)
class JobStatus:
    """State and times of a job, from Slurm."""

    state: str
    start_s: float | None
    end_s: float | None

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self.state not in ACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMonitor:
    """Follows the submitted jobs of a plan; their state is saved at ``path``.

    Asks squeue once a round for all jobs of a cluster, and sacct for those that squeue has
    forgotten.  A job that failed takes those that need it with it: they are cancelled.  Where a
    step is ``slip_s`` seconds and a tenth of its time off the plan, or failed, what has not begun
    is planned again (``planner``; None: the plan stays).  A round in which Slurm does not answer is
    reported and tried again.
    """

    submitted: Submitted
    path: Path
    planner: Planner | None = None
    slip_s: float = SLIP_S
    ask: Run = command
    submit: Sbatch = held_jobs.submit
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.time
    seen: dict[str, float] = field(default_factory=dict)  #: when Slurm last told of each job

    def lines(self, interval_s: float) -> Iterator[str]:
        """Give a line for each change, until every job has ended."""
        while unfinished(self.submitted):
            try:
                yield from self._round()
            except SlurmError as error:
                yield f"Slurm does not answer, trying again: {error}"
            if unfinished(self.submitted):
                self.sleep(interval_s)

    def _round(self) -> Iterator[str]:
        submitted = self.submitted
        if not submitted.leaving:
            statuses = look(submitted, self.ask)
            for name, status in (statuses | self._lost(statuses)).items():
                yield from self._report(name, status)
            held_jobs.write(self.path, submitted)
            yield from self._plan_again()
        if submitted.leaving and settle(submitted, self.path, self.ask):
            yield from self._plan_again()
        if submitted.leaving:
            return
        try:
            for job in submit_ready(submitted, self.path, self.submit, self.ask):
                yield f"{job.name}: submitted as {submitted.ids[job.name]}"
        except SubmissionRefused as error:
            yield str(error)
            for name in [
                job.name for job in submitted.jobs if submitted.state(job.name) == REFUSED
            ]:
                yield from self._give_up(name, REFUSED)
                submitted.astray = f"{name} is {REFUSED}"
            held_jobs.write(self.path, submitted)

    def _lost(self, statuses: Mapping[str, JobStatus]) -> dict[str, JobStatus]:
        """Jobs that neither squeue nor the accounting has had for long."""
        now_s, names = self.clock(), [job.name for job in unfinished(self.submitted)]
        self.seen.update(dict.fromkeys(statuses, now_s))
        gone = (name for name in names if name in self.submitted.ids)
        gone = (n for n in gone if now_s - self.seen.setdefault(n, now_s) > held_jobs.ACCOUNTED_S)
        return {name: JobStatus("UNKNOWN", None, None) for name in gone}

    def _report(self, name: str, status: JobStatus) -> Iterator[str]:
        """Record a job's new state, and report it."""
        submitted = self.submitted
        # A job cancelled in this round, since another failed, may still be listed as waiting.
        if submitted.state(name) not in ACTIVE or submitted.states.get(name) == status.state:
            return
        submitted.states[name] = status.state
        job = next(job for job in submitted.jobs if job.name == name)
        if status.state != PENDING and status.start_s is not None:
            submitted.started_s[name] = status.start_s
        if not status.ended:
            if status.state != PENDING:
                yield f"{name}: {status.state}{self._slip(status.start_s, job.step.start_s)}"
            return
        submitted.ended_s[name] = self.clock() if status.end_s is None else status.end_s
        yield f"{name}: {status.state}{self._slip(status.end_s, job.step.end_s)}"
        off_s = submitted.ended_s[name] - job.step.end_s
        if status.state != COMPLETED:
            yield from self._give_up(name, status.state)
            submitted.astray = f"{name} is {status.state}"
        elif abs(off_s) > self._allowed(job.step.end_s - job.step.start_s):
            submitted.astray = f"{name} ended {_off(off_s)}"

    def _give_up(self, name: str, state: str) -> Iterator[str]:
        """Cancel the jobs that need a job that failed."""
        submitted = self.submitted
        lost = dependents(submitted.jobs, name)
        fresh = [one for one in lost if submitted.state(one) in ACTIVE]
        for job in submitted.jobs:
            if job.name in fresh and job.name in submitted.ids:
                self.ask(["scancel", *on(job.cluster), submitted.ids[job.name]])
        submitted.states |= dict.fromkeys(fresh, "CANCELLED")
        if fresh:
            which = f" (job {submitted.ids[name]})" if name in submitted.ids else ""
            yield f"{', '.join(fresh)}: cancelled, for {name} is {state}{which}"

    def _plan_again(self) -> Iterator[str]:
        """Where steps are off the plan, plan those that have not begun, and change their jobs."""
        submitted = self.submitted
        why = submitted.astray or _late(submitted, self.clock(), self._allowed)
        submitted.astray = ""
        if not why or not any(submitted.pending(job.name) for job in submitted.jobs):
            return
        if self.planner is None:
            yield f"{why}: {_behind(submitted)}"
        else:
            yield from self._changed(self.planner, why)
        submitted.jobs = [_rebased(submitted, job, self.clock()) for job in submitted.jobs]
        held_jobs.write(self.path, submitted)

    def _changed(self, planner: Planner, why: str) -> Iterator[str]:
        submitted = self.submitted
        try:
            replan = planner(submitted)
        except SlurmError:
            submitted.astray = why
            raise
        except NimoError as error:
            yield f"{why}: {_behind(submitted)}; not planned again: {error}"
            return
        if replan is not None:
            now, before = replan.plan, replan.before
            text = "planned again" if replan.changed else "the plan stays"
            text += f"; all ended by {clock(now.end_s)}"
            if replan.changed and before is not None:
                text += f" instead of {clock(before.end_s)}"
            yield f"{why}: {text + _deadline_text(now.high_s, submitted.deadline_s)}"
            yield from change(submitted, replan.jobs, self.path, self.ask)

    def _allowed(self, takes_s: float) -> float:
        return max(self.slip_s, _SLIP * takes_s)

    def _slip(self, actual_s: float | None, planned_s: float) -> str:
        if actual_s is None or abs(actual_s - planned_s) < self.slip_s:
            return ""
        return f", {_off(actual_s - planned_s)}"


def look(submitted: Submitted, ask: Run) -> dict[str, JobStatus]:
    """Query Slurm for the jobs that had not ended. Raises SlurmError: a command failed."""
    statuses: dict[str, JobStatus] = {}
    open_jobs = [job for job in unfinished(submitted) if job.name in submitted.ids]
    for cluster in sorted({job.cluster for job in open_jobs}):
        own = {submitted.ids[job.name]: job.name for job in open_jobs if job.cluster == cluster}
        queue = ask(["squeue", "-h", "--me", "-t", "all", "-o", "%A|%T|%S|%e", *on(cluster)])
        by_id = _read(queue)
        if gone := [job_id for job_id in own if job_id not in by_id]:
            by_id |= _read(_accounted(gone, submitted, on(cluster), ask))
        statuses |= {name: by_id[job_id] for job_id, name in own.items() if job_id in by_id}
    return statuses


def unfinished(submitted: Submitted) -> list[PlannedJob]:
    """List the jobs that have not ended."""
    return [job for job in submitted.jobs if submitted.state(job.name) in ACTIVE]


def failed(submitted: Submitted) -> list[str]:
    """Name the jobs that did not complete."""
    return [job.name for job in submitted.jobs if submitted.lost(job.name)]


def _late(submitted: Submitted, now_s: float, allowed: Callable[[float], float]) -> str:
    """Name a step that is off the plan, and say how; empty: none is."""
    for job in unfinished(submitted):
        off_s, most_s = 0.0, allowed(job.step.end_s - job.step.start_s)
        if submitted.begun(job.name):
            off_s = _expected_end_s(submitted, job, now_s) - job.step.end_s
            how = f"is expected to end {_off(off_s)}"
        elif job.name in submitted.ids and all(submitted.state(n) == COMPLETED for n in job.needs):
            ready_s = max([submitted.submitted_s, *(submitted.ended_s[n] for n in job.needs)])
            off_s = max(now_s - job.step.start_s, 0.0)
            most_s = max(most_s, _PATIENCE * (now_s - ready_s))
            how = "waits for nodes longer than planned"
        if abs(off_s) > most_s:
            return f"{job.name} {how}"
    return ""


def _expected_end_s(submitted: Submitted, job: PlannedJob, now_s: float) -> float:
    gone_s = now_s - submitted.started_s.get(job.name, now_s)
    return now_s + job.step.estimate.left(gone_s).time_s


def _rebased(submitted: Submitted, job: PlannedJob, now_s: float) -> PlannedJob:
    """Replace the planned times of a step by those expected now: so a delay is reported once."""
    step = job.step
    if submitted.begun(job.name):
        return replace(job, step=replace(step, end_s=_expected_end_s(submitted, job, now_s)))
    if submitted.pending(job.name) and step.start_s < now_s:
        moved = replace(step, start_s=now_s, end_s=now_s + step.estimate.time_s)
        return replace(job, step=moved)
    return job


def _behind(submitted: Submitted) -> str:
    """Say when all will have ended, if the remaining steps take as long as planned."""
    ends: dict[str, float] = {}
    for job in submitted.jobs:
        before_s = max((ends[name] for name in job.needs if name in ends), default=0.0)
        likely_s = max(before_s, job.step.start_s) + job.step.end_s - job.step.start_s
        ends[job.name] = submitted.ended_s.get(job.name, likely_s)
    end_s = max(ends.values())
    return f"all ended by {clock(end_s)}{_deadline_text(end_s, submitted.deadline_s)}"


def _deadline_text(end_s: float, deadline_s: float | None) -> str:
    if deadline_s is None:
        return ""
    verdict = "meets" if end_s <= deadline_s else "MAY MISS"
    return f"; that {verdict} the deadline {clock(deadline_s)}"


def _off(seconds: float) -> str:
    """Say how far off the plan a time is.

    >>> _off(-31.0)
    '31 s earlier than planned'
    """
    return f"{duration_text(abs(seconds))} {'later' if seconds > 0 else 'earlier'} than planned"


def _accounted(ids: Iterable[str], submitted: Submitted, where: Sequence[str], ask: Run) -> str:
    since = f"uts{int(submitted.submitted_s)}"
    fields = "JobIDRaw,State,Start,End"
    listed = ",".join(ids)
    return ask(["sacct", "-n", "-X", "-P", "-S", since, "-j", listed, "-o", fields, *where])


def _read(text: str) -> dict[str, JobStatus]:
    statuses = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) == 4:
            job_id, state, start, end = fields
            # "CANCELLED by 1000"
            statuses[job_id] = JobStatus(state.split()[0], _moment(start), _moment(end))
    return statuses


def _moment(text: str) -> float | None:
    return float(text) if text.isdecimal() else None
