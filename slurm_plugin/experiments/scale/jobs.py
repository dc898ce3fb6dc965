"""What a study is asked for, and its runs as jobs of a real Slurm."""

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from sacct_ingest.errors import ScriptError
from sacct_ingest.records import JobRun, JobState
from sacct_ingest.scripts.job_script import parse_command_line, parse_script
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.sacct import LiveSacct
from slurm_plugin.slurm.commands import run, submit

_TIMEOUT_S = 60.0
_LATER_S = 86_400  #: accounting is asked up to so long after the present: clocks differ
_FILTER_S = 60


class Sizes(StrEnum):
    """What is counted."""

    NODES = "nodes"
    CPUS = "cpus"
    GPUS = "gpus"

    @property
    def word(self) -> str:
        """Singular."""
        return {"nodes": "node", "cpus": "CPU", "gpus": "GPU"}[self.value]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; times in seconds, the budget in hours of nodes, CPUs or GPUs."""

    script: str
    words: tuple[str, ...]  #: options of sbatch, then the script and its arguments
    counts: tuple[int, ...]
    sizes: Sizes = Sizes.NODES
    most_runs: int = 6
    budget: float = 200.0
    limit_s: float = 1800.0
    overrun_s: float = 0.0  #: how far a run may go beyond its limit
    together: int = 3
    weak: bool = False
    filter: str = ""  #: shell command that makes the script of a count, in variable N

    @property
    def most_s(self) -> float:
        """Longest time that a run may take."""
        return self.limit_s + self.overrun_s


class StudyRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run; without a job id it was perhaps not submitted."""

    number: int
    count: int
    why: str
    planned_s: int
    job_id: int | None = None
    state: str = ""  #: of the job that ended
    reason: str = ""  #: why it failed
    elapsed_s: float = 0.0
    nodes: int = 0
    cpus: int = 0
    node_list: str = ""
    cluster: str = ""
    partition: str = ""

    @property
    def ended(self) -> bool:
        """Whether there is nothing to wait for."""
        return bool(self.state)

    @property
    def good(self) -> bool:
        """Whether its time counts."""
        return self.state == JobState.COMPLETED


_OPTION = {Sizes.NODES: "--nodes", Sizes.CPUS: "--cpus-per-task", Sizes.GPUS: "--gpus"}


@dataclass(frozen=True, slots=True)
class StudyJobs:
    """Slurm's commands; ``name`` tells the studies of a user apart."""

    name: str

    def submit(self, settings: Settings, run: StudyRun) -> int:
        """Submit a run on hold; it never starts by itself.

        Raises SubmissionRefused: Slurm does not take such a job; SlurmError: it cannot be asked.
        """
        argv, script = command(settings, run, self._comment(run))
        return int(submit(argv, script, timeout_s=_TIMEOUT_S))

    def find(self, run_: StudyRun) -> int | None:
        """Look for the held job of a run."""
        argv = ["squeue", "--me", "-h", "-t", "PD", "-o", "%A %k"]
        for line in run(argv, timeout_s=_TIMEOUT_S).splitlines():
            job_id, _, comment = line.partition(" ")
            if comment.strip() == self._comment(run_):
                return int(job_id)
        return None

    def release(self, job_id: int) -> None:
        """Let a job start; nothing happens where it is over."""
        if job_id in self.queued():
            run(["scontrol", "release", str(job_id)], timeout_s=_TIMEOUT_S)

    def cancel(self, job_ids: Sequence[int]) -> None:
        """End jobs."""
        run(["scancel", "--quiet", *map(str, job_ids)], timeout_s=_TIMEOUT_S)

    def queued(self) -> set[int]:
        """Give the ids of the user's jobs in the queue."""
        # All of the user's at once: asking for an id that is gone is an error.
        return set(
            map(int, run(["squeue", "--me", "-h", "-o", "%A"], timeout_s=_TIMEOUT_S).split())
        )

    def ended(self, runs: Sequence[StudyRun]) -> dict[int, JobRun]:
        """Give what the accounting says of jobs that are over."""
        begin_s = min(one.planned_s for one in runs) - 60
        ids = [one.job_id for one in runs if one.job_id is not None]
        until_s = max(one.planned_s for one in runs) + 30 * _LATER_S
        given = LiveSacct(user=str(os.getuid())).of_jobs(ids, begin_s, until_s, Tally())
        # A record without a partition is half of one: the other half is still on its way.
        return {one.job_id: one for one in given if one.end_s is not None and one.partition}

    def _comment(self, run: StudyRun) -> str:
        """Comment of a run: the hooks leave it alone."""
        return f"nimo:off,study={self.name}-{run.number}"


def command(settings: Settings, run: StudyRun, comment: str) -> tuple[list[str], str]:
    """Give the command line of a run, and what goes to its standard input.

    Raises ScriptError: the script cannot be made.
    """
    parsed = parse_command_line(["sbatch", *settings.words])
    script = [parsed.script, *parsed.arguments]
    options = settings.words[: len(settings.words) - len(script)]
    arguments = [word.replace("{n}", str(run.count)) for word in parsed.arguments]
    argv = [
        *("sbatch", "--parsable", "--hold", "--no-requeue", f"--comment={comment}"),
        *options,
        f"{_OPTION[settings.sizes]}={run.count}",
        f"--time={max(1, round(settings.limit_s / 60))}",
    ]
    if not settings.filter:
        return [*argv, parsed.script, *arguments], ""
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", settings.filter],
            input=Path(settings.script).read_text(),
            env={**os.environ, "N": str(run.count)},
            capture_output=True,
            text=True,
            check=True,
            timeout=_FILTER_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        words = getattr(error, "stderr", "") or str(error)
        raise ScriptError(f"--weak {settings.filter!r}: {words.strip()}") from error
    text = done.stdout
    named = "job-name" in {*parsed.options, *parse_script(text).options}
    name = [] if named else [f"--job-name={Path(parsed.script).name}"]
    return [*argv, *name, "-", *arguments], text


def shown(settings: Settings, run: StudyRun) -> str:
    """Command line of a run, for people."""
    return shlex.join(command(settings, run, "nimo:off")[0])
