"""Jobs of a queue that start only after others, as far as it is known when these end: pure.

Of an array that lets so many tasks run at once each of the others waits for one before it.  So does
each job beyond a limit of jobs at once.
Whether a job before ends well is not predicted; `condition_text` says that it has to.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from math import inf
from typing import NamedTuple

from predictor.waits.probes import Awaited
from sacct_ingest.text.hostlist import indexes_of
from slurm_plugin.slurm.cluster_state import RawJob
from slurm_plugin.slurm.dependencies import JobTimes
from slurm_plugin.slurm.limit_reasons import Scope, job_limit
from slurm_plugin.slurm.pending_job import DependsOn, depends_on
from slurm_plugin.slurm.startable import WAITS

#: Kinds of dependency that end by themselves.
_KINDS = frozenset({"after", "afterany", "aftercorr", "afterok", "singleton"})
_AFTER = "after"
#: Each task of an array waits for the one with its own index.
_EACH = "aftercorr"
#: Tasks of an array that are looked at one by one; Slurm's own most is 4,000,001.
_MOST_TASKS = 10_000
_SINGLETON = "singleton"
#: Reasons of jobs that start once others have ended.
BEHIND = "Dependency"
THROTTLED = "JobArrayTaskLimit"


class Hold(NamedTuple):
    """What holds a job in one queue."""

    awaits: tuple[Awaited, ...] = ()  #: jobs of that queue
    begin_s: float = 0.0  #: when those of other queues end, seconds since the epoch
    #: by the place of a task what it waits for besides
    of_tasks: Mapping[int, Sequence[Awaited]] = {}

    @property
    def of_first(self) -> tuple[Awaited, ...]:
        """What a job waits for there, of an array its first task."""
        return (*self.awaits, *self.of_tasks.get(0, ()))


#: A reason, and what of jobs is the same that its limit counts together.
_Group = tuple[str, str, str]


def is_limited(reason: str) -> bool:
    """Whether a job with this reason starts as others end that a limit counts with it."""
    return reason == THROTTLED or job_limit(reason) is not None


def is_held(job: RawJob) -> bool:
    """Whether a job, or tasks of it, start as others end that it names or that a limit counts."""
    return job.reason == BEHIND or job.at_once is not None or is_limited(job.reason)


def _group_of(job: RawJob, reason: str) -> _Group:
    """Give what a limit of jobs at once counts together, as one job meets it."""
    limit = job_limit(reason)
    assert limit is not None
    owner = job.qos if limit.owner == "QOS" else job.account
    whose = {Scope.USER: job.user, Scope.ACCOUNT: job.account}
    return reason, owner, whose.get(limit.scope, "")


class Before(NamedTuple):
    """A record of squeue that a job waits for."""

    job: RawJob
    starts: bool = False  #: its start is enough
    each: bool = False  #: of its tasks the one with the same index counts


class _Line(NamedTuple):
    """Jobs of which a limit lets so many run: the k-th that waits takes the place of the k-th."""

    running: Sequence[RawJob]  #: as many as the limit lets, the first to end first
    waiting: Sequence[RawJob]  #: by priority; tasks of an array share a record
    places: Sequence[int]  #: how many jobs wait before each of these

    def before(self, number: int) -> tuple[RawJob, int]:
        """Give the job whose end lets the so-many-th start that waits, and its task or -1."""
        if number < len(self.running):
            return self.running[number], -1
        place = number - len(self.running)
        index = bisect_right(self.places, place) - 1
        record = self.waiting[index]
        return record, place - self.places[index] if record.tasks else -1


@dataclass(frozen=True)
class AwaitedJobs:
    """The jobs of one look, and which of them others wait for.

    times: of all that wait or run; they count for jobs of other queues.
    """

    times: JobTimes

    def of(self, job: RawJob) -> list[Before] | None:
        """List the jobs that one waits for.

        None: that does not end by itself, or not all of them are shown.
        """
        depends = depends_on(job.dependency)
        # "?" separates alternatives: which job ends first is unknown.
        if not depends or "?" in job.dependency:
            return None
        found: list[Before] = []
        for one in depends:
            if one.state == "fulfilled":
                continue
            before = self._before(job, one)
            if one.kind not in _KINDS or one.state != "unfulfilled" or one.minutes or not before:
                return None
            each = one.kind == _EACH and not one.task
            found += [Before(row, one.kind == _AFTER, each) for row in before]
        return found

    def hold(self, job: RawJob, there: Collection[int]) -> Hold | None:
        """Tell what holds a job in a queue; None: not known.

        there: ids of the jobs of that queue.
        """
        if job_limit(job.reason) is not None:
            return self._of_limit(job, there)
        of_tasks: defaultdict[int, list[Awaited]] = defaultdict(list)
        for at, awaited in self._of_throttle(job, there):
            of_tasks[at].append(awaited)
        if job.reason == THROTTLED and not of_tasks:
            return None
        if job.reason != BEHIND:
            return Hold(of_tasks=of_tasks)
        return self._of_named(job, there, of_tasks)

    def _of_named(
        self, job: RawJob, there: Collection[int], of_tasks: defaultdict[int, list[Awaited]]
    ) -> Hold | None:
        """Tell what a job waits for that names others; ``of_tasks`` is what its array lets."""
        before = self.of(job)
        if before is None:
            return None
        awaits: list[Awaited] = []
        tasks: dict[int, Awaited] = {}
        begin_s = 0.0
        for one, starts, each in before:
            if one.job_id is None or one.job_id not in there:
                span = self.times.span_of(one, self.times.now_s)
                begin_s = max(begin_s, span.start_s if starts else span.end_s)
            elif each and one.tasks and job.tasks:
                indexes = islice(indexes_of(one.tasks), _MOST_TASKS)
                tasks |= {n: Awaited(one.job_id, task=at) for at, n in enumerate(indexes)}
            else:
                awaits.append(Awaited(one.job_id, starts))
        own = enumerate(islice(indexes_of(job.tasks), _MOST_TASKS)) if tasks else ()
        for at, n in own:
            if n in tasks:
                of_tasks[at].append(tasks[n])
        return Hold(tuple(awaits), begin_s, of_tasks) if begin_s < inf else None

    def _of_throttle(self, job: RawJob, there: Collection[int]) -> Iterator[tuple[int, Awaited]]:
        """Give by its place what each task waits for in an array that lets so many run at once.

        Tasks take the places of those that started first.
        """
        if job.job_id is None or not job.tasks:
            return
        every = self.times.numbered(job.array_id or job.job_id)
        running = [one for one in every if one.state not in WAITS and one.job_id in there]
        running.sort(key=lambda one: one.start_s)
        at_once = job.at_once
        if at_once is None and job.reason == THROTTLED:  # the last task has no "%" in its name
            at_once = len(running)
        if not at_once:
            return
        for at in range(min(job.jobs, _MOST_TASKS)):
            before = len(running) + at - at_once
            if before >= len(running):
                yield at, Awaited(job.job_id, task=before - len(running))
            elif before >= 0:
                yield at, Awaited(running[before].job_id or 0)

    def _of_limit(self, job: RawJob, there: Collection[int]) -> Hold | None:
        """Tell what a job beyond a limit of jobs at once waits for; None: none of them is shown."""
        line = self._lines.get(_group_of(job, job.reason))
        first = self._places.get(job.job_id)
        if line is None or not line.running or first is None:
            return None
        of_tasks: dict[int, list[Awaited]] = {}
        begin_s = 0.0
        for at in range(min(job.jobs, _MOST_TASKS)):
            before, task = line.before(first + at)
            if before.job_id in there:
                of_tasks[at] = [Awaited(before.job_id or 0, task=task)]
            elif at == 0:
                begin_s = self.times.span_of(before, self.times.now_s).end_s
        return Hold(begin_s=begin_s, of_tasks=of_tasks) if begin_s < inf else None

    @cached_property
    def _lines(self) -> Mapping[_Group, _Line]:
        """Jobs that wait beyond a limit of jobs at once, and those that run of the same group."""
        waiting: defaultdict[_Group, list[RawJob]] = defaultdict(list)
        for job in self.times.jobs:
            if job.state in WAITS and job_limit(job.reason) is not None:
                waiting[_group_of(job, job.reason)].append(job)
        running: defaultdict[_Group, list[RawJob]] = defaultdict(list)
        reasons = {reason for reason, *_ in waiting}
        for job in self.times.jobs:
            for reason in reasons if job.state not in WAITS else ():
                running[_group_of(job, reason)].append(job)
        lines: dict[_Group, _Line] = {}
        for group, jobs in waiting.items():
            jobs.sort(key=lambda job: (-job.priority, job.submit_s, job.job_id or 0))
            before = running[group]
            before.sort(key=lambda job: self.times.span_of(job, self.times.now_s).end_s)
            places = list(accumulate((job.jobs for job in jobs), initial=0))
            lines[group] = _Line(before, jobs, places[:-1])
        return lines

    @cached_property
    def _places(self) -> Mapping[int | None, int]:
        """How many jobs wait before each in its line, by its id."""
        return {
            job.job_id: place
            for line in self._lines.values()
            for job, place in zip(line.waiting, line.places, strict=True)
        }

    def ids_before(self, job: RawJob) -> frozenset[int]:
        """Give the ids of all jobs that one waits for, and of those that these wait for."""
        found: set[int] = set()
        left = [job]
        while left:
            for one, _, _ in self.of(left.pop()) or ():
                if one.job_id is not None and one.job_id not in found:
                    found.add(one.job_id)
                    left.append(one)
        return frozenset(found)

    def _before(self, job: RawJob, one: DependsOn) -> list[RawJob]:
        if one.kind == _SINGLETON:
            alike = self.times.named(job.user, job.name)
            return [each for each in alike if (each.job_id or 0) < (job.job_id or 0)]
        every = self.times.numbered(one.job_id or 0)
        return [each for each in every if one.task in ("", each.tasks)]
