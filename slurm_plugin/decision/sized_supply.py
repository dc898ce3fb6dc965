"""CPUs and GPUs that a job can have over time, counted size by size on the nodes it would take."""

from bisect import bisect_left
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from predictor.memory import UNBOUNDED
from predictor.prediction_table import PredictionTable
from sacct_ingest.runs.layout import Unit
from slurm_plugin.decision import sizes
from slurm_plugin.protocol.request_messages import AllocationRequest, ResourceRequest
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.slurm.footprint import memory_bytes
from slurm_plugin.slurm.node_pool import NodeAvailability, highest, profile
from slurm_plugin.slurm.outlook import PartitionOutlook, SizedOutlook
from slurm_plugin.slurm.supply import Supply

#: Sizes between the ends of a range whose nodes are counted at a submission.
_SIZES = 12
#: Gives the partition as a job sees it; None: it is unknown.
See = Callable[[AllocationRequest], Partition | None]


def sized_supply(
    job: AllocationRequest,
    table: PredictionTable,
    choices: Iterable[int],
    see: See,
    *,
    own: int,
    margin: float,
) -> Supply | None:
    """CPUs or GPUs that a job can have, in the unit of its table; None: its partition is unknown.

    choices: sizes that come into question.
    own: what the job asks for.
    margin: of memory: the least share more than runs needed.
    """
    base = see(job)
    if base is None:
        return None
    free: list[tuple[int, NodeAvailability]] = []
    held: list[NodeAvailability] = []  # by limits alone
    outlooks: list[tuple[PartitionOutlook, int]] = []
    for size in sorted({*choices, own}):
        other = job if size == own else sizes.resized(job, table, size)
        nodes = sizes.nodes_for(other, table, size, base)
        if table.unit is Unit.GPUS and "gpu" not in other.tres_per_node:
            other = replace(other, tres_per_node=f"gres/gpu:{-(-size // nodes)}")
        other = replace(other, min_nodes=nodes, max_nodes=nodes)
        part = see(other)
        if part is None:
            return None
        enough = size == own or has_memory(other, part, table, size, margin=margin)
        if part.largest >= nodes and enough:
            free.append((size, _in_one(part.profile, size, nodes)))
            held.append(_in_one(part.by_limits, size, nodes))
            if isinstance(part.outlook, PartitionOutlook):
                outlooks.append((part.outlook, nodes))
    return Supply(
        partition=base.name,
        unit=table.unit,
        total=_in_all(base, table.unit) if free else 0,
        fewest=free[0][0] if free else 1,
        most=free[-1][0] if free else 0,
        free=highest([one for _, one in free]) if free else base.profile,
        free_by_limits=highest(held) if held else base.by_limits,
        free_in_all=_free_in_all(base, table.unit),
        longest_s=base.max_time_s,
        waiting=base.queue,
        waiting_mean=base.queue_mean,
        outlook=_outlook([size for size, _ in free], outlooks),
        blocked_s=base.blocked_s,
    )


def _in_one(free: NodeAvailability, size: int, nodes: int) -> NodeAvailability:
    """When a job of a size on so many nodes can start: all of it or nothing."""
    have = tuple(size * (count >= nodes) for count in free.free)
    return NodeAvailability(free.times_s, have, free.rising)


def sizes_between(low: int, high: int, table: PredictionTable) -> list[int]:
    """Sizes to look at where a job waits for it: the ends, and some of the table between them."""
    between = [n for n in table.nodes if low < n < high]
    every = -(-len(between) // _SIZES) or 1
    return sorted({low, high, *between[every - 1 :: every]})


def has_memory(
    job: ResourceRequest, part: Partition, table: PredictionTable, size: int, *, margin: float
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
    return need * max(size / near[-1].nodes, 1.0) * margin <= given * (sizes.nodes_of(job) or 1)


def _outlook(counts: list[int], parts: list[tuple[PartitionOutlook, int]]) -> SizedOutlook | None:
    """Give the waits by size; None where the queue was not run forward."""
    if not counts or len(parts) < len(counts):
        return None
    return SizedOutlook(sizes=tuple(counts), parts=tuple(parts))


def _free_in_all(part: Partition, unit: Unit) -> NodeAvailability | None:
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
