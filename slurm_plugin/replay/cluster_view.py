"""The replayed cluster's state, in the form that nimod has of a real one."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, inf

from predictor.backfilling import Engine, JobShape
from slurm_plugin.slurm.availability import NodeAvailability, profile
from slurm_plugin.slurm.cluster_state import Partition

DAY_S = 86400.0
#: Waiting jobs for which a start is planned, as Slurm's backfill does (``bf_max_job_test``).
PLANNED = 50


@dataclass(slots=True)
class ClusterViewer:
    """Reads an engine's state as nimod reads a cluster's, with the mean queue of a day."""

    engine: Engine
    queue_mean: float = 0.0
    _observed_s: float = -inf

    def look(self, now_s: float) -> Partition:
        """Make the view at a moment; moments must not go back."""
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
        )


def planned(
    free: int, releases: Sequence[tuple[float, int]], waiting: Iterable[JobShape], now_s: float
) -> NodeAvailability:
    """Nodes free over time, with a place for each job that waits, in their order.

    Parameters
    ----------
    free
        Nodes free now.
    releases
        When nodes become free, and how many; in order of time.
    waiting
        Jobs to plan for.
    now_s
        The present, where the profile begins.
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
