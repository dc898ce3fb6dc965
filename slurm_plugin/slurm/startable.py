"""Which jobs of the queue may start: those alone are a queue for others.

A job counts where Slurm says that it waits for nodes, for its turn or for the end of a reservation,
and where its partition could hold it.  What waits for anything else takes no node from anybody:
beyond a limit, held, with a constraint that no node meets, in a partition that is down.  A reason
that is not listed here does not count.  Pure.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, inf
from typing import NamedTuple

from slurm_plugin.slurm.cluster_state import RawJob, RawNode, RawPartition, RawState
from slurm_plugin.slurm.limits import LimitTables, Qos
from slurm_plugin.slurm.node_pool import NodeGroup, NodeShare, could_hold
from slurm_plugin.slurm.node_states import UNUSABLE
from slurm_plugin.slurm.slurm_conf import SlurmConf

#: Base states of jobs that wait, long and short.
WAITS = frozenset({"PENDING", "PD"})
#: Reasons of pending jobs that start once nodes are free and it is their turn (squeue(1), JOB
#: REASON CODES).  The empty one is that of a job that Slurm has not looked at yet.
_FOR_NODES = frozenset({"", "Priority", "Resources", "Cleaning", "Prolog"})
#: Flags of a QOS that lift a limit of the partition (sacctmgr(1), QOS flags).
_LIFTS_NODES = "PartitionMaxNodes"
_LIFTS_TIME = "PartitionTimeLimit"


def waits_for_nodes(reason: str) -> bool:
    """Whether a pending job with this reason starts once nodes are free and it is its turn."""
    return reason in _FOR_NODES


def waits_for_its_turn(job: RawJob) -> bool:
    """Whether a pending job starts once nodes are free, or a reservation has ended."""
    return waits_for_nodes(job.reason) or job.reserved


def share_of_each(job: RawJob, *, counts_memory: bool) -> NodeShare:
    """Tell what a waiting job takes of each node, as if it were dealt out evenly."""
    nodes = max(job.nodes, 1)
    if job.alone or "cpu" not in job.tres:
        return NodeShare(constraint=job.features, gpu_type=job.gpu_type)
    return NodeShare(
        cpus=ceil(job.tres["cpu"] / nodes),
        mem_mib=ceil(job.tres.get("mem", 0) / nodes) if counts_memory else 0,
        gres=tuple(sorted((name, ceil(n / nodes)) for name, n in job.devices.items())),
        gpu_type=job.gpu_type,
        whole=False,
        constraint=job.features,
    )


class _Shape(NamedTuple):
    """What of a job decides whether a partition could hold it."""

    partitions: Sequence[str]
    nodes: int
    limit_s: float | None
    qos: str
    share: NodeShare


class StartableJobs:
    """Jobs of one look that may start, and in which of their partitions.

    raw: what Slurm said.
    settings: of its configuration.
    limits: those of QOS, whose flags may lift a partition's.
    """

    def __init__(
        self, raw: RawState, settings: SlurmConf, limits: LimitTables | None = None
    ) -> None:
        self._partitions = {part.name: part for part in raw.partitions}
        self._qos: Mapping[str, Qos] = limits.qos if limits else {}
        self._counts_memory = settings.counts_memory
        self._nodes = _usable(raw.nodes)
        self._found: dict[_Shape, tuple[str, ...]] = {}

    def partitions(self, job: RawJob) -> tuple[str, ...]:
        """List the partitions in which a job may start; none: it is no queue for anybody.

        A job in a reservation waits for the nodes of that, which nobody else may have.
        """
        if job.state not in WAITS or job.reservation or not waits_for_its_turn(job):
            return ()
        return self.fitting(job)

    def fitting(self, job: RawJob) -> tuple[str, ...]:
        """List the partitions that could hold a job, whatever it waits for."""
        share = share_of_each(job, counts_memory=self._counts_memory)
        shape = _Shape(job.partitions, job.nodes, job.limit_s, job.qos, share)
        if (names := self._found.get(shape)) is None:
            names = tuple(name for name in job.partitions if self._fits(shape, name))
            self._found[shape] = names
        return names

    def _fits(self, shape: _Shape, name: str) -> bool:
        """Whether a partition could hold such a job, by its limits and its nodes."""
        partition = self._partitions.get(name)
        if partition is None or not partition.up:
            return False
        flags = self._flags(shape.qos, partition.qos)
        most = inf if _LIFTS_NODES in flags else partition.max_nodes or inf
        longest_s = inf if _LIFTS_TIME in flags else partition.max_time_s or inf
        if shape.nodes > most or (shape.limit_s or 0.0) > longest_s:
            return False
        able = 0
        for group, count in self._nodes.get(name, {}).items():
            if could_hold(_capped(group, partition), shape.share):
                able += count
        return able >= shape.nodes

    def _flags(self, *names: str) -> frozenset[str]:
        flags = (self._qos[name].limits.flags for name in names if name in self._qos)
        return frozenset().union(*flags)


def empty_node(node: RawNode) -> NodeGroup:
    """Give what a node has with no job on it."""
    return NodeGroup(
        cpus=node.cpus,
        mem_mib=node.mem_mib,
        gres=tuple(sorted(node.gres.items())),
        gpu_type=node.gpu_type,
        features=node.features,
        steps=(),
    )


def _usable(nodes: Sequence[RawNode]) -> dict[str, dict[NodeGroup, int]]:
    """Count the usable nodes of each partition by what they have, empty."""
    counts: dict[str, dict[NodeGroup, int]] = defaultdict(dict)
    for node in nodes:
        if node.state.isdisjoint(UNUSABLE):
            group = empty_node(node)
            for name in node.partitions:
                counts[name][group] = counts[name].get(group, 0) + 1
    return counts


def _capped(group: NodeGroup, partition: RawPartition) -> NodeGroup:
    """Group with as many CPUs as the partition gives out of a node (MaxCPUsPerNode)."""
    most = partition.max_cpus_node
    if most is None or most >= group.cpus:
        return group
    return replace(group, cpus=most)
