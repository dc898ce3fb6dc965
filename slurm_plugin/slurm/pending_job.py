"""A job that waits, as ``scontrol show job`` has it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sacct_ingest.text.slurm_text import parse_epoch, parse_time_limit
from slurm_plugin.slurm import converters
from slurm_plugin.slurm.shown_job import shown_fields

_NONE = frozenset({"", "(null)", "N/A", "None", "Unknown", "n/a"})
_FIRST = re.compile(r"^JobId=(\d+)((?: \w+=\S+)*?) JobName=", re.MULTILINE)
#: Kinds of dependency that failure of the other job breaks.
AFTER_WELL = frozenset({"afterok", "aftercorr"})
_NODES = re.compile(r"(\d+)(?:-(\d+))?")
_USER = re.compile(r"(.*)\((\d+)\)")
#: One job of a dependency, and what Slurm says of it: ``afterok:3(unfulfilled)``.
_ON = re.compile(
    r"(?P<kind>after\w*|singleton)(?::(?P<job>\d+)(?:_(?P<task>\d+|\*))?)?(?:\+(?P<minutes>\d+))?"
    r"\((?P<state>\w+)\)"
)
#: What Slurm shows of devices, the option that asks for it, and what that leaves out.
_DEVICES = (
    ("TresPerNode", "--gres", ""),
    ("TresPerJob", "--gpus", "gpu:"),
    ("TresPerSocket", "--gpus-per-socket", "gpu:"),
    ("TresPerTask", "--gpus-per-task", "gpu:"),
)
#: One of them: ``gres:gpu:a100:2`` in 22.05, ``gres/gpu:a100:2``, ``gres/gpu:a100=2``.
_DEVICE = re.compile(r"gres[:/](?P<name>[^,=]+(?:=\d+)?)")


@dataclass(frozen=True, slots=True)
class DependsOn:
    """A job that another one waits for."""

    kind: str  #: ``afterok``, ``singleton``
    job_id: int | None
    state: str  #: ``unfulfilled``, ``failed``
    task: str = ""  #: of an array: the index of the one that counts; empty: all
    minutes: int = 0  #: that have to pass besides


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingJob:
    """A job that waits: what it asks for, and why Slurm has not started it."""

    job_id: int
    name: str = ""
    array_id: int | None = None
    het_id: int | None = None  #: of the heterogeneous job that it is a component of
    tasks: str = ""  #: of an array: those that wait, ``2-4%1``
    throttle: int | None = None  #: most tasks of the array that may run at once
    reason: str = ""  #: Slurm's word
    detail: str = ""  #: what Slurm says behind it: ``UnavailableNodes:n1``
    user: str = ""
    uid: int | None = None
    account: str = ""
    qos: str = ""
    partitions: tuple[str, ...] = ()
    priority: int = 0
    submit_s: float = 0.0
    eligible_s: float | None = None  #: None: not known yet, as while it is held
    put_back: bool = False  #: Slurm has put it back into the queue at least once
    start_s: float | None = None  #: what Slurm plans
    limit_s: float | None = None
    least_s: float | None = None  #: ``--time-min``
    nodes: int = 1
    max_nodes: int | None = None
    cpus: int = 1
    tres: Mapping[str, float] = field(default_factory=dict)  #: in total, memory in MiB
    #: what asks for its devices, as Slurm shows it: ``TresPerNode``, ``gres/gpu:a100:2``
    devices: Mapping[str, str] = field(default_factory=dict)
    mem_node_mib: int | None = None
    mem_cpu_mib: int | None = None
    features: str = ""
    node_list: str = ""  #: ``--nodelist``
    excluded: str = ""  #: ``--exclude``
    licences: Mapping[str, int] = field(default_factory=dict)
    reservation: str = ""
    depends: tuple[DependsOn, ...] = ()
    exclusive: bool = False
    deadline_s: float | None = None
    note: str = ""  #: its admin_comment

    @property
    def is_particular(self) -> bool:
        """Whether it takes some of the nodes of its partitions only."""
        which = (self.node_list, self.excluded, self.features, self.reservation, self.devices)
        return any(which)

    @property
    def device_options(self) -> dict[str, str]:
        """Options of sbatch that ask for its devices.

        >>> PendingJob(job_id=1, devices={"TresPerJob": "gres:gpu:a100:2"}).device_options
        {'--gpus': 'a100:2'}
        """
        found = {}
        for name, option, before in _DEVICES:
            asked = [one.removeprefix(before) for one in self._asked(name, before)]
            if asked:
                found[option] = ",".join(asked)
        return found

    @property
    def device_types(self) -> dict[str, float]:
        """GPUs in total whose type it asks for, spelled as in its request.

        >>> asked = {"TresPerNode": "gres/gpu:a100:1,gres/shard:2"}
        >>> PendingJob(job_id=1, tres={"gres/gpu": 4.0}, devices=asked).device_types
        {'gpu:a100': 4.0}
        """
        types = (converters.gpu_type(one) for name, _, _ in _DEVICES for one in self._asked(name))
        # Types are in the list of resources where the accounting counts them, in lower case.
        every = self.tres.get("gres/gpu", 1.0)
        return {
            f"gpu:{one}": self.tres.get(f"gres/gpu:{one.lower()}", every) for one in types if one
        }

    @property
    def gpu_type(self) -> str:
        """Type of GPU that it asks for, to compare, in lower case; empty: any, or several."""
        types = [one.partition(":")[2].lower() for one in self.device_types]
        return types[0] if len(types) == 1 else ""

    def _asked(self, name: str, before: str = "") -> list[str]:
        found = _DEVICE.finditer(self.devices.get(name, ""))
        asked = (one["name"].replace("=", ":") for one in found)
        return [one for one in asked if one.startswith(before)]

    @property
    def shown_id(self) -> str:
        """Its number as users write it.

        >>> PendingJob(job_id=9, array_id=9, tasks="2-4%1").shown_id
        '9'
        >>> PendingJob(job_id=12, array_id=9, tasks="3").shown_id
        '9_3'
        """
        return f"{self.array_id}_{self.tasks}" if self.tasks.isdecimal() else f"{self.job_id}"


def pending_jobs(text: str) -> list[PendingJob]:
    """Read all jobs that wait out of what ``scontrol show job`` prints.

    Of an array the tasks that wait share one record, of a heterogeneous job all components.
    """
    records = (one for one in re.split(r"\n\n+", text) if _FIRST.search(one))
    found = [job for job in map(_pending_job, records) if job is not None]
    components: dict[int, list[PendingJob]] = {}
    for job in found:
        components.setdefault(job.het_id or job.job_id, []).append(job)
    return [_as_one(every) if len(every) > 1 else every[0] for every in components.values()]


def _as_one(components: Sequence[PendingJob]) -> PendingJob:
    """Join the components of a heterogeneous job, which Slurm starts at once."""
    first = min(components, key=lambda one: one.job_id)
    tres: dict[str, float] = {}
    for job in components:
        for name, amount in job.tres.items():
            tres[name] = tres.get(name, 0.0) + amount
    limits_s = [job.limit_s for job in components]
    return replace(
        first,
        nodes=sum(job.nodes for job in components),
        max_nodes=None,
        cpus=sum(job.cpus for job in components),
        tres=tres,
        limit_s=None if None in limits_s else max(filter(None, limits_s), default=None),
        partitions=tuple(dict.fromkeys(name for job in components for name in job.partitions)),
    )


def _pending_job(record: str) -> PendingJob | None:
    first = _FIRST.search(record)
    found = shown_fields(record)
    if first is None or found is None:
        return None
    name, _, fields = found
    if fields.get("JobState") != "PENDING":
        return None
    ids = dict(word.partition("=")[::2] for word in first[2].split())
    reason, _, detail = fields.get("Reason", "").partition(",")
    nodes = _NODES.fullmatch(fields.get("NumNodes", "1"))
    who = _USER.fullmatch(fields.get("UserId", ""))
    return PendingJob(
        job_id=int(first[1]),
        name=name,
        array_id=_number(ids.get("ArrayJobId", "")),
        het_id=_number(ids.get("HetJobId", "")) or None,
        tasks=ids.get("ArrayTaskId", ""),
        throttle=_number(ids.get("ArrayTaskThrottle", "")) or None,
        reason=converters.reason(_word(reason.replace("_", " "))),
        detail=detail.strip("_").replace("_", " "),
        user=who[1] if who else fields.get("UserId", ""),
        uid=int(who[2]) if who else None,
        account=_word(fields.get("Account", "")),
        qos=_word(fields.get("QOS", "")),
        partitions=tuple(filter(None, _word(fields.get("Partition", "")).split(","))),
        priority=_number(fields.get("Priority", "")) or 0,
        submit_s=_moment(fields.get("SubmitTime", "")) or 0.0,
        eligible_s=_moment(fields.get("EligibleTime", "")),
        put_back=fields.get("Restarts", "0") not in ("", "0"),
        start_s=_moment(fields.get("StartTime", "")),
        limit_s=_limit(fields.get("TimeLimit", "")),
        least_s=_limit(fields.get("TimeMin", "")),
        nodes=int(nodes[1]) if nodes else 1,
        max_nodes=int(nodes[2]) if nodes and nodes[2] else None,
        cpus=_number(fields.get("NumCPUs", "").partition("-")[0]) or 1,
        # 22.05 has one word for what was asked for and what was given.
        tres=converters.tres(fields.get("ReqTRES") or fields.get("TRES") or ""),
        devices={name: value for name, _, _ in _DEVICES if (value := _word(fields.get(name, "")))},
        mem_node_mib=_mebibytes(fields.get("MinMemoryNode", "")),
        mem_cpu_mib=_mebibytes(fields.get("MinMemoryCPU", "")),
        features=_word(fields.get("Features", "")),
        node_list=_word(fields.get("ReqNodeList", "")),
        excluded=_word(fields.get("ExcNodeList", "")),
        licences=converters.licences(_word(fields.get("Licenses", ""))),
        reservation=_word(fields.get("Reservation", "")),
        depends=depends_on(fields.get("Dependency", "")),
        exclusive=_is_exclusive(fields),
        deadline_s=_moment(fields.get("Deadline", "")),
        note=fields.get("AdminComment", ""),
    )


def depends_on(text: str) -> tuple[DependsOn, ...]:
    """Read a dependency as Slurm shows it.

    >>> depends_on("afterok:3(unfulfilled),afterany:4(unfulfilled)")[1]
    DependsOn(kind='afterany', job_id=4, state='unfulfilled', task='', minutes=0)
    """
    return tuple(
        DependsOn(
            one["kind"],
            _number(one["job"] or ""),
            one["state"],
            task=(one["task"] or "").rstrip("*"),
            minutes=int(one["minutes"] or 0),
        )
        for one in _ON.finditer(text)
    )


def condition_text(depends: Iterable[DependsOn]) -> str:
    """Say what has to come of other jobs so that a job starts when these end; empty: nothing.

    >>> condition_text(depends_on("afterok:3(unfulfilled),afterany:4(unfulfilled)"))
    'if job 3 ends well'
    """
    left = (one for one in depends if one.state != "fulfilled" and one.kind in AFTER_WELL)
    jobs = list(dict.fromkeys(f"{one.job_id}_{one.task}".rstrip("_") for one in left))
    if not jobs:
        return ""
    *others, last = jobs
    return (
        f"if jobs {', '.join(others)} and {last} end well" if others else f"if job {last} ends well"
    )


def _is_exclusive(fields: Mapping[str, str]) -> bool:
    # Since 26.05 a word of its own.
    alone = fields.get("Exclusive", fields.get("OverSubscribe", ""))
    return alone in ("NO", "NODE")


def _word(text: str) -> str:
    return "" if text in _NONE else text


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _moment(text: str) -> float | None:
    try:
        return None if text in _NONE else parse_epoch(text)
    except ValueError:
        return None


def _limit(text: str) -> float | None:
    try:
        return None if text in _NONE else parse_time_limit(text)
    except ValueError:
        return None


def _mebibytes(text: str) -> int | None:
    amount = converters.tres(f"mem={text}").get("mem") if text not in _NONE else None
    return round(amount) if amount else None
