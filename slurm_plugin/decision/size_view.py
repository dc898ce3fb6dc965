"""A partition counted in CPUs or GPUs, for one job: pure.

How many of them a job can have at once, from when on; waits and prices then follow as for nodes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import pairwise

from msgspec.structs import replace

from predictor.types import UNBOUNDED, PredictionTable
from sacct_ingest.runs.layout import Unit
from slurm_plugin.decision.sizes import multiple_of, nodes_for, nodes_of, resized, size_option_of
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm.availability import NodeAvailability, profile
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.slurm.footprint import memory_bytes
from slurm_plugin.slurm.outlook import PartitionOutlook, SizedOutlook

#: Sizes between the ends of a range whose nodes are counted at a submission.
_SIZES = 12
#: Gives the partition as a job sees it; None: it is unknown.
See = Callable[[Job], Partition | None]


def in_sizes(
    job: Job, table: PredictionTable, sizes: Iterable[int], see: See, *, own: int, margin: float
) -> Partition | None:
    """Partition of a job, counted in the unit of its table; None: it is unknown.

    sizes: that come into question.
    own: what the job asks for.
    margin: of memory: the least share more than runs needed.
    """
    step, base = multiple_of(job, size_option_of(job, table)), see(job)
    if base is None:
        return None
    free: list[tuple[int, NodeAvailability]] = []
    outlooks: list[tuple[PartitionOutlook, int]] = []
    for size in sorted({*(one for one in sizes if one % step == 0), own}):
        other = job if size == own else resized(job, table, size)
        nodes = nodes_for(other, table, size, base)
        if table.unit is Unit.GPUS and "gpu" not in other.tres_per_node:
            other = replace(other, tres_per_node=f"gres/gpu:{-(-size // nodes)}")
        other = replace(other, min_nodes=nodes, max_nodes=nodes)
        part = see(other)
        if part is None:
            return None
        enough = size == own or has_memory(other, part, table, size, margin=margin)
        if part.largest >= nodes and enough:
            free.append((size, _times(part.profile, nodes)))
            if isinstance(part.outlook, PartitionOutlook):
                outlooks.append((part.outlook, nodes))
    return replace(
        base,
        profile=_most(free) if free else base.profile,
        nodes=_in_all(base, table.unit) if free else 0,
        node_part=1.0,
        max_nodes=free[-1][0] if free else None,
        min_nodes=free[0][0] if free else 1,
        node_mem_bytes=None,
        pool=None,
        promised=(),
        ahead=0,
        outlook=_outlook([size for size, _ in free], outlooks),
        spare=_spare(base, table.unit),
    )


def sizes_between(low: int, high: int, table: PredictionTable) -> list[int]:
    """Sizes to look at where a job waits for it: the ends, and some of the table between them."""
    between = [n for n in table.nodes if low < n < high]
    every = -(-len(between) // _SIZES) or 1
    return sorted({low, high, *between[every - 1 :: every]})


def has_memory(
    job: Job, part: Partition, table: PredictionTable, size: int, *, margin: float
) -> bool:
    """Whether a job's memory holds what runs of this size, or the nearest, needed."""
    given = memory_bytes(job, part) or part.node_mem_bytes
    if not table.memory or given is None:
        return True
    counts = [one.nodes for one in table.memory]
    index = min(bisect_left(counts, size), len(counts) - 1)
    near = table.memory[: index + 1]
    if near[-1].mem_bytes >= UNBOUNDED:
        return False
    need = max(one.mem_bytes for one in near if one.mem_bytes < UNBOUNDED)
    return need * max(size / near[-1].nodes, 1.0) * margin <= given * (nodes_of(job) or 1)


def _outlook(sizes: list[int], parts: list[tuple[PartitionOutlook, int]]) -> SizedOutlook | None:
    """Give the waits by size; None where the queue was not run forward."""
    if not sizes or len(parts) < len(sizes):
        return None
    return SizedOutlook(sizes=tuple(sizes), parts=tuple(parts))


def _times(free: NodeAvailability, nodes: int) -> NodeAvailability:
    """When so many nodes are free (1), and when not (0)."""
    have = tuple(int(n >= nodes) for n in free.free)
    return NodeAvailability(free.times_s, have, free.rising)


def _most(free: list[tuple[int, NodeAvailability]]) -> NodeAvailability:
    """Largest size that is free, over time."""
    times = sorted({time_s for _, one in free for time_s in one.times_s})
    most = [max((size for size, one in free if one.free_at(t)), default=0) for t in times]
    return NodeAvailability(tuple(times), tuple(most), all(a <= b for a, b in pairwise(most)))


def _spare(part: Partition, unit: Unit) -> NodeAvailability | None:
    """CPUs or GPUs that are free in all, over time; None where there is no list of single nodes."""
    if part.pool is None:
        return None
    changes = [(part.pool.now_s, 0)]
    for group, names in part.pool.groups.items():
        before = 0
        for time_s, cpus, _, gres in group.steps:
            free = cpus if unit is Unit.CPUS else dict(gres).get("gpu", 0)
            changes.append((max(time_s, part.pool.now_s), (free - before) * len(names)))
            before = free
    return profile(changes)


def _in_all(part: Partition, unit: Unit) -> int:
    """Count the CPUs or GPUs of a partition, for the price of each."""
    if part.pool is None:
        return part.nodes * part.node_cpus
    groups = part.pool.groups.items()
    if unit is Unit.CPUS:
        return sum(group.cpus * len(names) for group, names in groups)
    return sum(dict(group.gres).get("gpu", 0) * len(names) for group, names in groups) or part.nodes
