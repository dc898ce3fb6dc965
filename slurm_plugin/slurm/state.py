"""What is known of the cluster at one moment; made by :mod:`slurm_plugin.slurm.snapshot`."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from slurm_plugin.profile import Profile
from slurm_plugin.slurm.limits import LimitTables, NodeRange

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition: its limits, its nodes over time, and who waits for them."""

    name: str
    nodes: int  #: all that are not down or drained
    profile: Profile  #: whole nodes free, from now on
    queue: int = 0  #: jobs that wait for nodes of this partition
    queue_mean: float = 0.0  #: the same, averaged over about a day
    max_nodes: int | None = None  #: most nodes for one job
    min_nodes: int = 1
    max_time_s: float | None = None
    default_time_s: float | None = None
    node_mem_bytes: int | None = None  #: of the smallest node
    open: bool = True  #: jobs may start
    qos: str = ""  #: whose limits hold for all its jobs
    node_cpus: int = 1  #: of the smallest node
    exclusive: bool = False  #: every job has its nodes to itself
    bound: str = ""  #: limit of QOS or association that cuts the node counts, for people

    @property
    def largest(self) -> int:
        """Most nodes that a job may have."""
        return min(self.nodes, self.max_nodes or self.nodes)

    def within(self, allowed: NodeRange, flags: Collection[str] = ()) -> "Partition":
        """Partition as a job under these limits sees it.

        Parameters
        ----------
        allowed
            What QOS and association allow.
        flags
            Of the job's QOS: some lift limits of the partition (sacctmgr(1), QOS flags).
        """
        most = None if "PartitionMaxNodes" in flags else self.max_nodes
        least = 1 if "PartitionMinNodes" in flags else self.min_nodes
        longest = None if "PartitionTimeLimit" in flags else self.max_time_s
        return replace(
            self,
            max_nodes=_least(most, allowed.high),
            min_nodes=max(least, allowed.low),
            max_time_s=_least(longest, allowed.max_time_s),
            bound=allowed.reason,
        )

    def promise(self, nodes: int, start_s: float, end_s: float) -> "Partition":
        """Partition after a job was let in that starts at ``start_s``, not shown here yet."""
        return replace(self, profile=self.profile.reserve(nodes, start_s, end_s))

    def queued(self) -> "Partition":
        """Partition after a job was let in that has to wait, and for which nothing is planned."""
        return replace(self, queue=self.queue + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One look at the cluster."""

    name: str
    taken_s: float  #: when Slurm was asked, seconds since the epoch
    partitions: Mapping[str, Partition]
    default_partition: str = ""
    limits: LimitTables = field(default_factory=LimitTables)

    def partition(self, name: str) -> Partition | None:
        """Partition of that name; the empty name means the default one."""
        return self.partitions.get(name or self.default_partition)

    def with_partition(self, partition: Partition) -> "Cluster":
        """View with one partition exchanged."""
        return replace(self, partitions={**self.partitions, partition.name: partition})


def _least(one: _Number | None, other: _Number | None) -> _Number | None:
    return min((n for n in (one, other) if n is not None), default=None)
