"""A plan that was submitted, as a campaign: what is ready is submitted, what is late planned again.

A job that needs one of its own cluster is submitted with a dependency on it; Slurm can hold none on
a job of another cluster, so such a job is submitted when that one has completed.  A job that failed
takes those that need it with it.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sacct_ingest.errors import NimoError, SlurmError
from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments.campaign import spent
from slurm_plugin.experiments.held_jobs import HeldJobs
from slurm_plugin.experiments.plan.chain import PlannedJob, command_line, dependents
from slurm_plugin.experiments.plan.exchange import exchange
from slurm_plugin.experiments.plan.slips import (
    SLIP,
    SLIP_S,
    deadline_text,
    expected_end,
    late,
    off,
    rebased,
)
from slurm_plugin.experiments.plan.state_file import COMPLETED, PENDING, REFUSED, StepRun, Submitted
from slurm_plugin.text.formatting import clock

if TYPE_CHECKING:
    from sacct_ingest.store import RunRow
    from slurm_plugin.experiments.plan.replan import Replan

#: Plans the steps that have not begun; None: there are none.
Planner = Callable[[Submitted], "Replan | None"]


class FollowedPlan:
    """The submitted jobs of a plan; they are written down at ``path``.

    tell: told what is changed of the plan, and why.
    planner: plans again where a step is ``slip_s`` seconds and a tenth of its time off the plan, or
        failed; None: the plan stays.
    """

    name = "nimo lab plan"

    def __init__(
        self,
        submitted: Submitted,
        path: Path,
        *,
        jobs: HeldJobs,
        tell: Callable[[str], object],
        again: str = "nimo lab plan --follow",
        planner: Planner | None = None,
        slip_s: float = SLIP_S,
    ) -> None:
        self.submitted = submitted
        self.again = again
        self._path = path
        self._jobs = jobs
        self._tell = tell
        self._planner = planner
        self._slip_s = slip_s
        self._ready: list[PlannedJob] = []

    @property
    def together(self) -> int:
        """Most runs at once: all that there are."""
        return len(self.submitted.jobs) + len(self.submitted.others) + 1

    @property
    def runs(self) -> Sequence[StepRun]:
        """Jobs that were submitted, each after those that it needs."""
        own = self.submitted
        return [*own.others, *(own.steps[job.name] for job in own.jobs if job.name in own.steps)]

    @property
    def done(self) -> float:
        """Share of the steps that have ended."""
        own = self.submitted
        return 1 - len(own.unfinished) / len(own.jobs)

    def next(self, now_s: float) -> StepRun | str | None:
        """Give the next job that is ready; plan again first, where that is due."""
        own = self.submitted
        if not self._ready or own.astray:
            for name in [job.name for job in own.jobs if own.lost(job.name)]:
                self._give_up_after(name)
            if not any(run.unwanted and not run.ended for run in own.others):
                self._check(now_s)
            if any(run.unwanted and not run.ended for run in own.others):
                return None
            self._ready = _ready(own)
        if not own.unfinished:
            return "all steps have ended"
        if not self._ready:
            return None
        job = self._ready[0]
        run = StepRun(
            planned_s=int(now_s),
            limit_s=job.limit_s + own.overrun_s,
            nodes=job.nodes,
            where=job.cluster,
            step=job.name,
            job_name=own.new_name(job.name),
        )
        if own.budget is not None and spent(self.runs) + run.hours > own.budget:
            under_way = any(not one.ended for one in self.runs)
            return None if under_way else f"the budget is used: {job.name} may need more"
        del self._ready[0]
        return run

    def mark(self, run: StepRun) -> str:
        """Name of a run's job."""
        return run.job_name

    def command(self, run: StepRun) -> tuple[list[str], str]:
        """Give the command line of a step's job, and its script."""
        own = self.submitted
        job = self._job(run)
        clusters = {one.name: one.cluster for one in own.jobs}
        ids = {
            name: str(own.job_id(name))
            for name in job.needs
            if clusters[name] == job.cluster and own.state(name) != COMPLETED
        }
        argv = command_line(job, run.job_name, ids)
        return [*argv[:1], "--hold", *argv[1:]], job.script

    def impatient(self, waited_s: float) -> str:  # noqa: ARG002 - a late plan is made again
        """Say that no job waits for too long."""
        return ""

    def as_ended(self, run: StepRun, job: "RunRow | None", why: str) -> StepRun:
        """Give a job with what became of it."""
        if job is None:
            refused = why and run.job_id is None
            return replace(run, state=REFUSED if refused else "CANCELLED", reason=why)
        own = self.submitted
        lost = [name for name in self._job(run).needs if own.lost(name)]
        if lost and not why:  # Slurm cancelled it
            why = f"{lost[0]} is {own.state(lost[0])}"
        return replace(
            run,
            state=job.state.value,
            reason=why,
            started_s=run.started_s if job.start_s is None else job.start_s,
            ended_s=job.end_s,
            elapsed_s=job.elapsed_s,
            cpus=job.cpus,
            node_list=job.node_list,
        )

    def save(self, run: StepRun) -> StepRun:
        """Write a job down, new or changed; it is on the disk when this returns."""
        own = self.submitted
        if run.job_id is None and not run.ended:
            run = replace(run, state=PENDING, started_s=None)
        names = [one.job_name for one in own.others]
        if run.job_name in names:
            self._save_other(run, names.index(run.job_name))
        else:
            own.steps[run.step] = run
        if run.ended and run.replaced is None:
            self._judge(run)
        held_jobs.write(self._path, own)
        return run

    def line(self, run: StepRun) -> str:
        """Say what became of a job."""
        step = self._job(run).step
        slip = ""
        if run.state == PENDING:
            return f"{run.step}: submitted as {run.job_id}"
        if run.ended and run.ended_s is not None:
            slip = self._slip(run.ended_s - step.end_s)
        elif not run.ended and run.started_s is not None:
            slip = self._slip(run.started_s - step.start_s)
        return f"{run.step}: {run.state}{slip}{': ' if run.reason else ''}{run.reason}"

    def _job(self, run: StepRun) -> PlannedJob:
        planned = (job for job in self.submitted.jobs if job.name == run.step)
        return run.replaced or next(planned)

    def _save_other(self, run: StepRun, index: int) -> None:
        """Write down a job that was to leave; where it began before that it stays."""
        own = self.submitted
        job = own.others[index].replaced
        if run.replaced is not None or job is None:
            own.others[index] = run
            return
        del own.others[index]
        others = [one for one in own.jobs if one.name != job.name]
        first = next((i for i, one in enumerate(others) if job.name in one.needs), len(others))
        own.jobs = [*others[:first], job, *others[first:]]
        own.steps[run.step] = run
        own.astray = f"{run.step} began meanwhile"

    def _judge(self, run: StepRun) -> None:
        """Note that what is left has to be planned again after this."""
        own = self.submitted
        step = self._job(run).step
        if run.state != COMPLETED:
            own.astray = f"{run.step} is {run.state}"
        elif run.ended_s is not None:
            off_s = run.ended_s - step.end_s
            if abs(off_s) > self._allowed(self._job(run)):
                own.astray = f"{run.step} ended {off(off_s)}"

    def _give_up_after(self, name: str) -> None:
        """Cancel the jobs that need one that failed."""
        own = self.submitted
        lost = set(dependents(own.jobs, name))
        fresh = [job for job in own.jobs if job.name in lost and own.active(job.name)]
        if not fresh:
            return
        for job in fresh:
            if job_id := own.job_id(job.name):
                self._jobs.on(job.cluster).cancel(job_id)
            run = own.steps.get(job.name) or StepRun(
                planned_s=0, step=job.name, job_name=own.new_name(job.name)
            )
            own.steps[job.name] = replace(run, state="CANCELLED")
        held_jobs.write(self._path, own)
        which = f" (job {own.job_id(name)})" if own.job_id(name) else ""
        names = ", ".join(job.name for job in fresh)
        self._tell(f"{names}: cancelled, for {name} is {own.state(name)}{which}")

    def _check(self, now_s: float) -> None:
        """Where steps are off the plan, plan those that have not begun, and change their jobs."""
        own = self.submitted
        why = own.astray or late(own, now_s, self._allowed)
        if why and any(own.pending(job.name) for job in own.jobs):
            if self._planner is None:
                self._tell(f"{why}: {expected_end(own)}")
            else:
                self._plan_again(self._planner, why)
            own.jobs = [rebased(own, job, now_s) for job in own.jobs]
        if why:
            own.astray = ""
            held_jobs.write(self._path, own)

    def _plan_again(self, planner: Planner, why: str) -> None:
        own = self.submitted
        try:
            replan = planner(own)
        except SlurmError:
            own.astray = why
            raise
        except NimoError as error:
            self._tell(f"{why}: {expected_end(own)}; not planned again: {error}")
            return
        if replan is None:
            return
        now = replan.plan
        before = replan.before
        text = "planned again" if replan.changed else "the plan stays"
        text += f"; all ended by {clock(now.end_s)}"
        if replan.changed and before is not None:
            text += f" instead of {clock(before.end_s)}"
        self._tell(f"{why}: {text + deadline_text(now.high_s, own.deadline_s)}")
        for line in exchange(own, replan.jobs, self._jobs):
            self._tell(line)

    def _allowed(self, job: PlannedJob) -> float:
        return max(self._slip_s, SLIP * (job.step.end_s - job.step.start_s))

    def _slip(self, off_s: float) -> str:
        return "" if abs(off_s) < self._slip_s else f", {off(off_s)}"


def _ready(own: Submitted) -> list[PlannedJob]:
    """List the jobs that can be submitted, each after those of its cluster that it needs."""
    clusters = {job.name: job.cluster for job in own.jobs}
    there = {name for name in own.steps if own.active(name)}
    ready = []
    for job in own.jobs:
        if job.name not in own.steps and all(
            own.state(name) == COMPLETED or (name in there and clusters[name] == job.cluster)
            for name in job.needs
        ):
            ready.append(job)
            there.add(job.name)
    return ready


def waits_elsewhere(jobs: Iterable[PlannedJob]) -> list[str]:
    """Name the jobs that need one of another cluster."""
    planned = list(jobs)
    clusters = {job.name: job.cluster for job in planned}
    return [job.name for job in planned if any(clusters[n] != job.cluster for n in job.needs)]
