"""What QOS, partition and association allow one job, and the node counts that leaves: pure.

As Slurm does (``src/slurmctld/acct_policy.c``): a QOS goes before an association, and of two QOS
the partition's goes before the job's unless the job's has the flag ``OverPartQOS``; where the
first of them sets a limit, the others' limit of the same kind on the same resource does not count.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from math import ceil, floor, inf


class LimitKind(StrEnum):
    """Kinds of limits, under Slurm's own names (``sacctmgr show qos``)."""

    JOB = "MaxTRESPerJob"
    LEAST = "MinTRESPerJob"
    GROUP = "GrpTRES"
    USER = "MaxTRESPerUser"
    ACCOUNT = "MaxTRESPerAccount"
    JOB_MINUTES = "MaxTRESMinsPerJob"
    GROUP_MINUTES = "GrpTRESMins"


@dataclass(frozen=True, slots=True)
class Cap:
    """One limit on one resource.

    ``used`` is what running jobs have of it (of minutes: what was used and what running jobs have
    still ahead).  Memory is in MiB.
    """

    kind: LimitKind
    resource: str  #: ``node``, ``cpu``, ``mem``, ``gres/gpu``
    limit: float
    used: float = 0.0
    owner: str = ""  #: whose limit, for people: ``QOS short``, ``account physics``

    @property
    def text(self) -> str:
        """The limit as sacctmgr would show it.

        >>> Cap(LimitKind.JOB, "node", 3, owner="QOS short").text
        'MaxTRESPerJob=node=3 of QOS short'
        """
        return f"{self.kind}={self.resource}={self.limit:g} of {self.owner}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """Limits of one QOS or association, or of all together as one job meets them."""

    caps: tuple[Cap, ...] = ()
    max_time_s: float | None = None
    flags: frozenset[str] = frozenset()  #: of a QOS, ``PartitionMaxNodes`` for instance

    def over(self, lower: "ResourceLimits") -> "ResourceLimits":
        """Limits where these go before ``lower``."""
        set_here = {(cap.kind, cap.resource) for cap in self.caps}
        others = (cap for cap in lower.caps if (cap.kind, cap.resource) not in set_here)
        return ResourceLimits(
            caps=(*self.caps, *others),
            max_time_s=lower.max_time_s if self.max_time_s is None else self.max_time_s,
            flags=self.flags | lower.flags,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNeed:
    """What a job takes of the limited resources."""

    low: int  #: fewest nodes
    high: int  #: most nodes
    per_node: Mapping[str, float] = field(default_factory=dict)  #: of each resource but ``node``
    limit_s: float | None = None  #: time limit


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBounds:
    """Node counts that limits allow; ``low > high``: none."""

    low: int  #: 1 unless a limit says more
    high: int
    reason: str = ""  #: the limit that cut the range, empty where none did
    max_time_s: float | None = None


def node_range(need: ResourceNeed, limits: ResourceLimits, *, safe: bool = False) -> NodeBounds:
    """Node counts on which a job is not held back by a limit.

    What others of the group use now is taken off a group's limit, as long as that leaves the job
    its fewest nodes; a job that has to wait for the group in any case may have all that the group
    may have.

    need: the request.
    limits: all that hold for it, see :func:`limits_of`.
    safe: whether jobs may only start that GrpTRESMins lets run to their time limit
        (``AccountingStorageEnforce=safe``).

    >>> three = Cap(LimitKind.JOB, "node", 3, owner="QOS short")
    >>> node_range(ResourceNeed(low=1, high=8), ResourceLimits(caps=(three,))).high
    3
    """
    low, high, reason = 1, float(need.high), ""
    for cap in limits.caps:
        each = 1.0 if cap.resource == "node" else need.per_node.get(cap.resource, 0.0)
        if each <= 0:
            continue
        if cap.kind is LimitKind.LEAST:
            least = ceil(cap.limit / each)
            low, reason = (least, reason or cap.text) if least > low else (low, reason)
            continue
        most = _most(cap, each, need, safe=safe)
        high, reason = (most, cap.text) if most < high else (high, reason)
    return NodeBounds(low=low, high=int(high), reason=reason, max_time_s=limits.max_time_s)


def _most(cap: Cap, each: float, need: ResourceNeed, *, safe: bool) -> float:
    """Most nodes under one limit."""
    minutes = 1.0
    if cap.kind in (LimitKind.JOB_MINUTES, LimitKind.GROUP_MINUTES):
        if need.limit_s is None or (cap.kind is LimitKind.GROUP_MINUTES and not safe):
            return inf
        minutes = max(need.limit_s / 60.0, 1.0)
    left = _floor((cap.limit - cap.used) / (each * minutes))
    return left if left >= need.low else _floor(cap.limit / (each * minutes))


def _floor(value: float) -> int:
    return floor(value + 1e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """A QOS: limits on each of its jobs and on all, and on those of one user or account."""

    limits: ResourceLimits = field(default_factory=ResourceLimits)
    per_user: tuple[Cap, ...] = ()  #: of a user who has no job in this QOS
    per_account: tuple[Cap, ...] = ()
    users: Mapping[str, tuple[Cap, ...]] = field(default_factory=dict)  #: by uid, with their use
    accounts: Mapping[str, tuple[Cap, ...]] = field(default_factory=dict)

    def of(self, uid: int | None, account: str) -> ResourceLimits:
        """Limits as the jobs of a user and an account meet them."""
        user = self.users.get(str(uid), self.per_user)
        group = self.accounts.get(account, self.per_account)
        return replace(self.limits, caps=(*self.limits.caps, *user, *group))


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """An account, or a user in one; ``limits`` hold what Slurm hands down already."""

    limits: ResourceLimits = field(default_factory=ResourceLimits)
    parent: str = ""  #: account above
    qos: tuple[str, ...] = ()  #: that its jobs may have
    default_qos: str = ""


#: Account, user, partition; the last two may be empty.
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitTables:
    """All limits of a cluster's accounting."""

    qos: Mapping[str, Qos] = field(default_factory=dict)
    associations: Mapping[Key, Association] = field(default_factory=dict)
    default_accounts: Mapping[str, str] = field(default_factory=dict)  #: by user
    user_names: Mapping[int, str] = field(default_factory=dict)  #: by uid
    safe: bool = False  #: AccountingStorageEnforce has it

    def account_of(self, user: str, account: str) -> str:
        """Account of a job, in lower case as the accounting keeps it."""
        return (account or self.default_accounts.get(user, "")).lower()

    def association(self, user: str, account: str, partition: str) -> Association | None:
        """Association that a job of this user runs under."""
        exact = self.associations.get((account, user, partition))
        return exact or self.associations.get((account, user, ""))

    def belongs(self, user: str, account: str, partition: str) -> bool:
        """Whether a user may name an account; True where associations are unknown."""
        return not self.associations or self.association(user, account, partition) is not None

    def qos_of(self, association: Association | None, qos: str) -> str:
        """QOS of a job that may name none (``acct_policy.c``, ``_get_default_qos``)."""
        if qos:
            return qos
        if association is not None and (association.default_qos or len(association.qos) == 1):
            return association.default_qos or association.qos[0]
        return "normal"

    def above(self, account: str) -> list[ResourceLimits]:
        """Limits of an account and of those above it that are shared by all their jobs."""
        chain: list[ResourceLimits] = []
        passed: set[str] = set()
        while account and account not in passed:
            passed.add(account)
            association = self.associations.get((account, "", ""), Association())
            shared = tuple(c for c in association.limits.caps if c.kind in _SHARED)
            chain.append(ResourceLimits(caps=shared))
            account = association.parent
        return chain


_SHARED = frozenset({LimitKind.GROUP, LimitKind.GROUP_MINUTES})


def limits_of(
    tables: LimitTables,
    *,
    user: str,
    uid: int | None,
    account: str,
    partition: str,
    qos: str,
    partition_qos: str = "",
) -> ResourceLimits:
    """Limits that one job meets.

    tables: those of the cluster.
    user, uid, account, partition, qos: of the job; an empty account or QOS is the default one, as
        Slurm chooses it.
    partition_qos: QOS of the partition, if it has one.
    """
    user = user or tables.user_names.get(-1 if uid is None else uid, "")
    account = tables.account_of(user, account)
    own = tables.association(user, account, partition)
    name = tables.qos_of(own, qos)
    ranked = [n for n in (partition_qos, name) if n]
    jobs = tables.qos.get(name)
    if jobs is not None and "OverPartQOS" in jobs.limits.flags:
        ranked.reverse()
    # A partition's QOS that the job asks for, too, counts once.
    qos_limits = [tables.qos[n].of(uid, account) for n in dict.fromkeys(ranked) if n in tables.qos]
    first = reduce(ResourceLimits.over, qos_limits, ResourceLimits())
    merged = first.over(own.limits if own else ResourceLimits())
    # What the accounts above share counts, too, unless a QOS went before.
    set_by_qos = {(cap.kind, cap.resource) for cap in first.caps}
    above = (cap for one in tables.above(account) for cap in one.caps)
    shared = (cap for cap in above if (cap.kind, cap.resource) not in set_by_qos)
    return replace(merged, caps=(*merged.caps, *shared))
