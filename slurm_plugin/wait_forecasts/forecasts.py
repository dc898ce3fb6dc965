"""Waits in the partitions of a cluster: worked out in the background, corrected by what came."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from math import inf
from typing import NamedTuple

import msgspec

from predictor.waits.estimate import WaitEstimate
from sacct_ingest.text.hostlist import place_of_index
from slurm_plugin.protocol.status_messages import PartitionWait, QueueOutlook, WaitRow
from slurm_plugin.slurm.cluster_state import Cluster
from slurm_plugin.slurm.outlook import PartitionOutlook, class_for, corrected
from slurm_plugin.slurm.raw_state import RawJob, RawState
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.slurm.snapshot import WAITS, waits_for_nodes
from slurm_plugin.wait_forecasts.awaited_starts import AwaitedStarts, ExpectedWait
from slurm_plugin.wait_forecasts.corrections import WaitCorrections
from slurm_plugin.wait_forecasts.run_times import QueueRunTimes

_log = logging.getLogger(__name__)

#: An outlook may take so much of one core, and is never older than so many seconds.
_SHARE, _LONGEST_S = 0.03, 60.0
_HOUR_S = 3600.0
_SHOW_EVERY_S = 60.0


class _TaskStarts(NamedTuple):
    """Draws of the starts of an array's tasks that wait, in their order."""

    partition: str
    waiting: int
    share: float  #: of the partition that each takes
    draws_s: tuple[tuple[float, ...], ...]


class Outlooks:
    """The outlook of each partition, made anew as the cluster changes.

    run_times: gives what is predicted of jobs in the queue.
    stopwatch: seconds of this thread's processor time.
    corrections: errors of earlier estimates, and the corrections that follow from them.
    starts: expected waits of jobs in the queue, by their ids, from the last outlook on.
    """

    def __init__(
        self, run_times: QueueRunTimes, *, stopwatch: Callable[[], float] = time.thread_time
    ) -> None:
        self._run_times = run_times
        self._stopwatch = stopwatch
        self.corrections = WaitCorrections()
        self.starts: Mapping[int, WaitEstimate] = {}
        self._tasks: Mapping[int, _TaskStarts] = {}
        self._latest: dict[str, PartitionOutlook] = {}
        self._made_s = self._took_s = self._looked_s = 0.0
        self._alone: dict[str, bool] = {}
        self._awaited = AwaitedStarts()
        self._pending: Mapping[int, RawJob] = {}
        self._arrays: Mapping[int, Sequence[RawJob]] = {}
        self._shown_of, self._shown_s = 0.0, -inf
        self._trouble = ""

    def add_wait_forecasts(self, cluster: Cluster, raw: RawState, settings: SlurmConf) -> Cluster:
        """Give the cluster's partitions their outlooks.

        cluster: view of the cluster.
        raw: what it was made of.
        settings: of Slurm's configuration.
        """
        self._looked_s = cluster.taken_s
        try:
            self._compare(raw)
            if cluster.taken_s - self._made_s >= min(self._took_s / _SHARE, _LONGEST_S):
                self._make(cluster, raw, settings)
        except Exception as error:
            # Waits by time limits stand in; a look at the cluster must not fail for it.
            if (trouble := repr(error)) != self._trouble:
                _log.exception("waits cannot be worked out; time limits stand in")
            self._trouble, self._latest = trouble, {}
        parts = {
            name: msgspec.structs.replace(part, outlook=self._latest.get(name))
            for name, part in cluster.partitions.items()
        }
        return msgspec.structs.replace(cluster, partitions=parts)

    @property
    def made_s(self) -> float | None:
        """When the queue was run forward last, seconds since the epoch; None: not yet."""
        return self._made_s or None

    def queued(
        self,
        job_ids: Sequence[int],
        tasks: Sequence[int] = (),
        *,
        user: str | None,
        own: str,
        of: str = "",
        partition: str = "",
    ) -> list[WaitRow]:
        """When jobs in the queue are expected to start.

        job_ids: ids of jobs and arrays; none: all that ``of`` and ``partition`` name, or of
            ``own``.
        tasks: index of a task of each of them; below zero, or missing: all that it has.
        user: whose jobs may be shown; None: everybody's.
        own: name of the user who asks.
        of, partition: only jobs of this user, and in this partition; empty: they say nothing.
        """
        pending, arrays = self._pending, self._arrays
        if not job_ids:
            whose = of or ("" if partition else own)
            asked = [(job, -1) for job in pending.values() if whose in ("", job.user)]
        else:
            numbers = dict.fromkeys(zip_longest(job_ids, tasks[: len(job_ids)], fillvalue=-1))
            alone = {n: (pending[n],) for n, _ in numbers if n in pending}
            asked = [(job, task) for n, task in numbers for job in arrays.get(n, alone.get(n, ()))]
        rows = (
            self._row(job, task)
            for job, task in asked
            if (user is None or job.user == user)
            and of in ("", job.user)
            and (not partition or partition in job.partitions)
        )
        return [row for row in rows if row is not None]

    def _row(self, job: RawJob, task: int) -> WaitRow | None:
        """Make the row of a job, of an array, or of one of its tasks; None: it has not this one."""
        place = place_of_index(job.tasks, task) if task >= 0 and job.tasks else None
        if task >= 0 and place is None:
            return None
        wait, last = self._start_of(job, place or 0), None
        row = WaitRow(
            job_id=job.job_id or 0,
            tasks=job.jobs if task < 0 else 1,
            array_id=job.array_id if job.tasks else None,
            task=int(job.tasks) if job.tasks.isdecimal() else task if task >= 0 else None,
            user=job.user,
            name=job.name,
            partition=",".join(job.partitions),
            nodes=job.nodes,
            reason=job.reason,
            submit_s=_finite(job.submit_s),
            slurm_start_s=_finite(job.start_s),
        )
        if wait is not None and wait.median_s < inf:
            moments = (wait.median_s, *wait.interval_s)
            row.start_s, row.low_s, row.high_s = map(self._moment, moments)
        if row.tasks > 1:
            last = self._start_of(job, job.jobs - 1)
        if last is not None and last.median_s < inf:
            row.last_s = self._moment(last.median_s)
        return row

    def _moment(self, wait_s: float) -> float:
        """When so much has passed since the outlook; at the last look the job had not started."""
        return max(self._made_s + wait_s, self._looked_s)

    def _start_of(self, job: RawJob, place: int) -> WaitEstimate | None:
        """Estimate the start of a job, or of so many-th of an array's tasks in the queue.

        One behind those that are run forward starts as a new one.
        """
        starts = self._tasks.get(job.job_id or 0)
        if starts is not None and place:
            # Of a long array's tasks some stand for those around them.
            draws = starts.draws_s[place * len(starts.draws_s) // job.jobs]
            of = class_for(
                starts.partition,
                draws,
                starts.share,
                made_s=self._made_s,
                waiting=starts.waiting,
            )
            return self.corrections.record.estimate(draws, of)
        if (own := self.starts.get(job.job_id or 0)) is not None:
            return own
        asked = self._expected(job, at_submission=False) if waits_for_nodes(job.reason) else None
        return None if asked is None else asked.estimate

    def forget(self) -> None:
        """Run the queue forward at the next look, however new the outlook is."""
        self._made_s = 0.0

    def remember(self, payload: str) -> None:
        """Take what a refit found of the cluster's past."""
        self.corrections.remember(payload)
        self._run_times.remember(self.corrections.past.shares)

    def outlook(self, *, now_s: float) -> str | None:
        """Give the outlook for the pages where there is a new one; at most once a minute."""
        if self._made_s == self._shown_of or now_s - self._shown_s < _SHOW_EVERY_S:
            return None
        self._shown_of, self._shown_s = self._made_s, now_s
        made = QueueOutlook(
            made_s=self._made_s,
            recorded=len(self.corrections.record),
            inside=self.corrections.record.inside(),
            partitions=self.partition_waits(every=True),
        )
        return msgspec.json.encode(made).decode()

    def partition_waits(self, *, every: bool = False) -> list[PartitionWait]:
        """List what new jobs have to expect: on one node, and on a quarter of all, for an hour.

        With ``every`` on each power of two, and on all nodes.
        """
        rows = []
        for name, one in self._latest.items():
            most = one.units.nodes
            sizes = {1 << power for power in range(most.bit_length())} | {most}
            for nodes in sorted(sizes if every else {1, max(most // 4, 1)}):
                wait = one.wait(nodes, _HOUR_S)
                if wait is not None:
                    low_s, high_s = wait.interval_s
                    rows.append(
                        PartitionWait(
                            partition=name,
                            waiting=one.waiting,
                            nodes=nodes,
                            limit_s=_HOUR_S,
                            wait_s=wait.median_s,
                            low_s=low_s,
                            high_s=high_s,
                        )
                    )
        return rows

    def _make(self, cluster: Cluster, raw: RawState, settings: SlurmConf) -> None:
        # numpy takes its time to load, and no answer waits for it here.
        from predictor.waits.correction import corrected_forward  # noqa: PLC0415
        from predictor.waits.simulation import run_forward  # noqa: PLC0415
        from slurm_plugin.wait_forecasts.queue_view import queues  # noqa: PLC0415

        began = self._stopwatch()
        latest: dict[str, PartitionOutlook] = {}
        starts: dict[int, WaitEstimate] = {}
        tasks: dict[int, _TaskStarts] = {}
        self._alone = {one.name: one.exclusive or settings.whole_nodes for one in raw.partitions}
        correction = self.corrections.regression()
        for queue in queues(
            raw,
            self._run_times,
            now_s=cluster.taken_s,
            whole_nodes=settings.whole_nodes,
            counts_memory=settings.counts_memory,
            arrivals=self.corrections.past.arrivals,
        ):
            forward = run_forward(queue.state, seed=int(cluster.taken_s))
            if correction is not None:
                forward = corrected_forward(
                    correction,
                    queue.state,
                    forward,
                    at_s=cluster.taken_s,
                    fair_shares=self.corrections.past.fair_shares,
                )
            for name in queue.partitions:
                made = corrected(
                    name,
                    forward.grid,
                    queue.units,
                    self.corrections.record,
                    made_s=cluster.taken_s,
                    waiting=queue.waiting,
                    factors=forward.factors,
                )
                latest[name] = msgspec.structs.replace(made, demand=queue.demand)
            name, waiting = queue.partitions[0], queue.waiting
            shares = {job.number: job.units / queue.state.units for job in forward.front}
            for job, draws in forward.starts_s.items():
                # As those of new ones are corrected.
                of = class_for(name, draws, shares[job], made_s=cluster.taken_s, waiting=waiting)
                starts[job] = self.corrections.record.estimate(draws, of)
            for job, each in forward.tasks_s.items():
                tasks[job] = _TaskStarts(name, waiting, shares[job], each)
        self._latest, self.starts, self._made_s = latest, starts, cluster.taken_s
        self._tasks = tasks
        self._took_s, self._trouble = self._stopwatch() - began, ""

    def _compare(self, raw: RawState) -> None:
        """Note what is expected of new jobs, and how near it came of those that started."""
        for error in self._awaited.compare(raw.jobs, self._expected):
            self.corrections.note(error)
        self._pending = {
            job.job_id: job for job in raw.jobs if job.state in WAITS and job.job_id is not None
        }
        arrays: defaultdict[int, list[RawJob]] = defaultdict(list)
        for job in self._pending.values():
            if job.tasks and job.array_id is not None:
                arrays[job.array_id].append(job)
        self._arrays = arrays

    def _expected(self, job: RawJob, *, at_submission: bool = True) -> ExpectedWait | None:
        """Look up what the last outlook says of a job, as long as it is newer than that."""
        outlook = next((self._latest[p] for p in job.partitions if p in self._latest), None)
        if outlook is None:
            return None
        if at_submission:
            free = job.state not in WAITS or waits_for_nodes(job.reason)
            if job.submit_s < outlook.made_s or not free:
                return None
        from slurm_plugin.wait_forecasts.queue_view import size_of  # noqa: PLC0415 - as above

        alone = job.alone or self._alone.get(outlook.partition, False)
        units = size_of(job, job.nodes, outlook.units, alone=alone)
        draws = outlook.grid.draws(units, job.limit_s or inf)
        if draws is None:
            return None
        of = class_for(
            outlook.partition,
            draws,
            units / outlook.units.units,
            made_s=outlook.made_s,
            waiting=outlook.waiting,
        )
        factor = outlook.factors.get(job.user, 1.0)
        longer = WaitEstimate(draws).longer(factor).waits_s
        estimate = self.corrections.record.estimate(draws, of).longer(factor)
        return ExpectedWait(job.submit_s, longer, of, estimate)


def _finite(moment_s: float) -> float | None:
    return moment_s if moment_s < inf else None
