"""What was submitted of a plan, in a file beside the workflow; written before every step taken.

A process that is killed at any moment is put back by reading it again: what may have been submitted
without being written down carries a name that no other job has, and is looked for by that.
"""

import secrets
from pathlib import Path
from typing import Self

import msgspec
from msgspec.structs import replace

from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments.campaign import Run
from slurm_plugin.experiments.held_jobs import ACTIVE, QueuedJob
from slurm_plugin.experiments.plan.chain import PlannedJob, job_name

#: State in which a job is done with, and well; in which it waits; and in which it runs.
COMPLETED, PENDING, RUNNING = "COMPLETED", "PENDING", "RUNNING"
#: State of a job that sbatch refused; Slurm has no word for it.
REFUSED = "REFUSED"


class StepRun(Run, frozen=True, kw_only=True):
    """A job of a step of a plan."""

    step: str
    job_name: str
    state: str = PENDING  #: in Slurm's words
    started_s: float | None = None
    ended_s: float | None = None
    replaced: PlannedJob | None = None  #: as it was planned, where another job takes its place

    @property
    def ended(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.state not in ACTIVE

    @property
    def unwanted(self) -> bool:
        """Whether its job is cancelled, unless it has begun."""
        return self.replaced is not None

    def seen(self, job: QueuedJob) -> Self:
        """Give it with what the queue says of its job."""
        if job.waits:
            return self if self.state == PENDING else replace(self, state=PENDING, started_s=None)
        state = RUNNING if job.ends else job.state
        return replace(self, state=state, started_s=job.start_s, replaced=None)


class Submitted(msgspec.Struct, kw_only=True):
    """A plan's jobs, and those of them that were submitted, as far as is known."""

    workflow: str
    deadline_s: float | None
    submitted_s: float
    jobs: list[PlannedJob]  #: each after those that it needs
    text: str = ""  #: of the workflow's file when it was submitted
    confidence: float = 0.95
    hard: bool = False
    budget: float | None = None  #: node-hours
    overrun_s: float = 0.0  #: how far a job may run beyond its limit
    mark: str = msgspec.field(
        default_factory=lambda: secrets.token_hex(3)
    )  #: in the names of all its jobs
    steps: dict[str, StepRun] = {}  #: jobs of the plan as it is
    others: list[StepRun] = []  #: jobs whose place others took
    astray: str = ""  #: why the remaining steps have to be planned again; empty: they do not

    def state(self, step: str) -> str:
        """State of a step's job."""
        return self.steps[step].state if step in self.steps else PENDING

    def pending(self, step: str) -> bool:
        """Whether a step's job has not started yet."""
        return self.state(step) == PENDING

    def active(self, step: str) -> bool:
        """Whether a step's job has not ended."""
        return self.state(step) in ACTIVE

    def begun(self, step: str) -> bool:
        """Whether a step's job has started, and not ended."""
        return self.active(step) and not self.pending(step)

    def lost(self, step: str) -> bool:
        """Whether a step's job has ended, but not well."""
        return not self.active(step) and self.state(step) != COMPLETED

    def started_s(self, step: str) -> float | None:
        """When a step's job started; None: it did not."""
        return self.steps[step].started_s if step in self.steps else None

    def ended_s(self, step: str) -> float | None:
        """When a step's job ended; None: it did not."""
        return self.steps[step].ended_s if step in self.steps else None

    def job_id(self, step: str) -> int | None:
        """Id of a step's job; None: it has none."""
        return self.steps[step].job_id if step in self.steps else None

    def new_name(self, step: str) -> str:
        """Name for another job of a step."""
        before = sum(one.step == step for one in self.others)
        return job_name(self.workflow, step, f"{self.mark}-{before + 1}" if before else self.mark)

    @property
    def unfinished(self) -> list[PlannedJob]:
        """Jobs that have not ended."""
        return [job for job in self.jobs if self.active(job.name)]


def path_for(workflow: Path) -> Path:
    """File in which the submission of a workflow is recorded.

    >>> path_for(Path("brain.yaml")).name
    'brain.plan.json'
    """
    return workflow.with_suffix(".plan.json")


def load(path: Path) -> Submitted | None:
    """Read the record; None where there is none. Raises FormatError: it is not such a record."""
    if not path.exists():
        return None
    return held_jobs.read(path, Submitted, "remove it to submit anew")
