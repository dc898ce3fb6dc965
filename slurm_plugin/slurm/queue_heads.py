"""Watches that limits to plan with do not delay the first job of a queue."""

import logging
from collections.abc import Iterable, Sequence
from math import inf

import msgspec

from sacct_ingest.text.admin_comment import parse
from slurm_plugin.slurm.cluster_state import RawJob
from slurm_plugin.slurm.snapshot import DAY_S
from slurm_plugin.slurm.soft_limits import of_view
from slurm_plugin.slurm.startable import WAITS, waits_for_nodes

_log = logging.getLogger(__name__)


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
            soft = of_view(job)
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
    earliest_s = job.start_s
    nodes = frozenset(job.planned_names)
    if head is not None and (head.job_id, head.request) == (job.job_id, request):
        earliest_s = min(earliest_s, head.earliest_s)
        nodes = nodes | head.nodes
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
