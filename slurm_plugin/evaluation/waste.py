"""What a start of a job occupied of its nodes, and what of that bought nothing.

A start occupies the largest share that it has of a node's CPUs, memory or GPUs: what is left of the
node beside it is no use to a job that needs more of that resource.  What it did not use is taken
off from above: a node-hour is given back only where every resource that stood in the way would have
been asked for less, and it is counted under the resource that stood highest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import Final

from sacct_ingest.records import JobState
from sacct_ingest.store.rows import RunRow

_HOUR_S: Final = 3600.0
_ROUNDING: Final = 1e-9
#: States of starts that the cluster stopped, not their users and not their limits.
STOPPED: Final = frozenset(
    {JobState.NODE_FAIL, JobState.BOOT_FAIL, JobState.PREEMPTED, JobState.REQUEUED}
)


class Cause(StrEnum):
    """Why node-hours bought nothing."""

    FAILED = "failed_again"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    STOPPED = "stopped"
    KNEE = "beyond_knee"
    GPUS = "idle_gpus"
    MEMORY = "unused_memory"
    CPUS = "idle_cpus"
    WHOLE_NODES = "whole_nodes"


#: Of resources that stand equally high the first is named.
_ORDER: Final = (Cause.GPUS, Cause.MEMORY, Cause.CPUS)


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What a node of a partition has; 0: not known, or none.  ``whole``: jobs share no node."""

    cpus: int = 0
    mem_bytes: int = 0
    gpus: int = 0
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Used:
    """What a start had of a resource on a node, and what it used; None: not measured."""

    had: float
    used: float | None


def usage_of(run: RunRow) -> dict[Cause, Used]:
    """Give what a start had and used of CPUs, memory (bytes) and GPUs, on each of its nodes."""
    nodes = run.nodes
    busy = run.cpu_s / run.elapsed_s / nodes if run.cpu_s else None
    made = {Cause.CPUS: Used(run.cpus / nodes, busy)}
    if run.gpus:
        used = None if run.gpu_percent is None else run.gpu_percent / 100 / nodes
        made[Cause.GPUS] = Used(run.gpus / nodes, used)
    if run.req_mem_bytes:
        used_bytes = (run.mem_bytes or 0) * (run.tasks or nodes) / nodes
        made[Cause.MEMORY] = Used(run.req_mem_bytes / nodes, used_bytes or None)
    return made


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Shares of a node that a start occupied, by resource; ``asked`` is that of CPUs alone."""

    shares: Mapping[Cause, float]
    asked: float  #: share by the CPUs that it asked for; Slurm may give more
    whole: bool  #: nobody else may use its nodes

    @property
    def height(self) -> float:
        """Share of each node that it occupied."""
        return max(self.shares.values())

    def unused(self, needs: Mapping[Cause, float]) -> dict[Cause, float]:
        """Give the shares that bought nothing, by cause.

        needs: shares that were needed; what is not in it is needed as it is.
        """
        floor = max(min(needs.get(cause, had), had) for cause, had in self.shares.items())
        level = self.height
        lost = dict[Cause, float]()
        while level > floor + _ROUNDING:
            below = [had for had in self.shares.values() if had < level - _ROUNDING]
            cause = next(c for c in _ORDER if self.shares.get(c, 0.0) >= level - _ROUNDING)
            if cause is Cause.CPUS and level > self.asked + _ROUNDING:
                cause = Cause.WHOLE_NODES
                below.append(self.asked)
            lower = max([floor, *below])
            lost[cause] = lost.get(cause, 0.0) + level - lower
            level = lower
        return lost

    def returned(self, needs: Mapping[Cause, float], nodes: int) -> dict[Cause, float]:
        """Give the shares that come back where needs are asked for; on whole nodes, whole ones."""
        if not self.whole:
            return self.unused(needs)
        floor = max(min(needs.get(cause, had), had) for cause, had in self.shares.items())
        floor = ceil(floor * nodes - _ROUNDING) / nodes
        return self.unused({cause: max(needs.get(cause, 1.0), floor) for cause in self.shares})


def occupancy_of(run: RunRow, shape: NodeShape) -> Occupancy:
    """Give what a start occupied of each of its nodes."""
    has = {Cause.CPUS: shape.cpus, Cause.MEMORY: shape.mem_bytes, Cause.GPUS: shape.gpus}
    shares = {
        cause: min(one.had / has[cause], 1.0)
        for cause, one in usage_of(run).items()
        if has[cause] > 0
    }
    asked = shares.setdefault(Cause.CPUS, 1.0)
    given = run.cpus - (run.req_cpus or run.cpus)
    # Slurm fills a core for each task, and gives CPUs for memory that is asked for.
    if given > max(run.tasks or 0, run.nodes) and asked > shares.get(Cause.MEMORY, 0.0):
        asked *= (run.req_cpus or 0) / run.cpus
    whole = shape.whole or asked < shares[Cause.CPUS]
    return Occupancy(shares, asked, whole)


def needs_of(used: Mapping[Cause, float | None], shape: NodeShape) -> dict[Cause, float]:
    """Give amounts on a node as shares of it; CPUs are whole ones, at least one."""
    made = {}
    for cause, amount in used.items():
        has = {Cause.CPUS: shape.cpus, Cause.MEMORY: shape.mem_bytes, Cause.GPUS: shape.gpus}[cause]
        if amount is None or not has:
            continue
        least = max(ceil(amount - _ROUNDING), 1) if cause is Cause.CPUS else amount
        made[cause] = min(least / has, 1.0)
    return made


def node_hours(run: RunRow, occupied: Occupancy) -> float:
    """Node-hours of a start: parts of nodes count as parts."""
    return run.nodes * run.elapsed_s * occupied.height / _HOUR_S


def shapes_of(runs: Iterable[RunRow]) -> dict[str, NodeShape]:
    """Give the shape of nodes by cluster and partition: the most that a run had on one of them."""
    cpus: dict[str, int] = {}
    gpus: dict[str, int] = {}
    for run in runs:
        if run.nodes > 0:
            place = f"{run.cluster}/{run.partition}"
            cpus[place] = max(cpus.get(place, 0), run.cpus // run.nodes)
            gpus[place] = max(gpus.get(place, 0), -(-(run.gpus or 0) // run.nodes))
    return {place: NodeShape(cpus=most, gpus=gpus[place]) for place, most in cpus.items()}
