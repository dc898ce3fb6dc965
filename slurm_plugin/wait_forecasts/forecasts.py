"""Waits in the partitions of a cluster: worked out in the background, corrected by what came."""

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import exp, inf, log
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from predictor.job_table import for_limit
from predictor.table import at, covers, verdict_at
from predictor.types import Prediction, Verdict
from predictor.waits import error_record, estimate
from predictor.waits.workload import LimitShares, PastRecord, QueuePast, decode, encode
from sacct_ingest.records import KeyLevel
from sacct_ingest.text.admin_comment import parse
from slurm_plugin.decision.job_keys import identity_in_queue
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.protocol.status_messages import PartitionWait, QueueOutlook, QueueUse
from slurm_plugin.slurm.cluster_state import Cluster, RawJob, RawState
from slurm_plugin.slurm.dependencies import JobTimes, Span, span_by_limit
from slurm_plugin.slurm.outlook import PartitionOutlook, class_for
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.slurm.startable import WAITS
from slurm_plugin.wait_forecasts.queued_starts import AwaitedStarts, QueuedStarts, TaskStarts

if TYPE_CHECKING:
    from predictor.waits.regression import QueueWaitFit
    from predictor.waits.unit_use import UnitUse
    from slurm_plugin.wait_forecasts.simulated_queue import PartitionQueue


#: Level of the interval in a job's admin_comment, which does not say.
_LEVEL = 0.9
#: Kinds of jobs that are remembered from one look to the next.
_MOST = 50_000
#: Chance that a job of which nothing is predicted takes all of its limit.
_WHOLE = 0.15

_RunTime = tuple[tuple[float, ...], int]
_SAVE_EVERY_S = 600.0
#: An outlook may take so much of one core, and is never older than so many seconds.
_SHARE, _LONGEST_S = 0.03, 60.0
#: Limits of the jobs whose waits are said.
LIMITS_S = (3600.0, 4 * 3600.0, 12 * 3600.0, 24 * 3600.0)
_SHOW_EVERY_S = 60.0


class QueueRunTimes:
    """Recognises jobs of squeue and gives what is predicted of them.

    The note in a job's admin_comment goes first, then the prediction tables by its keys, then the
    share of their limits that its user's jobs used, or the site's.  Where all are missing the
    limit is all there is.

    tables: gives the prediction tables of the moment.
    """

    def __init__(self, tables: Callable[[], PredictionLookup]) -> None:
        self._tables = tables
        self._of: PredictionLookup | None = None
        self._recognised: dict[tuple[object, ...], _RunTime] = {}
        self._applications: dict[str, int] = {}
        self._shares = LimitShares()

    def remember(self, shares: LimitShares) -> None:
        """Take the shares of their limits that jobs used in the past."""
        self._shares = shares
        self._of = None

    def __call__(self, job: RawJob) -> _RunTime:
        """Log quantiles of a job's run time, empty where only its limit is found; its application.

        Jobs of one application have the same number; 0 where it is not found.
        """
        tables = self._tables()
        if self._of is not tables or len(self._recognised) > _MOST:
            self._of = tables
            self._recognised = {}
            self._applications = {}
        key = (job.user, job.name, job.comment, job.command, job.size, job.limit_s)
        own = (*key, job.admin_comment) if "NIMO1:" in job.admin_comment else key
        if (run_time := self._recognised.get(own)) is None:
            run_time = self._recognised[own] = self._find(job, tables)
        return run_time

    def _find(self, job: RawJob, tables: PredictionLookup) -> _RunTime:
        note = parse(job.admin_comment)
        # A doubtful note may be a guess; the table of the job's keys says which it is.
        if note is not None and note.nodes == job.size and note.verdict == Verdict.RELIABLE:
            low_s = max(note.low_s, 1)
            high_s = max(note.high_s, 1)
            one = Prediction(job.size, max(note.time_s, 1.0), low_s, high_s, level=_LEVEL)
            return estimate.log_quantiles(one), self._number(f"{job.user}/{job.name}")
        table = tables.find(identity_in_queue(job)) if len(tables) else None
        table = table and for_limit(table, job.limit_s)
        # Run times of whatever the user ran say less than which shares of their limits that took.
        covered = table is not None and table.level != KeyLevel.USER and covers(table, job.size)
        if table and covered and verdict_at(table, job.size) is not Verdict.REFUSED:
            number = self._number(f"{table.level}/{table.key}")
            return estimate.log_quantiles(at(table, job.size)), number
        shares = self._shares.users.get(job.user) or self._shares.site
        if shares and job.limit_s:
            return _of_limit(shares, job.limit_s), self._number(f"user/{job.user}")
        return (), 0

    def _number(self, name: str) -> int:
        return self._applications.setdefault(name, len(self._applications) + 1)


@lru_cache(maxsize=4_096)
def _of_limit(shares: tuple[float, ...], limit_s: float) -> tuple[float, ...]:
    """Log quantiles of a run time of which only the limit is given.

    Some use their whole limit: the application of this one is not recognised.
    """
    limit = log(limit_s)
    count = len(shares)
    others = count - round(_WHOLE * count)
    part = (limit + shares[place * count // others] for place in range(others))
    return (*part, *[limit] * (count - others))


_log = logging.getLogger(__name__)


class WaitCorrections:
    """The record of errors, and the regression on the state of the queue if a refit made one.

    record: errors of the present method of estimation: a refit's of past jobs, then nimod's own.
    past: arrivals, use of limits, fair-share and waits of past jobs, from the last refit.
    """

    def __init__(self) -> None:
        self.record = error_record.WaitRecord()
        self.past = QueuePast()
        self._own: deque[error_record.WaitError] = deque(maxlen=error_record.MOST_ENTRIES)
        self._noted = self._saved = 0
        self._saved_s = -inf
        self._regression: tuple[QueuePast, QueueWaitFit | None] = (self.past, None)

    def remember(self, payload: str) -> None:
        """Take the summary of past jobs that a refit stored."""
        try:
            self.past = decode(payload, QueuePast) if payload else QueuePast()
        except ValueError as error:
            _log.warning("%s", error)
            self.past = QueuePast()
        self._renew()

    def restore(self, payload: str) -> None:
        """Put the errors of earlier nimods, from the store, before those recorded since."""
        if not payload:
            return
        try:
            earlier = decode(payload, list[error_record.WaitError])
        except ValueError as error:
            _log.warning("%s; it begins anew", error)
            return
        self._own = deque([*earlier, *self._own], maxlen=error_record.MOST_ENTRIES)
        self._renew()

    def note(self, error: error_record.WaitError) -> None:
        """Record by how much an estimate was off."""
        noted = msgspec.structs.replace(error, corrected=bool(self.past.waits.correction))
        self._own.append(noted)
        self.record.add(noted)
        self._noted += 1

    def unsaved(self, *, now_s: float) -> str | None:
        """Give the record for the store where it has grown, now and then; None otherwise."""
        if self._noted == self._saved or now_s - self._saved_s < _SAVE_EVERY_S:
            return None
        self._saved = self._noted
        self._saved_s = now_s
        return encode(list(self._own))

    def regression(self) -> "QueueWaitFit | None":
        """Give the refit's regression; None where it was no better than the queue run forward."""
        past = self.past
        if not past.waits.correction:
            return None
        if self._regression[0] is not past:
            # numpy takes its time to load, and no answer waits for it here.
            from predictor.waits.correction import correction_of  # noqa: PLC0415

            try:
                self._regression = past, correction_of(past.waits.correction)
            except ValueError as error:
                _log.warning("%s; waits are not corrected", error)
                self.past = msgspec.structs.replace(past, waits=PastRecord())
                self._regression = self.past, None
                self._renew()
        return self._regression[1]

    def _renew(self) -> None:
        """Make the record anew: the refit's errors, then nimod's own.

        Errors made with a regression do not count without it, nor the other way round.
        """
        corrected = bool(self.past.waits.correction)
        own = [one for one in list(self._own) if one.corrected == corrected]
        first_s = own[0].at_s if own else inf
        earlier = (one for one in self.past.waits.errors if one.at_s < first_s)
        self.record = error_record.WaitRecord([*earlier, *own])


class Outlooks:
    """The outlook of each partition, made anew as the cluster changes.

    run_times: gives what is predicted of jobs in the queue.
    stopwatch: seconds of this thread's processor time.
    corrections: errors of earlier estimates, and the corrections that follow from them.
    """

    def __init__(
        self, run_times: QueueRunTimes, *, stopwatch: Callable[[], float] = time.thread_time
    ) -> None:
        self._run_times = run_times
        self._stopwatch = stopwatch
        self.corrections = WaitCorrections()
        self._queued = QueuedStarts()
        self._uses: list[QueueUse] = []
        self._took_s = 0.0
        self._awaited = AwaitedStarts()
        self._shown_of = 0.0
        self._shown_s = -inf
        self._trouble = ""

    def add_wait_forecasts(self, cluster: Cluster, raw: RawState, settings: SlurmConf) -> Cluster:
        """Give the cluster's partitions their outlooks.

        cluster: view of the cluster.
        raw: what it was made of.
        settings: of Slurm's configuration.
        """
        self._queued = replace(self._queued, looked_s=cluster.taken_s)
        try:
            for error in self._awaited.compare(raw.jobs, self.queued_starts().expected):
                self.corrections.note(error)
            waiting = (job for job in raw.jobs if job.state in WAITS)
            pending = {job.job_id: job for job in waiting if job.job_id is not None}
            self._queued = replace(self._queued, pending=pending)
            if cluster.taken_s - self._queued.made_s >= min(self._took_s / _SHARE, _LONGEST_S):
                self._make(cluster, raw, settings)
        except Exception as error:
            # Waits by time limits stand in; a look at the cluster must not fail for it.
            if (trouble := repr(error)) != self._trouble:
                _log.exception("waits cannot be worked out; time limits stand in")
            self._trouble, self._queued = trouble, replace(self._queued, latest={})
        latest = self._queued.latest
        parts = {
            name: msgspec.structs.replace(part, outlook=latest.get(name))
            for name, part in cluster.partitions.items()
        }
        times = JobTimes(raw.jobs, cluster.taken_s, self._span)
        times.prepare()
        return msgspec.structs.replace(cluster, partitions=parts, awaited=times.awaited)

    def _span(self, job: RawJob, now_s: float) -> Span:
        """Tell when a job starts and ends, by medians of its start and its run time."""
        span = span_by_limit(job, now_s)
        start_s = last_s = span.start_s
        made_s = self._queued.made_s
        if job.state in WAITS and (start := self._queued.starts.get(job.job_id or 0)):
            start_s = max(made_s + start.median_s, now_s)
            last = self.queued_starts().start_of(job, job.jobs - 1)
            last_s = max(made_s + last.median_s, start_s) if last else start_s
        times_s = [exp(log_s) for log_s in self._run_times(job)[0]]
        # Of one that runs, of such as take longer than it did so far.
        longer_s = [time_s for time_s in times_s if start_s + time_s > now_s]
        if start_s == inf:
            return Span(start_s, span.end_s)
        run_s = job.limit_s or inf
        if longer_s:
            run_s = min(median(longer_s), run_s)
        elif span.end_s < inf:
            run_s = span.end_s - span.start_s
        return Span(start_s, last_s + run_s, start_s + run_s)

    @property
    def made_s(self) -> float | None:
        """When the queue was run forward last, seconds since the epoch; None: not yet."""
        return self._queued.made_s or None

    def queued_starts(self) -> QueuedStarts:
        """Give what there is on the jobs in the queue."""
        record = self.corrections.record
        shares = self.corrections.past.shares
        return replace(self._queued, record=record, limit_shares=shares.site)

    def forget(self) -> None:
        """Run the queue forward at the next look, however new the outlook is."""
        self._queued = replace(self._queued, made_s=0.0)

    def remember(self, payload: str) -> None:
        """Take what a refit found of the cluster's past."""
        self.corrections.remember(payload)
        self._run_times.remember(self.corrections.past.shares)

    def outlook(self, *, now_s: float) -> str | None:
        """Give the outlook for the pages where there is a new one; at most once a minute."""
        made_s = self._queued.made_s
        if made_s == self._shown_of or now_s - self._shown_s < _SHOW_EVERY_S:
            return None
        self._shown_of = made_s
        self._shown_s = now_s
        made = QueueOutlook(
            made_s=made_s,
            recorded=len(self.corrections.record),
            inside=self.corrections.record.inside(),
            partitions=self.partition_waits(every=True),
            uses=self._uses,
        )
        return msgspec.json.encode(made).decode()

    def partition_waits(self, *, every: bool = False) -> list[PartitionWait]:
        """List what new jobs have to expect: on one node, and on a quarter of all, for an hour.

        With ``every`` on each power of two, and on all nodes; for each of `LIMITS_S`.
        """
        rows = []
        for name, one in self._queued.latest.items():
            most = one.units.nodes
            sizes = {1 << power for power in range(most.bit_length())} | {most}
            counts = sorted(sizes if every else {1, max(most // 4, 1)})
            for limit_s, nodes in product(LIMITS_S if every else LIMITS_S[:1], counts):
                wait = one.wait(nodes, limit_s)
                if wait is not None:
                    low_s, high_s = wait.interval_s
                    rows.append(
                        PartitionWait(
                            partition=name,
                            waiting=one.waiting,
                            nodes=nodes,
                            limit_s=limit_s,
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
        from slurm_plugin.wait_forecasts.simulated_queue import queues  # noqa: PLC0415

        began = self._stopwatch()
        latest: dict[str, PartitionOutlook] = {}
        starts: dict[int, estimate.WaitEstimate] = {}
        tasks: dict[int, TaskStarts] = {}
        uses: list[QueueUse] = []
        reserved = {job.job_id for job in raw.jobs if job.reserved}
        correction = self.corrections.regression()
        for queue in queues(
            raw,
            self._run_times,
            now_s=cluster.taken_s,
            settings=settings,
            limits=cluster.limits,
            arrivals=self.corrections.past.arrivals,
            span_of=self._span,
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
                made = PartitionOutlook(
                    partition=name,
                    made_s=cluster.taken_s,
                    units=queue.units,
                    waiting=queue.waiting,
                    grid=forward.grid,
                    factors=forward.factors,
                    demand=queue.demand,
                )
                latest[name] = made.corrected(self.corrections.record)
            if forward.use is not None:
                uses.append(_in_nodes(forward.use, queue))
            name = queue.partitions[0]
            waiting = queue.waiting
            shares = {job.number: job.units / queue.state.units for job in forward.front}
            # What came of other waits moves no job before it may start.
            begins_s = {job.number: job.begin_s for job in forward.front}
            for job, draws in forward.starts_s.items():
                if job in reserved:
                    # It waits for the end of a reservation, which does not move.
                    begins_s[job] = max(begins_s[job], min(draws))
                # As those of new ones are corrected.
                of = class_for(name, draws, shares[job], made_s=cluster.taken_s, waiting=waiting)
                starts[job] = self.corrections.record.estimate(draws, of).after(begins_s[job])
            for job, each in forward.tasks_s.items():
                tasks[job] = TaskStarts(name, waiting, shares[job], each, begins_s[job])
        self._queued = replace(
            self._queued,
            made_s=cluster.taken_s,
            starts=starts,
            tasks=tasks,
            latest=latest,
            alone={one.name: one.exclusive or settings.whole_nodes for one in raw.partitions},
        )
        self._uses = uses
        self._took_s = self._stopwatch() - began
        self._trouble = ""


def _in_nodes(use: "UnitUse", queue: "PartitionQueue") -> QueueUse:
    """Count in nodes what is used of a queue's units."""
    units = queue.units

    def nodes(values: tuple[float, ...]) -> list[float]:
        return [round(value * units.nodes / units.units, 1) for value in values]

    return QueueUse(
        partitions=list(queue.partitions),
        nodes=units.nodes,
        step_s=use.step_s,
        running=nodes(use.running),
        waiting=nodes(use.waiting),
        closed=nodes(use.closed),
    )
