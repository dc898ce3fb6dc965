"""Jobs of a queue that start only after others, as far as it is known when these end: pure.

Whether a job before ends well is not predicted; `condition_text` says that it has to.
"""

from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from predictor.waits.probes import Awaited
from slurm_plugin.slurm.cluster_state import RawJob
from slurm_plugin.slurm.dependencies import JobTimes
from slurm_plugin.slurm.pending_job import DependsOn, depends_on

#: Kinds of dependency that end by themselves.
_KINDS = frozenset({"after", "afterany", "afterok", "singleton"})
_AFTER = "after"
_SINGLETON = "singleton"


class Hold(NamedTuple):
    """What holds a job in one queue."""

    awaits: tuple[Awaited, ...] = ()  #: jobs of that queue
    begin_s: float = 0.0  #: when those of other queues end, seconds since the epoch


@dataclass(frozen=True)
class AwaitedJobs:
    """The jobs of one look, and which of them others wait for.

    times: of all that wait or run; they count for jobs of other queues.
    """

    times: JobTimes

    def of(self, job: RawJob) -> list[tuple[RawJob, bool]] | None:
        """List the jobs that one waits for, each with whether its start is enough.

        None: that does not end by itself, or not all of them are shown.
        """
        depends = depends_on(job.dependency)
        # "?" separates alternatives: which job ends first is unknown.
        if not depends or "?" in job.dependency:
            return None
        found: list[tuple[RawJob, bool]] = []
        for one in depends:
            if one.state == "fulfilled":
                continue
            before = self._before(job, one)
            if one.kind not in _KINDS or one.state != "unfulfilled" or one.minutes or not before:
                return None
            found += [(each, one.kind == _AFTER) for each in before]
        return found

    def hold(self, job: RawJob, there: Collection[int]) -> Hold | None:
        """Tell what holds a job in a queue; None: not known.

        there: ids of the jobs of that queue.
        """
        before = self.of(job)
        if before is None:
            return None
        awaits: list[Awaited] = []
        begin_s = 0.0
        for one, starts in before:
            if one.job_id is not None and one.job_id in there:
                awaits.append(Awaited(one.job_id, starts))
                continue
            span = self.times.span_of(one, self.times.now_s)
            begin_s = max(begin_s, span.start_s if starts else span.end_s)
        return Hold(tuple(awaits), begin_s) if begin_s < inf else None

    def ids_before(self, job: RawJob) -> frozenset[int]:
        """Give the ids of all jobs that one waits for, and of those that these wait for."""
        found: set[int] = set()
        left = [job]
        while left:
            for one, _ in self.of(left.pop()) or ():
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
