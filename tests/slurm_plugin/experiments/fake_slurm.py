"""Slurm's side of a campaign: jobs by their command lines, which end while it sleeps."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from sacct_ingest.records import JobState
from sacct_ingest.store import RunRow
from slurm_plugin.experiments.campaign import Campaign, Program
from slurm_plugin.experiments.held_jobs import QueuedJob
from slurm_plugin.slurm.commands import SubmissionRefused


class Killed(BaseException):
    """Nobody catches it, as nobody catches SIGKILL."""


@dataclass
class FakeJob:
    """A job: its command line, and how it will end."""

    argv: list[str]
    row: RunRow
    state: str = "PENDING"
    why: str = "JobHeldUser"

    def option(self, name: str) -> str:
        """Value of an option."""
        return next((w.partition("=")[2] for w in self.argv if w.startswith(f"--{name}=")), "")


@dataclass
class FakeSlurm:
    """Slurm: the shortest job that runs ends while one sleeps."""

    outcome: Callable[["FakeSlurm", list[str]], RunRow | str]  #: or why sbatch refuses it
    jobs: dict[int, FakeJob] = field(default_factory=dict)
    over: list[int] = field(default_factory=list)  #: jobs that are not in the queue any more
    kill_at: int = -1  #: which of the calls is the last
    calls: int = 0
    now_s: float = 1e9
    starts: Callable[[FakeJob], str] = lambda _: ""  #: why a released job waits for ever

    def called(self) -> None:
        """Count a call, and be killed at one of them."""
        self.calls += 1
        if self.calls == self.kill_at:
            raise Killed

    def on(self, _cluster: str) -> "FakeSlurm":
        return self

    def submit(self, argv: list[str], _script: str) -> int:
        self.called()
        row = self.outcome(self, argv)
        if isinstance(row, str):
            raise SubmissionRefused(row)
        job_id = len(self.jobs) + 1
        self.jobs[job_id] = FakeJob(list(argv), row)
        self.called()  # submitted, and killed before anybody heard of it
        return job_id

    def queue(self) -> dict[int, QueuedJob]:
        self.called()
        return {
            job_id: QueuedJob(
                job_id, job.state, job.why, f"{job.option('job-name')}|{job.option('comment')}"
            )
            for job_id, job in self.jobs.items()
            if job_id not in self.over
        }

    def release(self, job_id: int) -> None:
        self.called()
        job = self.jobs[job_id]
        if job.state == "PENDING" and job_id not in self.over:
            job.why = self.starts(job)
            job.state = "PENDING" if job.why else "RUNNING"

    def cancel(self, *job_ids: int, waiting: bool = False) -> None:
        self.called()
        for job_id in job_ids:
            self.jobs[job_id].row = replace(self.jobs[job_id].row, state=JobState.CANCELLED)
            self.over.append(job_id)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if running := self.running:
            self.over.append(min(running, key=lambda one: self.jobs[one].row.elapsed_s))

    def ended(self, planned_s: dict[int, int]) -> dict[int, RunRow]:
        self.called()
        return {one: self.jobs[one].row for one in planned_s if one in self.over}

    @property
    def running(self) -> list[int]:
        """Jobs that run."""
        return [i for i, j in self.jobs.items() if j.state == "RUNNING" and i not in self.over]

    @property
    def left(self) -> list[int]:
        """Jobs in the queue."""
        return [job_id for job_id in self.jobs if job_id not in self.over]


def campaign(program: Program[Any], slurm: FakeSlurm, **more: Any) -> Campaign[Any]:
    """Make a campaign on it."""
    own = {"sleep": slurm.sleep, "report": lambda _: None, "tell": lambda _: None, **more}
    return Campaign(program=program, jobs=slurm, clock=lambda: slurm.now_s, **own)  # type: ignore[arg-type]


def cuts(data: bytes) -> Iterator[bytes]:
    """Give all beginnings of a file that are not all of it."""
    return (data[:length] for length in range(len(data)))
