"""Takes limits to plan with back where they may do harm.

What they are stands in :mod:`slurm_plugin.slurm.soft_limits`.
"""

import logging
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from math import inf

import msgspec

from sacct_ingest.errors import SlurmError
from slurm_plugin.slurm.cluster_state import RawJob, RawState
from slurm_plugin.slurm.operator_updates import ClosedFields, OperatorUpdates, WrittenField, shared
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.slurm.snapshot import reserved_from
from slurm_plugin.slurm.soft_limits import SoftJob, of_view, soft_jobs
from slurm_plugin.slurm.sources import Run

_log = logging.getLogger(__name__)
#: What waits has none of it at the latest so long before a reservation could be met, seconds: a
#: look takes its time, and so does the next.
_AHEAD_S = 60.0
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
        jobs = [(raw, job) for raw in state.jobs if (job := of_view(raw))]
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
        waiting = self._waiting
        starts = self._starts
        self._waiting = {}
        self._starts = {}
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
