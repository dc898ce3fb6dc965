"""Text of squeue, sinfo and scontrol to a view of the cluster: pure.

Nodes are counted whole.  A node in use becomes free when the limit of its last job ends, and
pending jobs to which backfill gave a start take their nodes from then on.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import exp, inf

from sacct_ingest.errors import SlurmError
from sacct_ingest.slurm_text import parse_time_limit
from slurm_plugin.profile import Profile, profile
from slurm_plugin.slurm.hostlist import count_indexes, expand
from slurm_plugin.slurm.limits import LimitTables
from slurm_plugin.slurm.state import Cluster, Partition

SQUEUE = ("squeue", "-h", "-a", "-t", "R,CG,CF,S,PD", "-o", "%i|%t|%P|%D|%S|%e|%r|%N")
SINFO = ("sinfo", "-h", "-a", "-N", "-o", "%N|%P|%t|%m|%c")
PARTITIONS = ("scontrol", "show", "partition", "-o")

DAY_S = 86400.0
_FREE = frozenset({"idle", "plnd"})
_IN_USE = frozenset({"mix", "alloc", "comp", "npc"})
_FLAGS = "*~#!%$@^-+"  #: sinfo(1), NODE STATE CODES
#: Reasons of pending jobs that would not start if nodes were free (squeue(1), JOB REASON CODES).
_NOT_FOR_NODES = frozenset(
    {
        "BeginTime",
        "Dependency",
        "DependencyNeverSatisfied",
        "JobArrayTaskLimit",
        "JobHeldAdmin",
        "JobHeldUser",
        "Licenses",
    }
)


@dataclass(frozen=True, slots=True)
class _Queued:
    """A pending job: where it waits and what backfill has planned for it."""

    partitions: tuple[str, ...]
    jobs: int
    nodes: int
    start_s: float
    end_s: float


@dataclass(slots=True)
class _Queue:
    """What squeue tells: until when nodes are in use, and who waits."""

    busy_until: dict[str, float] = field(default_factory=dict)
    waiting: list[_Queued] = field(default_factory=list)


@dataclass(slots=True)
class _Nodes:
    """The usable nodes of a partition."""

    free: set[str] = field(default_factory=set)
    in_use: set[str] = field(default_factory=set)
    mem_bytes: int | None = None
    cpus: int | None = None

    @property
    def names(self) -> set[str]:
        return self.free | self.in_use


def build(
    squeue: str,
    sinfo: str,
    partitions: str,
    limits: LimitTables | None = None,
    *,
    cluster: str,
    taken_s: float,
    previous: Cluster | None = None,
) -> Cluster:
    """Make a view of the cluster.

    Parameters
    ----------
    squeue, sinfo, partitions
        Output of :data:`SQUEUE`, :data:`SINFO` and :data:`PARTITIONS`.
    limits
        Those of QOS and associations.
    cluster
        Its name.
    taken_s
        When Slurm was asked, seconds since the epoch.
    previous
        The view before, whose mean queue is carried on.

    Raises
    ------
    SlurmError
        The text is not what these commands write.
    """
    try:
        queue, nodes = _read_queue(squeue, taken_s), _read_nodes(sinfo)
        own = [_fields(line) for line in partitions.splitlines() if line.strip()]
        made = [_partition(one, nodes, queue, taken_s, previous) for one in own]
    except (ValueError, KeyError) as error:
        raise SlurmError(f"squeue, sinfo or scontrol wrote something unknown: {error}") from error
    return Cluster(
        name=cluster,
        taken_s=taken_s,
        partitions={part.name: part for part in made},
        default_partition=next((f["PartitionName"] for f in own if f["Default"] == "YES"), ""),
        limits=limits or LimitTables(),
    )


def _read_queue(text: str, taken_s: float) -> _Queue:
    queue = _Queue()
    for line in text.splitlines():
        job, state, partitions, count, start, end, reason, names = line.split("|")
        if state != "PD":
            until = taken_s if state == "CG" else _time(end)
            for node in expand(names):
                queue.busy_until[node] = max(until, queue.busy_until.get(node, 0.0))
        elif _waits_for_nodes(reason):
            names_of = tuple(partitions.split(","))
            times = max(_time(start), taken_s), _time(end)
            queue.waiting.append(_Queued(names_of, _jobs(job), int(count), *times))
    return queue


def _waits_for_nodes(reason: str) -> bool:
    return reason not in _NOT_FOR_NODES and not reason.startswith(("Assoc", "QOS"))


def _jobs(job_id: str) -> int:
    """Jobs that a line stands for: pending tasks of an array share one, ``4_[1-9%2]``."""
    _, bracket, indexes = job_id.partition("_[")
    return count_indexes(indexes.rstrip("]")) if bracket else 1


def _time(text: str) -> float:
    return float(text) if text.isdigit() else inf


def _read_nodes(text: str) -> dict[str, _Nodes]:
    partitions: dict[str, _Nodes] = defaultdict(_Nodes)
    for line in text.splitlines():
        name, partition, state, mebibytes, cpus = line.split("|")
        nodes, base = partitions[partition.rstrip("*")], state.rstrip(_FLAGS)
        if "*" in state or base not in _FREE | _IN_USE:
            continue
        (nodes.free if base in _FREE else nodes.in_use).add(name)
        mem_bytes = int(mebibytes.rstrip("+")) * 2**20
        nodes.mem_bytes = min(mem_bytes, nodes.mem_bytes or mem_bytes)
        nodes.cpus = min(int(cpus), nodes.cpus or int(cpus))
    return partitions


def _fields(line: str) -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in line.split() if "=" in word)


def _partition(
    limits: Mapping[str, str],
    nodes: Mapping[str, _Nodes],
    queue: _Queue,
    taken_s: float,
    previous: Cluster | None,
) -> Partition:
    name = limits["PartitionName"]
    own = nodes.get(name, _Nodes())
    rivals = {other for other, theirs in nodes.items() if theirs.names & own.names} | {name}
    waiting = [job for job in queue.waiting if not rivals.isdisjoint(job.partitions)]
    depth = sum(job.jobs for job in waiting)
    return Partition(
        name=name,
        nodes=len(own.names),
        profile=_free_nodes(own, queue, waiting, taken_s),
        queue=depth,
        queue_mean=_mean(name, depth, taken_s, previous),
        max_nodes=_count(limits["MaxNodes"]),
        min_nodes=max(_count(limits["MinNodes"]) or 1, 1),
        max_time_s=_limit(limits["MaxTime"]),
        default_time_s=_limit(limits["DefaultTime"]),
        node_mem_bytes=own.mem_bytes,
        open=limits["State"] == "UP",
        qos=_named(limits.get("QoS", "")),
        node_cpus=own.cpus or 1,
        exclusive=limits.get("OverSubscribe", "").startswith("EXCLUSIVE"),
    )


def _free_nodes(own: _Nodes, queue: _Queue, waiting: Iterable[_Queued], taken_s: float) -> Profile:
    changes = [(taken_s, len(own.free))]
    # A node in use by nobody we may see (PrivateData) is not counted on.
    changes += [(max(queue.busy_until.get(node, inf), taken_s), 1) for node in own.in_use]
    for job in waiting:
        changes += [(job.start_s, -job.nodes), (job.end_s, job.nodes)]
    return profile(changes)


def _mean(name: str, depth: int, taken_s: float, previous: Cluster | None) -> float:
    """Average queue with a memory of a day."""
    before = previous.partitions.get(name) if previous else None
    if previous is None or before is None:
        return float(depth)
    share = 1 - exp(-max(taken_s - previous.taken_s, 0.0) / DAY_S)
    return before.queue_mean + share * (depth - before.queue_mean)


def _named(text: str) -> str:
    return "" if text in ("N/A", "(null)") else text


def _count(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _limit(text: str) -> float | None:
    return None if text in ("NONE", "UNLIMITED") else parse_time_limit(text)
