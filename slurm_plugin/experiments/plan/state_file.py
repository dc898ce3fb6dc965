"""What was submitted of a plan, in a file beside the workflow; written before every step taken.

A process that is killed at any moment is put back by reading it again: what may have been submitted
without being written down carries a name that no other job has, and is looked for by that.
"""

import secrets
from pathlib import Path

import msgspec

from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments.plan.chain import PlannedJob, job_name

#: States in which a job is not done with.
ACTIVE = frozenset({
    "PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD",
    "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "SPECIAL_EXIT",
})  # fmt: skip
#: State in which a job is done with, and well; and in which it waits.
COMPLETED, PENDING = "COMPLETED", "PENDING"


class Submitted(msgspec.Struct, kw_only=True):
    """A plan's jobs with their ids; a job without id is not submitted yet, as far as is known."""

    workflow: str
    deadline_s: float | None
    submitted_s: float
    jobs: list[PlannedJob]  #: each after those that it needs
    text: str = ""  #: of the workflow's file when it was submitted
    confidence: float = 0.95
    hard: bool = False
    mark: str = msgspec.field(
        default_factory=lambda: secrets.token_hex(3)
    )  #: in the names of all its jobs
    ids: dict[str, str] = {}
    states: dict[str, str] = {}  #: last states, in Slurm's words
    started_s: dict[str, float] = {}
    ended_s: dict[str, float] = {}
    tried: dict[str, int] = {}  #: times that a step was given to sbatch
    trying: list[str] = []  #: perhaps given to sbatch, without an id yet
    leaving: list[tuple[str, PlannedJob]] = []  #: ids and jobs that are cancelled for others
    astray: str = ""  #: why the remaining steps have to be planned again; empty: they do not

    def state(self, step: str) -> str:
        """State of a step's job."""
        return self.states.get(step, PENDING)

    def pending(self, step: str) -> bool:
        """Whether a step's job has not started yet."""
        return self.state(step) == PENDING

    def begun(self, step: str) -> bool:
        """Whether a step's job has started, and not ended."""
        return self.state(step) in ACTIVE - {PENDING}

    def lost(self, step: str) -> bool:
        """Whether a step's job has ended, but not well."""
        return self.state(step) not in (COMPLETED, *ACTIVE)

    def name(self, step: str) -> str:
        """Name of the job of a step as it is submitted now."""
        tried = self.tried.get(step, 0)
        return job_name(self.workflow, step, f"{self.mark}-{tried}" if tried > 1 else self.mark)


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
