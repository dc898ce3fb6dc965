"""All runs in one file: written before a job is submitted and after every change.

A process that is killed at any moment is put back by reading it again.
"""

from enum import StrEnum
from pathlib import Path

import msgspec

from predictor.occupancy.active.settings import FunctionForm
from sacct_ingest.errors import FormatError
from slurm_plugin.experiments import held_jobs


class Stage(StrEnum):
    """How far a run has come."""

    PLANNED = "planned"  #: perhaps submitted, without a job id yet
    SUBMITTED = "submitted"
    DONE = "done"
    FAILED = "failed"


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one assignment."""

    key: str  #: of the assignment
    attempt: int
    job_name: str
    nodes: int
    limit_s: float
    attributes: dict[str, float]
    purpose: str
    why: str
    planned_s: int
    stage: Stage = Stage.PLANNED
    job_id: int | None = None
    reason: str = ""  #: why it failed
    again: bool = False  #: whether the same once more may succeed
    node_list: str = ""
    elapsed_s: float = 0.0
    cpus: int = 0
    utilisation: float | None = None
    data_bytes: int | None = None
    network_share: float | None = None  #: of the time for each I/O, where it was measured

    @property
    def ended(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.stage in (Stage.DONE, Stage.FAILED)


class ModelChoices(msgspec.Struct, frozen=True, kw_only=True):
    """How the runs are learned from; for 'nimo plan', which reads them without the description."""

    data_flow: bool = True  #: whether the accounting's bytes mean something
    network_share: float = 0.0  #: of the stall, where it was not measured
    form: FunctionForm = FunctionForm.CHOSEN
    faster: frozenset[str] | None = None  #: attributes of which more makes runs faster


class JournalFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The runs of one application, and how they are learned from."""

    application: str
    trials: tuple[Trial, ...] = ()
    model: ModelChoices = ModelChoices()
    version: int = 1


class Journal:
    """The file; ``trials`` are in the order in which they were planned."""

    def __init__(self, path: Path, application: str, model: ModelChoices | None = None) -> None:
        self._path, self._application = path, application
        self._model = model or ModelChoices()
        self.trials: list[Trial] = list(self._read())

    def find(self, key: str, attempt: int) -> Trial | None:
        """Give a run that was planned before."""
        matches = (one for one in self.trials if (one.key, one.attempt) == (key, attempt))
        return next(matches, None)

    def save(self, trial: Trial) -> Trial:
        """Write a run down, new or changed; it is on the disk when this returns."""
        same = (trial.key, trial.attempt)
        places = [i for i, one in enumerate(self.trials) if (one.key, one.attempt) == same]
        if places:
            self.trials[places[0]] = trial
        else:
            self.trials.append(trial)
        held_jobs.write(self._path, JournalFile(self._application, tuple(self.trials), self._model))
        return trial

    def _read(self) -> tuple[Trial, ...]:
        if not self._path.exists():
            return ()
        saved = held_jobs.read(self._path, JournalFile, "move it away to begin anew")
        if saved.application != self._application:
            raise FormatError(
                f"{self._path}: it is of {saved.application}, not of {self._application}; name "
                "another file with --state"
            )
        return saved.trials
