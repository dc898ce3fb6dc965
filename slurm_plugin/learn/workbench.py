"""The loop: propose a run, have it run, learn from it; within a budget, stopped at any moment."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from sacct_ingest.occupancy import usage
from sacct_ingest.records import JobRun, JobState
from slurm_plugin.learn.assignments import Assignment, Choices
from slurm_plugin.learn.description import Description
from slurm_plugin.learn.jobs import Jobs
from slurm_plugin.learn.journal import Journal, Stage, Trial
from slurm_plugin.learn.proposers import Next, Proposer
from slurm_plugin.slurm.commands import Refused

#: Seconds between two looks at a job: the first, the last, and how they grow.
_FIRST_S, _LAST_S, _GROWTH = 0.5, 60.0, 1.4


class Stop(StrEnum):
    """Why learning ended."""

    GOOD_ENOUGH = "good enough"
    NOTHING_LEFT = "nothing left to run"
    BUDGET = "budget"


class _NoBudget(Exception):  # noqa: N818 - never leaves this module
    """The next run may cost more than is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSite:
    """The world around the workbench: Slurm, time, and somebody to tell."""

    jobs: Jobs
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    tell: Callable[[Trial], None]
    overrun_s: float  #: how far a job may run beyond its limit


@dataclass(frozen=True, slots=True)
class Workbench:
    """Learns one application."""

    given: Description
    choices: Choices
    proposer: Proposer
    journal: Journal
    site: LearningSite

    def run(self) -> Stop:
        """Go on until enough is known, nothing is left to run, or the budget is spent.

        What the journal holds is not run again.

        Raises
        ------
        sacct_ingest.errors.SlurmError, sacct_ingest.errors.SacctError
            Slurm cannot be asked; called again it goes on.
        """
        try:
            while wanted := self.proposer.propose():
                found = self._result(wanted)
                if found is None:
                    self.proposer.skip()
                else:
                    self.proposer.observe(found)
        except _NoBudget:
            return Stop.BUDGET
        return Stop.GOOD_ENOUGH if self.proposer.good_enough else Stop.NOTHING_LEFT

    def replay(self) -> Next | None:
        """Learn from the journal alone; give what would be run next."""
        while wanted := self.proposer.propose():
            trials = [self.journal.find(*one) for one in self._keys(wanted)]
            done = next((one for one in trials if one and one.stage is Stage.DONE), None)
            if done:
                self.proposer.observe(done)
            elif self._is_hopeless(wanted):
                self.proposer.skip()
            else:
                return wanted
        return None

    def argv(self, wanted: Next) -> list[str]:
        """Command line that a run would be submitted with."""
        assignment = self.choices.at(wanted.attributes)[0]
        return self.site.jobs.argv(assignment, self._trial(assignment, 0, wanted))

    def reserved_node_h(self, wanted: Next) -> float:
        """Node-hours that have to be left for a run, whatever it takes."""
        return self._cost(self._trial(self.choices.at(wanted.attributes)[0], 0, wanted))

    @property
    def spent_node_h(self) -> float:
        """Node-hours of all runs that ended, and the most that those under way may take."""
        return sum(self._cost(one) for one in self.journal.trials)

    def _result(self, wanted: Next) -> Trial | None:
        """Run an assignment, elsewhere or again where it fails; None where it cannot be run."""
        for assignment, attempt in self._attempts(wanted):
            known = self.journal.find(assignment.key, attempt)
            trial = known or self._plan(assignment, attempt, wanted)
            if trial.stage is Stage.PLANNED:
                trial = self._submit(trial, assignment, perhaps_there=known is not None)
            if trial.stage is Stage.SUBMITTED:
                trial = self._finish(trial)
            if trial.stage is Stage.DONE:
                return trial
        return None

    def _attempts(self, wanted: Next) -> Iterator[tuple[Assignment, int]]:
        """Each assignment with the wanted attributes, then those again that were interrupted."""
        for attempt in range(self.given.tries):
            for assignment in self.choices.at(wanted.attributes):
                before = self.journal.find(assignment.key, attempt - 1)
                if attempt == 0 or (before is not None and before.again):
                    yield assignment, attempt

    def _keys(self, wanted: Next) -> Sequence[tuple[str, int]]:
        return [(one.key, attempt) for one, attempt in self._attempts(wanted)]

    def _is_hopeless(self, wanted: Next) -> bool:
        trials = [self.journal.find(*one) for one in self._keys(wanted)]
        return all(one is not None and one.stage is Stage.FAILED for one in trials)

    def _plan(self, assignment: Assignment, attempt: int, wanted: Next) -> Trial:
        """Write a run down before it is submitted, if the budget holds it whatever happens."""
        trial = self._trial(assignment, attempt, wanted)
        if self.spent_node_h + self._cost(trial) > self.given.budget:
            raise _NoBudget
        return self.journal.save(trial)

    def _trial(self, assignment: Assignment, attempt: int, wanted: Next) -> Trial:
        return Trial(
            key=assignment.key,
            attempt=attempt,
            job_name=f"nimo-learn-{self.given.application}-{assignment.key}-{attempt}",
            nodes=assignment.nodes,
            limit_s=self.given.limit_s + self.site.overrun_s,
            attributes=wanted.attributes,
            purpose=wanted.purpose,
            why=wanted.why,
            planned_s=int(self.site.clock()),
        )

    def _cost(self, trial: Trial) -> float:
        return trial.nodes * (trial.elapsed_s if trial.ended else trial.limit_s) / 3600

    def _submit(self, trial: Trial, assignment: Assignment, *, perhaps_there: bool) -> Trial:
        """Submit a run, or find its job where a process was stopped before it wrote that down."""
        jobs = self.site.jobs
        try:
            found = jobs.find(trial) if perhaps_there else None
            job_id = jobs.submit(assignment, trial) if found is None else found
        except Refused as error:
            return self._save(trial, stage=Stage.FAILED, reason=str(error))
        return self._save(trial, stage=Stage.SUBMITTED, job_id=job_id)

    def _finish(self, trial: Trial) -> Trial:
        """Let a run start and bring it to its end."""
        job_id = trial.job_id or 0
        self.site.jobs.release(job_id)
        in_time = self._wait(job_id)
        run = self._accounted(trial)
        self.site.jobs.tidy(trial)
        if not in_time:
            late = f"did not start within {self.given.patience}"
            return self._save(trial, stage=Stage.FAILED, reason=late, elapsed_s=run.elapsed_s)
        share = self.site.jobs.network_share(trial)
        return self._save(trial, **_outcome(run), network_share=share)

    def _wait(self, job_id: int) -> bool:
        """Wait until a job is over; False where it did not start in time and was cancelled."""
        begun_s, jobs = self.site.clock(), self.site.jobs
        patient = True
        for pause_s in _pauses():
            waiting = jobs.waiting(job_id)
            if waiting is None:
                return patient
            if waiting and patient and self.site.clock() - begun_s > self.given.patience_s:
                jobs.cancel(job_id)
                patient = False
            self.site.sleep(pause_s)
        return patient

    def _accounted(self, trial: Trial) -> JobRun:
        """Wait until the accounting knows how a run ended, which can take seconds."""
        for pause_s in _pauses():
            if run := self.site.jobs.ended(trial):
                return run
            self.site.sleep(pause_s)
        raise AssertionError  # the pauses never end

    def _save(self, trial: Trial, **found: object) -> Trial:
        kept = self.journal.save(msgspec.structs.replace(trial, **found))
        self.site.tell(kept)
        return kept


def _pauses() -> Iterator[float]:
    """Ever longer ones: slurmctld is not to suffer from a long wait."""
    pause_s = _FIRST_S
    while True:
        yield pause_s
        pause_s = min(_GROWTH * pause_s, _LAST_S)


def _outcome(run: JobRun) -> dict[str, object]:
    """Read a run's record."""
    used = usage(run, run.steps)
    found: dict[str, object] = {
        "stage": Stage.DONE,
        "elapsed_s": run.elapsed_s,
        "node_list": run.node_list,
        "cpus": run.cpus,
        "utilisation": used.utilisation,
        "data_bytes": used.data_bytes,
    }
    if run.state is JobState.COMPLETED:
        return found
    status = f", exit status {run.exit_code}" if run.exit_code else ""
    return found | {
        "stage": Stage.FAILED,
        "reason": f"{run.state.value}{status}",
        # The same once more may succeed.
        "again": run.state.interrupted,
    }
