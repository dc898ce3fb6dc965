"""Reasons that name a limit of the accounting, and that limit in slurmctld's memory: pure.

Slurm has some 170 of them (src/common/job_state_reason.c; before 23.02 slurm_protocol_defs.c): each
is a scope, a resource and a measure, and so are the words of ``scontrol show assoc_mgr``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from slurm_plugin.slurm.limits import amounts, association_rows
from slurm_plugin.slurm.pending_job import PendingJob

_RESOURCES: Mapping[str, str] = {
    "cpu": "cpu", "mem": "mem", "memory": "mem", "node": "node", "energy": "energy",
    "gres": "gres", "license": "license", "bb": "bb", "billing": "billing", "unknown": "",
    "jobs": "jobs", "job": "jobs", "submitjobs": "submitted jobs", "submitjob": "submitted jobs",
    "wall": "wall", "wallduration": "wall",
}  # fmt: skip
_RESOURCE = f"(?P<resource>{'|'.join(sorted(_RESOURCES, key=len, reverse=True))})"
_MEASURE = "(?P<measure>runminutes|runmins|minutes|mins)?"
#: Words of an association that a QOS has by user.
_OF_ASSOCIATION = {"MaxJobsPU": "MaxJobs", "MaxSubmitJobsPU": "MaxSubmitJobs"}
_SETTINGS: Mapping[str, str] = {
    "MaxTRESPJ": "MaxTRESPerJob", "MaxTRESMinsPJ": "MaxTRESMinsPerJob",
    "MaxTRESPN": "MaxTRESPerNode", "MaxTRESPU": "MaxTRESPerUser",
    "MaxTRESPA": "MaxTRESPerAccount", "MinTRESPJ": "MinTRESPerJob", "MaxWallPJ": "MaxWall",
    "MaxJobsPU": "MaxJobsPerUser", "MaxJobsPA": "MaxJobsPerAccount",
    "MaxSubmitJobsPU": "MaxSubmitJobsPerUser", "MaxSubmitJobsPA": "MaxSubmitJobsPerAccount",
    "MaxTRESRunMinsPU": "MaxTRESRunMinsPerUser", "MaxTRESRunMinsPA": "MaxTRESRunMinsPerAccount",
}  # fmt: skip
_NUMBER = re.compile(r"(?P<limit>[\d.]+)(?:\((?P<used>[\d.]+)\))?")
_BLOCK = re.compile(r"(\S+)=\{([^}]*)\}")


class Scope(StrEnum):
    """Whose use a limit bounds."""

    GROUP = "group"
    JOB = "job"
    NODE = "node"
    USER = "user"
    ACCOUNT = "account"
    LEAST = "least"  #: a job's least


class Measure(StrEnum):
    """What of a resource is counted."""

    AMOUNT = ""  #: what is in use
    MINUTES = "minutes"  #: what was used, times minutes
    AHEAD = "minutes ahead"  #: what running jobs have still ahead of them


@dataclass(frozen=True, slots=True)
class LimitReason:
    """What a reason says."""

    owner: str  #: ``QOS`` or ``association``
    scope: Scope
    resource: str  #: as TRES have it; also ``jobs``, ``submitted jobs``, ``wall``; empty: any
    measure: Measure = Measure.AMOUNT

    @property
    def by_job(self) -> bool:
        """Whether the job alone is beyond it, whatever others do."""
        return self.scope in (Scope.JOB, Scope.NODE, Scope.LEAST)

    @property
    def word(self) -> str:
        """Name of the limit in ``scontrol show assoc_mgr``."""
        own = _WORDS.get((self.resource, self.scope)) or _TRES_WORDS[self.scope, self.measure]
        return _OF_ASSOCIATION.get(own, own) if self.owner == "association" else own

    @property
    def setting(self) -> str:
        """The same as ``sacctmgr show qos`` and ``show assoc`` have it."""
        return _SETTINGS.get(self.word, self.word)


_PATTERNS: tuple[tuple[re.Pattern[str], Scope | None], ...] = (
    (re.compile(f"(?P<owner>qos|assoc)grp{_RESOURCE}{_MEASURE}(?:limit)?"), Scope.GROUP),
    (re.compile(f"(?P<owner>qos)min{_RESOURCE}(?:notsatisfied)?"), Scope.LEAST),
    (
        re.compile(
            f"(?P<owner>qos|assoc|)max{_RESOURCE}{_MEASURE}per(?P<per>job|node|user|account)(?:limit)?"
        ),
        None,
    ),
    (re.compile("(?P<owner>assoc)max(?P<resource>jobs|submitjob)limit"), Scope.USER),
)
_MEASURES = {"minutes": Measure.MINUTES, "mins": Measure.MINUTES}
_MEASURES |= {"runminutes": Measure.AHEAD, "runmins": Measure.AHEAD}
_TRES_WORDS: Mapping[tuple[Scope, Measure], str] = {
    (Scope.GROUP, Measure.AMOUNT): "GrpTRES",
    (Scope.GROUP, Measure.MINUTES): "GrpTRESMins",
    (Scope.GROUP, Measure.AHEAD): "GrpTRESRunMins",
    (Scope.JOB, Measure.AMOUNT): "MaxTRESPJ",
    (Scope.JOB, Measure.MINUTES): "MaxTRESMinsPJ",
    (Scope.NODE, Measure.AMOUNT): "MaxTRESPN",
    (Scope.USER, Measure.AMOUNT): "MaxTRESPU",
    (Scope.USER, Measure.AHEAD): "MaxTRESRunMinsPU",
    (Scope.ACCOUNT, Measure.AMOUNT): "MaxTRESPA",
    (Scope.ACCOUNT, Measure.AHEAD): "MaxTRESRunMinsPA",
    (Scope.LEAST, Measure.AMOUNT): "MinTRESPJ",
}
_WORDS: Mapping[tuple[str, Scope], str] = {
    ("jobs", Scope.GROUP): "GrpJobs",
    ("jobs", Scope.USER): "MaxJobsPU",
    ("jobs", Scope.ACCOUNT): "MaxJobsPA",
    ("submitted jobs", Scope.GROUP): "GrpSubmitJobs",
    ("submitted jobs", Scope.USER): "MaxSubmitJobsPU",
    ("submitted jobs", Scope.ACCOUNT): "MaxSubmitJobsPA",
    ("wall", Scope.GROUP): "GrpWall",
    ("wall", Scope.JOB): "MaxWallPJ",
}


def limit_reason(reason: str) -> LimitReason | None:
    """Read a reason; None: it names no limit.

    >>> limit_reason("QOSGrpCPURunMinutesLimit").word
    'GrpTRESRunMins'
    >>> limit_reason("MaxGRESPerAccount").word
    'MaxTRESPA'
    """
    for pattern, scope in _PATTERNS:
        if found := pattern.fullmatch(reason.lower()):
            said = found.groupdict()
            owner = "association" if said["owner"] == "assoc" else "QOS"
            measure = _MEASURES.get(said.get("measure") or "", Measure.AMOUNT)
            return LimitReason(
                owner, scope or Scope(said["per"]), _RESOURCES[said["resource"]], measure
            )
    return None


def job_limit(reason: str) -> LimitReason | None:
    """Read a reason that names a limit of jobs at once: it ends as others end; None: another one.

    >>> job_limit("QOSMaxJobsPerUserLimit").word
    'MaxJobsPU'
    """
    limit = limit_reason(reason)
    return limit if limit is not None and limit.resource == "jobs" else None


@dataclass(frozen=True, slots=True)
class BindingLimit:
    """A limit that is set, and what is used of it."""

    reason: LimitReason
    owner: str  #: ``QOS short``, ``account physics``
    resource: str  #: TRES: ``cpu``, ``gres/gpu``
    limit: float  #: memory in MiB, times in minutes
    used: float | None = None  #: None: it bounds each job alone

    @property
    def text(self) -> str:
        """The limit as sacctmgr would show it."""
        name = f"{self.resource}=" if self.resource else ""
        return f"{self.reason.setting}={name}{self.limit:g} of {self.owner}"


def binding_limit(
    assoc_mgr: str, reason: LimitReason, job: PendingJob, qos: tuple[str, ...]
) -> BindingLimit | None:
    """Find the limit that holds a job: of those that are set, the one with the least left.

    assoc_mgr: output of ``scontrol show assoc_mgr -o``.
    qos: those whose limits hold for the job: the partition's and its own.
    None: none is shown.
    """
    rows = _of_qos(assoc_mgr, job, qos) if reason.owner == "QOS" else _of_accounts(assoc_mgr, job)
    found = (one for owner, words in rows for one in _set(reason, owner, words, job))
    return min(found, key=lambda one: one.limit - (one.used or 0.0), default=None)


def _set(
    reason: LimitReason, owner: str, words: Mapping[str, str], job: PendingJob
) -> Iterator[BindingLimit]:
    text = words.get(reason.word, "")
    if "=" not in text:
        if found := _NUMBER.fullmatch(text):
            used = float(found["used"]) if found["used"] else None
            yield BindingLimit(reason, owner, "", float(found["limit"]), used)
        return
    ahead = {name: used for name, _, used in amounts(words.get("GrpTRESRunMins", ""))}
    for name, limit, used in amounts(text):
        if limit is None or not name.startswith(reason.resource):
            continue
        if reason.measure is Measure.MINUTES and reason.scope is Scope.GROUP:
            all_used = used + ahead.get(name, 0.0)
        else:
            all_used = used
        if reason.by_job:
            yield BindingLimit(reason, owner, name, limit)
        elif need_of(job, name):
            yield BindingLimit(reason, owner, name, limit, all_used)


def need_of(job: PendingJob, resource: str) -> float:
    """Give what a job asks for of a resource, in total."""
    if resource == "node":
        return float(job.nodes)
    if resource == "cpu":
        return float(job.tres.get("cpu", job.cpus))
    if resource.startswith("license/"):
        return float(job.licences.get(resource.removeprefix("license/"), 0))
    return job.tres.get(resource, 0.0)


def _of_qos(
    text: str, job: PendingJob, names: tuple[str, ...]
) -> Iterator[tuple[str, dict[str, str]]]:
    for kind, line, fields in association_rows(text):
        name = fields.get("QOS", "").partition("(")[0]
        if kind != "QOS" or name not in names:
            continue
        own, _, blocks = line.partition(" Account Limits=")
        accounts, _, users = blocks.partition(" User Limits=")
        words = _words(own)
        for who, block in _BLOCK.findall(accounts):
            if who == job.account:
                words |= _words(block)
        for who, block in _BLOCK.findall(users):
            if who == str(job.uid) or who.endswith(f"({job.uid})"):
                words |= _words(block)
        yield f"QOS {name}", words


def _of_accounts(text: str, job: PendingJob) -> Iterator[tuple[str, dict[str, str]]]:
    """Give the job's association, then the accounts above."""
    own: dict[str, dict[str, str]] = {}
    accounts: dict[str, dict[str, str]] = {}
    for kind, line, _ in association_rows(text):
        if kind != "ASSOC":
            continue
        words = _words(line)
        user = words.get("UserName", "").partition("(")[0]
        if not user:
            accounts[words.get("Account", "")] = words
        elif user == job.user and words.get("Account") == job.account:
            own[words.get("Partition", "")] = words
    for partition in (*job.partitions, ""):
        if partition in own:
            yield f"user {job.user} in account {job.account}", own[partition]
            break
    name = job.account
    while name in accounts:
        words = accounts.pop(name)
        yield f"account {name}", words
        name = words.get("ParentAccount", "").partition("(")[0]


def _words(text: str) -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in text.split())
