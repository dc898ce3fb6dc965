"""Slurm's nodes, jobs, partitions, reservations and licences, from any source.

Times are seconds since the epoch, memory is in MiB as Slurm counts it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import msgspec


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
    partitions: tuple[str, ...] = ()
    nodes: int = 1
    start_s: float = inf  #: of a pending job what backfill planned
    end_s: float = inf
    reason: str = ""
    node_names: tuple[str, ...] = ()
    planned_names: tuple[str, ...] = ()  #: that backfill keeps for it
    tres: Mapping[str, float] = field(default_factory=dict)  #: in total, memory in MiB
    licences: Mapping[str, int] = field(default_factory=dict)
    reservation: str = ""
    alone: bool = False  #: nothing else may run on its nodes
    admin_comment: str = ""
    priority: int = 0
    submit_s: float = inf
    limit_s: float | None = None  #: None: none
    user: str = ""
    account: str = ""
    name: str = ""
    comment: str = ""
    command: str = ""  #: script with its arguments
    work_dir: str = ""

    @property
    def devices(self) -> dict[str, float]:
        """Devices in total by name, those of all types together."""
        parts = ((name.partition("gres/"), n) for name, n in self.tres.items() if ":" not in name)
        return {name: n for (_, gres, name), n in parts if gres}


class RawPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition's limits; None: none."""

    name: str
    default: bool = False
    up: bool = True
    max_nodes: int | None = None  #: most nodes for one job
    min_nodes: int = 1
    max_time_s: float | None = None
    default_time_s: float | None = None
    max_cpus_node: int | None = None
    mem_cpu_mib: int | None = None  #: memory of a job that asks for none, for each CPU ...
    mem_node_mib: int | None = None  #: ... or for each node; with neither all the node has
    max_mem_cpu_mib: int | None = None  #: a job that asks for more gets more CPUs
    max_mem_node_mib: int | None = None  #: a job that asks for more does not start
    exclusive: bool = False  #: every job has its nodes to itself
    qos: str = ""  #: whose limits hold for all its jobs
    tier: int = 1  #: jobs of a higher one go first
    accounts: frozenset[str] | None = None  #: that may use it; None: all
    denied_accounts: frozenset[str] = frozenset()
    allowed_qos: frozenset[str] | None = None
    denied_qos: frozenset[str] = frozenset()

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
