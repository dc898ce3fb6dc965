"""EASY backfilling on whole nodes, event by event.

The first job that waits has a reservation: the earliest moment at which, by the limits of the
running jobs, enough nodes are free.  Others may pass it if they do not delay it (Lifka, *The
ANL/IBM SP Scheduling System*, 1995).  With :attr:`Order.SHORTEST` those that may pass are tried
shortest limit first (SJBF: Tsafrir, Etsion, Feitelson, *Backfilling Using System-Generated
Predictions Rather Than User Runtime Estimates*, 2007).
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from predictor.checks import need_finite, need_nodes

#: More nodes than any cluster has: stands where a job was that has started.
_GONE = int(np.iinfo(np.int64).max)
_ROOM = 64


class Queue:
    """Waiting jobs with their nodes and time limits, searched as arrays.

    A place is an index into the arrays; it holds until the next :meth:`append`.
    """

    def __init__(self) -> None:
        self._jobs = np.empty(_ROOM, np.int64)
        self._nodes = np.empty(_ROOM, np.int64)
        self._limits = np.empty(_ROOM, np.float64)
        self._first = self._end = self._count = 0
        # As many jobs are before a place as were looked for last.
        self._before_place = 0
        self._before = 0

    def __len__(self) -> int:
        return self._count

    @property
    def first_nodes(self) -> int:
        """Nodes that the first job wants."""
        return int(self._nodes[self._first])

    @property
    def first_limit_s(self) -> float:
        """Time limit of the first job."""
        return float(self._limits[self._first])

    def jobs(self) -> list[int]:
        """Numbers of the jobs, first come first."""
        there = slice(self._first, self._end)
        jobs: list[int] = self._jobs[there][self._nodes[there] != _GONE].tolist()
        return jobs

    def append(self, job: int, nodes: int, limit_s: float) -> None:
        """Put a job at the end."""
        if self._end == len(self._jobs):
            # Close the gaps; twice the room where that gives less than half.
            there = np.flatnonzero(self._nodes[self._first : self._end] != _GONE) + self._first
            room = len(self._jobs) * (2 if 2 * len(there) > len(self._jobs) else 1)
            for name in ("_jobs", "_nodes", "_limits"):
                old = getattr(self, name)
                new = np.empty(room, old.dtype)
                new[: len(there)] = old[there]
                setattr(self, name, new)
            self._first = 0
            self._end = len(there)
            self._before_place = self._before = 0
        place = self._end
        self._jobs[place], self._nodes[place], self._limits[place] = job, nodes, limit_s
        self._end += 1
        self._count += 1

    def pop(self) -> int:
        """Take the first job off."""
        return self.take(self._first)

    def take(self, place: int) -> int:
        """Take the job at a place off."""
        if place < self._before_place:
            self._before -= 1
        self._nodes[place] = _GONE
        self._count -= 1
        while self._first < self._end and self._nodes[self._first] == _GONE:
            self._first += 1
        return int(self._jobs[place])

    def request_at(self, place: int) -> tuple[int, float]:
        """Nodes and time limit of the job at a place."""
        return int(self._nodes[place]), float(self._limits[place])

    def fitting(
        self, free: int, spare_s: float, extra: int, *, since: int, depth: int, shortest: bool
    ) -> list[int]:
        """Places of jobs that fit into ``free`` nodes, for ``spare_s`` or on ``extra`` of them.

        ``since`` jobs at the front are not looked at, nor those behind the first ``depth``;
        ``shortest`` puts short limits first.
        """
        # Jobs that were not yet tried stand at the end, without gaps.
        begin = self._first + 1 if since <= 1 else self._end - (self._count - since)
        end = self._end if depth >= self._count else self._place_behind(depth)
        nodes = self._nodes[begin:end]
        limits = self._limits[begin:end]
        candidates = np.flatnonzero((nodes <= free) & ((limits <= spare_s) | (nodes <= extra)))
        if shortest:
            candidates = candidates[np.argsort(limits[candidates], kind="stable")]
        places: list[int] = (candidates + begin).tolist()
        return places

    def _place_behind(self, number: int) -> int:
        """First place with so many jobs before it; there are more in the queue."""
        if self._before > number:
            self._before_place = self._before = 0
        begin = max(self._before_place, self._first)
        while self._before < number:
            end = begin + number - self._before
            self._before += int((self._nodes[begin:end] != _GONE).sum())
            begin = end
        self._before_place = begin
        return begin


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
#: Nodes that are closed: from when, until when, how many.
Closing = tuple[float, float, int]


class Wait(NamedTuple):
    """What a job waits for: the end of another one, or its start."""

    job: int
    starts: bool = False


class Order(StrEnum):
    """In which order jobs may pass the one that waits longest."""

    SUBMITTED = "submitted"
    SHORTEST = "shortest"


class JobShape(NamedTuple):
    """What a job is run as: its nodes, the limit that the scheduler plans with, its run time.

    A job that reaches its limit is ended there; with a longer ``end_limit_s`` it is ended at that,
    and once it outlasts its plan it is planned with half of what is left
    (``time_min_as_soft_limit`` in Slurm 25.05.4 and later).  A named tuple, as a minute's run
    forward of a large cluster makes a hundred thousand.
    """

    nodes: int
    limit_s: float
    run_s: float
    end_limit_s: float = 0.0

    @property
    def held_s(self) -> float:
        """Limit at which the job is ended."""
        return max(self.limit_s, self.end_limit_s)


@dataclass(frozen=True, slots=True)
class ReplaySchedule:
    """When each job ran and on how many nodes; arrays of shape ``(jobs,)``."""

    start_s: Floats
    end_s: Floats
    nodes: Ints


_NO_WAITS: Mapping[int, Collection[Wait]] = {}


class Engine:
    """A cluster of equal nodes of which jobs get whole ones.

    nodes: nodes of the cluster.
    order: who may pass the first in the queue.
    closings: reservations: from when, until when, how many nodes.  No job whose limit reaches into
        one gets its nodes.
    depth: jobs of the queue that may start at a moment, from the first on.
    moments: more of them at which the queue is looked at.
    Raises ValueError: a number of nodes is none, or a closing has no time.
    free: nodes free now.

    Three jobs on four nodes; the third fits beside the first until the second can start:

    >>> shapes = [JobShape(3, 10, 10), JobShape(4, 5, 5), JobShape(1, 8, 8)]
    >>> Engine(4).run([0.0, 1.0, 2.0], lambda job, now_s: shapes[job]).start_s.tolist()
    [0.0, 10.0, 2.0]
    """

    def __init__(
        self,
        nodes: int,
        order: Order = Order.SUBMITTED,
        closings: Sequence[Closing] = (),
        depth: int = _GONE,
        moments: Sequence[float] = (),
    ) -> None:
        need_nodes((nodes,))
        for start_s, end_s, closed in closings:
            need_finite("begin and end of a closing", start_s, end_s)
            need_nodes((closed,))
        self.nodes = self.free = nodes
        self._closings = closings
        self._depth = depth
        self._openings = sorted((*(end_s for _, end_s, _ in closings), *moments), reverse=True)
        self._shortest = order is Order.SHORTEST
        self._queue = Queue()
        #: Of each job how many others it waits for, and who waits for each start and end.
        self._awaits: dict[int, int] = {}
        self._behind: dict[Wait, list[int]] = defaultdict(list)
        self._begun: list[int] = []  #: jobs whose start others have not been told yet
        self._shapes: list[JobShape] = []
        self._starts: list[float] = []
        self._ends: list[float] = []
        self._plans: list[float] = []  #: ends that jobs are planned with
        #: What runs, by the end that it is planned with: its limit.
        self._planned: list[tuple[float, int]] = []
        #: The same, by the end that it will have.
        self._coming: list[tuple[float, int]] = []

    def run(
        self,
        submit_s: Sequence[float],
        shape_of: Callable[[int, float], JobShape],
        *,
        running: int = 0,
        waits: Mapping[int, Collection[Wait]] = _NO_WAITS,
        done: Callable[[float], bool] = lambda _: False,
    ) -> ReplaySchedule:
        """Submit jobs, run them all, and return the schedule.

        submit_s: times of submission in seconds, rising, of length ``jobs``.
        shape_of: gives the shape of a job when it is submitted, by its number and the time; it may
            look at the engine's state.
        running: so many of the first jobs run already: they start when they are submitted, also
            where their limits reach into a closing.
        waits: jobs that come into the queue only when others have ended or started, by number.
        done: is asked after each moment at which something changed; true ends the run there.  Jobs
            that have not started by then start at infinity.
        Raises ValueError: a job wants more nodes than there are, or has no limit or run time; times
            of submission do not rise.
        """
        times = np.asarray(submit_s, dtype=float)
        if not np.isfinite(times).all() or (np.diff(times) < 0).any():
            raise ValueError("times of submission must be finite numbers that do not fall")
        count = len(submit_s)
        job = 0
        for number, others in waits.items():
            self._awaits[number] = len(others)
            for one in others:
                self._behind[one].append(number)
        while job < count or self._coming or self._openings:
            now = min(
                submit_s[job] if job < count else inf,
                self._coming[0][0] if self._coming else inf,
                self._openings[-1] if self._openings else inf,
            )
            before = len(self._openings)
            while self._openings and self._openings[-1] <= now:
                self._openings.pop()
            queued_before = len(self._queue)
            freed = (len(self._openings) < before) | self._finish(now)
            while job < count and submit_s[job] <= now:
                self._submit(shape_of(job, now))
                fits = len(self._queue) == 1 and self._queue.first_nodes <= self.free
                if job < running and fits:
                    self._start(self._queue.pop(), now)
                job += 1
            self._schedule(now, since=0 if freed else queued_before)
            while self._tell_begun():
                self._schedule(now, since=0)
            if done(now):
                break
        return ReplaySchedule(
            np.array(self._starts), np.array(self._ends), np.array([s.nodes for s in self._shapes])
        )

    @property
    def waiting(self) -> list[JobShape]:
        """Jobs in the queue, the first to come first."""
        return [self._shapes[job] for job in self._queue.jobs()]

    @property
    def waiting_jobs(self) -> list[int]:
        """Numbers of the jobs in the queue, the first to come first."""
        return self._queue.jobs()

    @property
    def running_jobs(self) -> list[tuple[int, float]]:
        """Numbers and start times of the jobs that run, those with the earliest limit first."""
        return [(job, self._starts[job]) for _, job in self._planned]

    def has_started(self, job: int) -> bool:
        """Whether a job, by its number, has started by now."""
        return job < len(self._starts) and self._starts[job] < inf

    def is_satisfied(self, wait: Wait, now_s: float) -> bool:
        """Whether a job has started, or has ended, by now."""
        moments = self._starts if wait.starts else self._ends
        return wait.job < len(moments) and moments[wait.job] <= now_s

    def releases(self) -> list[tuple[float, int]]:
        """When nodes become free by the limits of what runs, and how many; in order of time."""
        return [(end_s, self._shapes[job].nodes) for end_s, job in self._planned]

    def most_at_once(self, now_s: float, limits_s: Sequence[float]) -> list[int]:
        """Find how many nodes one more job could have at this moment, behind all that wait.

        now_s: the moment that was scheduled last.
        limits_s: time limits of the job; there is an answer for each.
        """
        if not self._queue:
            return [self._open_nodes(now_s, limit_s) for limit_s in limits_s]
        if not self.free or len(self._queue) >= self._depth:
            return [0] * len(limits_s)
        shadow_s, extra = self._reserve(now_s)
        return [
            min(
                self._open_nodes(now_s, limit_s),
                self.nodes if now_s + limit_s <= shadow_s else max(extra, 0),
            )
            for limit_s in limits_s
        ]

    def _open_nodes(self, now_s: float, limit_s: float) -> int:
        """Nodes free now that no closing needs before a job with this limit has ended."""
        if not self._openings:
            return self.free
        return self.free - self._closed(now_s, now_s + limit_s)

    def _closed(self, from_s: float, until_s: float) -> int:
        return sum(
            nodes
            for start_s, end_s, nodes in self._closings
            if start_s < until_s and end_s > from_s
        )

    def _submit(self, shape: JobShape) -> None:
        job = len(self._shapes)
        if not 0 < shape.nodes <= self.nodes:
            raise ValueError(f"job {job} wants {shape.nodes} of {self.nodes} nodes")
        if not (shape.limit_s > 0 and 0 <= shape.run_s < inf):
            raise ValueError(
                f"job {job} has a limit of {shape.limit_s} and a run time of {shape.run_s} s: "
                "the limit must be above 0, the run time a finite number of 0 or more"
            )
        self._shapes.append(shape)
        self._starts.append(inf)
        self._ends.append(inf)
        self._plans.append(inf)
        if not self._awaits.get(job):
            self._queue.append(job, shape.nodes, shape.limit_s)

    def _tell_begun(self) -> bool:
        """Let jobs in that waited for the start of others; return whether there are any."""
        before = len(self._queue)
        while self._begun:
            self._satisfy(Wait(self._begun.pop(), starts=True))
        return len(self._queue) > before

    def _satisfy(self, wait: Wait) -> None:
        """Put those into the queue that waited for this last."""
        for job in self._behind.pop(wait, ()):
            self._awaits[job] -= 1
            if not self._awaits[job] and job < len(self._shapes):
                self._queue.append(job, self._shapes[job].nodes, self._shapes[job].limit_s)

    def _finish(self, now_s: float) -> bool:
        """Remove the jobs that have ended; return whether there were any."""
        any_ended = False
        while self._coming and self._coming[0][0] <= now_s:
            _, job = heappop(self._coming)
            shape = self._shapes[job]
            del self._planned[bisect_left(self._planned, (self._plans[job], job))]
            self.free += shape.nodes
            self._satisfy(Wait(job))
            any_ended = True
        return any_ended

    def _schedule(self, now_s: float, *, since: int) -> None:
        """Start the jobs that can start.

        ``since`` jobs of the queue were tried before with no fewer nodes free, and no earlier:
        they cannot start now, unless the first of them could.
        """
        queue = self._queue
        if queue:
            # Plan jobs that outlast their plan with half of what is left of their limit.
            while self._planned and self._planned[0][0] <= now_s:
                _, job = self._planned.pop(0)
                end_s = self._starts[job] + self._shapes[job].held_s
                self._plans[job] = now_s + max((end_s - now_s) / 2, 1.0)
                insort(self._planned, (self._plans[job], job))
        while queue and queue.first_nodes <= self._open_nodes(now_s, queue.first_limit_s):
            self._start(queue.pop(), now_s)
            since = 0
        if self.free and len(queue) > max(since, 1):
            self._pass_first(now_s, max(since, 1))

    def _pass_first(self, now_s: float, since: int) -> None:
        """Start those that do not delay the first in the queue."""
        shadow_s, extra = self._reserve(now_s)
        spare_s = shadow_s - now_s
        places = self._queue.fitting(
            self.free, spare_s, extra, since=since, depth=self._depth, shortest=self._shortest
        )
        for place in places:
            if not self.free:
                break
            nodes, limit_s = self._queue.request_at(place)
            in_time = limit_s <= spare_s
            if nodes <= self._open_nodes(now_s, limit_s) and (in_time or nodes <= extra):
                self._start(self._queue.take(place), now_s)
                extra -= 0 if in_time else nodes

    def _reserve(self, now_s: float) -> tuple[float, int]:
        """When the first in the queue can start by the limits, and how many nodes are left then."""
        nodes = self._queue.first_nodes
        if self._openings:
            return self._reserve_beside(nodes, self._queue.first_limit_s, now_s)
        free = self.free
        start_s = inf
        for end_s, job in self._planned:
            if end_s > start_s:
                break
            free += self._shapes[job].nodes
            if start_s == inf and free >= nodes:
                start_s = end_s
        return start_s, free - nodes

    def _reserve_beside(self, nodes: int, limit_s: float, now_s: float) -> tuple[float, int]:
        """As :meth:`_reserve`, where closings keep nodes."""
        free = self.free
        ends = [(end_s, self._shapes[job].nodes) for end_s, job in self._planned]
        for end_s, freed in sorted([(now_s, 0), *((t, 0) for t in self._openings), *ends]):
            free += freed
            left = free - self._closed(end_s, end_s + limit_s)
            if end_s > now_s and left >= nodes:
                return end_s, left - nodes
        return inf, 0

    def _start(self, job: int, now_s: float) -> None:
        shape = self._shapes[job]
        end_s = now_s + min(shape.run_s, shape.held_s)
        self._starts[job], self._ends[job], self._plans[job] = now_s, end_s, now_s + shape.limit_s
        self.free -= shape.nodes
        insort(self._planned, (self._plans[job], job))
        heappush(self._coming, (end_s, job))
        if self._behind:
            self._begun.append(job)
