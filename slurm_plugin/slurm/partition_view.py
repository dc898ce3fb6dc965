"""The cluster as one job sees it: its partition, within the limits that hold for it.  Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter

from msgspec.structs import replace

from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm.cluster_state import Cluster, Partition
from slurm_plugin.slurm.converters import licences
from slurm_plugin.slurm.footprint import footprint
from slurm_plugin.slurm.limits import NodeBounds, ResourceNeed, limits_of, node_range
from slurm_plugin.slurm.node_pool import NodeAvailability, NodeShare, highest

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
    until_s = _licensed_s(cluster, job)
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


def _licensed_s(cluster: Cluster, job: Job) -> float:
    """When the job's licences are free; Slurm checks those of others."""
    until_s = -inf
    for name, n in licences(job.licenses).items() if job.licenses else ():
        if name in cluster.licences:
            until_s = max(until_s, cluster.licences[name].earliest_start(n, 0.0))
    return until_s


def _together(parts: Sequence[Partition], job: Job) -> Partition:
    """Several partitions as one: the job starts in that where it can first."""
    profile: NodeAvailability = highest([part.profile for part in parts])
    leanest = min(parts, key=lambda part: footprint(job, part).mem_mib)
    strictest = min(parts, key=lambda part: part.largest)
    times = [part.max_time_s for part in parts if part.max_time_s is not None]
    return replace(
        strictest,
        **{name: getattr(leanest, name) for name in _MEMORY},
        name=",".join(part.name for part in parts),
        profile=profile,
        max_nodes=strictest.largest,
        min_nodes=max(part.min_nodes for part in parts),
        max_time_s=min(times, default=None),
        queue=min(part.queue for part in parts),
        queue_mean=min(part.queue_mean for part in parts),
        up=any(part.up for part in parts),
    )
