"""Limits of QOS and associations, from what scontrol and sacctmgr write: pure.

``scontrol show assoc_mgr`` is slurmctld's own memory: it costs slurmdbd nothing and shows what is
used of each limit.  What it leaves out (flags of a QOS, its limits for users without jobs, the QOS
that an association may have) comes from ``sacctmgr``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from sacct_ingest.errors import SlurmError
from sacct_ingest.text.slurm_text import parse_size
from slurm_plugin.slurm.limits import (
    Association,
    Cap,
    Key,
    LimitKind,
    LimitTables,
    Qos,
    ResourceLimits,
)

ASSOC_MGR = ("scontrol", "show", "assoc_mgr", "-o")
QOS_TABLE = ("sacctmgr", "-nP", "show", "qos", "format=Name,Flags,MaxTRESPU,MaxTRESPA")
ASSOC_TABLE = (
    *("sacctmgr", "-nP", "show", "assoc"),
    "format=Cluster,Account,User,Partition,QOS,DefaultQOS",
)

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
_WORD = re.compile(
    r"(?<!\S)(ClusterName|Account|UserName|Partition|ParentAccount|QOS|DefAccount|MaxWallPJ"
    r"|GrpTRESRunMins|MaxTRESPJ|MinTRESPJ|GrpTRES|MaxTRESMinsPJ|GrpTRESMins)=(\S*)"
)
#: ``node=5(2)``: limit and use; ``node=N(2)``: no limit; ``node=5``: a limit without use.
_AMOUNT = re.compile(r"([^=,]+)=(N|[\d.]+[KMGTP]?)(?:\(([\d.]+)[^)]*\))?")
_BLOCK = re.compile(r"(\S+)=\{([^}]*)\}")
_NUMBER = re.compile(r"\((\d+)\)$")


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
        rows = list(_rows(assoc_mgr))
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


def _rows(text: str) -> Iterator[tuple[str, str, dict[str, str]]]:
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
        account, user = fields["Account"], _name(fields.get("UserName", ""))
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
