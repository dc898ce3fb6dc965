"""Limits that NIMO gave Slurm to plan with: which jobs have one, and how they are taken back.

The field of a job is its least time limit.  Without ``time_min_as_soft_limit`` backfill cuts the
job down to it, so where the option goes, pending jobs lose the field, and running ones that were
cut already get their users' limit back.  A running job's least limit cannot be changed.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import inf

import msgspec

from sacct_ingest.errors import SlurmError
from sacct_ingest.text.admin_comment import parse
from sacct_ingest.text.slurm_text import parse_time_limit
from slurm_plugin.slurm.cluster_state import RawJob
from slurm_plugin.slurm.snapshot import DAY_S
from slurm_plugin.slurm.sources import Run
from slurm_plugin.slurm.startable import WAITS, waits_for_nodes

_log = logging.getLogger(__name__)
_END = "\x1f"  #: nothing in these fields has it
_FIELDS = ("JobArrayID", "State", "MinTime", "TimeLimit", "UserName", "Partition", "admin_comment")
_SQUEUE = (
    *("squeue", "-h", "-a", "-t", "PD,R,S,CF", "-O"),
    ",".join(f"{name}:{_END}" for name in _FIELDS),
)
_AT_ONCE = 1000  #: job ids of one command
_TRIES = 3  #: looks at which a job gets its user's limit back


class SoftJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits or runs with a limit to plan with, as Slurm has it now; minutes."""

    job: str  #: id as scontrol takes it: of an array that waits all tasks
    user: str
    partition: str
    waits: bool
    least_min: int  #: 0: it has none any more
    limit_min: int | None  #: None: no end
    soft_min: int  #: as NIMO set it ...
    own_min: int  #: ... beside its user's limit

    @property
    def is_cut(self) -> bool:
        """Whether it runs with less than its user's limit."""
        return not self.waits and self.limit_min is not None and self.limit_min < self.own_min


def soft_jobs(run: Run) -> list[SoftJob]:
    """Ask for the jobs that NIMO gave a limit to plan with.

    Raises SlurmError: squeue does not answer.
    """
    rows = (line.split(_END) for line in run(_SQUEUE).split("\n") if ",sl=" in line)
    return [job for row in rows if len(row) > len(_FIELDS) - 1 and (job := _job(row[:7]))]


def _job(row: Sequence[str]) -> SoftJob | None:
    name, state, least, limit, user, partition, comment = row
    note = parse(comment)
    if note is None or note.soft_min is None or note.own_min is None:
        return None
    return SoftJob(
        job=name.partition("_[")[0],
        user=user,
        partition=partition,
        waits=state in WAITS,
        least_min=_minutes(least) or 0,
        limit_min=_minutes(limit),
        soft_min=note.soft_min,
        own_min=note.own_min,
    )


def _minutes(text: str) -> int | None:
    try:
        seconds = parse_time_limit(text)
    except ValueError:
        return None
    return None if seconds is None else seconds // 60


def take_back(run: Run, *, waiting: bool = True) -> list[str]:
    """Let jobs wait without a limit to plan with, and run up to their users' limit.

    waiting: False: running jobs only.
    Returns list of str: what was done, for people.  Backfill may undo an update of a job that it
    has just looked at (before 26.05.3), so this is to be done again.

    Raises SlurmError: squeue does not answer.
    """
    jobs, lines = soft_jobs(run), list[str]()
    if waiting:
        lines += _update(run, [o.job for o in jobs if o.waits and o.least_min], "timemin=0")
    cut: dict[int, list[str]] = defaultdict(list)
    for one in jobs:
        if one.is_cut:
            cut[one.own_min].append(one.job)
    for minutes, names in cut.items():
        lines += _update(run, names, f"timelimit={minutes}")
    return lines


def _update(run: Run, jobs: list[str], change: str) -> Iterator[str]:
    for first in range(0, len(jobs), _AT_ONCE):
        some = jobs[first : first + _AT_ONCE]
        try:
            run(("scontrol", "update", f"jobid={','.join(some)}", change))
        except SlurmError as error:  # such as for a job that has just ended; the others are done
            yield f"{change} of {len(some)} jobs: {error}"
        else:
            yield f"{change}: {', '.join(some)}"


class LimitGuard:
    """Takes limits back where Slurm does not say, or did not, that they are to plan with.

    To be called with each view anew: an update may be undone.
    """

    def __init__(self) -> None:
        self._tries: dict[int | None, int] = {}

    def look(self, run: Run, jobs: Iterable[RawJob], *, safe: bool) -> None:
        """Look at the jobs of a view.

        A running job may have been cut while nobody looked: it gets its user's limit back.  Where
        it has less again the user wants it so, who may shorten a running job.

        safe: whether Slurm plans with such limits, and NIMO is not switched off.
        """
        soft = {job.job_id: _is_cut(job) for job in jobs if ",sl=" in job.admin_comment}
        tries = {job: self._tries.get(job, 0) for job in soft}
        # A job that has got its limit back is done with.
        self._tries = {
            job: tries[job] + 1 if cut else _TRIES * (tries[job] > 0) for job, cut in soft.items()
        }
        again = any(cut and self._tries[job] <= _TRIES for job, cut in soft.items())
        if not soft or (safe and not again):
            return
        try:
            lines = take_back(run, waiting=not safe)
        except SlurmError as error:
            lines = [str(error)]
        for line in lines:
            _log.warning("a limit to plan with is taken back: %s", line)


def _is_cut(job: RawJob) -> bool:
    """Whether a job of a view runs with less than its user's limit."""
    if job.state in WAITS or job.limit_s is None or (note := parse(job.admin_comment)) is None:
        return False
    return note.own_min is not None and job.limit_s < 60 * note.own_min


class QueueHeads:
    """Watches the first job of each partition's queue, which limits to plan with must not delay.

    Where its planned start moves back by more than its own run time, none is set for a day.
    """

    def __init__(self) -> None:
        self._first: dict[str, tuple[int | None, float]] = {}
        self._until: dict[str, float] = {}

    def look(self, jobs: Sequence[RawJob], now_s: float) -> frozenset[str]:
        """Look at the jobs of a view; give the partitions that rest."""
        softly = {name for job in jobs if ",sl=" in job.admin_comment for name in job.partitions}
        heads: dict[str, RawJob] = {}
        for job in jobs:
            if job.state in WAITS and waits_for_nodes(job.reason):
                for name in softly.intersection(job.partitions):
                    heads[name] = max(heads.get(name, job), job, key=_rank)
        first = self._first
        self._first = {}
        for name, job in heads.items():
            known, planned_s = first.get(name, (job.job_id, inf))
            earliest_s = min(planned_s if known == job.job_id else inf, job.start_s)
            self._first[name] = job.job_id, earliest_s
            # Its run time as it was predicted, or else its limit.
            note = parse(job.admin_comment)
            own_time_s = float(note.time_s) if note else job.limit_s or inf
            if inf > job.start_s > earliest_s + own_time_s:
                if self._until.get(name, 0.0) <= now_s:
                    _log.warning("%s: job %s starts later: no limits to plan with", name, known)
                self._until[name] = now_s + DAY_S
        return frozenset(name for name, until_s in self._until.items() if now_s < until_s)


def _rank(job: RawJob) -> tuple[int, float]:
    return job.priority, -job.submit_s
