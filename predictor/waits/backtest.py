"""Waits of the past: what would have been expected at each submission, and what came.

A refit goes through the newest runs of the store in the order of time.  What ran and what waited
at a submission follows from when each job was submitted, started and ended.  The queue is run
forward from there with what was known by then, as nimod does it now.  So the record of estimates
does not begin empty, and a regression can learn what the queue run forward leaves out.

Priorities and nodes of that time are not stored: jobs wait in the order of submission, and a queue
is as large as the most that was in use at once.

The run time of a job is expected, at each moment of the past, to be the mean of the last two jobs
like it; what such expectations were off by makes a distribution of it.  Like a job are its user's
jobs of the same size and time limit, or else all of the user's (Tsafrir, Etsion, Feitelson,
*Backfilling Using System-Generated Predictions Rather Than User Runtime Estimates*, 2007).

Where jobs of the same size and limit have ended, their own run times are mixed in: the more there
are, the less the errors of all others count.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import accumulate
from math import ceil, log
from statistics import fmean
from typing import NamedTuple

import numpy as np

from predictor.checks import need_finite
from predictor.waits.error_record import WaitClass, class_of
from predictor.waits.estimate import SHARES
from predictor.waits.features import QueueLoad, Submitter
from predictor.waits.simulation import QueuedJob, QueueState, run_forward
from predictor.waits.workload import FairShares, RecentUse
from sacct_ingest.store.rows import RunRow
from sacct_ingest.text.hostlist import expand

_RECENT = 2_000
#: Jobs of the same size and limit that count, and jobs that the errors of all others stand for.
_ALIKE, _OTHERS = 20, 5.0
#: Errors that a distribution is made of, at least; and how often it is made anew.
_FEWEST, _EVERY = 20, 100
#: Share of the runs after which is asked: what ran before the first of them is not seen.
_UNSEEN = 0.1
#: Jobs that are run forward for all questions together, in each draw: a matter of ten seconds.
MOST_JOBS = 150_000
#: Limit of jobs that have none, seconds.
_FOREVER_S = 365 * 86_400.0
#: Partitions with so much of their nodes in common have one queue.
_SHARED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """What is needed of a job that has run."""

    user: str
    partition: str
    units: int
    limit_s: float
    submit_s: float
    start_s: float
    run_s: float
    account: str = ""
    fair_share: tuple[float, float] = (1.0, 1.0)  #: factors of user and account at submission

    @property
    def end_s(self) -> float:
        """When it ended."""
        return self.start_s + self.run_s


@dataclass(slots=True)
class PastRunTimes:
    """Goes through jobs in the order of time; each is submitted, and later ends."""

    jobs: Sequence[PastJob]
    _last: defaultdict[tuple[object, ...], deque[float]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=2))
    )
    _errors: dict[int, deque[float]] = field(
        default_factory=lambda: {n: deque(maxlen=_RECENT) for n in range(3)}
    )
    _expected: dict[int, tuple[float, int]] = field(default_factory=dict)
    _quantiles: dict[int, tuple[float, ...]] = field(default_factory=dict)
    _alike: defaultdict[tuple[object, ...], deque[float]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=_ALIKE))
    )
    _own: dict[int, tuple[float, ...]] = field(default_factory=dict)
    _made: dict[int, tuple[float, ...]] = field(default_factory=dict)
    _ended: int = 0

    def submit(self, number: int) -> None:
        """Note what is expected of a job, by its place in :attr:`jobs`."""
        job = self.jobs[number]
        self._own[number] = tuple(self._alike.get(_keys(job)[0], ()))
        for level, key in enumerate(_keys(job)):
            if last := self._last.get(key):
                self._expected[number] = min(fmean(last), job.limit_s), level
                return
        self._expected[number] = job.limit_s, 2

    def end(self, number: int) -> None:
        """Learn from a job that has ended."""
        expected_s, level = self._expected[number]
        job = self.jobs[number]
        run_s = max(job.run_s, 1.0)
        self._errors[level].append(log(run_s / max(expected_s, 1.0)))
        for key in _keys(job):
            self._last[key].append(run_s)
        self._alike[_keys(job)[0]].append(log(run_s))
        self._made.pop(number, None)
        self._ended += 1
        if self._ended % _EVERY == 0:
            self._quantiles = {
                n: tuple(np.quantile(errors, SHARES).tolist())
                for n, errors in self._errors.items()
                if len(errors) >= _FEWEST
            }

    def of(self, number: int) -> tuple[float, ...]:
        """Log quantiles of a job's run time; empty: its limit is all there is."""
        if (made := self._made.get(number)) is None:
            expected_s, level = self._expected[number]
            base = log(max(expected_s, 1.0))
            errors = tuple(base + one for one in self._quantiles.get(level, ()))
            made = _mixed(self._own[number], errors) if errors else ()
            if made:
                self._made[number] = made
        return made


def _mixed(own: tuple[float, ...], errors: tuple[float, ...]) -> tuple[float, ...]:
    """Quantiles of own run times and those of all others together; all are logarithms."""
    if not own:
        return errors
    values = np.array([*own, *errors])
    weights = np.array([1.0] * len(own) + [_OTHERS / len(errors)] * len(errors))
    order = np.argsort(values)
    below = np.cumsum(weights[order]) - weights[order] / 2
    quantiles: list[float] = np.interp(SHARES, below / weights.sum(), values[order]).tolist()
    return tuple(quantiles)


def _keys(job: PastJob) -> tuple[tuple[object, ...], ...]:
    return (job.user, job.units, job.limit_s), (job.user,)


class PastWait(NamedTuple):
    """A job that was asked about."""

    asked_s: float
    actual_s: float
    draws_s: tuple[float, ...]
    of: WaitClass
    features: tuple[float, ...]


def past_waits(runs: Iterable[RunRow], *, asks: int) -> list[PastWait]:
    """Ask about some of the jobs of one cluster.

    runs: that have started, in any order.
    asks: jobs that are asked about, at most.
    Returns list: in the order of asking.
    """
    rows = list(runs)
    groups = queue_groups(rows)
    queues: dict[int, list[PastJob]] = defaultdict(list)
    jobs = [past_job(run) for run in rows]
    factors, _ = fair_shares(jobs)
    for run, job, own in zip(rows, jobs, factors, strict=True):
        queues[groups[run.partition]].append(replace(job, fair_share=own))
    asked: list[PastWait] = []
    for jobs in queues.values():
        affordable = min(asks, int(MOST_JOBS / mean_number(jobs))) * len(jobs) / len(rows)
        asked += walk(jobs, step=max(ceil(len(jobs) / max(affordable, 1.0)), 1))
    return sorted(asked, key=lambda one: one.asked_s)


def fair_shares(jobs: Sequence[PastJob]) -> tuple[list[tuple[float, float]], FairShares]:
    """Fair-share factors of users and accounts: of each job at its submission, and at the end.

    What a job used counts once it has ended.
    """
    users = RecentUse()
    accounts = RecentUse()
    ended = sorted(range(len(jobs)), key=lambda number: jobs[number].end_s)
    factors = [(1.0, 1.0)] * len(jobs)
    place = 0
    for number in sorted(range(len(jobs)), key=lambda number: jobs[number].submit_s):
        now_s = jobs[number].submit_s
        while place < len(ended) and jobs[ended[place]].end_s <= now_s:
            _use(users, accounts, jobs[ended[place]])
            place += 1
        job = jobs[number]
        factors[number] = users.factor(job.user, now_s), accounts.factor(job.account, now_s)
    for one in ended[place:]:
        _use(users, accounts, jobs[one])
    last_s = max((job.end_s for job in jobs), default=0.0)
    return factors, FairShares(users=users.factors(last_s), accounts=accounts.factors(last_s))


def _use(users: RecentUse, accounts: RecentUse, job: PastJob) -> None:
    users.add(job.user, job.units * job.run_s, job.end_s)
    accounts.add(job.account, job.units * job.run_s, job.end_s)


def mean_number(jobs: Sequence[PastJob]) -> float:
    """Mean number of jobs that ran or waited at once; one at least.

    That is the time that all spent there over the time that passed (Little's law).
    """
    span_s = max(job.end_s for job in jobs) - min(job.submit_s for job in jobs)
    there_s = sum(job.end_s - job.submit_s for job in jobs)
    return max(there_s / max(span_s, 1.0), 1.0)


def queue_groups(runs: Sequence[RunRow]) -> dict[str, int]:
    """Give each partition the number of its queue; those with the same nodes share one."""
    texts: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        texts[run.partition].add(run.node_list)
    nodes = {partition: node_names(lists) for partition, lists in texts.items()}
    groups: dict[str, int] = {}
    for number, (partition, own) in enumerate(nodes.items()):
        alike = (
            groups[other]
            for other in groups
            if len(own & nodes[other]) > _SHARED * max(min(len(own), len(nodes[other])), 1)
        )
        groups[partition] = next(alike, number)
    return groups


def node_names(lists: Iterable[str]) -> set[str]:
    """Nodes that lists name; what is no list names none."""
    names: set[str] = set()
    for text in lists:
        try:
            names.update(expand(text))
        except ValueError:
            continue
    return names


def past_job(run: RunRow) -> PastJob:
    """Take what is needed of a run; units are CPUs."""
    submit_s = max(run.submit_s, run.eligible_s or 0)
    return PastJob(
        user=run.user,
        partition=run.partition,
        units=max(run.cpus or run.nodes, 1),
        limit_s=float(run.limit_s or _FOREVER_S),
        submit_s=float(submit_s),
        start_s=float(max(run.start_s or submit_s, submit_s)),
        run_s=max(float(run.elapsed_s), 0.0),
        account=run.account,
    )


def most_at_once(jobs: Iterable[PastJob]) -> int:
    """Most units that were in use at one moment."""
    changes = [(one.start_s, one.units) for one in jobs] + [(j.end_s, -j.units) for j in jobs]
    return max(accumulate(units for _, units in sorted(changes)), default=0)


def walk(jobs: Iterable[PastJob], *, step: int = 1) -> Iterator[PastWait]:
    """Go through the jobs of one queue, and ask about each ``step``-th at its submission.

    Yields PastWait: in the order of asking.
    """
    need_finite("step between jobs that are asked about", step, least=1)
    ordered = sorted(jobs, key=lambda job: job.submit_s)
    queue = _PastQueue(ordered)
    for number in range(len(ordered)):
        queue.advance(ordered[number].submit_s)
        queue.times.submit(number)
        if number % step == 0 and number >= _UNSEEN * len(ordered):
            yield queue.ask(number)
        queue.add(number)


class _PastQueue:
    """What runs and waits, moment by moment."""

    def __init__(self, jobs: Sequence[PastJob]) -> None:
        self._jobs = jobs
        self._units = max(most_at_once(jobs), max((job.units for job in jobs), default=1))
        self.times = PastRunTimes(jobs)
        self._there: dict[int, None] = {}
        self._ends: list[tuple[float, int]] = []
        self._applications: dict[tuple[str, int], int] = {}

    def advance(self, now_s: float) -> None:
        """Let the jobs end that have ended by now."""
        while self._ends and self._ends[0][0] <= now_s:
            _, number = heappop(self._ends)
            self.times.end(number)
            del self._there[number]

    def add(self, number: int) -> None:
        """Put a job there."""
        self._there[number] = None
        heappush(self._ends, (self._jobs[number].end_s, number))

    def ask(self, number: int) -> PastWait:
        """Run the queue forward for a job that is submitted now."""
        job = self._jobs[number]
        now_s = job.submit_s
        state = QueueState(
            units=self._units,
            running=[self._queued(n, now_s) for n in self._there if self._jobs[n].start_s <= now_s],
            waiting=[self._queued(n, now_s) for n in self._there if self._jobs[n].start_s > now_s],
        )
        forward = run_forward(state, seed=number, only=(job.units, job.limit_s))
        draws = forward.grid.draws_s[0][0]
        share = job.units / self._units
        (features,) = QueueLoad.of(state, forward.front).rows(
            [draws],
            [share],
            [job.limit_s],
            -1,
            now_s,
            [Submitter(job.user, job.account, *job.fair_share)],
        )
        of = class_of(
            draws[len(draws) // 2],
            partition=job.partition,
            share=share,
            at_s=now_s,
            waiting=len(state.waiting),
        )
        return PastWait(now_s, job.start_s - now_s, draws, of, tuple(features.tolist()))

    def _queued(self, number: int, now_s: float) -> QueuedJob:
        job = self._jobs[number]
        return QueuedJob(
            units=job.units,
            limit_s=job.limit_s,
            log_run_s=self.times.of(number),
            application=self._applications.setdefault(
                (job.user, job.units), len(self._applications) + 1
            ),
            ran_s=max(now_s - job.start_s, 0.0),
            owner=job.user,
            account=job.account,
        )
