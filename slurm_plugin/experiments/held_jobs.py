"""Jobs of experiments: submitted on hold, found again, released; and files of such runs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from sacct_ingest.errors import ConfigError, FormatError, NimoError, SlurmError, system_errors
from sacct_ingest.files import atomic_file
from sacct_ingest.records import JobState
from sacct_ingest.scripts.job_script import parse_command_line
from slurm_plugin.config.yaml_text import json_fault
from slurm_plugin.slurm import commands
from slurm_plugin.slurm.job_request import user_name
from slurm_plugin.slurm.slurm_conf import CONFIG

if TYPE_CHECKING:  # the store takes half a second, and a plan that is only shown has no jobs
    from sacct_ingest.store import RunRow

_File = TypeVar("_File")
_TIMEOUT_S = 60.0
WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED"})
#: States in which a job is not done with.
ACTIVE = WAITING | {
    "RUNNING", "COMPLETING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED",
    "SPECIAL_EXIT",
}  # fmt: skip
#: Reasons of waiting jobs that Slurm would have refused, but for their hold.
_IMPOSSIBLE = re.compile("BadConstraints|Partition(?:Config|NodeLimit|TimeLimit)|PerJob")
ACCOUNTED_S = 900.0  #: what has ended is in the accounting after so long, or never
#: Until a job that overran its limit is ended: it is looked at every 30 s.
_NOTICED_S = 60.0


def command(argv: Sequence[str]) -> str:
    """Run one of Slurm's commands."""
    return commands.run(argv, timeout_s=_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job of the user's in the queue."""

    job_id: int
    state: str
    why: str  #: it waits, in Slurm's word
    named: str  #: name and comment
    start_s: float | None = None  #: None: it has not started
    where: str = ""  #: its cluster; empty: the one of this machine

    @property
    def key(self) -> tuple[str, int]:
        """What no other job has."""
        return self.where, self.job_id

    @property
    def waits(self) -> bool:
        """Whether it has not started."""
        return self.state in WAITING

    @property
    def ends(self) -> bool:
        """Whether it is over but for its last steps."""
        return self.state == "COMPLETING"

    @property
    def impossible(self) -> str:
        """Why it will never start as it is; empty: it may.

        Of a job on hold Slurm looks only once it is released whether any node could run it.
        """
        return self.why if self.state == "PENDING" and _IMPOSSIBLE.search(self.why) else ""

    def has(self, mark: str) -> bool:
        """Whether its name is the mark, or its comment has it as one of the words of a tag."""
        return re.search(rf"(?:^|[|,]){re.escape(mark)}(?:$|[|,\s])", self.named) is not None


@dataclass(frozen=True, slots=True)
class HeldJobs:
    """The user's jobs on a cluster; empty: the one of this machine."""

    where: str = ""

    def on(self, where: str) -> HeldJobs:
        """Give those on another cluster."""
        return HeldJobs(where)

    def queue(self) -> dict[int, QueuedJob]:
        """Give the user's jobs in the queue by their ids."""
        # All of the user's at once: asking for an id that is gone is an error.
        lines = self._ask(["squeue", "--me", "-h", "-o", "%A|%T|%r|%S|%j|%k"]).splitlines()
        made: dict[int, QueuedJob] = {}
        for words in (line.split("|", 4) for line in lines):
            if len(words) > 4 and words[0].isdecimal():
                first, state, why, start, named = words
                job = QueuedJob(int(first), state, why, named, _moment(start), self.where)
                made[job.job_id] = job
        return made

    def _ask(self, argv: Sequence[str]) -> str:
        return command([argv[0], *on(self.where), *argv[1:]])

    def submit(self, argv: Sequence[str], script: str) -> int:
        """Submit a job on hold: it never starts by itself.

        Raises SubmissionRefused: Slurm does not take it; SlurmError: sbatch is not there, or did
            not answer.
        """
        return int(commands.submit(argv, script, timeout_s=_TIMEOUT_S))

    def release(self, job_id: int) -> None:
        """Let a job start; nothing happens where it runs or is over."""
        job = self.queue().get(job_id)
        if job is None or not job.waits:
            return
        try:
            self._ask(["scontrol", "release", str(job_id)])
        except SlurmError as error:
            if "configuration not available" not in str(error):
                raise

    def cancel(self, *job_ids: int, waiting: bool = False) -> None:
        """End jobs; where that is asked for only if they have not begun."""
        ids = [str(job_id) for job_id in job_ids]
        if not waiting:
            self._ask(["scancel", "--quiet", *ids])
            return
        try:
            self._ask(["scancel", "--state=PENDING", *ids])
        except SlurmError as error:
            # Slurm says so of one that has begun or ended; it cancels those that wait.
            if "Invalid job id" not in str(error):
                raise

    def update(self, job_id: int, values: Mapping[str, str]) -> bool:
        """Change a job that waits, by scontrol's words; tell whether Slurm did."""
        try:
            pairs = (f"{word}={value}" for word, value in values.items())
            self._ask(["scontrol", "update", f"JobId={job_id}", *pairs])
        except SlurmError:
            return False
        return True

    def ended(self, planned_s: Mapping[int, int]) -> dict[int, RunRow]:
        """Give what the accounting says of jobs that have ended, or else what squeue still says.

        planned_s: ids of jobs, and when each was planned, seconds since the epoch.
        """
        # Loaded here: a plan that is only shown has no jobs that ended.
        from sacct_ingest.ingest.ended_jobs import ended_jobs  # noqa: PLC0415
        from sacct_ingest.sources.sacct import LiveSacct  # noqa: PLC0415

        return ended_jobs(
            planned_s.keys(),
            since_s=min(planned_s.values()),
            now_s=int(time.time()),
            squeue=self._ask,
            user=user_name(),
            accounting=LiveSacct(cluster=self.where, user=str(os.getuid())),
        )


def check_accounted(job_ids: Iterable[int], for_s: float) -> None:
    """Raise SlurmError where nothing was said for so long of jobs that have ended."""
    if for_s > ACCOUNTED_S:
        jobs = ",".join(map(str, job_ids))
        raise SlurmError(
            f"neither the accounting nor squeue says how the jobs ended: see 'sacct -j {jobs}'; "
            "the same command goes on from there"
        )


def check_here(argv: Sequence[str]) -> None:
    """Refuse a submit line that names another cluster: queue and accounting of this one are asked.

    Raises ConfigError: it names another cluster, or several.
    """
    from slurm_plugin.cli.sbatch_request import clusters_of  # noqa: PLC0415 - a plan has none

    script = parse_command_line(argv).script
    text = Path(script).read_text(errors="replace") if script and Path(script).is_file() else ""
    clusters = clusters_of({"script": text, "user_name": user_name()}, argv[1:])
    if clusters and clusters != (slurm_config().get("ClusterName"),):
        raise ConfigError(
            f"--clusters={','.join(clusters)}: runs are followed on the cluster of this machine "
            "alone; give the same command on a login node of the other one, without --clusters"
        )


def on(cluster: str) -> list[str]:
    """Option that sends a command to a cluster; none for the one of this machine."""
    return [f"--clusters={cluster}"] if cluster else []


def failure(job: RunRow) -> str:
    """Why a run failed; empty: it did not."""
    status = f", exit status {job.exit_code}" if job.exit_code else ""
    return "" if job.state is JobState.COMPLETED else f"{job.state.value}{status}"


def _moment(text: str) -> float | None:
    return float(text) if text.isdecimal() else None


def write(path: Path, content: msgspec.Struct) -> None:
    """Write a file of runs; it is on the disk when this returns.

    Raises NimoError: it cannot be written.
    """
    with system_errors(NimoError, f"{path}: cannot be written"):
        atomic_file.write(path, msgspec.json.format(msgspec.json.encode(content), indent=1))


def read(path: Path, kind: type[_File], fix: str) -> _File:
    """Read a file of runs.

    Raises FormatError: it is none, or cannot be read; the text ends with the fix.
    """
    data = b""
    try:
        data = path.read_bytes()
        return msgspec.json.decode(data, type=kind)
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror}; {fix}") from error
    except msgspec.DecodeError as error:
        raise FormatError(f"{path}: {json_fault(error, data)}; {fix}") from error


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
    pairs = (line.partition("=") for line in command(CONFIG).splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}
