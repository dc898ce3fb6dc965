"""The cluster as one job sees it: its partition, within the limits that hold for it.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from operator import attrgetter

from msgspec.structs import replace

from slurm_plugin.protocol import Job
from slurm_plugin.slurm.availability import NodeAvailability, highest
from slurm_plugin.slurm.cluster_state import Cluster, Partition
from slurm_plugin.slurm.fields import device, licences
from slurm_plugin.slurm.limits import NodeBounds, ResourceNeed, limits_of, node_range
from slurm_plugin.slurm.node_pool import NodeShare

_EXCLUSIVE = 0  #: job_desc.shared of ``--exclusive``
_MOST_TERMS = 10_000


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
)
#: Terms by partition and kind of job, for one look at the cluster.
KeptTerms = dict[tuple[object, ...], Terms]


def partition_for(cluster: Cluster, job: Job, kept: KeptTerms | None = None) -> Partition | None:
    """Partition that a job asks for, with all limits that hold for the job.

    Of several partitions those that take jobs of its account and QOS are seen as one, with the
    limits of the strictest: the scheduler starts the job where it can first.  None where one of
    them is not known, and where one allows fewer nodes than the job may get from another: what it
    would have without us depends on where it starts.

    Parameters
    ----------
    kept
        Terms that were found for this look at the cluster; those of this job are added.
    """
    account = cluster.limits.account_of(job.user_name, job.account)
    names = job.partition.split(",") if job.partition else [cluster.default_partition]
    if not all(name in cluster.partitions for name in names):
        return None
    known = [cluster.partitions[name] for name in names]
    admitted = [part for part in known if part.admits.holds(account, job.qos or "normal")]
    seen = [_as_seen(cluster, job, part, kept) for part in admitted or known]
    most = min(job.max_nodes or inf, max(part.largest for part in seen))
    if most > min(part.largest for part in seen):
        return None
    return seen[0] if len(seen) == 1 else _together(seen)


def unready(
    cluster: Cluster, job: Job, kept: KeptTerms | None = None
) -> list[tuple[Partition, NodeShare]]:
    """List the partitions whose nodes have to be counted for a job, with what it takes of each.

    Parameters
    ----------
    kept
        As for :func:`partition_for`.
    """
    names = job.partition.split(",") if job.partition else [cluster.default_partition]
    known = [cluster.partitions[name] for name in names if name in cluster.partitions]
    shares = [(part, terms_of(cluster, job, part, kept).share) for part in known]
    return [(part, share) for part, share in shares if part.pool and not part.pool.ready(share)]


def share_of(job: Job, partition: Partition) -> NodeShare:
    """Tell what a job takes of each of its nodes.

    A number of tasks for the whole job is dealt out on the most nodes that it may get.
    """
    taken = taken_per_node(job, partition)
    devices = {name.removeprefix("gres/"): int(n) for name, n in taken.items() if "/" in name}
    all_memory = taken["mem"] == inf
    return NodeShare(
        cpus=int(taken["cpu"]),
        mem_mib=0 if all_memory else int(taken["mem"]),
        gres=tuple(sorted(devices.items())),
        whole=all_memory or _whole(job, partition),
        constraint=job.features,
        excluded=job.exc_nodes,
    )


def taken_per_node(job: Job, partition: Partition) -> Mapping[str, float]:
    """CPUs, memory (MiB) and devices that a job takes on each of its nodes.

    Memory is ``inf`` where the job and the site name none: then it has all of the node's.
    """
    cpus = _cpus(job, partition)
    return {
        "cpu": float(cpus),
        "mem": _memory(job, partition, cpus),
        **_devices(job.tres_per_node),
    }


def _devices(tres: str) -> dict[str, float]:
    """Devices by their TRES: ``gres/gpu:2``, ``gres:gpu:a100:2``, ``gres/gpu=2``.

    >>> _devices("gres/gpu:2,gres:nic,license/matlab:1")
    {'gres/gpu': 2.0, 'gres/nic': 1.0}
    """
    listed = [part for part in tres.split(",") if part.startswith(("gres/", "gres:"))]
    found = filter(None, (device(part[len("gres/") :]) for part in listed))
    return {f"gres/{name}": float(count) for name, count in found}


def terms_of(cluster: Cluster, job: Job, part: Partition, kept: KeptTerms | None = None) -> Terms:
    """Find the terms of a job in one partition; see :func:`partition_for`."""
    if kept is None:
        return _terms(cluster, job, part)
    key = part.name, _KIND(job)
    if (found := kept.get(key)) is None:
        if len(kept) >= _MOST_TERMS:
            kept.clear()
        found = kept[key] = _terms(cluster, job, part)
    return found


def _terms(cluster: Cluster, job: Job, part: Partition) -> Terms:
    limits = limits_of(
        cluster.limits,
        user=job.user_name,
        uid=job.user_id,
        account=job.account,
        partition=part.name,
        qos=job.qos,
        partition_qos=part.qos,
    )
    limit_s = 60.0 * job.time_limit if job.time_limit else part.default_time_s
    taken = {name: n for name, n in taken_per_node(job, part).items() if n < inf}
    need = ResourceNeed(
        low=job.min_nodes or 1,
        high=part.nodes,
        per_node=taken,
        limit_s=limit_s or part.max_time_s,
    )
    allowed = node_range(need, limits, safe=cluster.limits.safe)
    return Terms(allowed, limits.flags, share_of(job, part))


def _as_seen(cluster: Cluster, job: Job, part: Partition, kept: KeptTerms | None) -> Partition:
    terms = terms_of(cluster, job, part, kept)
    fitting = part.seen_by(terms.share, terms.allowed, terms.flags)
    return _licensed(cluster, job, fitting)


def _licensed(cluster: Cluster, job: Job, part: Partition) -> Partition:
    """Partition from when on the job's licences are free; Slurm knows those of others."""
    until_s = -inf
    for name, n in licences(job.licenses).items() if job.licenses else ():
        if name in cluster.licences:
            until_s = max(until_s, cluster.licences[name].earliest_start(n, 0.0))
    return part.blocked(until_s) if until_s > part.profile.times_s[0] else part


def _whole(job: Job, partition: Partition) -> bool:
    return job.shared == _EXCLUSIVE or partition.exclusive


def _cpus(job: Job, partition: Partition) -> int:
    if _whole(job, partition):
        return partition.node_cpus
    tasks = job.ntasks_per_node or 1
    if job.num_tasks and not job.ntasks_per_node:
        tasks = ceil(job.num_tasks / (job.max_nodes or job.min_nodes or job.num_tasks))
    return tasks * (job.cpus_per_task or 1)


def _memory(job: Job, partition: Partition, cpus: int) -> float:
    """Memory a node, MiB: the job's own, or else what the site gives."""
    wanted = job.min_mem_per_node or (job.min_mem_per_cpu or 0) * cpus
    if wanted:
        return float(wanted)
    if partition.mem_node_mib:
        return float(partition.mem_node_mib)
    return inf if partition.mem_cpu_mib is None else float(partition.mem_cpu_mib * cpus)


def _together(parts: Sequence[Partition]) -> Partition:
    """Several partitions as one: the job starts in that where it can first."""
    profile: NodeAvailability = highest([part.profile for part in parts])
    strictest = min(parts, key=lambda part: part.largest)
    times = [part.max_time_s for part in parts if part.max_time_s is not None]
    return replace(
        strictest,
        name=",".join(part.name for part in parts),
        profile=profile,
        max_nodes=strictest.largest,
        min_nodes=max(part.min_nodes for part in parts),
        max_time_s=min(times, default=None),
        queue=min(part.queue for part in parts),
        queue_mean=min(part.queue_mean for part in parts),
        open=any(part.open for part in parts),
    )
