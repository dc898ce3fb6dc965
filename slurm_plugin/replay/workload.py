"""A history as a workload: what was submitted when, how long it ran; measures of its schedules."""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from predictor.waits.easy import ReplaySchedule
from sacct_ingest.errors import NimoError
from sacct_ingest.records import JobRun
from sacct_ingest.store import RunRow
from sacct_ingest.text.hostlist import expand

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: A run as a source gives it, or as the store does.
Ran = JobRun | RunRow

#: What a job without a limit is taken to have asked for (Tsafrir et al. 2007, sec. 3, likewise).
_NO_LIMIT = 1.5
_NO_LIMIT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs in order of submission; all arrays have the shape ``(jobs,)``."""

    submit_s: Floats  #: when the job could first start (eligible), seconds since the epoch
    nodes: Ints  #: nodes it had
    run_s: Floats  #: how long it ran
    limit_s: Floats  #: its time limit
    wait_s: Floats  #: how long it really waited
    users: tuple[str, ...]
    runs: tuple[Ran, ...] = ()  #: the records, where there are any
    cluster_nodes: int  #: nodes of the cluster

    def __post_init__(self) -> None:
        if not len(self.submit_s):
            raise NimoError("no job with a run time and nodes: nothing to replay")

    @classmethod
    def of(cls, runs: Iterable[Ran], *, cluster_nodes: int | None = None) -> Self:
        """Make a workload of the runs that started.

        runs: in any order; of one cluster, and of partitions that share their nodes.
        cluster_nodes: nodes of the cluster; None: those that the runs name, or where they name none
            as many as
        were in use at the busiest moment.
        Raises NimoError: no run can be replayed.
        """
        usable = sorted((run for run in runs if _usable(run)), key=_submitted)
        nodes = np.array([run.nodes for run in usable], dtype=np.int64)
        if cluster_nodes is None:
            cluster_nodes = nodes_used(usable) or most_at_once(usable)
        else:
            usable = [run for run in usable if run.nodes <= cluster_nodes]
            nodes = nodes[nodes <= cluster_nodes]
        return cls(
            submit_s=np.array([_submitted(run) for run in usable], dtype=np.float64),
            nodes=nodes,
            run_s=np.array([run.elapsed_s for run in usable], dtype=np.float64),
            limit_s=np.array([_limit(run) for run in usable], dtype=np.float64),
            wait_s=np.array([_waited(run) for run in usable], dtype=np.float64),
            users=tuple(run.user for run in usable),
            runs=tuple(usable),
            cluster_nodes=cluster_nodes,
        )

    def __len__(self) -> int:
        return len(self.submit_s)

    @property
    def load(self) -> float:
        """Node time asked for, as a share of what the cluster has between the submissions."""
        span_s = float(self.submit_s[-1] - self.submit_s[0])
        return float(self.nodes @ self.run_s) / (self.cluster_nodes * max(span_s, 1.0))

    def at_load(self, load: float) -> Self:
        """Return the same jobs closer together or farther apart, so that their load is ``load``."""
        first = self.submit_s[0]
        stretch = self.load / load
        return replace(self, submit_s=first + (self.submit_s - first) * stretch)


def recent_mean(workload: Workload) -> list[float]:
    """Predict each run time as the mean of the user's last two that had ended, else the limit.

    Tsafrir, Etsion, Feitelson 2007, section 4.  In seconds.
    """
    last: dict[str, deque[tuple[float, float]]] = defaultdict(lambda: deque(maxlen=8))
    predicted = []
    for job, limit_s in enumerate(workload.limit_s.tolist()):
        now, user = workload.submit_s[job], workload.users[job]
        ended = [run_s for end_s, run_s in last[user] if end_s <= now][-2:]
        predicted.append(min(sum(ended) / len(ended), limit_s) if ended else limit_s)
        run_s = float(workload.run_s[job])
        last[user].append((now + workload.wait_s[job] + run_s, run_s))
    return predicted


def nodes_used(runs: Iterable[Ran]) -> int:
    """Count the different nodes that runs name; zero where one names none.

    Jobs that share a node name the same one.
    """
    names: set[str] = set()
    for text in {run.node_list for run in runs}:
        try:
            node_names = expand(text)
        except ValueError:
            return 0
        if not node_names:
            return 0
        names.update(node_names)
    return len(names)


def most_at_once(runs: Iterable[Ran]) -> int:
    """Most nodes that were in use at one moment.

    A node that two jobs shared counts twice; the largest job sets the least.
    """
    changes: list[tuple[float, int]] = []
    for run in runs:
        start_s = run.start_s if run.start_s is not None else run.submit_s
        changes += [(start_s, run.nodes), (start_s + run.elapsed_s, -run.nodes)]
    # Nodes given back at a moment are taken again at that moment: sorting puts them first.
    levels = np.cumsum([nodes for _, nodes in sorted(changes)])
    return int(levels.max(initial=0))


def _usable(run: Ran) -> bool:
    return run.nodes > 0 and run.elapsed_s > 0 and run.start_s is not None


def _submitted(run: Ran) -> float:
    """When the job could start for all that it waited for itself: dependencies, a begin time."""
    return max(run.submit_s, run.eligible_s or run.submit_s)


def _waited(run: Ran) -> float:
    start_s = run.submit_s if run.start_s is None else run.start_s
    return max(start_s - _submitted(run), 0.0)


def _limit(run: Ran) -> float:
    return run.limit_s or max(_NO_LIMIT * run.elapsed_s, _NO_LIMIT_S)


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
    before, after = rigid.end_s[moved] - submit, other.end_s[moved] - submit
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
    begin, until = float(workload.submit_s[0]), float(workload.submit_s[-1])
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
    before, after = rigid.end_s[chosen] - submit, other.end_s[chosen] - submit
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
