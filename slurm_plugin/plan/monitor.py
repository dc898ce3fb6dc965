"""Following the jobs of a plan: what they do, whether they are late, and what is done about it."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sacct_ingest.errors import NimoError, SlurmError
from slurm_plugin.formatting import clock
from slurm_plugin.plan import state_file
from slurm_plugin.plan.chain import PlannedJob, dependents
from slurm_plugin.plan.resubmit import change, settle
from slurm_plugin.plan.state_file import ACTIVE, COMPLETED, PENDING, Submitted
from slurm_plugin.plan.submit import REFUSED, Run, Sbatch, command, on, sbatch, submit_ready
from slurm_plugin.slurm.commands import Refused

if TYPE_CHECKING:
    from slurm_plugin.plan.replan import Replan

#: Less than this is not told as being late, in seconds and as a share of what a step takes.
SLIP_S, _SLIP = 30.0, 0.1
#: A step that waits for nodes is late again when it has waited so much longer, as a share.
_PATIENCE = 0.3

#: Plans what is left; None: nothing is left to decide.
Planner = Callable[[Submitted], "Replan | None"]


@dataclass(frozen=True, slots=True)
class JobStatus:
    """What Slurm says of a job."""

    state: str
    start_s: float | None
    end_s: float | None

    @property
    def ended(self) -> bool:
        """Whether it does no more."""
        return self.state not in ACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMonitor:
    """Follows what was submitted, written down at ``path``.

    Asks squeue once a round for all jobs of a cluster, and sacct for those that squeue has
    forgotten.  A job that failed takes those that need it with it: they are cancelled.  Where a
    step is ``slip_s`` seconds and a tenth of its time off the plan, or failed, what has not begun
    is planned again (``planner``; None: the plan stays).  A round in which Slurm does not answer is
    told and tried again.
    """

    submitted: Submitted
    path: Path
    planner: Planner | None = None
    slip_s: float = SLIP_S
    ask: Run = command
    submit: Sbatch = sbatch
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.time

    def lines(self, interval_s: float) -> Iterator[str]:
        """Give a line for all that happens, until every job has ended."""
        while unfinished(self.submitted):
            try:
                yield from self._round()
            except SlurmError as error:
                yield f"Slurm does not answer, trying again: {error}"
            if unfinished(self.submitted):
                self.sleep(interval_s)

    def _round(self) -> Iterator[str]:
        given = self.submitted
        if not given.leaving:
            for name, seen in look(given, self.ask).items():
                yield from self._report(name, seen)
            state_file.save(self.path, given)
            yield from self._plan_again()
        if given.leaving and settle(given, self.path, self.ask):
            yield from self._plan_again()
        if given.leaving:
            return
        try:
            for job in submit_ready(given, self.path, self.submit, self.ask):
                yield f"{job.name}: submitted as {given.ids[job.name]}"
        except Refused as error:
            yield str(error)
            for name in [job.name for job in given.jobs if given.state(job.name) == REFUSED]:
                yield from self._give_up(name, REFUSED)
                given.astray = f"{name} is {REFUSED}"
            state_file.save(self.path, given)

    def _report(self, name: str, seen: JobStatus) -> Iterator[str]:
        """Note what is new about a job, and say it."""
        given = self.submitted
        # What was cancelled this round, for another failed, was seen as waiting still.
        if given.state(name) not in ACTIVE or given.states.get(name) == seen.state:
            return
        given.states[name] = seen.state
        job = next(job for job in given.jobs if job.name == name)
        if seen.state != PENDING and seen.start_s is not None:
            given.started_s[name] = seen.start_s
        if not seen.ended:
            if seen.state != PENDING:
                yield f"{name}: {seen.state}{self._slip(seen.start_s, job.start_s)}"
            return
        given.ended_s[name] = self.clock() if seen.end_s is None else seen.end_s
        yield f"{name}: {seen.state}{self._slip(seen.end_s, job.end_s)}"
        off_s = given.ended_s[name] - job.end_s
        if seen.state != COMPLETED:
            yield from self._give_up(name, seen.state)
            given.astray = f"{name} is {seen.state}"
        elif abs(off_s) > self._allowed(job.end_s - job.start_s):
            given.astray = f"{name} ended {_off(off_s)}"

    def _give_up(self, name: str, state: str) -> Iterator[str]:
        """Cancel what needs a job that failed."""
        given = self.submitted
        lost = dependents(given.jobs, name)
        fresh = [one for one in lost if given.state(one) in ACTIVE]
        for job in given.jobs:
            if job.name in fresh and job.name in given.ids:
                self.ask(["scancel", *on(job.cluster), given.ids[job.name]])
        given.states |= dict.fromkeys(fresh, "CANCELLED")
        if fresh:
            which = f" (job {given.ids[name]})" if name in given.ids else ""
            yield f"{', '.join(fresh)}: cancelled, for {name} is {state}{which}"

    def _plan_again(self) -> Iterator[str]:
        """Plan what has not begun where steps are off the plan, and change what was submitted."""
        given = self.submitted
        why = given.astray or _late(given, self.clock(), self._allowed)
        given.astray = ""
        if not why or not any(_waits(given, job) for job in given.jobs):
            return
        if self.planner is None:
            yield f"{why}: {_behind(given)}"
        else:
            yield from self._changed(self.planner, why)
        given.jobs = [_rebased(given, job, self.clock()) for job in given.jobs]
        state_file.save(self.path, given)

    def _changed(self, planner: Planner, why: str) -> Iterator[str]:
        given = self.submitted
        try:
            found = planner(given)
        except SlurmError:
            given.astray = why
            raise
        except NimoError as error:
            yield f"{why}: {_behind(given)}; not planned again: {error}"
            return
        if found is not None:
            yield f"{why}: {_outlook(found, given.deadline_s)}"
            yield from change(given, found.jobs, self.path, self.ask)

    def _allowed(self, takes_s: float) -> float:
        return max(self.slip_s, _SLIP * takes_s)

    def _slip(self, seen_s: float | None, planned_s: float) -> str:
        if seen_s is None or abs(seen_s - planned_s) < self.slip_s:
            return ""
        return f", {_off(seen_s - planned_s)}"


def look(submitted: Submitted, ask: Run) -> dict[str, JobStatus]:
    """Ask for all jobs that had not ended.

    Raises
    ------
    SlurmError
        A command failed.
    """
    found: dict[str, JobStatus] = {}
    open_jobs = [job for job in unfinished(submitted) if job.name in submitted.ids]
    for cluster in sorted({job.cluster for job in open_jobs}):
        own = {submitted.ids[job.name]: job.name for job in open_jobs if job.cluster == cluster}
        queue = ask(["squeue", "-h", "--me", "-t", "all", "-o", "%A|%T|%S|%e", *on(cluster)])
        seen = _read(queue)
        if gone := [job_id for job_id in own if job_id not in seen]:
            seen |= _read(_accounted(gone, submitted, on(cluster), ask))
        found |= {name: seen[job_id] for job_id, name in own.items() if job_id in seen}
    return found


def unfinished(submitted: Submitted) -> list[PlannedJob]:
    """List the jobs that have not ended."""
    return [job for job in submitted.jobs if submitted.state(job.name) in ACTIVE]


def failed(submitted: Submitted) -> list[str]:
    """Name the jobs that did not complete."""
    return [job.name for job in submitted.jobs if submitted.lost(job.name)]


def summary(submitted: Submitted) -> Mapping[str, int]:
    """Count the jobs in each state."""
    states = [submitted.state(job.name) for job in submitted.jobs]
    return {state: states.count(state) for state in dict.fromkeys(states)}


def _waits(submitted: Submitted, job: PlannedJob) -> bool:
    return submitted.state(job.name) == PENDING


def _late(submitted: Submitted, now_s: float, allowed: Callable[[float], float]) -> str:
    """Say which step is off the plan as it is going; empty: none."""
    for job in unfinished(submitted):
        off_s, most_s = 0.0, allowed(job.end_s - job.start_s)
        if submitted.begun(job.name):
            off_s = _expected_end_s(submitted, job, now_s) - job.end_s
            how = f"is expected to end {_off(off_s)}"
        elif job.name in submitted.ids and all(submitted.state(n) == COMPLETED for n in job.needs):
            ready_s = max([submitted.submitted_s, *(submitted.ended_s[n] for n in job.needs)])
            off_s = max(now_s - job.start_s, 0.0)
            most_s = max(most_s, _PATIENCE * (now_s - ready_s))
            how = "waits for nodes longer than planned"
        if abs(off_s) > most_s:
            return f"{job.name} {how}"
    return ""


def _expected_end_s(submitted: Submitted, job: PlannedJob, now_s: float) -> float:
    gone_s = now_s - submitted.started_s.get(job.name, now_s)
    return now_s + job.step.estimate.left(gone_s).time_s


def _rebased(submitted: Submitted, job: PlannedJob, now_s: float) -> PlannedJob:
    """Take what is expected of a step by now for its plan: so late is told once."""
    step = job.step
    if submitted.begun(job.name):
        return replace(job, step=replace(step, end_s=_expected_end_s(submitted, job, now_s)))
    if _waits(submitted, job) and step.start_s < now_s:
        moved = replace(step, start_s=now_s, end_s=now_s + step.estimate.time_s)
        return replace(job, step=moved)
    return job


def _behind(submitted: Submitted) -> str:
    """When all will have ended, if what is left takes as long as planned."""
    ends: dict[str, float] = {}
    for job in submitted.jobs:
        before_s = max((ends[name] for name in job.needs if name in ends), default=0.0)
        likely_s = max(before_s, job.start_s) + job.end_s - job.start_s
        ends[job.name] = submitted.ended_s.get(job.name, likely_s)
    end_s = max(ends.values())
    return f"all ended by {clock(end_s)}{_deadline_text(end_s, submitted.deadline_s)}"


def _outlook(found: "Replan", deadline_s: float | None) -> str:
    now, before = found.plan, found.before
    text = "planned again" if found.changed else "the plan stays"
    text += f"; all ended by {clock(now.end_s)}"
    if found.changed and before is not None:
        text += f" instead of {clock(before.end_s)}"
    return text + _deadline_text(now.high_s, deadline_s)


def _deadline_text(end_s: float, deadline_s: float | None) -> str:
    if deadline_s is None:
        return ""
    kept = "keeps" if end_s <= deadline_s else "MAY MISS"
    return f"; that {kept} the deadline {clock(deadline_s)}"


def _off(seconds: float) -> str:
    """Tell how far off the plan that is.

    >>> _off(-31.0)
    '31 s earlier than planned'
    """
    return f"{abs(seconds):.0f} s {'later' if seconds > 0 else 'earlier'} than planned"


def _accounted(ids: Iterable[str], submitted: Submitted, where: Sequence[str], ask: Run) -> str:
    since = f"uts{int(submitted.submitted_s)}"
    fields = "JobIDRaw,State,Start,End"
    listed = ",".join(ids)
    return ask(["sacct", "-n", "-X", "-P", "-S", since, "-j", listed, "-o", fields, *where])


def _read(text: str) -> dict[str, JobStatus]:
    found = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) == 4:
            job_id, state, start, end = fields
            # "CANCELLED by 1000"
            found[job_id] = JobStatus(state.split()[0], _moment(start), _moment(end))
    return found


def _moment(text: str) -> float | None:
    return float(text) if text.isdecimal() else None
