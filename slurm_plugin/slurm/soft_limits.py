"""Limits that NIMO gave Slurm to plan with: which jobs have one, and how they are taken back.

The field of a job is its least time limit.  Without ``time_min_as_soft_limit`` backfill cuts the
job down to it, so where the option goes, pending jobs lose the field, and running ones that were
cut already get their users' limit back.  A running job's least limit cannot be changed.

With the option backfill compares the least limit with reservations, too, and the job then runs
until its time limit, across one that begins earlier (Slurm 26.05, ``backfill.c``: the time limit is
the least one while ``job_test_resv`` is asked, and what it was once the job has started).  So a job
that could meet a reservation waits without one.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from sacct_ingest.text.admin_comment import Note, parse
from sacct_ingest.text.slurm_text import parse_time_limit
from slurm_plugin.slurm.operator_updates import (
    OperatorUpdates,
    WrittenField,
    job_and_task,
    job_name,
)

if TYPE_CHECKING:  # 'nimo limits' needs no view of the cluster
    from slurm_plugin.slurm.cluster_state import RawJob
    from slurm_plugin.slurm.sources import Run

_END = "\x1f"  #: nothing in these fields has it
_FIELDS = ("JobArrayID", "State", "MinTime", "TimeLimit", "UserName", "Partition", "admin_comment")
_SQUEUE = (
    *("squeue", "-h", "-a", "-r", "-t", "PD,R,S,CF", "-O"),  # -r: else tasks look all alike
    ",".join(f"{name}:{_END}" for name in _FIELDS),
)
#: Base states of jobs that wait, long and short.
_WAITS = frozenset({"PENDING", "PD"})
#: scontrol's names of the least time limit and of the time limit.
_LEAST, _LIMIT = "timemin", "timelimit"


class SoftJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits or runs with a limit to plan with, as Slurm has it now; minutes."""

    job_id: int  #: of a task that of its array
    task: str = ""  #: index; empty: it is none of an array
    user: str
    partition: str
    waits: bool
    least_min: int  #: 0: it has none any more
    limit_min: int | None  #: None: no end
    soft_min: int  #: as NIMO set it ...
    own_min: int  #: ... beside its user's limit

    @property
    def job(self) -> str:
        """Id as people and scontrol have it."""
        return job_name(self.job_id, self.task)

    @property
    def is_shorter(self) -> bool:
        """Whether it runs with less than it had at submission, by whose doing ever."""
        return not self.waits and self.limit_min is not None and self.limit_min < self.own_min

    @property
    def is_planned(self) -> bool:
        """Whether it waits with the limit to plan with that NIMO wrote."""
        return self.waits and self.least.value == self.least.written

    @property
    def least(self) -> WrittenField:
        """Least time limit, which NIMO wrote, and which its user had none of."""
        return self._written(_LEAST, self.soft_min, 0, self.least_min)

    def limit(self, written_min: int) -> WrittenField:
        """Time limit, where it has ``written_min`` by NIMO's doing."""
        return self._written(_LIMIT, written_min, self.own_min, self.limit_min)

    def _written(self, name: str, written: int, own: int, value: int | None) -> WrittenField:
        return WrittenField(
            job_id=self.job_id,
            task=self.task,
            field=name,
            written=str(written),
            own=str(own),
            value="" if value is None else str(value),
        )


def soft_jobs(run: "Run") -> list[SoftJob]:
    """Ask for the jobs that NIMO gave a limit to plan with.

    Raises SlurmError: squeue does not answer.
    """
    rows = (line.split(_END) for line in run(_SQUEUE).split("\n") if ",sl=" in line)
    return [job for row in rows if len(row) > len(_FIELDS) - 1 and (job := _job(row[:7]))]


def of_view(raw: "RawJob") -> SoftJob | None:
    """Give a job of the view that NIMO gave a limit to plan with; None: this one has none."""
    note = _soft_note(raw.admin_comment)
    job_id = raw.array_id if raw.tasks else raw.job_id
    if note is None or note.soft_min is None or note.own_min is None or job_id is None:
        return None
    return SoftJob(
        job_id=job_id,
        task=raw.tasks,
        user=raw.user,
        partition=",".join(raw.partitions),
        waits=raw.state in _WAITS,
        least_min=round((raw.least_s or 0.0) / 60),
        limit_min=None if raw.limit_s is None else round(raw.limit_s / 60),
        soft_min=note.soft_min,
        own_min=note.own_min,
    )


def _job(row: Sequence[str]) -> SoftJob | None:
    name, state, least, limit, user, partition, comment = row
    note = _soft_note(comment)
    job = job_and_task(name)
    if note is None or note.soft_min is None or note.own_min is None or job is None:
        return None
    return SoftJob(
        job_id=job[0],
        task=job[1],
        user=user,
        partition=partition,
        waits=state in _WAITS,
        least_min=_minutes(least) or 0,
        limit_min=_minutes(limit),
        soft_min=note.soft_min,
        own_min=note.own_min,
    )


def _soft_note(comment: str) -> Note | None:
    """Find the note of a job that got a limit to plan with."""
    note = parse(comment) if ",sl=" in comment else None
    return note if note and note.soft_min is not None and note.own_min is not None else None


def _minutes(text: str) -> int | None:
    try:
        seconds = parse_time_limit(text)
    except ValueError:
        return None
    return None if seconds is None else seconds // 60


def take_back(run: "Run") -> list[str]:
    """Let jobs wait without a limit to plan with; give what was done, for people.

    Running jobs stay as they are: nothing says whether it was backfill or somebody else who gave
    them less than they had at submission.  Backfill may undo an update of a job that it has just
    looked at (before 26.05.3), so this is to be done again.

    Raises SlurmError: squeue does not answer.
    """
    return list(OperatorUpdates().give_back(run, partial(_planned, run)))


def _planned(run: "Run") -> list[WrittenField]:
    return [job.least for job in soft_jobs(run) if job.waits]
