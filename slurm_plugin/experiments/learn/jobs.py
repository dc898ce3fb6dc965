"""One run as a Slurm job: submitted on hold, looked up by its name, and read from accounting."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from sacct_ingest.text import io_times
from slurm_plugin.experiments.held_jobs import TIMEOUT_S, WAITING, HeldJobs, command, find
from slurm_plugin.experiments.learn.assignments import Assignment
from slurm_plugin.experiments.learn.description import Description
from slurm_plugin.experiments.learn.journal import Trial
from slurm_plugin.slurm.commands import submit


@dataclass(frozen=True, slots=True)
class SlurmJobs(HeldJobs):
    """Runs as jobs of a real Slurm."""

    description: Description
    counters: Path | None = None  #: folder for what a run's node counted; None: nothing is counted

    def submit(self, assignment: Assignment, trial: Trial) -> int:
        """Submit a run on hold.

        A job that was submitted and not written down never starts by itself.

        Raises SubmissionRefused: Slurm does not take such a job; SlurmError: Slurm does not answer
            at the moment.
        """
        return int(submit(self.argv(assignment, trial), timeout_s=TIMEOUT_S))

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
            "--comment=nimo:off",  # the hooks leave it alone
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
        return io_times.network_share(io_times.parse(before), io_times.parse(after))

    def _command(self, assignment: Assignment, trial: Trial) -> tuple[str, ...]:
        """Command of a run, between two looks at the counters; a job script is left as it is."""
        wrapped = assignment.command[0].removeprefix("--wrap=")
        if self.counters is None or wrapped == assignment.command[0]:
            return assignment.command
        before, after = (shlex.quote(str(path)) for path in self._files(trial))
        return (
            f"--wrap=nimo_io() {io_times.CAPTURE}\nnimo_io > {before}\n(\n{wrapped}\n)\n"
            f"nimo_status=$?\nnimo_io > {after}\nexit $nimo_status",
        )

    def _files(self, trial: Trial) -> tuple[Path, Path]:
        folder = self.counters or Path()
        return folder / f"{trial.job_name}.before", folder / f"{trial.job_name}.after"

    def find(self, trial: Trial) -> int | None:
        """Look for a run's job by its name, in the queue and in the accounting."""
        return int(find(trial.job_name, trial.planned_s) or 0) or None

    def tidy(self, trial: Trial) -> None:
        """Cancel jobs of a run that were submitted while their submitter was killed.

        They were never released, so none has run.
        """
        command(["scancel", "--me", "--quiet", "--state=PENDING", f"--name={trial.job_name}"])

    def waiting(self, job_id: int) -> bool | None:
        """Whether a job still waits; None once it is over."""
        state = self.queued().get(job_id)
        return None if state is None else state in WAITING
