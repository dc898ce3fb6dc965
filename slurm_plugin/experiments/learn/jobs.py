"""One run as a Slurm job: submitted on hold, looked up by its name, and read from accounting."""

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sacct_ingest.errors import SlurmError
from sacct_ingest.records import JobRun
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.sacct import LiveSacct
from sacct_ingest.text import io_times
from slurm_plugin.experiments.learn.assignments import Assignment
from slurm_plugin.experiments.learn.description import Description
from slurm_plugin.experiments.learn.journal import Trial
from slurm_plugin.slurm.commands import run, submit
from slurm_plugin.slurm.slurm_conf import CONFIG

_TIMEOUT_S = 60.0
_WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED"})
_LATER_S = 86_400  #: accounting is asked up to so long after the present: clocks differ
#: Until a job that overran its limit is ended: it is looked at every 30 s.
_NOTICED_S = 60.0


@dataclass(frozen=True, slots=True)
class SlurmJobs:
    """Runs as jobs of a real Slurm."""

    description: Description
    clock: Callable[[], float]
    counters: Path | None = None  #: folder for what a run's node counted; None: nothing is counted

    def submit(self, assignment: Assignment, trial: Trial) -> int:
        """Submit a run on hold.

        A job that was submitted and not written down never starts by itself.

        Raises SubmissionRefused: Slurm does not take such a job; SlurmError: Slurm does not answer
            at the moment.
        """
        return int(submit(self.argv(assignment, trial), timeout_s=_TIMEOUT_S))

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
        argv = ["squeue", "--me", "-h", "-t", "all", f"--name={trial.job_name}", "-o", "%A"]
        if queued := run(argv, timeout_s=_TIMEOUT_S).split():
            return int(queued[0])
        argv = [
            *("sacct", "-X", "-n", "-P", "--format=JobIDRaw", f"--name={trial.job_name}"),
            f"--user={os.getuid()}",
            *(f"--starttime=uts{trial.planned_s - 60}", "--endtime=now"),
        ]
        job_ids = run(argv, timeout_s=_TIMEOUT_S).split()
        return int(job_ids[0]) if job_ids else None

    def release(self, job_id: int) -> None:
        """Let a job start; nothing happens where it is over."""
        if self.waiting(job_id):
            run(["scontrol", "release", str(job_id)], timeout_s=_TIMEOUT_S)

    def cancel(self, job_id: int) -> None:
        """End a job."""
        run(["scancel", str(job_id)], timeout_s=_TIMEOUT_S)

    def tidy(self, trial: Trial) -> None:
        """Cancel jobs of a run that were submitted while their submitter was killed.

        They were never released, so none has run.
        """
        argv = ["scancel", "--me", "--quiet", "--state=PENDING", f"--name={trial.job_name}"]
        run(argv, timeout_s=_TIMEOUT_S)

    def waiting(self, job_id: int) -> bool | None:
        """Whether a job still waits; None once it is over."""
        argv = ["squeue", "--me", "-h", "-o", "%A %T"]
        # All of the user's at once: asking for an id that is gone is an error.
        states = dict(line.split() for line in run(argv, timeout_s=_TIMEOUT_S).splitlines())
        state = states.get(str(job_id))
        return None if state is None else state in _WAITING

    def ended(self, trial: Trial) -> JobRun | None:
        """Give what the accounting says of a run that has ended; None while it says nothing."""
        if trial.job_id is None:
            return None
        until_s = int(self.clock()) + _LATER_S
        runs = LiveSacct().of_jobs([trial.job_id], trial.planned_s - 60, until_s, Tally())
        # A record without a partition is half of one: the other half is still on its way.
        whole = [one for one in runs if one.end_s is not None and one.partition]
        return whole[-1] if whole else None


def overrun_s(config: Mapping[str, str]) -> float:
    """Seconds that a job may run beyond its limit: OverTimeLimit, KillWait and a look now and then.

    >>> overrun_s({"OverTimeLimit": "1 min", "KillWait": "30 sec"})
    150.0
    """
    minutes = config.get("OverTimeLimit", "0").split()[0]
    if not minutes.isdecimal():
        raise SlurmError(
            f"OverTimeLimit is {minutes}: time limits have no effect here, so no budget would hold"
        )
    kill_wait = config.get("KillWait", "30").split()[0]
    return 60.0 * int(minutes) + float(kill_wait) + _NOTICED_S


def slurm_config() -> dict[str, str]:
    """Read the cluster's settings from Slurm."""
    lines = run(list(CONFIG), timeout_s=_TIMEOUT_S).splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}
