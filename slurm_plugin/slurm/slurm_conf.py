"""What is needed of ``scontrol show config``, and whose jobs a user may see by it."""

import os
import pwd
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sacct_ingest.errors import SlurmError
from sacct_ingest.records import KeyLevel

CONFIG = ("scontrol", "show", "config")
_LINE = re.compile(r"^(\w[\w\[\]]*)\s*= (.*)$", re.MULTILINE)
_HIDING = frozenset({"jobs", "usage", "all"})
#: Slurm plans with ``--time-min`` and ends jobs at their limit: since then (RELEASE_NOTES) ...
SOFT_OPTION, SOFT_SINCE = "time_min_as_soft_limit", [23, 11]
#: ... and since then the ends of running jobs are planned so, too (CHANGELOG of 25.05.4).
SOFT_ENDS_SINCE = [25, 5, 4]
_NUMBER = re.compile(r"\d+")
#: Before it, a job that backfill starts runs with exactly its ``--time-min`` (Slurm's CHANGELOG).
_KEEPS_LIMIT = [25, 5, 3]
#: Since then a task gets as many CPUs as the memory of its node needs (``_valid_pn_min_mem``).
_SPLITS_TASKS = [24, 11]


_DEPTH = 500  #: bf_max_job_test where none is set
_ABOVE = ("Operator", "Administrator")
#: Error where nimod's user may not change other users' jobs, and the command that allows it.
NO_RIGHTS = "nimod cannot take them back; sacctmgr add user nimo account=root adminlevel=operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmConf:
    """Settings of a cluster."""

    cluster: str = ""
    release: tuple[int, int] = (0, 0)
    slurm_user: int | None = None
    private: bool = False  #: PrivateData hides users' jobs from each other
    enforced: tuple[str, ...] = ()  #: AccountingStorageEnforce
    resume_s: float = 60.0  #: ResumeTimeout: until a node that is off can be used
    whole_nodes: bool = False  #: select/linear gives nothing less
    counts_memory: bool = True  #: jobs get a share of the memory
    mem_cpu_mib: int | None = None  #: DefMemPerCPU
    mem_node_mib: int | None = None  #: DefMemPerNode
    max_mem_cpu_mib: int | None = None  #: MaxMemPerCPU
    max_mem_node_mib: int | None = None  #: MaxMemPerNode
    whole_cores: bool = True  #: jobs get cores or sockets, not single threads
    whole_tasks: bool = False  #: CPUs that jobs get for their memory are those of whole tasks
    plans_softly: bool = False  #: ``--time-min`` is to plan with, and ends no job ...
    ends_softly: bool = False  #: ... and running jobs are planned to end by it, too
    may_update: bool = False  #: as the poller finds: this process may change others' jobs
    keeps_limit: bool = False  #: backfill cuts a limit no further than it must
    depth: int = _DEPTH  #: bf_max_job_test: jobs of the queue that backfill looks at
    backfill_s: float = 30.0  #: bf_interval: between two looks of backfill at the queue
    qos_weight: float = 0.0  #: PriorityWeightQOS


def read_settings(text: str) -> SlurmConf:
    r"""Read the output of :data:`CONFIG`.

    >>> read_settings("ClusterName = pine\nSLURM_VERSION = 22.05.8\n").release
    (22, 5)
    """
    said = dict(_LINE.findall(text))

    def first(key: str) -> int | None:
        match = _NUMBER.match(said.get(key, "").strip())
        return int(match[0]) if match else None

    select = said.get("SelectTypeParameters", "").upper()
    user = re.search(r"\((\d+)\)", said.get("SlurmUser", ""))
    version = [int(n) for n in _NUMBER.findall(said.get("SLURM_VERSION", ""))[:3]]
    resume_s = first("ResumeTimeout")
    interval = re.search(r"bf_interval=(\d+)", said.get("SchedulerParameters", ""))
    depth = re.search(r"bf_max_job_test=(\d+)", said.get("SchedulerParameters", ""))
    option = SOFT_OPTION in re.split(r"[,\s]+", said.get("SchedulerParameters", "").lower())
    return SlurmConf(
        cluster=said.get("ClusterName", "").strip(),
        release=(version[0], version[1]) if len(version) >= 2 else (0, 0),
        slurm_user=int(user[1]) if user else None,
        private=not _HIDING.isdisjoint(said.get("PrivateData", "").strip().split(",")),
        enforced=tuple(said.get("AccountingStorageEnforce", "").strip().split(",")),
        resume_s=60.0 if resume_s is None else float(resume_s),
        whole_nodes=said.get("SelectType", "").strip() == "select/linear",
        counts_memory="MEMORY" in select,
        whole_cores="CR_CPU" not in select,
        mem_cpu_mib=first("DefMemPerCPU"),
        mem_node_mib=first("DefMemPerNode"),
        max_mem_cpu_mib=first("MaxMemPerCPU"),
        max_mem_node_mib=first("MaxMemPerNode"),
        whole_tasks=[] < version < _SPLITS_TASKS,
        keeps_limit=version >= _KEEPS_LIMIT,
        plans_softly=option and version >= SOFT_SINCE,
        ends_softly=option and version >= SOFT_ENDS_SINCE,
        depth=int(depth[1]) if depth else _DEPTH,
        backfill_s=float(interval[1]) if interval else 30.0,
        qos_weight=float(first("PriorityWeightQOS") or 0),
    )


def cluster_name(run: Callable[[Sequence[str]], str]) -> str:
    """Ask Slurm for the name of its cluster, as the accounting has it.

    Files may be elsewhere or nowhere (configless), and ``SLURM_CONF`` and ``SLURM_CLUSTERS`` choose
    among clusters: Slurm's commands heed them all.

    run: gives the output of a Slurm command.
    Raises SlurmError: Slurm does not answer, or names no cluster.
    """
    name = read_settings(run(CONFIG)).cluster
    if not name:
        raise SlurmError("scontrol show config: no ClusterName")
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateDataRules:
    """Whose jobs: all where ``only_user`` is None, else those of the user and of the accounts."""

    only_user: str | None = None
    accounts: tuple[str, ...] = ()  #: that the user coordinates
    why: str = ""  #: in words, where not all are seen


def visibility(
    uid: int,
    name: str,
    *,
    owner_uid: int | None,
    run: Callable[[Sequence[str]], str],
    own_only: bool = False,
) -> PrivateDataRules:
    """Tell whose jobs a user may see: all, unless PrivateData hides them from each other.

    Root, SlurmUser, operators and the owner of the store see all; coordinators those of their
    accounts.  Where Slurm does not answer only one's own are seen.

    owner_uid: owner of the store's file; None: it is a database server.
    run: gives the output of a Slurm command; raises SlurmError.
    own_only: others' jobs are hidden whatever PrivateData says.
    """
    if uid in (0, owner_uid):
        return PrivateDataRules()
    try:
        settings = read_settings(run(CONFIG))
        if uid == settings.slurm_user or not (settings.private or own_only):
            return PrivateDataRules()
        level, accounts = _standing(run(_user(name)))
    except SlurmError as error:
        return PrivateDataRules(
            only_user=name, why=f"NIMO cannot find out whose jobs you may see: {error}"
        )
    if level in _ABOVE:
        return PrivateDataRules()
    why = "PrivateData hides others' jobs" if settings.private else "others' jobs are not shown"
    return PrivateDataRules(only_user=name, accounts=accounts, why=why)


def may_update(slurm_user: int | None, run: Callable[[Sequence[str]], str]) -> bool:
    """Whether this process may change others' jobs: as root, SlurmUser or an operator."""
    uid = os.geteuid()
    if uid in (0, slurm_user):
        return True
    try:
        return _standing(run(_user(pwd.getpwuid(uid).pw_name)))[0] in _ABOVE
    except (KeyError, SlurmError):
        return False


def is_own(level: KeyLevel, key: str, label: str, user: str) -> bool:
    """Whether an identity is made of runs of this user: key or label begins with the name."""
    begin = f"{user}/"
    own = {
        KeyLevel.TAG: key.startswith(begin),
        KeyLevel.SCRIPT: label.startswith(begin),
        KeyLevel.LINE: label.startswith(begin),
        KeyLevel.NAME: key.startswith(begin),
        KeyLevel.USER: key == user,
    }
    return own[level]


def _user(name: str) -> tuple[str, ...]:
    fields = "format=AdminLevel,Coordinators"
    return ("sacctmgr", "--noheader", "--parsable2", "show", "user", name, "withcoord", fields)


def _standing(text: str) -> tuple[str, tuple[str, ...]]:
    """Read administrator level and coordinated accounts; neither for one without association."""
    level, _, accounts = text.strip().partition("|")
    return level, tuple(one for one in accounts.strip().split(",") if one)
