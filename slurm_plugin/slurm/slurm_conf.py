"""What the view of a cluster needs of ``scontrol show config``: pure."""

import re
from dataclasses import dataclass

CONFIG = ("scontrol", "show", "config")
_LINE = re.compile(r"^(\w[\w\[\]]*)\s*= (.*)$", re.MULTILINE)
_HIDING = frozenset({"jobs", "usage", "all"})
_NUMBERS = ("ResumeTimeout", "DefMemPerCPU", "DefMemPerNode", "MaxMemPerCPU", "MaxMemPerNode")
#: Slurm plans with ``--time-min`` and ends jobs at their limit: since then (RELEASE_NOTES) ...
SOFT_OPTION, SOFT_SINCE = "time_min_as_soft_limit", [23, 11]
#: ... and since then the ends of running jobs are planned so, too (CHANGELOG of 25.05.4).
SOFT_ENDS_SINCE = [25, 5, 4]
_NUMBER = re.compile(r"\d+")
#: Before it, a job that backfill starts runs with exactly its ``--time-min`` (Slurm's CHANGELOG).
_KEEPS_LIMIT = [25, 5, 3]
#: Since then a task gets as many CPUs as the memory of its node needs (``_valid_pn_min_mem``).
_SPLITS_TASKS = [24, 11]


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


def read_settings(text: str) -> SlurmConf:
    r"""Read the output of :data:`CONFIG`.

    >>> read_settings("ClusterName = pine\nSLURM_VERSION = 22.05.8\n").release
    (22, 5)
    """
    said = dict(_LINE.findall(text))
    numbers = {key: _first(said.get(key, "")) for key in _NUMBERS}
    select = said.get("SelectTypeParameters", "").upper()
    user = re.search(r"\((\d+)\)", said.get("SlurmUser", ""))
    version = [int(n) for n in _NUMBER.findall(said.get("SLURM_VERSION", ""))[:3]]
    resume_s = numbers["ResumeTimeout"]
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
        mem_cpu_mib=numbers["DefMemPerCPU"],
        mem_node_mib=numbers["DefMemPerNode"],
        max_mem_cpu_mib=numbers["MaxMemPerCPU"],
        max_mem_node_mib=numbers["MaxMemPerNode"],
        whole_tasks=[] < version < _SPLITS_TASKS,
        keeps_limit=version >= _KEEPS_LIMIT,
        plans_softly=option and version >= SOFT_SINCE,
        ends_softly=option and version >= SOFT_ENDS_SINCE,
    )


def _first(text: str) -> int | None:
    match = _NUMBER.match(text.strip())
    return int(match[0]) if match else None
