"""The nodes of a cluster without their jobs: what answers without nimod go by.

Slurm shows them to nimod, and to a user's commands where they read the user's own history; both
leave them in the store.  Else they are what the runs show of them.  Pure.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from math import inf

import msgspec

from predictor.facts import SeenNodes
from slurm_plugin.protocol.request_messages import AllocationRequest
from slurm_plugin.slurm.cluster_state import Cluster, Partition, RawPartition
from slurm_plugin.slurm.footprint import footprint, gpus_on_node
from slurm_plugin.slurm.node_pool import (
    NodeGroup,
    NodePool,
    NodeShare,
    alternatives,
    grouped,
    profile,
)

#: Memory of a node of which nothing is known, MiB: any job fits.
_ANY_MIB = 2**30


class PartitionNodes(msgspec.Struct, frozen=True):
    """A partition's rules, and its nodes by what they are like."""

    rules: RawPartition
    nodes: int
    groups: Sequence[tuple[NodeGroup, tuple[str, ...]]] = ()  #: none: only their number is known


class KnownNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The usable nodes of a cluster."""

    partitions: Sequence[PartitionNodes]
    default_partition: str = ""
    keeps_limit: bool = False  #: these three as of `slurm_plugin.slurm.cluster_state.Cluster`
    plans_softly: bool = False
    reopens: bool = False


def known_nodes(view: Cluster) -> KnownNodes:
    """Take the nodes out of a view of a cluster, whatever runs on them."""
    return KnownNodes(
        partitions=[_without_jobs(part) for part in view.partitions.values()],
        default_partition=view.default_partition,
        keeps_limit=view.keeps_limit,
        plans_softly=view.plans_softly,
        reopens=view.reopens,
    )


def stored_form(view: Cluster) -> str:
    """Write the nodes of a view of a cluster as the store keeps them."""
    return msgspec.json.encode(known_nodes(view)).decode()


def _without_jobs(part: Partition) -> PartitionNodes:
    rules = RawPartition(**{name: getattr(part, name) for name in RawPartition.__struct_fields__})
    groups = part.pool.groups.items() if part.pool else ()
    idle = grouped((name, _idle_group(group)) for group, names in groups for name in names)
    return PartitionNodes(rules, part.nodes, [*idle.items()])


def _idle_group(group: NodeGroup) -> NodeGroup:
    return NodeGroup(
        cpus=group.cpus,
        threads_core=group.threads_core,
        mem_mib=group.mem_mib,
        gres=group.gres,
        gpu_type=group.gpu_type,
        features=group.features,
        steps=((0.0, group.cpus, group.mem_mib, group.gres),),
        empty_s=0.0,
    )


def idle_cluster(known: KnownNodes, name: str, *, now_s: float) -> Cluster:
    """Make a view of a cluster without jobs; too old to be believed, as there may be many."""
    parts = [_idle_partition(one, now_s) for one in known.partitions]
    return Cluster(
        name=name,
        taken_s=-inf,
        partitions={part.name: part for part in parts},
        default_partition=known.default_partition,
        keeps_limit=known.keeps_limit,
        plans_softly=known.plans_softly,
        reopens=known.reopens,
    )


def _idle_partition(one: PartitionNodes, now_s: float) -> Partition:
    pool = NodePool(now_s=now_s, groups=dict(one.groups)) if one.groups else None
    free, nodes = pool.fitting(NodeShare()) if pool else (profile([(now_s, one.nodes)]), one.nodes)
    return Partition(**msgspec.structs.asdict(one.rules), nodes=nodes, profile=free, pool=pool)


def nodes_of_runs(seen: Mapping[str, SeenNodes], job: AllocationRequest) -> KnownNodes:
    """Give the nodes that runs show, which have at least what a job asks for on each.

    Of a partition where nothing ran they are taken to be as the largest ones elsewhere; so they are
    for a job that names none.

    seen: what runs show, by partition.
    """
    every = SeenNodes(
        nodes=max((one.nodes for one in seen.values()), default=0),
        settled=all(one.settled for one in seen.values()),
        cpus=max((one.cpus for one in seen.values()), default=0),
        gpus=max((one.gpus for one in seen.values()), default=0),
    )
    named = dict.fromkeys(job.partition.split(","), every)
    return KnownNodes(
        partitions=[_seen_partition(name, one, job) for name, one in (named | {**seen}).items()]
    )


def _seen_partition(name: str, seen: SeenNodes, job: AllocationRequest) -> PartitionNodes:
    least = 1 if seen.settled else job.min_nodes or 1
    nodes = max(seen.nodes, least)
    taken = footprint(job, None)
    cpus = max(seen.cpus, taken.asked, 1)
    devices = dict(taken.gres)
    if gpus := max(seen.gpus, gpus_on_node(job)):
        devices["gpu"] = gpus
    gres = tuple(sorted(devices.items()))
    group = NodeGroup(
        cpus=cpus,
        mem_mib=_ANY_MIB,
        gres=gres,
        features=frozenset(chain.from_iterable(alternatives(job.features) or ())),
        steps=((0.0, cpus, _ANY_MIB, gres),),
        empty_s=0.0,
    )
    names = tuple(f"{name}-{number}" for number in range(nodes))
    rules = RawPartition(name=name, node_cpus=cpus, is_known=False)
    return PartitionNodes(rules, nodes, [(group, names)])
