"""Limits that NIMO gave Slurm to plan with: which jobs have one, and how they are taken back.

The field of a job is its least time limit.  Without ``time_min_as_soft_limit`` backfill cuts the
job down to it, so where the option goes, pending jobs lose the field, and running ones that were
cut already get their users' limit back.  A running job's least limit cannot be changed.

With the option backfill compares the least limit with reservations, too, and the job then runs
until its time limit, across one that begins earlier (Slurm 26.05, ``backfill.c``: the time limit is
the least one while ``job_test_resv`` is asked, and what it was once the job has started).  So a job
that could meet a reservation waits without one.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from math import inf

import msgspec

from sacct_ingest.errors import SlurmError
from sacct_ingest.text.admin_comment import Note, parse
from sacct_ingest.text.slurm_text import parse_time_limit
from slurm_plugin.slurm.cluster_state import RawJob, RawState
from slurm_plugin.slurm.operator_updates import (
    ClosedFields,
    OperatorUpdates,
    WrittenField,
    job_and_task,
    job_name,
    shared,
)
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.slurm.snapshot import DAY_S, reserved_from
from slurm_plugin.slurm.sources import Run
from slurm_plugin.slurm.startable import WAITS, waits_for_nodes

_log = logging.getLogger(__name__)
_END = "\x1f"  #: nothing in these fields has it
_FIELDS = ("JobArrayID", "State", "MinTime", "TimeLimit", "UserName", "Partition", "admin_comment")
_SQUEUE = (
    *("squeue", "-h", "-a", "-r", "-t", "PD,R,S,CF", "-O"),  # -r: else tasks look all alike
    ",".join(f"{name}:{_END}" for name in _FIELDS),
)
#: What waits has none of it at the latest so long before a reservation could be met, seconds: a
#: look takes its time, and so does the next.
_AHEAD_S = 60.0
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


def soft_jobs(run: Run) -> list[SoftJob]:
    """Ask for the jobs that NIMO gave a limit to plan with.

    Raises SlurmError: squeue does not answer.
    """
    rows = (line.split(_END) for line in run(_SQUEUE).split("\n") if ",sl=" in line)
    return [job for row in rows if len(row) > len(_FIELDS) - 1 and (job := _job(row[:7]))]


def _job(row: Sequence[str]) -> SoftJob | None:
    name, state, least, limit, user, partition, comment = row
    note, job = _soft_note(comment), job_and_task(name)
    if note is None or note.soft_min is None or note.own_min is None or job is None:
        return None
    return SoftJob(
        job_id=job[0],
        task=job[1],
        user=user,
        partition=partition,
        waits=state in WAITS,
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


def take_back(run: Run) -> list[str]:
    """Let jobs wait without a limit to plan with; give what was done, for people.

    Running jobs stay as they are: nothing says whether it was backfill or somebody else who gave
    them less than they had at submission.  Backfill may undo an update of a job that it has just
    looked at (before 26.05.3), so this is to be done again.

    Raises SlurmError: squeue does not answer.
    """
    return list(OperatorUpdates().give_back(run, partial(_planned, run)))


def _planned(run: Run) -> list[WrittenField]:
    return [job.least for job in soft_jobs(run) if job.waits]


#: Job and task.
_Key = tuple[int, str]


class _Start(msgspec.Struct, frozen=True):
    """How a job was when it was first seen to run."""

    limit_min: int | None
    cut: bool  #: backfill has cut it


class LimitGuard:
    """Takes limits to plan with back where they may do harm.

    Pending jobs lose theirs where Slurm does not say that they are to plan with, where NIMO is
    switched off, and where a reservation is near.  Running ones get their user's limit back that
    backfill has cut: their limit was still their user's when they were last seen to wait, and then
    or when they were first seen to run Slurm did not say that it cuts none.  All else was
    somebody's will.  Tasks of an array that wait in one record are not seen one by one: one that is
    cut stays so.

    To be called with each view anew: an update may be undone.

    closed: fields of jobs that it leaves alone.
    """

    def __init__(self, closed: ClosedFields | None = None) -> None:
        self._updates = OperatorUpdates(closed)
        self._waiting: dict[_Key, bool] = {}
        self._starts: dict[_Key, _Start] = {}

    def look(self, run: Run, state: RawState, conf: SlurmConf, *, off: bool, now_s: float) -> None:
        """Look at the jobs of a view.

        conf: of slurm.conf, read right before the jobs.
        off: whether NIMO is switched off.
        now_s: when Slurm was asked, seconds since the epoch.
        """
        jobs = [(raw, job) for raw in state.jobs if (job := _of_view(raw))]
        fields = [job.least for _, job in jobs]
        fields += self._limits([job for _, job in jobs if not shared(job.task)], conf)
        self._updates.look(fields)
        unsafe = off or not conf.plans_softly
        reservations = _Reservations(state, now_s)
        due = set()
        for raw, job in jobs:
            # Of several tasks the view has the limit of one.
            limit_s = max(raw.limit_s or inf, 60.0 * job.own_min * shared(job.task))
            risky = job.waits and (unsafe or reservations.may_meet(raw, limit_s))
            if (risky and self._updates.may_change(job.least)) or self._is_cut(job):
                due.add((job.job_id, job.task))
        if not due:
            return
        try:
            lines = list(self._updates.give_back(run, partial(self._due, run, due)))
        except SlurmError as error:
            lines = [str(error)]
        for line in lines:
            _log.warning("a limit to plan with is taken back: %s", line)

    def _limits(self, jobs: Iterable[SoftJob], conf: SlurmConf) -> Iterator[WrittenField]:
        """Time limits with what they are but for their users; takes note of starts."""
        waiting, starts = self._waiting, self._starts
        self._waiting, self._starts = {}, {}
        for job in jobs:
            key = job.job_id, job.task
            if job.waits:
                self._waiting[key] = conf.plans_softly
                yield job.limit(job.own_min)
                continue
            start = starts.get(key)
            if start is None and key in waiting:
                cut = not (waiting[key] and conf.plans_softly) and _may_be_cut(job, conf)
                start = _Start(job.limit_min, cut)
            if start is not None:
                self._starts[key] = start
            has_less = start is not None and start.cut and job.is_shorter
            written = start.limit_min if start and has_less else job.own_min
            yield job.limit(written or 0)

    def _is_cut(self, job: SoftJob) -> bool:
        start = self._starts.get((job.job_id, job.task))
        if start is None or not start.cut or not job.is_shorter:
            return False
        limit = job.limit(start.limit_min or 0)
        return self._updates.may_change(limit) and self._updates.may_change(job.least)

    def _due(self, run: Run, due: Collection[_Key]) -> list[WrittenField]:
        """Fields to change, as Slurm has them now; all tasks of an array that waits."""
        arrays = {job_id for job_id, task in due if shared(task)}
        fields = []
        for job in soft_jobs(run):
            start = self._starts.get((job.job_id, job.task))
            if job.waits and (job.job_id in arrays or (job.job_id, job.task) in due):
                fields.append(job.least)
            elif start is not None and start.cut and (job.job_id, job.task) in due:
                fields.append(job.limit(start.limit_min or 0))
        return fields


def _of_view(raw: RawJob) -> SoftJob | None:
    note = _soft_note(raw.admin_comment)
    job_id = raw.array_id if raw.tasks else raw.job_id
    if note is None or note.soft_min is None or note.own_min is None or job_id is None:
        return None
    return SoftJob(
        job_id=job_id,
        task=raw.tasks,
        user=raw.user,
        partition=",".join(raw.partitions),
        waits=raw.state in WAITS,
        least_min=round((raw.least_s or 0.0) / 60),
        limit_min=None if raw.limit_s is None else round(raw.limit_s / 60),
        soft_min=note.soft_min,
        own_min=note.own_min,
    )


def _may_be_cut(job: SoftJob, conf: SlurmConf) -> bool:
    """Whether backfill may have cut it: before 25.05.3 to the least limit, then to more."""
    exact = job.limit_min == job.soft_min
    return job.is_shorter and (exact or conf.keeps_limit)


class _Reservations:
    """Reservations that begin later than now."""

    def __init__(self, state: RawState, now_s: float) -> None:
        self._now_s = now_s
        self._partitions = reserved_from(state, now_s)
        without_nodes = (one.start_s for one in state.reservations if not one.node_names)
        self._licences_s = min((s for s in without_nodes if s > now_s), default=inf)

    def may_meet(self, job: RawJob, limit_s: float) -> bool:
        """Whether one begins before the limit of a job would end that starts until the next look.

        One counts that has a node of a partition that the job may start in.
        """
        if job.reservation:  # such jobs get no limit to plan with
            return True
        start_s = min((self._partitions.get(name, inf) for name in job.partitions), default=inf)
        if job.licences:
            start_s = min(start_s, self._licences_s)
        return start_s < inf and start_s < self._now_s + _AHEAD_S + limit_s


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """First job of a queue, as far back as it asks for what it asks for now."""

    job_id: int | None
    request: tuple[object, ...]
    earliest_s: float  #: start that was planned for it
    nodes: frozenset[str]  #: that were planned for it at any time


class QueueHeads:
    """Watches the first job of each partition's queue, which limits to plan with must not delay.

    Where one puts it off by more than its own run time, none is set for a day: another user's job
    that outlasted its plan still has a node that was planned for the first of the queue.  What else
    moves a start, such as what the first job's own user does to it, says nothing of such limits.
    """

    def __init__(self) -> None:
        self._heads: dict[str, _Head] = {}
        self._until: dict[str, float] = {}

    def look(self, jobs: Sequence[RawJob], now_s: float) -> frozenset[str]:
        """Look at the jobs of a view; give the partitions that rest."""
        softly: set[str] = set()
        beyond = []
        for job in jobs:
            soft = _of_view(job)
            if soft is None:
                continue
            softly.update(job.partitions)
            if not soft.waits and now_s > job.start_s + 60.0 * soft.soft_min:
                beyond.append(job)
        firsts: dict[str, RawJob] = {}
        for job in jobs:
            if job.state in WAITS and waits_for_nodes(job.reason):
                for name in softly.intersection(job.partitions):
                    firsts[name] = max(firsts.get(name, job), job, key=_rank)
        heads = self._heads
        self._heads = {}
        for name, job in firsts.items():
            head = self._heads[name] = _followed(heads.get(name), job)
            if not _put_off(head, job, beyond, now_s):
                continue
            if self._until.get(name, 0.0) <= now_s:
                _log.warning("%s: job %s starts later: no limits to plan with", name, job.job_id)
            self._until[name] = now_s + DAY_S
        return frozenset(name for name, until_s in self._until.items() if now_s < until_s)


def _followed(head: _Head | None, job: RawJob) -> _Head:
    """First job of a queue with what is planned for it now."""
    request = (
        *(job.user, job.nodes, job.partitions, job.qos, job.features, job.limit_s, job.least_s),
        *(sorted(job.tres.items()), sorted(job.licences.items()), job.reservation, job.alone),
    )
    earliest_s, nodes = job.start_s, frozenset(job.planned_names)
    if head is not None and (head.job_id, head.request) == (job.job_id, request):
        earliest_s, nodes = min(earliest_s, head.earliest_s), nodes | head.nodes
    return _Head(job_id=job.job_id, request=request, earliest_s=earliest_s, nodes=nodes)


def _put_off(head: _Head, job: RawJob, beyond: Iterable[RawJob], now_s: float) -> bool:
    """Whether a job starts later than planned, by more than its run time and by others' plans.

    beyond: running jobs that have outlasted their plans.  Slurm plans with half of what is left to
        each (25.05.4 and later), so none puts a start off beyond that.
    """
    # Its run time as it was predicted, or else its limit.
    note = parse(job.admin_comment)
    own_time_s = float(note.time_s) if note else job.limit_s or inf
    ends_s = [
        (now_s + other.end_s) / 2
        for other in beyond
        if other.user != job.user and not head.nodes.isdisjoint(other.node_names)
    ]
    start_s = min(job.start_s, max(ends_s, default=-inf))
    return job.start_s < inf and start_s > head.earliest_s + own_time_s


def _rank(job: RawJob) -> tuple[int, float]:
    return job.priority, -job.submit_s
