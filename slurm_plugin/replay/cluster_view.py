"""The replayed cluster's state, in the form that nimod has of a real one."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import exp, inf
from typing import Self

from msgspec.structs import replace

from predictor.waits.calibration import ENOUGH
from predictor.waits.easy import Engine, JobShape
from predictor.waits.estimate import WaitEstimate
from predictor.waits.workload import ArrivalDemand
from slurm_plugin.slurm.availability import NodeAvailability, profile
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.slurm.node_pool import NodeShare

DAY_S = 86400.0
#: Waiting jobs for which a start is planned, as Slurm's backfill does (``bf_max_job_test``).
PLANNED = 50
_NO_DEMAND = ArrivalDemand()
#: A job that outlives its expected run time is expected to run for half as long again.
_OVERDUE = 1.5
#: Least wait of a job that does not start at once, and least run time, seconds.
_LEAST_S = 1.0
#: No wait; the replay's waits are as good as those of a site with a record.
_RECORDED = WaitEstimate((0.0,), ENOUGH)


@dataclass(frozen=True, slots=True)
class ExpectedWaits:
    """Waits in the replayed cluster by expected run times, in the place of nimod's outlook.

    Whether a job starts at once is exact.  Otherwise it starts when enough nodes are free for its
    limit, with each job ending when it is expected to: one future, where nimod draws several.
    """

    engine: Engine
    now_s: float
    profile: NodeAvailability  #: by expected run times
    demand: ArrivalDemand  #: of jobs to come, as shares of the cluster
    _free_now: dict[float, int] = field(default_factory=dict)

    def for_share(self, share: NodeShare, fitting: int, user: str = "") -> Self:
        """Outlook as it is: jobs get whole nodes, and all nodes are alike."""
        del share, fitting, user
        return self

    def wait(self, nodes: int, limit_s: float) -> WaitEstimate:
        """Estimate the wait of a job; infinite where it is larger than the cluster."""
        if limit_s not in self._free_now:
            self._free_now[limit_s] = self.engine.most_at_once(self.now_s, [limit_s])[0]
        if nodes <= self._free_now[limit_s]:
            return _RECORDED
        start_s = self.profile.earliest_start(nodes, limit_s, from_s=self.now_s)
        return replace(_RECORDED, waits_s=(max(start_s - self.now_s, _LEAST_S),))

    def arriving(self, span_s: float, level: float) -> float:
        """Give the share of the cluster that sufficed for all who came within a span."""
        return self.demand.within(span_s, level)


@dataclass(slots=True)
class ClusterViewer:
    """Reads an engine's state as nimod reads a cluster's, with the mean queue of a day.

    ``expected_s`` are the run times to expect of all jobs, in seconds and in the order of their
    submission.
    """

    engine: Engine
    expected_s: Sequence[float]
    queue_mean: float = 0.0
    _observed_s: float = -inf

    def look(self, now_s: float, demand: ArrivalDemand = _NO_DEMAND) -> Partition:
        """Make the view at a moment; moments must not go back.

        now_s: the moment.
        demand: of jobs to come, as shares of the cluster.
        """
        depth = self.engine.depth
        share = 1 - exp(-(now_s - self._observed_s) / DAY_S)
        self.queue_mean += share * (depth - self.queue_mean)
        self._observed_s = now_s
        return Partition(
            name="replay",
            nodes=self.engine.nodes,
            profile=planned(
                self.engine.free, self.engine.releases(), self.engine.waiting[:PLANNED], now_s
            ),
            queue=depth,
            queue_mean=self.queue_mean,
            outlook=ExpectedWaits(self.engine, now_s, self._expected(now_s), demand),
        )

    def _expected(self, now_s: float) -> NodeAvailability:
        """Nodes free over time if each job takes as long as it is expected to."""
        engine, expected_s = self.engine, self.expected_s
        there = zip(engine.running_jobs, engine.releases(), strict=True)
        releases = [
            (min(start_s + max(expected_s[job], _OVERDUE * (now_s - start_s)), limit_s), nodes)
            for (job, start_s), (limit_s, nodes) in there
        ]
        queued = zip(engine.waiting_jobs[:PLANNED], engine.waiting[:PLANNED], strict=True)
        waiting = [
            shape._replace(limit_s=max(min(expected_s[job], shape.limit_s), _LEAST_S))
            for job, shape in queued
        ]
        return planned(engine.free, sorted(releases), waiting, now_s)


def planned(
    free: int, releases: Sequence[tuple[float, int]], waiting: Iterable[JobShape], now_s: float
) -> NodeAvailability:
    """Nodes free over time, with a place for each job that waits, in their order.

    free: nodes free now.
    releases: when nodes become free, and how many; in order of time.
    waiting: jobs to plan for.
    now_s: the present, where the profile begins.
    """
    times, levels = [now_s], [free]
    for end_s, nodes in releases:
        if end_s > times[-1]:
            times.append(end_s)
            levels.append(levels[-1])
        levels[-1] += nodes
    for shape in waiting:
        _place(times, levels, shape)
    changes = zip(times, (b - a for a, b in zip([0, *levels], levels, strict=False)), strict=True)
    return profile(changes)


def _place(times: list[float], levels: list[int], shape: JobShape) -> None:
    """Take the nodes of a job off at the first time at which it fits."""
    first = _first_fit(times, levels, shape)
    if first is None:
        return
    end_s = times[first] + shape.limit_s
    last = bisect_left(times, end_s)
    if last == len(times) or times[last] != end_s:
        times.insert(last, end_s)
        levels.insert(last, levels[last - 1])
    for step in range(first, last):
        levels[step] -= shape.nodes


def _first_fit(times: Sequence[float], levels: Sequence[int], shape: JobShape) -> int | None:
    first: int | None = None
    for step, level in enumerate(levels):
        if first is not None and times[step] >= times[first] + shape.limit_s:
            return first
        if level < shape.nodes:
            first = None
        elif first is None:
            first = step
    return first
