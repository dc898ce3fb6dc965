"""When a job may start that waits for others (``--dependency``), as far as their ends are known."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import NamedTuple

from sacct_ingest.text.hostlist import indexes_of, place_of_index
from slurm_plugin.slurm.cluster_state import Awaited, RawJob
from slurm_plugin.slurm.expected_ends import expected_end_s
from slurm_plugin.slurm.startable import WAITS

_MINUTE_S = 60.0
#: A job that is waited for: ``123``, ``123_4`` or ``123_*``, and ``+5`` minutes more.
_JOB = re.compile(r"(\d+)(?:_(?:\d+|\*))?(?:\+(\d+))?")
#: Waits for the start of a job; all other kinds for its end.
_AFTER = "after"
#: Each task of an array waits for the one with its own index.
_EACH = "aftercorr"
#: Waits for all jobs of its user and name.
_SINGLETON = "singleton"


class Span(NamedTuple):
    """When a job starts and ends, seconds since the epoch; inf: not known.

    Of tasks that share a record: when the first one starts and the last one ends.
    """

    start_s: float
    end_s: float
    first_end_s: float | None = None  #: when the first task ends; None: it is the only one


def span_by_limit(job: RawJob, now_s: float) -> Span:
    """Tell it by Slurm's plan, and by the note of a job or its limit."""
    start_s = max(job.start_s, now_s) if job.state in WAITS else job.start_s
    return Span(start_s, expected_end_s(job, now_s))


@dataclass(frozen=True)
class JobTimes:
    """When the jobs of one view start and end.

    jobs: all that wait or run.
    now_s: when Slurm was asked, seconds since the epoch.
    span_of: tells when a job starts and ends.
    """

    jobs: Sequence[RawJob]
    now_s: float
    span_of: Callable[[RawJob, float], Span] = span_by_limit

    def awaited(self, dependency: str, user: str, name: str, array: str = "") -> Awaited:
        """Tell what of a dependency is not satisfied yet.

        Where one of several conditions is enough, that which is satisfied first.  Jobs that are
        not there have ended.

        dependency: as sbatch takes it, ``afterok:12:13,after:14+5``.
        user, name: of the job; with ``singleton`` it waits for all that have both.
        array: its indexes, as ``--array`` has them; with ``aftercorr`` each task waits for its own.
        """
        any_of = "?" in dependency
        texts = re.split("[,?]", dependency)
        conditions = [self._condition(text, array) for text in texts if ":" in text]
        if _SINGLETON in texts:
            alike = self.named(user, name)
            numbers = dict.fromkeys(job.array_id or job.job_id for job in alike)
            conditions.append(self._condition(f"{_SINGLETON}:{':'.join(map(str, numbers))}", ""))
        if not conditions or (any_of and any(not one.jobs for one in conditions)):
            return Awaited()
        if any_of:
            return min(conditions, key=lambda one: one.begin_s)
        return _all_of(conditions)

    def _condition(self, text: str, array: str) -> Awaited:
        kind, _, jobs = text.strip().partition(":")
        return _all_of(list(self._left(kind, jobs, array)))

    def _left(self, kind: str, jobs: str, array: str) -> Iterator[Awaited]:
        """Give the jobs of one condition that are waited for, each with when that is over."""
        for match in _JOB.finditer(jobs):
            job_id = int(match[1])
            delay_s = _MINUTE_S * int(match[2] or 0)
            if (span := self._span(job_id)) is None:
                continue
            first = _first_index(array) if kind == _EACH and "_" not in match[0] else None
            if first is not None and any(one.tasks for one in self.numbered(job_id)):
                if span.end_s > self.now_s:
                    yield Awaited((job_id,), self._end_of_task(job_id, first), span.end_s)
                continue
            begin_s = delay_s + (span.start_s if kind == _AFTER else span.end_s)
            if begin_s > self.now_s:
                yield Awaited((job_id,), begin_s)

    def _end_of_task(self, number: int, index: int) -> float:
        """When a task of an array ends, seconds since the epoch; -inf: it is not there any more."""
        for job in self.numbered(number):
            place = place_of_index(job.tasks, index) if job.tasks else None
            if place is None:
                continue
            span = self.span_of(job, self.now_s)
            if span.first_end_s is None or not span.end_s < inf:
                return span.end_s
            return span.first_end_s + (span.end_s - span.first_end_s) * place / max(job.jobs - 1, 1)
        return -inf

    def numbered(self, number: int) -> Sequence[RawJob]:
        """Jobs of a number, or of an array of that number."""
        return self._numbered.get(number, ())

    def named(self, user: str, name: str) -> Sequence[RawJob]:
        """Jobs of a user that have this name."""
        return self._named.get((user, name), ())

    def prepare(self) -> None:
        """Sort the jobs in the background, so that no submission waits for it."""
        _ = self._numbered, self._named

    def _span(self, number: int) -> Span | None:
        """Start and end of a job, of an array those of its last task; None: it is not there."""
        spans = [self.span_of(job, self.now_s) for job in self.numbered(number)]
        if not spans:
            return None
        return Span(max(one.start_s for one in spans), max(one.end_s for one in spans))

    @cached_property
    def _numbered(self) -> dict[int, list[RawJob]]:
        """Jobs by their number, and tasks by that of their array."""
        numbered: dict[int, list[RawJob]] = {}
        for job in self.jobs:
            for number in {job.job_id, job.array_id, *job.components}:
                if number is not None:
                    numbered.setdefault(number, []).append(job)
        return numbered

    @cached_property
    def _named(self) -> dict[tuple[str, str], list[RawJob]]:
        """Jobs by their user and name."""
        named: dict[tuple[str, str], list[RawJob]] = {}
        for job in self.jobs:
            named.setdefault((job.user, job.name), []).append(job)
        return named


def _all_of(conditions: Sequence[Awaited]) -> Awaited:
    """Give what a job waits for that waits for all of these."""
    jobs = dict.fromkeys(job_id for one in conditions for job_id in one.jobs)
    begin_s = max((one.begin_s for one in conditions), default=-inf)
    last_s = max((one.last_s for one in conditions), default=-inf)
    return Awaited(tuple(jobs), begin_s, last_s)


def _first_index(array: str) -> int | None:
    """Give the first index of an array as its user writes it; None: it has none."""
    try:
        return next(indexes_of(array), None) if array else None
    except ValueError:  # Slurm refuses it
        return None
