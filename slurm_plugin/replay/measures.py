"""What a schedule comes to: waits, bounded slowdowns, utilisation, and who is worse off."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.waits.easy import ReplaySchedule
from slurm_plugin.replay.workload import Floats, Workload

#: Run times are taken as at least this long: short jobs would swamp the mean slowdown (Feitelson
#: and Rudolph, *Metrics and Benchmarking for Parallel Job Scheduling*, 1998, sec. 3.1).
BOUND_S = 10.0
#: A job whose turnaround grew by so much, and by a minute, is worse off.
WORSE = 1.05
WORSE_S = 60.0


@dataclass(frozen=True, slots=True)
class Measures:
    """Means over the jobs looked at; times in seconds."""

    jobs: int
    wait_s: float
    response_s: float
    slowdown: float  #: bounded slowdown, by the run time on the requested nodes
    node_s: float  #: node time used by all


@dataclass(frozen=True, slots=True)
class ReplayComparison:
    """Jobs under one schedule against the schedule of their own requests."""

    response_ratio: float  #: of the mean responses; less than one is better
    worse_off: float  #: share of jobs whose turnaround grew by more than five per cent and a minute
    worse_by: float  #: by which factor, the median of those
    much_worse: float  #: share of jobs whose turnaround more than doubled
    much_better: float  #: share of jobs whose turnaround more than halved
    slowdown: tuple[float, float]  #: mean bounded slowdown of the requests, and of the other one


def guard_held(
    workload: Workload,
    rigid: ReplaySchedule,
    other: ReplaySchedule,
    moved: npt.NDArray[np.bool_],
    *,
    ratio: float,
    allowance_s: float,
) -> float:
    """Give the share of the moved jobs that ended as the guard promises, by what came.

    moved: jobs that got other nodes than they asked for, shape ``(jobs,)``.
    ratio, allowance_s: by how much a turnaround may grow, against that in the schedule of the
        requests.
    """
    submit = workload.submit_s[moved]
    before = rigid.end_s[moved] - submit
    after = other.end_s[moved] - submit
    held = after <= ratio * before + allowance_s
    return float(held.mean()) if len(held) else 1.0


def measure(
    workload: Workload, schedule: ReplaySchedule, of: npt.NDArray[np.bool_] | None = None
) -> Measures:
    """Measure a schedule, over the jobs that ``of`` selects."""
    chosen = slice(None) if of is None else of
    submit, start, end = (a[chosen] for a in (workload.submit_s, schedule.start_s, schedule.end_s))
    response = end - submit
    slowdown = np.maximum(response / np.maximum(workload.run_s[chosen], BOUND_S), 1.0)
    return Measures(
        jobs=len(submit),
        wait_s=_mean(start - submit),
        response_s=_mean(response),
        slowdown=_mean(slowdown),
        node_s=float(schedule.nodes[chosen] @ (end - start)),
    )


def utilisation(workload: Workload, schedule: ReplaySchedule) -> float:
    """Share of the cluster's node time in use, from the first submission to the last one."""
    begin = float(workload.submit_s[0])
    until = float(workload.submit_s[-1])
    inside = np.minimum(schedule.end_s, until) - np.maximum(schedule.start_s, begin)
    used = float(schedule.nodes @ np.maximum(inside, 0.0))
    return used / (workload.cluster_nodes * max(until - begin, 1.0))


def compare(
    workload: Workload,
    rigid: ReplaySchedule,
    other: ReplaySchedule,
    of: npt.NDArray[np.bool_] | None = None,
) -> ReplayComparison:
    """Compare a schedule to that of the jobs' own requests, over the jobs that ``of`` selects."""
    chosen = slice(None) if of is None else of
    submit = workload.submit_s[chosen]
    before = rigid.end_s[chosen] - submit
    after = other.end_s[chosen] - submit
    worse = after > np.maximum(WORSE * before, before + WORSE_S)
    return ReplayComparison(
        response_ratio=_ratio(_mean(after), _mean(before)),
        worse_off=_mean(worse.astype(np.float64)),
        worse_by=float(np.median(after[worse] / before[worse])) if worse.any() else 1.0,
        much_worse=_mean((after > 2 * before).astype(np.float64)),
        much_better=_mean((2 * after < before).astype(np.float64)),
        slowdown=(measure(workload, rigid, of).slowdown, measure(workload, other, of).slowdown),
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def _ratio(one: float, other: float) -> float:
    return one / other if other else 1.0
