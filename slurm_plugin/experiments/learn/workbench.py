"""Runs of an application that are proposed, made and learned from; what each is submitted as."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from msgspec import structs

from predictor.occupancy.active.refinement import Proposal
from sacct_ingest.records import LEARNING
from sacct_ingest.runs.usage import usage
from sacct_ingest.scripts.signature import COUNTED
from sacct_ingest.store import RunRow
from slurm_plugin.experiments.campaign import spent
from slurm_plugin.experiments.held_jobs import check_here, failure
from slurm_plugin.experiments.learn.description import (
    Assignment,
    Choices,
    Description,
    Journal,
    Stage,
    Trial,
)
from slurm_plugin.experiments.learn.io_counters import CAPTURE, network_share, parse
from slurm_plugin.experiments.learn.proposers import ByOccupancies, ProposerState
from slurm_plugin.slurm.commands import SubmissionRefused


@dataclass(frozen=True, slots=True)
class RunCommands:
    """Command lines of runs, and what their nodes counted."""

    description: Description
    counters: Path | None = None  #: folder for what a run's node counted; None: nothing is counted

    def argv(self, assignment: Assignment, trial: Trial) -> list[str]:
        """Command line of a run."""
        description = self.description
        also = {
            "--account": description.account,
            "--qos": description.qos,
            "--chdir": description.work_dir,
        }
        return [
            *("sbatch", "--parsable", "--hold", "--no-requeue"),
            f"--job-name={trial.job_name}",
            # The hooks leave it alone; it joins the runs of its application.
            f"--comment=nimo:off,{description.tag(assignment)}",
            f"--nice={description.nice}",
            f"--time={description.limit}",
            *(f"{option}={value}" for option, value in also.items() if value),
            *assignment.options,
            *self._command(assignment, trial),
        ]

    def network_share(self, trial: Trial) -> float | None:
        """Share of a run's time for I/O that was the network's; None where nothing was counted."""
        if self.counters is None:
            return None
        try:
            before, after = (path.read_text(errors="replace") for path in self._files(trial))
        except OSError:
            return None
        return network_share(parse(before), parse(after))

    def _command(self, assignment: Assignment, trial: Trial) -> tuple[str, ...]:
        """Command of a run, between two looks at the counters; a job script is left as it is."""
        wrapped = assignment.command[0].removeprefix("--wrap=")
        if self.counters is None or wrapped == assignment.command[0]:
            return assignment.command
        before, after = (shlex.quote(str(path)) for path in self._files(trial))
        return (
            f"--wrap={COUNTED} {CAPTURE}\nnimo_io > {before}\n(\n{wrapped}\n)\n"
            f"nimo_status=$?\nnimo_io > {after}\nexit $nimo_status",
        )

    def _files(self, trial: Trial) -> tuple[Path, Path]:
        folder = self.counters or Path()
        return folder / f"{trial.job_name}.before", folder / f"{trial.job_name}.after"


class Stop(StrEnum):
    """Why learning ended."""

    GOOD_ENOUGH = "good enough"
    SETTLED = "more runs would change little"
    NOTHING_LEFT = "nothing left to run"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """Learns one application, as a campaign."""

    description: Description
    choices: Choices
    proposer: ByOccupancies
    journal: Journal
    commands: RunCommands
    overrun_s: float  #: how far a job may run beyond its limit
    again: str = "nimo lab learn"
    name: str = "nimo lab learn"
    together: int = 1

    @property
    def runs(self) -> Sequence[Trial]:
        """Runs as they were planned."""
        return tuple(self.journal.trials.values())

    @property
    def done(self) -> float:
        """Share of the budget that is spent."""
        return min(spent(self.runs) / self.description.budget, 1.0)

    def next(self, now_s: float) -> Trial | str | None:
        """Learn from the runs there are; choose the next, or say why there is none."""
        while proposal := self.proposer.propose():
            trial = self._next_of(proposal, now_s)
            if trial is None:
                self.proposer.skip()
            elif trial.stage is Stage.DONE:
                self.proposer.observe(trial)
            elif self.journal.find(trial.key, trial.attempt):
                return None
            else:
                left = self.description.budget - spent(self.runs)
                return trial if trial.hours <= left else Stop.BUDGET.value
        if self.proposer.good_enough:
            return Stop.GOOD_ENOUGH.value
        return (Stop.SETTLED if self.proposer.settled else Stop.NOTHING_LEFT).value

    def mark(self, run: Trial) -> str:
        """Name of a run's job."""
        return run.job_name

    def command(self, run: Trial) -> tuple[list[str], str]:
        """Give the command line of a run.

        Raises SubmissionRefused: the description has no such assignment any more.
        """
        every = (one for places in self.choices.places.values() for one in places)
        assignment = next((one for one in every if one.key == run.key), None)
        if assignment is None:
            raise SubmissionRefused("the description has no such assignment any more")
        argv = self.commands.argv(assignment, run)
        check_here(argv)
        return argv, ""

    def impatient(self, waited_s: float) -> str:
        """Say that a run did not start in time."""
        late = waited_s > self.description.patience_s
        return f"did not start within {self.description.patience}" if late else ""

    def as_ended(self, run: Trial, job: RunRow | None, why: str) -> Trial:
        """Give a run with what became of it."""
        if job is None or why:
            elapsed_s = job.elapsed_s if job else 0.0
            return structs.replace(run, stage=Stage.FAILED, reason=why, elapsed_s=elapsed_s)
        share = self.commands.network_share(run)
        return structs.replace(run, **_outcome(job), network_share=share)

    def save(self, run: Trial) -> Trial:
        """Write a run down, new or changed."""
        if not run.ended:
            stage = Stage.PLANNED if run.job_id is None else Stage.SUBMITTED
            run = structs.replace(run, stage=stage)
        return self.journal.save(run)

    def reserved_node_h(self, proposal: Proposal) -> float:
        """Most node-hours that a run may take."""
        return self._trial(self.choices.at(proposal.attributes)[0], 0, proposal, 0).hours

    def runnable(self) -> Choices:
        """Give the assignments but those that could not be run."""
        failed = {one.key for one in self.runs if one.stage is Stage.FAILED}
        failed -= {one.key for one in self.runs if one.stage is Stage.DONE}
        places = {
            at: left
            for at, each in self.choices.places.items()
            if (left := tuple(one for one in each if one.key not in failed))
        }
        return Choices(self.choices.space, places)

    def learned(self) -> ProposerState:
        """Give the results so far, for the assignments that can be run."""
        state = self.proposer.learned()
        places = self.runnable().places
        key = self.choices.space.key
        return replace(
            state, expected=tuple(one for one in state.expected if key(one.attributes) in places)
        )

    def _next_of(self, proposal: Proposal, now_s: float) -> Trial | None:
        """Give the run of a proposal that ended well, is under way, or is to be made.

        A run that failed is made elsewhere or again; None where none can be.
        """
        for assignment, attempt in self._attempts(proposal):
            recorded = self.journal.find(assignment.key, attempt)
            if recorded is None:
                return self._trial(assignment, attempt, proposal, now_s)
            if recorded.stage is not Stage.FAILED:
                return recorded
        return None

    def _attempts(self, proposal: Proposal) -> Iterator[tuple[Assignment, int]]:
        """Each assignment with the proposed attributes, then the interrupted ones again."""
        for attempt in range(self.description.tries):
            for assignment in self.choices.at(proposal.attributes):
                before = self.journal.find(assignment.key, attempt - 1)
                if attempt == 0 or (before is not None and before.again):
                    yield assignment, attempt

    def _trial(
        self, assignment: Assignment, attempt: int, proposal: Proposal, now_s: float
    ) -> Trial:
        return Trial(
            key=assignment.key,
            attempt=attempt,
            job_name=f"{LEARNING}{self.description.application}-{assignment.key}-{attempt}",
            nodes=assignment.nodes,
            limit_s=self.description.limit_s + self.overrun_s,
            attributes=proposal.attributes,
            purpose=proposal.purpose,
            why=proposal.why,
            planned_s=int(now_s),
        )


def _outcome(run: RunRow) -> dict[str, object]:
    used = usage(run, run.steps)
    reason = failure(run)
    return {
        "stage": Stage.FAILED if reason else Stage.DONE,
        "reason": reason,
        # The same once more may succeed.
        "again": bool(reason) and run.state.interrupted,
        "elapsed_s": run.elapsed_s,
        "node_list": run.node_list,
        "cpus": run.cpus,
        "utilisation": used.utilisation,
        "data_bytes": used.data_bytes,
    }
