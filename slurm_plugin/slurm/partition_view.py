"""The cluster as one job sees it: what it takes of a node, and its partition within the limits.

What a job takes of each of its nodes (`footprint`) is said here only, as slurmctld does it
(``_valid_pn_min_mem`` in job_mgr.c, whose limits hold for memory by default, too);
``tests/cluster/test_footprint.py`` asks a real one.  Pure.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from sacct_ingest.scripts.job_script import bounded_cache
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm.cluster_state import Cluster, Partition
from slurm_plugin.slurm.converters import device, licences
from slurm_plugin.slurm.limits import NodeBounds, ResourceNeed, limits_of, node_range
from slurm_plugin.slurm.node_pool import NodeAvailability, NodeShare, highest, profile

#: Characters of a list of devices that is read; a longer one takes nimod too long.
_LONGEST = 4096
_EXCLUSIVE = 0  #: job_desc.shared of ``--exclusive``
#: Stands in where the cluster's state is unknown.
UNKNOWN = Partition(name="", nodes=0, profile=profile([(0.0, 0)]))


class Footprint(msgspec.Struct, frozen=True):
    """What a job takes of each of its nodes; each decision makes several."""

    cpus: int
    mem_mib: float  #: ``inf``: all that the node has; 0: memory is not counted
    gres: tuple[tuple[str, int], ...]  #: devices by name
    alone: bool  #: it has all CPUs of its nodes: nothing else may run beside it
    allowed: bool = True  #: within MaxMemPerNode; Slurm refuses other jobs, or never starts them
    asked: int = 0  #: CPUs without those that Slurm adds for ``--mem``, or because it is alone

    @property
    def whole(self) -> bool:
        """Whether it leaves nothing that another job could use."""
        return self.alone or self.mem_mib == inf

    def amounts(self) -> dict[str, float]:
        """Finite amounts by the names that limits have for them; memory in MiB."""
        memory = {"mem": self.mem_mib} if self.mem_mib < inf else {}
        devices = {f"gres/{name}": float(count) for name, count in self.gres}
        return {"cpu": float(self.cpus), **memory, **devices}


def footprint(job: Job, partition: Partition) -> Footprint:
    """Footprint of a job on a node of this partition.

    A number of tasks for the whole job is dealt out on the most nodes that it may get.
    """
    mem_node, mem_cpu = _memory(job, partition)
    cpus = _tasks(job) * (job.cpus_per_task or 1)
    if job.cpus_per_tres:
        cpus = max(cpus, _gpus(job) * (gpu_count(job.cpus_per_tres) or 0))
    alone = job.shared == _EXCLUSIVE or partition.exclusive
    most, least = partition.max_mem_cpu_mib, 0
    if most and mem_cpu > most:
        # Slurm gives more CPUs with less memory each.
        factor = ceil(mem_cpu / most)
        cpus, mem_cpu = cpus * factor, ceil(mem_cpu / factor)
    asked = cpus
    if most and mem_node:
        least = ceil(_within(mem_node, partition, 0.0) / most)
        cpus = _enough(job, cpus, least, whole_tasks=partition.whole_tasks)
    limit, on_node = partition.max_mem_node_mib, partition.node_cpus if alone else cpus
    allowed = not limit or (_within(mem_node, partition, inf) or mem_cpu * on_node) <= limit
    core = partition.threads_core
    whole = core * ceil(cpus / core)
    asked = whole if asked == cpus else core * ceil(asked / core)
    cpus = max(partition.node_cpus, least) if alone else whole
    mem_mib = mem_node or mem_cpu * cpus
    return Footprint(cpus, mem_mib, devices(job.tres_per_node), alone, allowed, asked)


def _within(mem_node: float, partition: Partition, unknown: float) -> float:
    """Memory on a node in MiB, where all that a node has is a number, if it is known."""
    own = (partition.node_mem_bytes or 0) // 2**20
    return (own or unknown) if mem_node == inf else mem_node


def _enough(job: Job, cpus: int, least: int, *, whole_tasks: bool) -> int:
    """CPUs on a node of a job whose memory needs so many, as Slurm deals them out to its tasks."""
    if cpus >= least:
        return cpus
    if job.ntasks_per_node:
        return job.ntasks_per_node * ceil(least / job.ntasks_per_node)
    if whole_tasks:
        each = job.cpus_per_task or 1
        return max(cpus, each * (least // each))
    nodes, tasks = job.min_nodes, job.num_tasks
    if not (nodes and tasks):
        return least
    return ceil(least * nodes / tasks) * tasks // nodes


def devices(tres: str) -> tuple[tuple[str, int], ...]:
    """Devices by name: ``gres/gpu:2``, ``gres:gpu:a100:2``, ``gres/gpu=2``.

    >>> devices("gres/gpu:2,gres:nic,license/matlab:1")
    (('gpu', 2), ('nic', 1))
    """
    return _devices(tres) if tres else ()  # of nearly every job, several times in a decision


@bounded_cache(entries=256, characters=_LONGEST)
def _devices(tres: str) -> tuple[tuple[str, int], ...]:
    parts = tres.split(",") if len(tres) <= _LONGEST else []
    listed = [part for part in parts if part.startswith(("gres/", "gres:"))]
    counts = filter(None, (device(part[len("gres/") :]) for part in listed))
    return tuple(sorted(dict(counts).items()))


def gpu_count(tres: str) -> int | None:
    """Count GPUs of all types in a request; None where it cannot be read.

    >>> gpu_count("gres/gpu:a100:2,gpu:v100:1"), gpu_count("cpu:2"), gpu_count("gres:gpu:1K")
    (3, 0, None)
    """
    return _gpu_count(tres) if tres else 0


@bounded_cache(entries=256, characters=_LONGEST)
def _gpu_count(tres: str) -> int | None:
    if len(tres) > _LONGEST:
        return None
    parts = (part.removeprefix("gres/").removeprefix("gres:") for part in tres.split(","))
    gpus = (part for part in parts if re.match(r"gpu(?:[:=]|$)", part))
    # "gpu:2K" would read as one of the type 2K.
    counts = [None if re.search(r"[:=]\d+[A-Za-z]$", part) else device(part) for part in gpus]
    return None if None in counts else sum(count for _, count in filter(None, counts))


def gpu_type(tres: str) -> str:
    """Types of GPUs that a request names; empty where it names none for some of them.

    >>> gpu_type("gres/gpu:V100:1,gres/gpu:a100:2"), gpu_type("gres:gpu:2"), gpu_type("gpu:a100")
    ('a100+v100', '', 'a100')
    """
    parts = tres.split(",") if 0 < len(tres) <= _LONGEST else []
    named = [match[1] for part in parts if (match := _GPU.fullmatch(part))]
    types = {name.lower() for name in named if name and not name.isdecimal()}
    return "+".join(sorted(types)) if all(named) and len(types) == len(set(named)) else ""


#: One of them, with what is behind its name: a type, or the count.
_GPU = re.compile(r"(?:gres[/:])?gpu(?:[:=]([^:=]+))?(?:[:=]\d+)?")


def memory_bytes(job: Job, partition: Partition | None) -> int | None:
    """Memory that a job gets on each node.

    None where it gets all of the node's, where memory is not counted, and where the cluster is
    unknown.
    """
    if partition is None and job.shared == _EXCLUSIVE and job.min_mem_per_cpu:
        return None
    mem_mib = footprint(job, partition or UNKNOWN).mem_mib
    return int(mem_mib * 2**20) if 0 < mem_mib < inf else None


def _memory(job: Job, partition: Partition) -> tuple[float, float]:
    """Memory of a job in MiB: for each node, or zero and that for each CPU; ``inf``: the node's."""
    if job.min_mem_per_node is not None:
        return job.min_mem_per_node or inf, 0.0
    if job.min_mem_per_cpu:
        return 0.0, job.min_mem_per_cpu
    if partition.mem_node_mib:
        return partition.mem_node_mib, 0.0
    return (inf, 0.0) if partition.mem_cpu_mib is None else (0.0, partition.mem_cpu_mib)


def _gpus(job: Job) -> int:
    """GPUs on a node, where they are dealt out evenly."""
    on_node = gpu_count(job.tres_per_node) or (gpu_count(job.tres_per_task) or 0) * _tasks(job)
    in_all, nodes = gpu_count(job.tres_per_job) or 0, job.max_nodes or job.min_nodes or 1
    return on_node or -(-in_all // nodes)


def _tasks(job: Job) -> int:
    """Tasks on a node, where they are dealt out evenly."""
    if job.ntasks_per_node or not job.num_tasks:
        return job.ntasks_per_node or 1
    return ceil(job.num_tasks / (job.max_nodes or job.min_nodes or job.num_tasks))


_MOST_TERMS = 4_000
_LONGEST_KIND = 1_024  #: characters; the terms of a longer one are found each time
#: More memory than any node has: of a job that Slurm will not start.
_NEVER_MIB = 2**40
#: Fields of a partition that say how much memory a job has on a node.
_MEMORY = (
    *("mem_cpu_mib", "mem_node_mib", "max_mem_cpu_mib", "max_mem_node_mib"),
    *("node_cpus", "node_mem_bytes", "threads_core", "whole_tasks"),
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for jobs of one kind in a partition, as long as the cluster's limits do."""

    allowed: NodeBounds  #: by QOS and association
    flags: frozenset[str]  #: of the job's QOS
    share: NodeShare  #: what it takes of each node


#: Fields of a job that its terms depend on.
_KIND = attrgetter(
    *("user_name", "user_id", "account", "qos", "min_nodes", "max_nodes", "time_limit"),
    *("num_tasks", "ntasks_per_node", "cpus_per_task", "min_mem_per_node", "min_mem_per_cpu"),
    *("tres_per_node", "shared", "features", "exc_nodes"),
    *("cpus_per_tres", "tres_per_job", "tres_per_task"),
)
#: Those of them whose length the user chooses.
_TEXTS = attrgetter(
    *("user_name", "account", "qos", "tres_per_node", "features", "exc_nodes"),
    *("cpus_per_tres", "tres_per_job", "tres_per_task"),
)
#: Terms by partition and kind of job, for one look at the cluster.
TermsCache = dict[tuple[object, ...], Terms]
#: Gives partitions on one by one, as long as there is time for them; else it raises.
Check = Callable[[Iterable[Partition]], Iterator[Partition]]


def partition_for(
    cluster: Cluster, job: Job, cache: TermsCache | None = None, check: Check = iter
) -> Partition | None:
    """Partition that a job asks for, with all limits that hold for the job.

    Of several partitions those that take jobs of its account and QOS are seen as one, with the
    limits of the strictest: the scheduler starts the job where it can first.  None where one of
    them is not known, and where one allows fewer nodes than the job may get from another: what it
    would have without us depends on where it starts.

    cache: terms of jobs in this view of the cluster; those of this job are added.
    check: says that there is time left for each partition, or raises.
    """
    account = cluster.limits.account_of(job.user_name, job.account)
    names = _names(cluster, job)
    if not all(name in cluster.partitions for name in names):
        return None
    named = [cluster.partitions[name] for name in names]
    admitted = [part for part in named if part.admits(account, job.qos or "normal")]
    until_s = -inf  # when its licences are free; Slurm checks those of others
    for name, n in licences(job.licenses).items() if job.licenses else ():
        if name in cluster.licences:
            until_s = max(until_s, cluster.licences[name].earliest_start(n, 0.0))
    views = [_for_job(cluster, job, part, cache, until_s) for part in check(admitted or named)]
    if len(views) == 1:
        return views[0]
    largest = [part.largest for part in views]
    return None if min(job.max_nodes or inf, max(largest)) > min(largest) else _together(views, job)


def in_each_partition(cluster: Cluster, job: Job) -> list[Job]:
    """Give a job as it would be in each open partition that takes jobs of its account and QOS."""
    account = cluster.limits.account_of(job.user_name, job.account)
    return [
        replace(job, partition=part.name)
        for part in cluster.partitions.values()
        if part.up and part.admits(account, job.qos or "normal")
    ]


def unready(
    cluster: Cluster, job: Job, cache: TermsCache | None = None, check: Check = iter
) -> list[tuple[Partition, NodeShare]]:
    """List the partitions whose nodes have to be counted for a job, with what it takes of each.

    cache, check: as for :func:`partition_for`.
    """
    names = _names(cluster, job)
    named = [cluster.partitions[name] for name in names if name in cluster.partitions]
    shares = [(part, terms_of(cluster, job, part, cache).share) for part in check(named)]
    return [(part, share) for part, share in shares if part.pool and not part.pool.ready(share)]


def _names(cluster: Cluster, job: Job) -> list[str]:
    """List the partitions that a job names, each once."""
    return list(dict.fromkeys((job.partition or cluster.default_partition).split(",")))


def share_of(job: Job, partition: Partition) -> NodeShare:
    """Tell what nodes a job can run on, and what it takes of each."""
    taken = footprint(job, partition)
    mem_mib = 0 if taken.mem_mib == inf else int(taken.mem_mib)
    return NodeShare(
        cpus=taken.cpus,
        mem_mib=mem_mib if taken.allowed else _NEVER_MIB,
        gres=taken.gres,
        whole=taken.whole,
        constraint=job.features,
        excluded=job.exc_nodes,
    )


def terms_of(cluster: Cluster, job: Job, part: Partition, cache: TermsCache | None = None) -> Terms:
    """Find the terms of a job in one partition; see :func:`partition_for`."""
    kind = _KIND(job)
    if cache is None or sum(map(len, _TEXTS(job))) > _LONGEST_KIND:
        return _terms(cluster, job, part)
    key = part.name, kind
    if (terms := cache.get(key)) is None:
        if len(cache) >= _MOST_TERMS:
            cache.clear()
        terms = cache[key] = _terms(cluster, job, part)
    return terms


def _terms(cluster: Cluster, job: Job, part: Partition) -> Terms:
    limits = limits_of(cluster.limits, job, part.name, part.qos)
    limit_s = 60.0 * job.time_limit if job.time_limit else part.default_time_s
    need = ResourceNeed(
        low=job.min_nodes or 1,
        high=part.nodes,
        per_node=footprint(job, part).amounts(),
        limit_s=limit_s or part.max_time_s,
    )
    allowed = node_range(need, limits, safe=cluster.limits.safe)
    return Terms(allowed, limits.flags, share_of(job, part))


def _for_job(
    cluster: Cluster, job: Job, part: Partition, cache: TermsCache | None, until_s: float
) -> Partition:
    terms = terms_of(cluster, job, part, cache)
    fitting = part.for_job(terms.share, terms.allowed, terms.flags, user=job.user_name)
    return fitting.blocked(until_s) if until_s > fitting.profile.times_s[0] else fitting


def _together(parts: Sequence[Partition], job: Job) -> Partition:
    """Several partitions as one: the job starts in that where it can first."""
    profile: NodeAvailability = highest([part.profile for part in parts])
    predicted = any(part.limit_profile for part in parts)
    leanest = min(parts, key=lambda part: footprint(job, part).mem_mib)
    strictest = min(parts, key=lambda part: part.largest)
    times = [part.max_time_s for part in parts if part.max_time_s is not None]
    return replace(
        strictest,
        **{name: getattr(leanest, name) for name in _MEMORY},
        name=",".join(part.name for part in parts),
        profile=profile,
        limit_profile=highest([part.by_limits for part in parts]) if predicted else None,
        max_nodes=strictest.largest,
        min_nodes=max(part.min_nodes for part in parts),
        max_time_s=min(times, default=None),
        queue=min(part.queue for part in parts),
        queue_mean=min(part.queue_mean for part in parts),
        up=any(part.up for part in parts),
    )
