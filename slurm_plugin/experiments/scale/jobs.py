"""What a study is asked for, and its runs as jobs of a real Slurm."""

import os
import shlex
import subprocess
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from sacct_ingest.errors import ScriptError
from sacct_ingest.records import JobState
from sacct_ingest.scripts.job_script import parse_command_line, parse_script
from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments.held_jobs import TIMEOUT_S, HeldJobs
from slurm_plugin.slurm.commands import submit

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
class StudyJobs(HeldJobs):
    """Slurm's commands; ``name`` tells the studies of a user apart."""

    name: str

    def submit(self, settings: Settings, run: StudyRun) -> int:
        """Submit a run on hold; it never starts by itself.

        Raises SubmissionRefused: Slurm does not take such a job; SlurmError: it cannot be asked.
        """
        argv, script = command(settings, run, self._comment(run))
        return int(submit(argv, script, timeout_s=TIMEOUT_S))

    def find(self, run: StudyRun) -> int | None:
        """Look for the held job of a run."""
        listed = held_jobs.command(["squeue", "--me", "-h", "-t", "PD", "-o", "%A %k"])
        for line in listed.splitlines():
            job_id, _, comment = line.partition(" ")
            if comment.strip() == self._comment(run):
                return int(job_id)
        return None

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
