"""The cluster as one job sees it: its partition, within all limits that hold for the job.  Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, TypeVar

from msgspec.structs import asdict, astuple, replace

from slurm_plugin.protocol.request_messages import AllocationRequest
from slurm_plugin.slurm.cluster_state import Cluster, NodeRules, Partition
from slurm_plugin.slurm.converters import licences
from slurm_plugin.slurm.footprint import Footprint, footprint
from slurm_plugin.slurm.limits import NodeBounds, ResourceNeed, limits_of, node_range
from slurm_plugin.slurm.node_pool import NodeAvailability, NodeShare, highest, profile

_Request = TypeVar("_Request", bound=AllocationRequest)
#: Stands in where the cluster's state is unknown.
UNKNOWN = Partition(name="", nodes=0, profile=profile([(0.0, 0)]))
_MOST_TERMS = 4_000
_LONGEST_KIND = 1_024  #: characters; the terms of a longer one are found each time


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for jobs of one kind in a partition, as long as the cluster's limits do."""

    allowed: NodeBounds  #: by QOS and association
    flags: frozenset[str]  #: of the job's QOS
    taken: Footprint  #: what it takes of each node ...
    share: NodeShare  #: ... and which nodes it can have


class Place(NamedTuple):
    """A partition that may take a job, and the job's terms there."""

    partition: Partition
    terms: Terms

    @property
    def counted(self) -> bool:
        """Whether it is known already how many nodes are free for such jobs."""
        pool = self.partition.pool
        return pool is None or pool.ready(self.terms.share)


#: Terms by partition and kind of job, for one look at the cluster.
TermsCache = dict[tuple[str, AllocationRequest], Terms]
#: Gives partitions on one by one, as long as there is time for them; else it raises.
Check = Callable[[Iterable[Partition]], Iterator[Partition]]


def places_for(
    cluster: Cluster, job: AllocationRequest, cache: TermsCache | None = None, check: Check = iter
) -> list[Place]:
    """List the partitions that a job names, or those of them that take its account and QOS.

    None where one of them is not known.

    cache: terms of jobs in this view of the cluster; those of this job are added.
    check: says that there is time left for each partition, or raises.
    """
    names = dict.fromkeys((job.partition or cluster.default_partition).split(","))
    if not all(name in cluster.partitions for name in names):
        return []
    account = cluster.limits.account_of(job.user_name, job.account)
    named = [cluster.partitions[name] for name in names]
    admitted = [part for part in named if part.admits(account, job.qos or "normal")]
    return [Place(part, terms_of(cluster, job, part, cache)) for part in check(admitted or named)]


def partition_in(
    cluster: Cluster, job: AllocationRequest, places: Sequence[Place]
) -> Partition | None:
    """Partition of a job, with all limits that hold for the job.

    Of several partitions the scheduler starts the job where it can first: they are seen as one,
    with the limits of the strictest.  None where there is none, and where one allows fewer nodes
    than the job may get from another: what it would have without us depends on where it starts.
    """
    until_s = -inf  # when its licences are free; Slurm checks those of others
    for name, n in licences(job.licenses).items() if job.licenses else ():
        if name in cluster.licences:
            until_s = max(until_s, cluster.licences[name].earliest_start(n, 0.0))
    views = [_for_job(job, place, until_s) for place in places]
    if len(views) == 1:
        return views[0]
    largest = [part.largest for part in views]
    if not views or min(job.max_nodes or inf, max(largest)) > min(largest):
        return None
    leanest = min(places, key=lambda place: place.terms.taken.mem_mib)
    return _together(views, NodeRules.of(leanest.partition))


def partition_for(cluster: Cluster, job: AllocationRequest) -> Partition | None:
    """Partition of a job, see `partition_in`; None also where one that it names is not known."""
    return partition_in(cluster, job, places_for(cluster, job))


def in_each_partition(cluster: Cluster, job: _Request) -> list[_Request]:
    """Give a job as it would be in each open partition that takes jobs of its account and QOS.

    Who belongs to a group is not asked: a partition for some groups is none of these but where the
    job names it.
    """
    account = cluster.limits.account_of(job.user_name, job.account)
    named = job.partition.split(",")
    return [
        replace(job, partition=part.name)
        for part in cluster.partitions.values()
        if part.up
        and part.admits(account, job.qos or "normal")
        and (part.groups is None or part.name in named)
    ]


def terms_of(
    cluster: Cluster, job: AllocationRequest, part: Partition, cache: TermsCache | None = None
) -> Terms:
    """Find the terms of a job in one partition; see :func:`places_for`."""
    kind = AllocationRequest.of(job)
    key = part.name, kind
    if cache is not None and (known := cache.get(key)) is not None:
        return known
    terms = _terms(cluster, kind, part)
    if cache is not None and _characters(kind) <= _LONGEST_KIND:
        if len(cache) >= _MOST_TERMS:
            cache.clear()
        cache[key] = terms
    return terms


def _characters(kind: AllocationRequest) -> int:
    return sum([len(value) for value in astuple(kind) if type(value) is str])


def _terms(cluster: Cluster, job: AllocationRequest, part: Partition) -> Terms:
    limits = limits_of(cluster.limits, job, part.name, part.qos)
    taken = footprint(job, part)
    limit_s = 60.0 * job.time_limit if job.time_limit else part.default_time_s
    need = ResourceNeed(
        low=job.min_nodes or 1,
        high=part.nodes,
        per_node=taken.amounts(),
        limit_s=limit_s or part.max_time_s,
    )
    allowed = node_range(need, limits, safe=cluster.limits.safe)
    return Terms(allowed, limits.flags, taken, taken.share(job))


def _for_job(job: AllocationRequest, place: Place, until_s: float) -> Partition:
    part, terms = place
    fitting = part.for_job(terms.share, terms.allowed, terms.flags, user=job.user_name)
    return fitting.blocked(until_s) if until_s > fitting.profile.times_s[0] else fitting


def _together(parts: Sequence[Partition], rules: NodeRules) -> Partition:
    """Several partitions as one: the job starts in that where it can first.

    rules: of that where it has the least memory.
    """
    profile: NodeAvailability = highest([part.profile for part in parts])
    predicted = any(part.limit_profile for part in parts)
    strictest = min(parts, key=lambda part: part.largest)
    times = [part.max_time_s for part in parts if part.max_time_s is not None]
    return replace(
        strictest,
        **asdict(rules),
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
