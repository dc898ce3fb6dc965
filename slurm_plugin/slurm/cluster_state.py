"""State of the cluster at one moment; made by :mod:`slurm_plugin.slurm.snapshot`.

Structures of msgspec where each submission makes some anew: a tenth of a dataclass's time.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from math import inf
from operator import attrgetter
from typing import Any, NamedTuple, Self, TypeVar

import msgspec
from msgspec.structs import replace

from sacct_ingest.runs.layout import Unit
from slurm_plugin.slurm.limits import LimitTables, NodeBounds
from slurm_plugin.slurm.node_pool import NodeAvailability, NodePool, NodeShare, Promise
from slurm_plugin.slurm.outlook import Outlook
from slurm_plugin.slurm.supply import Supply

_GPU_TYPE = "gres/gpu:"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawNode:
    """A node."""

    name: str
    state: frozenset[str]  #: base state and flags, ``IDLE``, ``DRAIN``
    cpus: int = 1
    cpus_used: int = 0
    threads_core: int = 1
    mem_mib: int = 0
    mem_used_mib: int = 0
    gres: Mapping[str, int] = field(default_factory=dict)  #: devices by name, all types together
    gpu_type: str = ""  #: of all of its GPUs; empty: unknown, or several
    gres_used: Mapping[str, int] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RawJob:
    """A job that waits, or has nodes."""

    state: str  #: base state
    job_id: int | None = None  #: of an array its own
    jobs: int = 1  #: pending tasks of an array share one record
    array_id: int | None = None  #: of the array that it belongs to; some sources: or its own
    tasks: str = ""  #: index of a task, or of all that share a record: ``1-9,12``
    at_once: int | None = None  #: most tasks of its array that may run at once; None: all
    het_id: int | None = None  #: of the heterogeneous job that it is a component of
    components: tuple[int, ...] = ()  #: ids of those that this record stands for
    all_nodes: int = 0  #: of all components; 0: it is no component
    partitions: tuple[str, ...] = ()
    nodes: int = 1
    max_nodes: int | None = None  #: of one that waits the most that it may get
    start_s: float = inf  #: of a pending job what backfill planned
    end_s: float = inf
    reason: str = ""
    reserved: bool = False  #: of one that waits, whether a reservation keeps it from its nodes
    node_names: tuple[str, ...] = ()
    planned_names: tuple[str, ...] = ()  #: that backfill keeps for it
    tres: Mapping[str, float] = field(default_factory=dict)  #: in total, memory in MiB
    licences: Mapping[str, int] = field(default_factory=dict)
    reservation: str = ""
    dependency: str = ""  #: what it waits for, as Slurm shows it: ``afterok:3(unfulfilled)``
    alone: bool = False  #: nothing else may run on its nodes
    admin_comment: str = ""
    priority: int = 0
    submit_s: float = inf
    limit_s: float | None = None  #: None: none
    least_s: float | None = None  #: ``--time-min``; None: none
    user: str = ""
    account: str = ""
    qos: str = ""
    features: str = ""  #: that its nodes must have, as ``--constraint`` has them
    name: str = ""
    comment: str = ""
    command: str = ""  #: script with its arguments
    work_dir: str = ""

    @property
    def size(self) -> int:
        """Nodes of the whole job, of all its components: what its run time goes by."""
        return self.all_nodes or self.nodes

    @property
    def devices(self) -> dict[str, float]:
        """Devices in total by name, those of all types together."""
        return {name: self.tres[tres] for tres, name in _devices(tuple(self.tres))}

    @property
    def gpu_type(self) -> str:
        """Type of GPU that it asks for, to compare, in lower case; empty: any, or several."""
        return _gpu_type(tuple(self.tres))


# A queue of thousands of jobs has a few lists of resources.
@lru_cache(maxsize=256)
def _devices(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Name the resources that are devices of all types together, each with its device."""
    parts = ((name, name.partition("gres/")) for name in names if ":" not in name)
    return tuple((tres, name) for tres, (_, gres, name) in parts if gres)


@lru_cache(maxsize=256)
def _gpu_type(names: tuple[str, ...]) -> str:
    types = [name.lower() for name in names if name.startswith(_GPU_TYPE)]
    return types[0].removeprefix(_GPU_TYPE) if len(types) == 1 else ""


class NodeRules(msgspec.Struct, frozen=True):
    """What jobs are given of a node of one partition: all that a job's share depends on."""

    node_cpus: int = 1  #: of the smallest node
    node_mem_bytes: int | None = None  #: of the smallest node
    threads_core: int = 1  #: CPUs of a core, where jobs get whole cores
    whole_tasks: bool = False  #: more CPUs for memory are those of whole tasks, before Slurm 24.11
    exclusive: bool = False  #: every job has its nodes to itself
    mem_cpu_mib: int | None = None  #: memory of a job that asks for none, for each CPU ...
    mem_node_mib: int | None = None  #: ... or for each node; with neither all the node has
    max_mem_cpu_mib: int | None = None  #: a job that asks for more gets more CPUs
    max_mem_node_mib: int | None = None  #: a job that asks for more does not start

    @classmethod
    def of(cls, partition: "NodeRules") -> Self:
        """Take them out of a whole partition: a key of what follows from them alone."""
        return cls(*_fields(cls)(partition))


@cache
def _fields(rules: type[NodeRules]) -> Callable[[NodeRules], tuple[Any, ...]]:
    return attrgetter(*rules.__struct_fields__)


class RequestRules(NodeRules, frozen=True):
    """What a partition adds to a request: all that its reading depends on."""

    max_time_s: float | None = None
    default_time_s: float | None = None


class RawPartition(RequestRules, frozen=True, kw_only=True):
    """A partition's limits; None: none.  What its nodes say is filled in from them."""

    name: str
    default: bool = False
    up: bool = True
    max_nodes: int | None = None  #: most nodes for one job
    min_nodes: int = 1
    max_cpus_node: int | None = None
    qos: str = ""  #: whose limits hold for all its jobs
    tier: int = 1  #: jobs of a higher one go first
    groups: frozenset[str] | None = None  #: of users who may use it; None: all
    accounts: frozenset[str] | None = None  #: that may use it; None: all
    denied_accounts: frozenset[str] = frozenset()
    allowed_qos: frozenset[str] | None = None
    denied_qos: frozenset[str] = frozenset()
    is_known: bool = True  #: false: it is what runs show, and its rules are not known

    def admits(self, account: str, qos: str) -> bool:
        """Whether a job of this account and QOS may come in; an unknown account may."""
        if account and self.accounts is not None and account not in self.accounts:
            return False
        if self.allowed_qos is not None and qos not in self.allowed_qos:
            return False
        # An allowed list makes Slurm ignore the denied one (slurm.conf(5), DenyAccounts).
        denied = self.accounts is None and account in self.denied_accounts
        return not denied and not (self.allowed_qos is None and qos in self.denied_qos)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawReservation:
    """Nodes that are reserved for some users, or for maintenance, for some time."""

    name: str
    start_s: float
    end_s: float
    node_names: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RawState:
    """One look at all of them."""

    nodes: Sequence[RawNode] = ()
    jobs: Sequence[RawJob] = ()
    partitions: Sequence[RawPartition] = ()
    reservations: Sequence[RawReservation] = ()
    licences: Mapping[str, int] = field(default_factory=dict)  #: how many there are in all


_Number = TypeVar("_Number", int, float)


class Partition(RawPartition, frozen=True, kw_only=True):
    """One partition: its limits, its nodes over time, and who waits for them."""

    nodes: int  #: all that are not down or drained
    node_part: float = 1.0  #: part of each that the job takes: of CPUs, memory or devices
    profile: NodeAvailability  #: whole nodes free, from now on
    #: the same if all jobs run to their time limits; None: nothing in it is predicted
    limit_profile: NodeAvailability | None = None
    queue: int = 0  #: jobs that wait for nodes of this partition
    queue_mean: float = 0.0  #: the same, averaged over about a day
    pool: NodePool | None = None  #: its nodes one by one; None: only ``profile`` is available
    promised: tuple[Promise, ...] = ()  #: taken off the profile already
    bound: str = ""  #: limit of QOS or association that cuts the node counts, for people
    outlook: Outlook | None = None  #: None: waits follow from ``profile``
    ahead: float = 0.0  #: nodes of jobs that were let in since, of shared ones the parts
    reserved_s: float = inf  #: when the next reservation begins that has one of its nodes
    blocked_s: float = -inf  #: nothing starts before, seconds since the epoch

    @property
    def largest(self) -> int:
        """Most nodes that a job may have."""
        return min(self.nodes, self.max_nodes or self.nodes)

    @property
    def by_limits(self) -> NodeAvailability:
        """Nodes free from now on if all jobs run to their time limits, as Slurm plans."""
        return self.limit_profile or self.profile

    @property
    def supply(self) -> Supply:
        """Its nodes, as a job sees them that this partition was made for."""
        return Supply(
            partition=self.name,
            unit=Unit.NODES,
            total=self.nodes,
            part=self.node_part,
            fewest=self.min_nodes,
            most=self.largest,
            free=self.profile,
            free_by_limits=self.by_limits,
            longest_s=self.max_time_s,
            node_mem_bytes=self.node_mem_bytes,
            waiting=self.queue,
            waiting_mean=self.queue_mean,
            outlook=self.outlook,
            promised=bool(self.promised),
            ahead=self.ahead,
            blocked_s=self.blocked_s,
        )

    def for_job(
        self, share: NodeShare, allowed: NodeBounds, flags: Collection[str] = (), *, user: str = ""
    ) -> "Partition":
        """Partition as a job under these limits sees it: the nodes that can take it, their times.

        share: what the job takes of each of its nodes.
        allowed: what QOS and association allow.
        flags: of the job's QOS: some lift limits of the partition (sacctmgr(1), QOS flags).
        user: whose job it is: waits depend on what else the user has in the queue.
        """
        most = None if "PartitionMaxNodes" in flags else self.max_nodes
        least = 1 if "PartitionMinNodes" in flags else self.min_nodes
        longest = None if "PartitionTimeLimit" in flags else self.max_time_s
        free, held, nodes, part = self._fitting(share)
        return replace(
            self,
            profile=free,
            limit_profile=held,
            nodes=nodes,
            node_part=part,
            outlook=self.outlook and self.outlook.for_share(share, nodes, user),
            max_nodes=lower_of(most, allowed.high),
            min_nodes=max(least, allowed.low),
            max_time_s=lower_of(longest, allowed.max_time_s),
            bound=allowed.reason,
        )

    def fitting(self, share: NodeShare) -> "Partition":
        """Partition with those nodes only that can take a job's share of each, and their times."""
        free, held, nodes, part = self._fitting(share)
        outlook = self.outlook and self.outlook.for_share(share, nodes)
        return replace(
            self, profile=free, limit_profile=held, nodes=nodes, node_part=part, outlook=outlook
        )

    def _fitting(
        self, share: NodeShare
    ) -> tuple[NodeAvailability, NodeAvailability | None, int, float]:
        if self.pool is None:
            return self.profile, self.limit_profile, self.nodes, self.node_part
        counted = self.pool.less(share, self.promised)
        held = counted.left_by_limits or counted.by_limits
        return counted.left or counted.free, held, counted.nodes, counted.part

    def blocked(self, until_s: float) -> "Partition":
        """Partition where nothing starts before ``until_s``."""
        first_s = self.profile.times_s[0]
        held = self.limit_profile
        return replace(
            self,
            profile=self.profile.reserve(self.nodes, first_s, until_s),
            limit_profile=held and held.reserve(self.nodes, first_s, until_s),
            blocked_s=until_s,
        )

    def promise(
        self,
        nodes: int,
        start_s: float,
        end_s: float,
        share: NodeShare = NodeShare(),  # noqa: B008 - frozen
        part: float = 1.0,
    ) -> "Partition":
        """Partition with one more job, which starts at ``start_s`` and is not in this view yet.

        share: what it takes of each of its nodes; ``part``: the same, as part of a node.
        """
        held = self.limit_profile
        return replace(
            self,
            profile=self.profile.reserve(nodes, start_s, end_s),
            limit_profile=held and held.reserve(nodes, start_s, end_s),
            promised=(*self.promised, (nodes, start_s, end_s, share)),
            ahead=self.ahead + nodes * part,
        )

    def queued(self, nodes: int, part: float = 1.0) -> "Partition":
        """Partition with one more job, which waits and has no planned start."""
        return replace(self, queue=self.queue + 1, ahead=self.ahead + nodes * part)


class Awaited(NamedTuple):
    """Jobs that a job waits for, and when it may start."""

    jobs: tuple[int, ...] = ()  #: that have not started, or not ended, as its user asks for
    begin_s: float = -inf  #: seconds since the epoch; inf: not known
    #: when the last of its tasks may start, where each waits for another one; -inf: with the first
    last_s: float = -inf


def nothing_awaited(dependency: str, user: str, name: str, array: str = "") -> Awaited:
    """Tell that a job waits for no other one: nothing is known of the jobs of the cluster."""
    del dependency, user, name, array
    return Awaited()


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the cluster."""

    name: str
    taken_s: float  #: when Slurm was asked, seconds since the epoch
    partitions: Mapping[str, Partition]
    default_partition: str = ""
    limits: LimitTables = LimitTables()
    licences: Mapping[str, NodeAvailability] = {}  #: free ones over time
    #: backfill cuts limits only as far as it must, and cuts them where it plans with less
    keeps_limit: bool = False
    plans_softly: bool = False  #: ``--time-min`` is to plan with, and we may take it back
    reopens: bool = False  #: we may give jobs that do not start as planned their range back
    shown: frozenset[str] = frozenset()  #: decisions whose jobs wait or run
    #: says what of a dependency is not satisfied yet, for a job of that user, name and array
    awaited: Callable[[str, str, str, str], Awaited] = nothing_awaited

    def partition(self, name: str) -> Partition | None:
        """Partition of that name; the empty name means the default one."""
        return self.partitions.get(name or self.default_partition)

    def gpu_types(self) -> frozenset[str]:
        """Types of GPUs, spelled as its nodes have them."""
        pools = (partition.pool for partition in self.partitions.values() if partition.pool)
        return frozenset(group.gpu_type for pool in pools for group in pool.groups) - {""}


class ClusterViews(NamedTuple):
    """The other clusters of one slurmdbd that a user may use, as they were seen last."""

    views: Mapping[str, Cluster] = {}
    silent: Mapping[str, str] = {}  #: those that cannot be compared, and why, in words


def lower_of(one: _Number | None, other: _Number | None) -> _Number | None:
    """Lower of two bounds, each None where there is none."""
    return min((n for n in (one, other) if n is not None), default=None)
