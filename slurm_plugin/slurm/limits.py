"""What QOS, partition and association allow one job, and the node counts that leaves: pure.

As Slurm does (``src/slurmctld/acct_policy.c``): a QOS goes before an association, and of two QOS
the partition's goes before the job's unless the job's has the flag ``OverPartQOS``; where the
first of them sets a limit, the others' limit of the same kind on the same resource does not count.

``scontrol show assoc_mgr`` is slurmctld's own memory: it costs slurmdbd nothing and shows what is
used of each limit.  What it leaves out (flags of a QOS, its limits for users without jobs, the QOS
that an association may have) comes from ``sacctmgr``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from math import ceil, floor, inf

from sacct_ingest.errors import SlurmError
from sacct_ingest.text.slurm_text import parse_size
from slurm_plugin.protocol.request_messages import AllocationRequest

ASSOC_MGR = ("scontrol", "show", "assoc_mgr", "-o")
QOS_TABLE = ("sacctmgr", "-nP", "show", "qos", "format=Name,Flags,MaxTRESPU,MaxTRESPA")
ASSOC_TABLE = (
    *("sacctmgr", "-nP", "show", "assoc"),
    "format=Cluster,Account,User,Partition,QOS,DefaultQOS",
)
_WORD = re.compile(
    r"(?<!\S)(ClusterName|Account|UserName|Partition|ParentAccount|QOS|DefAccount|MaxWallPJ"
    r"|GrpTRESRunMins|MaxTRESPJ|MinTRESPJ|GrpTRES|MaxTRESMinsPJ|GrpTRESMins)=(\S*)"
)
#: ``node=5(2)``: limit and use; ``node=N(2)``: no limit; ``node=5``: a limit without use.
_AMOUNT = re.compile(r"([^=,]+)=(N|[\d.]+[KMGTP]?)(?:\(([\d.]+)[^)]*\))?")
_BLOCK = re.compile(r"(\S+)=\{([^}]*)\}")
_NUMBER = re.compile(r"\((\d+)\)$")


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
    low = 1
    high = float(need.high)
    reason = ""
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
    tables: LimitTables, job: AllocationRequest, partition: str, partition_qos: str = ""
) -> ResourceLimits:
    """Limits that one job meets in a partition; ``partition_qos`` is the partition's own.

    An account or QOS that it does not name is the default one, as Slurm chooses it.
    """
    uid = job.user_id
    user = job.user_name or tables.user_names.get(-1 if uid is None else uid, "")
    account = tables.account_of(user, job.account)
    own = tables.association(user, account, partition)
    name = tables.qos_of(own, job.qos)
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


#: Slurm's word in ``scontrol show assoc_mgr`` -> kind; those of a user's and an account's block.
_KINDS: Mapping[str, LimitKind] = {
    "MaxTRESPJ": LimitKind.JOB,
    "MinTRESPJ": LimitKind.LEAST,
    "GrpTRES": LimitKind.GROUP,
    "MaxTRESMinsPJ": LimitKind.JOB_MINUTES,
    "GrpTRESMins": LimitKind.GROUP_MINUTES,
    "MaxTRESPU": LimitKind.USER,
    "MaxTRESPA": LimitKind.ACCOUNT,
}


def read_limits(
    assoc_mgr: str,
    qos_table: str = "",
    assoc_table: str = "",
    *,
    cluster: str,
    enforced: Iterable[str],
) -> LimitTables:
    """Read the limits of a cluster.

    assoc_mgr, qos_table, assoc_table: output of :data:`ASSOC_MGR`, :data:`QOS_TABLE` and
        :data:`ASSOC_TABLE`.
    cluster: name of the cluster, for associations; empty: all count.
    enforced: words of ``AccountingStorageEnforce``: without ``limits`` or ``safe`` no limit holds.
    Raises SlurmError: the text is not what these commands write.
    """
    words = {word.strip().lower() for word in enforced}
    if not words & {"limits", "safe", "all"}:
        return LimitTables()
    try:
        rows = list(association_rows(assoc_mgr))
        more = {
            name: (flags, user, account) for name, flags, user, account, *_ in _split(qos_table)
        }
        lists = {
            (account, user, partition): (tuple(filter(None, names.split(","))), default)
            for of, account, user, partition, names, default, *_ in _split(assoc_table)
            if not cluster or of == cluster
        }
        return LimitTables(
            qos=dict(_qos(line, fields, more) for kind, line, fields in rows if kind == "QOS"),
            associations=dict(_associations(rows, lists, cluster)),
            default_accounts={
                _name(f["UserName"]): f.get("DefAccount", "") for k, _, f in rows if k == "USER"
            },
            user_names={
                int(uid[1]): _name(f["UserName"])
                for k, _, f in rows
                if k == "USER" and (uid := _NUMBER.search(f["UserName"]))
            },
            safe=bool(words & {"safe", "all"}),
        )
    except (ValueError, KeyError) as error:
        raise SlurmError(
            f"scontrol show assoc_mgr printed text that NIMO cannot read: {error}"
        ) from error


def amounts(text: str) -> Iterator[tuple[str, float | None, float]]:
    """Resources of a TRES list: name, limit (None: none) and use; memory in MiB.

    >>> list(amounts("cpu=N(2),mem=4G,node=5(2)"))
    [('cpu', None, 2.0), ('mem', 4096.0, 0.0), ('node', 5.0, 2.0)]
    """
    for name, limit, used in _AMOUNT.findall(text):
        yield name, None if limit == "N" else _count(name, limit), float(used or 0)


def association_rows(text: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Give the kind, the line and the fields of each user, association and QOS."""
    kinds = {"UserName": "USER", "ClusterName": "ASSOC", "QOS": "QOS"}
    for line in text.splitlines():
        kind = kinds.get(line.partition("=")[0])
        if kind is not None:
            yield kind, line, dict(_WORD.findall(line.partition(" Account Limits=")[0]))


def _name(text: str) -> str:
    """Name without its number: ``alice(1000)``."""
    return text.partition("(")[0]


def _count(name: str, text: str) -> float:
    if name == "mem":
        size = parse_size(text if text[-1:].isalpha() else f"{text}M")
        return (size or 0) / 2**20
    return float(text)


def _caps(fields: Mapping[str, str], owner: str) -> tuple[Cap, ...]:
    ahead = {name: used for name, _, used in amounts(fields.get("GrpTRESRunMins", ""))}
    return tuple(
        Cap(
            kind,
            name,
            limit,
            used + (ahead.get(name, 0.0) if kind is LimitKind.GROUP_MINUTES else 0.0),
            owner,
        )
        for word, kind in _KINDS.items()
        if "=" in (text := fields.get(word, ""))
        for name, limit, used in amounts(text)
        if limit is not None
    )


def _limits(
    fields: Mapping[str, str], owner: str, flags: frozenset[str] = frozenset()
) -> ResourceLimits:
    minutes = fields.get("MaxWallPJ", "")
    return ResourceLimits(
        caps=_caps(fields, owner),
        max_time_s=60.0 * int(minutes) if minutes.isdecimal() else None,
        flags=flags,
    )


def _qos(
    line: str, fields: Mapping[str, str], extras: Mapping[str, tuple[str, str, str]]
) -> tuple[str, Qos]:
    name = _name(fields["QOS"])
    flags, per_user, per_account = extras.get(name, ("", "", ""))
    owner = f"QOS {name}"
    accounts, _, users = line.partition(" Account Limits=")[2].partition(" User Limits=")
    return name, Qos(
        limits=_limits(fields, owner, frozenset(filter(None, flags.split(",")))),
        per_user=_caps({"MaxTRESPU": per_user}, owner),
        per_account=_caps({"MaxTRESPA": per_account}, owner),
        users={_uid(who): _caps(_pairs(block), owner) for who, block in _BLOCK.findall(users)},
        accounts={who: _caps(_pairs(block), owner) for who, block in _BLOCK.findall(accounts)},
    )


def _uid(text: str) -> str:
    """Uid of a user's block: ``1000={`` or ``alice(1000)={``."""
    match = _NUMBER.search(text)
    return match[1] if match else text


def _pairs(block: str) -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in block.split())


def _associations(
    rows: Iterable[tuple[str, str, Mapping[str, str]]],
    lists: Mapping[Key, tuple[tuple[str, ...], str]],
    cluster: str,
) -> Iterator[tuple[Key, Association]]:
    for kind, _, fields in rows:
        if kind != "ASSOC" or (cluster and fields["ClusterName"] != cluster):
            continue
        account = fields["Account"]
        user = _name(fields.get("UserName", ""))
        key = account, user, fields.get("Partition", "")
        names, default = lists.get(key, ((), ""))
        owner = f"user {user} in account {account}" if user else f"account {account}"
        yield (
            key,
            Association(
                limits=_limits(fields, owner),
                parent=_name(fields.get("ParentAccount", "")),
                qos=names,
                default_qos=default,
            ),
        )


def _split(table: str) -> Iterator[list[str]]:
    return (line.split("|") for line in table.splitlines() if line)
