"""Contexts of requests: identity, settings, prediction table and partition of each job.

What follows from a request is cached for as long as settings, tables and the release of Slurm hold.
Processor time is counted between the steps.  Of a job that is sized in CPUs or GPUs the partition
is counted in them: waits and prices then follow as for nodes.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from operator import attrgetter
from typing import Generic, TypeVar

from msgspec.structs import replace

from predictor.table import for_inputs, for_limit, for_type
from predictor.types import UNBOUNDED, PredictionTable
from sacct_ingest.records import Identity
from sacct_ingest.runs.layout import Unit
from sacct_ingest.text.tag import parse_tag
from slurm_plugin.config.settings import Config, JobSettings
from slurm_plugin.decision import sizes
from slurm_plugin.decision.allowed_counts import Request
from slurm_plugin.decision.bookings import Bookings
from slurm_plugin.decision.context import DecisionContext
from slurm_plugin.decision.eligibility import Asked, as_kind, distrust, names_of
from slurm_plugin.decision.lookup import PredictionLookup, attributes_of, identity_of, shared_by
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.protocol.request_messages import AllocationRequest, Job, ResourceRequest
from slurm_plugin.slurm.cluster_state import Cluster, Partition, RequestRules
from slurm_plugin.slurm.footprint import footprint, memory_bytes
from slurm_plugin.slurm.node_pool import NodeAvailability, NodeShare, highest, profile
from slurm_plugin.slurm.outlook import PartitionOutlook, SizedOutlook
from slurm_plugin.slurm.partition_view import (
    Place,
    TermsCache,
    in_each_partition,
    partition_in,
    places_for,
)

_Item = TypeVar("_Item")
#: Of a submission.  An honest one takes under 1 ms; the hooks give up after 20.
SUBMISSION_S = 0.01


class BudgetSpent(Exception):  # noqa: N818 - a state, not an error
    """The request took all its processor time."""


class Budget:
    """Stops a request that takes more processor time than others should wait for.

    most_s: processor time of one request.
    clock: processor time of the thread that answers, seconds.
    """

    def __init__(self, most_s: float, clock: Callable[[], float]) -> None:
        self._most_s, self._clock = most_s, clock
        self._until_s = inf

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what is done inside as one request."""
        self._until_s = self._clock() + self._most_s
        try:
            yield
        finally:
            self._until_s = inf

    def check(self) -> None:
        """Go on. Raises BudgetSpent: the request has no time left."""
        if self._until_s < inf and self._clock() > self._until_s:
            raise BudgetSpent

    def each(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """Give items one by one, as :meth:`check` allows from the second one on."""
        for number, one in enumerate(items):
            if number:
                self.check()
            yield one


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class TextCache(Generic[_Key, _Value]):
    """Values by key; where their sizes come to more than ``most``, all are forgotten.

    A single larger one is never cached.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._values: dict[_Key, _Value] = {}

    def get(self, key: _Key) -> _Value | None:
        """Value of a key, None where there is none."""
        return self._values.get(key)

    def put(self, key: _Key, value: _Value, size: int) -> None:
        """Keep a value that is not there yet."""
        if size > self._most:
            return
        if self._size + size > self._most:
            self._values.clear()
            self._size = 0
        self._values[key] = value
        self._size += size


Work = Callable[[], None]
#: Does the first, which takes long, in the background, and then the second where answers are made.
Later = Callable[[Work, Work], None]

_MOST_SIZE = 8 << 20  #: most characters of cached requests
_LEAST_SIZE = 4096  #: fewest that one counts, with what follows from it
_ALL_BUT_ARGV = attrgetter(*(name for name in Job.__struct_fields__ if name != "argv"))
#: What follows from a request as long as settings and tables hold.
_Requested = tuple[Identity, JobSettings, Request, PredictionTable | None]
_RequestCache = TextCache[tuple[object, ...], _Requested]


def _size(key: tuple[object, ...]) -> int:
    job, *others = key
    return _LEAST_SIZE + sum([len(one) for one in (*job, *others) if type(one) is str])  # type: ignore[misc]


class ContextBuilder:
    """Makes the context of each request.

    config: the site's settings.
    bookings: the view of the cluster, with what was booked since.
    later: does what takes long; None: nothing is put off.
    budget: processor time of the request.
    """

    def __init__(
        self, config: Config, bookings: Bookings, later: Later | None, budget: Budget
    ) -> None:
        self._config, self._bookings, self._later = config, bookings, later
        self._budget = budget
        self._tables = PredictionLookup()
        self._cluster: Cluster | None = None
        self._keeps_limit = self._plans_softly = self._reopens = False
        self._types: dict[tuple[str, NodeShare], str] = {}
        self._terms: TermsCache = {}
        self._cache = _RequestCache(_MOST_SIZE)

    def configure(self, config: Config) -> None:
        """Take new settings."""
        self._config, self._cache = config, _RequestCache(_MOST_SIZE)

    def load(self, tables: PredictionLookup) -> None:
        """Take new prediction tables."""
        self._tables, self._types, self._cache = tables, {}, _RequestCache(_MOST_SIZE)

    def renew(self, view: Cluster) -> None:
        """Take a new view of the cluster."""
        of_slurm = view.keeps_limit, view.plans_softly, view.reopens
        before = self._keeps_limit, self._plans_softly, self._reopens
        if of_slurm != before:  # upgraded, or answers at last
            self._keeps_limit, self._plans_softly, self._reopens = of_slurm
            self._cache = _RequestCache(_MOST_SIZE)
        self._cluster = view
        self._types, self._terms = {}, {}

    def count(self, job: Job, then: Work) -> None:
        """Count the nodes that are free for jobs of this shape, in the background."""
        cluster = self._cluster
        if self._later is None or cluster is None:
            return
        places = self._places(cluster, AllocationRequest.of(job))

        def work() -> None:
            for place in places:
                if not place.counted:
                    place.partition.fitting(place.terms.share)

        self._later(work, then)

    def build(
        self, job: Job, now_s: float, *, private: bool = False, prompt: bool = False
    ) -> DecisionContext:
        """Context of a job; ``prompt``: to change it, and without counting many nodes."""
        cluster, asked = self._bookings.view(job.user_name), AllocationRequest.of(job)
        places = self._places(cluster, asked) if cluster else []
        wait = prompt and self._later and not all(place.counted for place in places)
        partition = partition_in(cluster, asked, places) if cluster and not wait else None
        rules = RequestRules.of(partition) if partition else None
        account = self._account_of(job)
        sharing = account if self._shares(job, account) else ""
        key = (_ALL_BUT_ARGV(job), *job.argv, rules, account, sharing, private, prompt)
        cached = self._cache  # another thread may exchange the tables, and begin with none
        if (requested := cached.get(key)) is None:
            requested = self._follow(
                job, rules, account, sharing, now_s, private=private, acting=prompt
            )
            if requested[2].deadline_s is None:  # which may depend on the moment
                cached.put(key, requested, _size(key))
        identity, site, request, table = requested
        place = partition if request.unit is Unit.NODES else None
        if request.unit is not Unit.NODES and partition and cluster and table:
            own = sizes.sizes_of(asked, partition)[table.unit]
            step = sizes.multiple_of(job, sizes.size_option_of(asked, table))
            between = sizes_between(request.low, request.high, table) if prompt else table.nodes
            place = in_sizes(
                asked,
                table,
                [size for size in between if size % step == 0],
                partial(self._partition, cluster),
                own=own,
                margin=self._config.policy.memory_margin,
            )
        made = DecisionContext(
            job, identity, site, request, table, partition, place, now_s, unready=bool(wait)
        )
        return on_nodes(made, self._type(job, partition) if table and table.node_type else "")

    def without_data(self, job: Job, now_s: float) -> DecisionContext:
        """Context of a job that is not looked at any closer."""
        site = self._config.for_job(names_of(job, job.name))
        low, high = job.min_nodes or 1, job.max_nodes or job.min_nodes or 1
        request = Request(low=low, high=high, fixed=Reason.PROCESSOR_TIME)
        identity = Identity(job.user_name, job.name)
        return DecisionContext(job, identity, site, request, None, None, None, now_s)

    def other_partitions(self, case: DecisionContext) -> list[Partition]:
        """Partitions that the job might ask for instead of its own, as far as they are counted."""
        cluster = self._bookings.view(case.job.user_name)
        if cluster is None or case.partition is None:
            return []
        own = case.partition.name.split(",")
        others: list[Partition | None] = []
        for job in in_each_partition(cluster, AllocationRequest.of(case.job)):
            places = self._places(cluster, job) if job.partition not in own else []
            if all(place.counted for place in places):
                others.append(partition_in(cluster, job, places))
        return [part for part in others if part is not None]

    def _places(self, cluster: Cluster, job: AllocationRequest) -> list[Place]:
        return places_for(cluster, job, self._terms, self._budget.each)

    def _partition(self, cluster: Cluster, job: AllocationRequest) -> Partition | None:
        return partition_in(cluster, job, self._places(cluster, job))

    def _follow(
        self,
        job: Job,
        rules: RequestRules | None,
        account: str,
        sharing: str,
        now_s: float,
        *,
        private: bool,
        acting: bool,
    ) -> _Requested:
        tag = parse_tag(job.comment)
        identity = identity_of(job)
        self._budget.check()
        names = names_of(job, identity.application or job.name)
        site = self._config.for_job(names)
        tags = () if private else self._config.sharing.tags
        shared = shared_by(tags, identity, sharing)
        table = self._tables.find(
            identity,
            (*sizes.layouts_of(job, rules), *sizes.size_layouts_of(job, rules)),
            shared=tuple(shared),
            attributes=partial(attributes_of, job, rules, identity.script, account),
            acting=acting,
        )
        self._budget.check()
        table = table and sizes.in_unit(table, job, rules)
        off = table is not None and self._tables.is_off(table)
        if table is not None:
            table = for_inputs(table, job.work_dir, job.inputs_changed_s)
            table = as_kind(table, job)
        asked = Asked(job, tag, rules, names, site, self._config.opt_in)
        request = asked.request(
            table,
            now_s=now_s,
            distrusted=distrust(
                table,
                site,
                user=job.user_name,
                shared=shared,
                own_runs=1 if asked.learns() else self._config.sharing.own_runs,
                off=off,
            ),
            with_least=self._keeps_limit,
            plans_softly=self._plans_softly,
            lengthen=self._config.time_limit.lengthen,
            reopens=self._reopens,
        )
        return identity, site, request, table

    def _account_of(self, job: Job) -> str:
        """Account of a job: its own, or its user's default one."""
        cluster = self._cluster
        return cluster.limits.account_of(job.user_name, job.account) if cluster else job.account

    def _shares(self, job: Job, account: str) -> bool:
        """Whether a job takes part in what its account shares: its user has to belong to it."""
        if not self._config.sharing.tags:
            return False
        cluster = self._cluster
        return cluster is None or cluster.limits.belongs(job.user_name, account, job.partition)

    def _type(self, job: Job, partition: Partition | None) -> str:
        """Type of all nodes that a job may get; empty where it is unknown, or they differ."""
        cluster, node_types = self._cluster, self._tables.node_types
        if cluster is None or partition is None:
            return ""
        share = footprint(job, partition).share(job)
        if (node_type := self._types.get((partition.name, share))) is None:
            name = self._config.cluster or cluster.name
            pools = [cluster.partitions[one].pool for one in partition.name.split(",")]
            names = {node for pool in pools if pool for node in pool.names(share)}
            types = {node_types[name, node] for node in names if (name, node) in node_types}
            node_type = types.pop() if len(types) == 1 else ""
            self._types[partition.name, share] = node_type
        return node_type


def on_nodes(case: DecisionContext, node_type: str) -> DecisionContext:
    """Give the same job on nodes of this type."""
    table = case.table
    if table is None or not (table.by_type or table.at_limits):
        return replace(case, node_type=node_type) if node_type else case
    table = for_limit(for_type(table, node_type), case.request.limit_s)
    return replace(case, table=table, node_type=node_type)


#: Sizes between the ends of a range whose nodes are counted at a submission.
_SIZES = 12
#: Gives the partition as a job sees it; None: it is unknown.
See = Callable[[AllocationRequest], Partition | None]


def in_sizes(
    job: AllocationRequest,
    table: PredictionTable,
    choices: Iterable[int],
    see: See,
    *,
    own: int,
    margin: float,
) -> Partition | None:
    """Partition of a job, counted in the unit of its table; None: it is unknown.

    choices: sizes that come into question.
    own: what the job asks for.
    margin: of memory: the least share more than runs needed.
    """
    base = see(job)
    if base is None:
        return None
    free: list[tuple[int, NodeAvailability]] = []
    held: list[NodeAvailability] = []  # by limits alone
    outlooks: list[tuple[PartitionOutlook, int]] = []
    for size in sorted({*choices, own}):
        other = job if size == own else sizes.resized(job, table, size)
        nodes = sizes.nodes_for(other, table, size, base)
        if table.unit is Unit.GPUS and "gpu" not in other.tres_per_node:
            other = replace(other, tres_per_node=f"gres/gpu:{-(-size // nodes)}")
        other = replace(other, min_nodes=nodes, max_nodes=nodes)
        part = see(other)
        if part is None:
            return None
        enough = size == own or has_memory(other, part, table, size, margin=margin)
        if part.largest >= nodes and enough:
            free.append((size, _in_one(part.profile, size, nodes)))
            held.append(_in_one(part.by_limits, size, nodes))
            if isinstance(part.outlook, PartitionOutlook):
                outlooks.append((part.outlook, nodes))
    return replace(
        base,
        profile=highest([one for _, one in free]) if free else base.profile,
        limit_profile=highest(held) if held else base.limit_profile,
        nodes=_in_all(base, table.unit) if free else 0,
        node_part=1.0,
        max_nodes=free[-1][0] if free else None,
        min_nodes=free[0][0] if free else 1,
        node_mem_bytes=None,
        pool=None,
        promised=(),
        ahead=0,
        outlook=_outlook([size for size, _ in free], outlooks),
        spare=_spare(base, table.unit),
    )


def _in_one(free: NodeAvailability, size: int, nodes: int) -> NodeAvailability:
    """When a job of a size on so many nodes can start: all of it or nothing."""
    have = tuple(size * (count >= nodes) for count in free.free)
    return NodeAvailability(free.times_s, have, free.rising)


def sizes_between(low: int, high: int, table: PredictionTable) -> list[int]:
    """Sizes to look at where a job waits for it: the ends, and some of the table between them."""
    between = [n for n in table.nodes if low < n < high]
    every = -(-len(between) // _SIZES) or 1
    return sorted({low, high, *between[every - 1 :: every]})


def has_memory(
    job: ResourceRequest, part: Partition, table: PredictionTable, size: int, *, margin: float
) -> bool:
    """Whether a job's memory holds what runs of this size, or the nearest, needed."""
    given = memory_bytes(job, part) or part.node_mem_bytes
    if not table.memory or given is None:
        return True
    counts = [one.nodes for one in table.memory]
    index = min(bisect_left(counts, size), len(counts) - 1)
    near = table.memory[: index + 1]
    if near[-1].mem_bytes >= UNBOUNDED:
        return False
    need = max(one.mem_bytes for one in near if one.mem_bytes < UNBOUNDED)
    return need * max(size / near[-1].nodes, 1.0) * margin <= given * (sizes.nodes_of(job) or 1)


def _outlook(counts: list[int], parts: list[tuple[PartitionOutlook, int]]) -> SizedOutlook | None:
    """Give the waits by size; None where the queue was not run forward."""
    if not counts or len(parts) < len(counts):
        return None
    return SizedOutlook(sizes=tuple(counts), parts=tuple(parts))


def _spare(part: Partition, unit: Unit) -> NodeAvailability | None:
    """CPUs or GPUs that are free in all, over time; None where there is no list of single nodes."""
    if part.pool is None:
        return None
    changes = [(part.pool.now_s, 0)]
    for group, names in part.pool.groups.items():
        before = 0
        for time_s, cpus, _, gres in group.steps:
            free = cpus if unit is Unit.CPUS else dict(gres).get("gpu", 0)
            changes.append((max(time_s, part.pool.now_s), (free - before) * len(names)))
            before = free
    return profile(changes)


def _in_all(part: Partition, unit: Unit) -> int:
    """Count the CPUs or GPUs of a partition, for the price of each."""
    if part.pool is None:
        return part.nodes * part.node_cpus
    groups = part.pool.groups.items()
    if unit is Unit.CPUS:
        return sum(group.cpus * len(names) for group, names in groups)
    return sum(dict(group.gres).get("gpu", 0) * len(names) for group, names in groups) or part.nodes
