"""When jobs in the queue start, as the last outlook has it: looked up, never worked out."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from math import inf
from typing import NamedTuple

import msgspec

from predictor.types import Prediction
from predictor.waits.error_record import WaitClass, WaitError, WaitRecord, error_of
from predictor.waits.estimate import WaitEstimate
from sacct_ingest.text.hostlist import place_of_index
from slurm_plugin.protocol.request_messages import Selection
from slurm_plugin.protocol.status_messages import WaitRow
from slurm_plugin.slurm.cluster_state import RawJob
from slurm_plugin.slurm.outlook import PartitionOutlook, class_for
from slurm_plugin.slurm.pending_job import condition_text, depends_on
from slurm_plugin.slurm.startable import WAITS, waits_for_its_turn

#: Jobs whose start is awaited, at most.
_MOST = 5_000


class ExpectedWait(msgspec.Struct, frozen=True):
    """What was expected of a job at its submission."""

    submit_s: float
    draws_s: tuple[float, ...]
    of: WaitClass
    estimate: WaitEstimate


class AwaitedStarts:
    """Remembers what was expected of new jobs until they start; of an array its first start counts.

    What was in the queue at the first look is not compared: nothing was expected of it then.
    """

    def __init__(self) -> None:
        self._shown: frozenset[int] = frozenset()
        self._awaited: dict[int, ExpectedWait] = {}

    def compare(
        self, jobs: Iterable[RawJob], expected: Callable[[RawJob], ExpectedWait | None]
    ) -> list[WaitError]:
        """Note what is expected of new jobs; return by how much it was off where they started.

        jobs: all that wait or run.
        expected: says what is expected of a new one; None: nothing.
        """
        members: defaultdict[int, list[RawJob]] = defaultdict(list)
        for job in jobs:
            if job.job_id is not None:
                members[job.array_id or job.job_id].append(job)
        # The others ended between two looks, or were cancelled.
        self._awaited = {n: one for n, one in self._awaited.items() if n in members}
        for number in members.keys() - self._shown - self._awaited.keys():
            asked = expected(min(members[number], key=lambda job: job.state in WAITS))
            if asked is not None and len(self._awaited) < _MOST:
                self._awaited[number] = asked
        self._shown = frozenset(members)
        # Where none has started yet, they all wait.
        began = {
            n: [job.start_s for job in members[n] if job.state not in WAITS] for n in self._awaited
        }
        started = [(self._awaited.pop(n), min(starts)) for n, starts in began.items() if starts]
        return [_error(asked, start_s) for asked, start_s in started if start_s < inf]


def _error(asked: ExpectedWait, start_s: float) -> WaitError:
    actual_s = max(start_s - asked.submit_s, 0.0)
    return error_of(
        asked.draws_s, asked.of, at_s=asked.submit_s, actual_s=actual_s, estimate=asked.estimate
    )


class TaskStarts(NamedTuple):
    """Draws of the starts of an array's tasks that wait, in their order."""

    partition: str
    waiting: int
    share: float  #: of the partition that each takes
    draws_s: tuple[tuple[float, ...], ...]
    begin_s: float = 0.0  #: none starts earlier, seconds from the outlook on


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedStarts:
    """Jobs in the queue and the outlook for them, at one look."""

    made_s: float = 0.0  #: when the queue was run forward, seconds since the epoch; 0: not yet
    looked_s: float = 0.0  #: when Slurm was asked last
    pending: Mapping[int, RawJob] = field(default_factory=dict)  #: jobs that wait, by id
    #: expected waits of the first of them, and of arrays' tasks, from the outlook on
    starts: Mapping[int, WaitEstimate] = field(default_factory=dict)
    tasks: Mapping[int, TaskStarts] = field(default_factory=dict)
    latest: Mapping[str, PartitionOutlook] = field(default_factory=dict)
    alone: Mapping[str, bool] = field(default_factory=dict)  #: partitions that give whole nodes
    record: WaitRecord = field(default_factory=WaitRecord)
    limit_shares: tuple[float, ...] = ()  #: of their limits, that the site's jobs used

    def queued(
        self,
        job_ids: Sequence[int],
        tasks: Sequence[int] = (),
        *,
        user: str | None,
        own: str,
        selection: Selection = Selection(),  # noqa: B008 - never changed
        check: Callable[[], None] = lambda: None,
        guess: Callable[[RawJob], Prediction | None] = lambda _: None,
    ) -> Iterator[WaitRow]:
        """When jobs in the queue are expected to start.

        job_ids: ids of jobs and arrays; none: all that ``selection`` names, or of ``own``.
        tasks: index of a task of each of them; below zero, or missing: all that it has.
        user: whose jobs may be shown; None: everybody's.
        own: name of the user who asks.
        selection: only jobs of its user, and in its partition; empty: they say nothing.
        check: called before each job; may raise.
        guess: gives how long a job takes whose command never ran; None: there is no guess.
        """
        of = selection.user
        partition = selection.partition
        if job_ids:
            asked = self._asked(
                dict.fromkeys(zip_longest(job_ids, tasks[: len(job_ids)], fillvalue=-1))
            )
        else:
            whose = of or ("" if partition else own)
            asked = ((job, -1) for job in self.pending.values() if whose in ("", job.user))
        for job, task in asked:
            check()
            shown = (user is None or job.user == user) and of in ("", job.user)
            if shown and (not partition or partition in job.partitions):
                row = self._row(job, task)
                if row is not None:
                    if time := guess(job):
                        row.guess_s = time.time_s
                        row.guess_low_s = time.low_s
                        row.guess_high_s = time.high_s
                    yield row

    def _asked(self, numbers: Iterable[tuple[int, int]]) -> Iterator[tuple[RawJob, int]]:
        """Give the records that may have these tasks; of a single task each array has one."""
        arrays: defaultdict[int, dict[int | None, list[RawJob]]] = defaultdict(
            lambda: defaultdict(list)
        )
        wanted = {number for number, _ in numbers}
        for job in self.pending.values():
            if job.tasks and job.array_id in wanted:
                task = int(job.tasks) if job.tasks.isdecimal() else None
                arrays[job.array_id][task].append(job)
        for number, task in numbers:
            if number not in arrays:
                yield from ((job, task) for job in (self.pending.get(number),) if job)
            elif task < 0:
                yield from ((job, task) for jobs in arrays[number].values() for job in jobs)
            else:
                of = arrays[number]
                yield from ((job, task) for job in (*of.get(task, ()), *of.get(None, ())))

    def _row(self, job: RawJob, task: int) -> WaitRow | None:
        """Make the row of a job, of an array, or of one of its tasks; None: it has not this one."""
        place = place_of_index(job.tasks, task) if task >= 0 and job.tasks else None
        if task >= 0 and place is None:
            return None
        wait = self.start_of(job, place or 0)
        last = None
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
            limit_s=job.limit_s,
        )
        if wait is not None and wait.median_s < inf:
            moments = (wait.median_s, *wait.interval_s)
            row.start_s, row.low_s, row.high_s = map(self._moment, moments)
            row.condition = condition_text(depends_on(job.dependency))
        if row.tasks > 1:
            last = self.start_of(job, job.jobs - 1)
        if last is not None and last.median_s < inf:
            row.last_s = self._moment(last.median_s)
        return row

    def _moment(self, wait_s: float) -> float:
        """When so much has passed since the outlook; at the last look the job had not started."""
        return max(self.made_s + wait_s, self.looked_s)

    def start_of(self, job: RawJob, place: int) -> WaitEstimate | None:
        """Estimate the start of a job, or of so many-th of an array's tasks in the queue.

        One behind those that are run forward starts as a new one.
        """
        starts = self.tasks.get(job.job_id or 0)
        if starts is not None and place:
            # Of a long array's tasks some stand for those around them.
            draws = starts.draws_s[place * len(starts.draws_s) // job.jobs]
            of = class_for(
                starts.partition, draws, starts.share, made_s=self.made_s, waiting=starts.waiting
            )
            return self.record.estimate(draws, of).after(starts.begin_s)
        if (own := self.starts.get(job.job_id or 0)) is not None:
            return own
        asked = self.expected(job, at_submission=False) if waits_for_its_turn(job) else None
        return None if asked is None else asked.estimate

    def expected(self, job: RawJob, *, at_submission: bool = True) -> ExpectedWait | None:
        """Look up what the last outlook says of a job, as long as it is newer than that."""
        outlook = next((self.latest[p] for p in job.partitions if p in self.latest), None)
        if outlook is None:
            return None
        if at_submission:
            free = job.state not in WAITS or waits_for_its_turn(job)
            if not outlook.made_s <= job.submit_s < inf or not free:
                return None
        # numpy takes its time to load, and no submission waits for it here.
        from slurm_plugin.wait_forecasts.simulated_queue import size_of  # noqa: PLC0415

        alone = job.alone or self.alone.get(outlook.partition, False)
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
        estimate = self.record.estimate(draws, of).longer(factor)
        return ExpectedWait(job.submit_s, longer, of, estimate)


def _finite(moment_s: float) -> float | None:
    return moment_s if moment_s < inf else None
