"""Contexts of requests: identity, settings, prediction table and partition of each job.

What follows from a request is cached for as long as settings, tables and the release of Slurm hold.
Processor time is counted between the steps.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from predictor.job_table import for_limit, for_one_count, for_type
from predictor.prediction_table import PredictionTable
from predictor.submission import for_submission
from sacct_ingest.records import Identity, KeyLevel
from sacct_ingest.runs.layout import Unit
from sacct_ingest.runs.submission import JobKind
from slurm_plugin.config.setting_types import Whose
from slurm_plugin.config.settings import Config, JobSettings
from slurm_plugin.decision import sizes
from slurm_plugin.decision.allowed_counts import PolicySettings
from slurm_plugin.decision.bookings import Bookings
from slurm_plugin.decision.eligibility import deadline_of, distrust, learns, resolve
from slurm_plugin.decision.lookup import PredictionLookup, shared_by
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import PlaceOption, Situation
from slurm_plugin.decision.sized_supply import sized_supply, sizes_between
from slurm_plugin.decision.submitted_job import SubmittedJob, names_of, submitted
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.protocol.request_messages import AllocationRequest, Job
from slurm_plugin.slurm.cluster_state import Awaited, Cluster, Partition, RequestRules
from slurm_plugin.slurm.footprint import footprint
from slurm_plugin.slurm.node_pool import NodeShare, alternatives
from slurm_plugin.slurm.partition_view import (
    Place,
    TermsCache,
    in_each_partition,
    partition_in,
    places_for,
)
from slurm_plugin.slurm.supply import Supply

_Item = TypeVar("_Item")
#: Of a submission.  An honest one takes under 1 ms; the hooks give up after 20.
SUBMISSION_S = 0.01
_MOST_SIZE = 8 << 20  #: most characters of cached requests
_LEAST_SIZE = 4096  #: fewest that one counts, with what follows from it
_ALL_BUT_ARGV = attrgetter(*(name for name in Job.__struct_fields__ if name != "argv"))


class BudgetSpent(Exception):  # noqa: N818 - a state, not an error
    """The request took all its processor time."""


class Budget:
    """Stops a request that takes more processor time than others should wait for.

    most_s: processor time of one request.
    clock: processor time of the thread that answers, seconds.
    """

    def __init__(self, most_s: float, clock: Callable[[], float]) -> None:
        self._most_s = most_s
        self._clock = clock
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

#: What follows from a request as long as settings and tables hold.
_Requested = tuple[Identity, JobSettings, Request, PredictionTable | None]
_RequestCache = TextCache[tuple[object, ...], _Requested]


def _size(key: tuple[object, ...]) -> int:
    job, *others = key
    return _LEAST_SIZE + sum([len(one) for one in (*job, *others) if type(one) is str])  # type: ignore[misc]


class _GuessBounds(NamedTuple):
    """Where a job that is guessed may run."""

    partition: str
    most_nodes: int | None  #: that it can get there; None: not known

    @classmethod
    def of(cls, job: Job, partition: Partition | None) -> "_GuessBounds":
        if partition is None:
            return cls(job.partition, None)
        return cls(partition.name, partition.supply.most)


def _behind(request: Request, awaited: Awaited) -> Request:
    """Give a request that starts when the jobs that it waits for have ended."""
    if not awaited.jobs:
        return request
    known = max(awaited.begin_s, awaited.last_s) < inf
    begin_s = max(request.begin_s, awaited.begin_s) if known else request.begin_s
    return replace(
        request,
        begin_s=begin_s,
        awaited=awaited.jobs,
        begin_known=known,
        last_begin_s=awaited.last_s,
    )


def _due(requested: _Requested, now_s: float) -> _Requested | None:
    """Give what follows from a request, with the deadline that its words mean at this moment.

    None where they mean none any more, as the last day of February in the next year.
    """
    identity, site, request, table = requested
    try:
        deadline_s = deadline_of(request.deadline, now_s)
    except ValueError:
        return None
    return identity, site, replace(request, deadline_s=deadline_s), table


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
        self._config = config
        self._bookings = bookings
        self._later = later
        self._rules = PolicySettings.of(config)
        self._budget = budget
        self._tables = PredictionLookup()
        self._cluster: Cluster | None = None
        self._keeps_limit = self._plans_softly = self._reopens = False
        self._types: dict[tuple[str, NodeShare], str] = {}
        self._terms: TermsCache = {}
        self._cache = _RequestCache(_MOST_SIZE)

    def configure(self, config: Config) -> None:
        """Take new settings."""
        self._config = config
        self._cache = _RequestCache(_MOST_SIZE)
        self._rules = PolicySettings.of(config)

    def load(self, tables: PredictionLookup) -> None:
        """Take new prediction tables."""
        self._tables = tables
        self._types = {}
        self._cache = _RequestCache(_MOST_SIZE)

    def renew(self, view: Cluster) -> None:
        """Take a new view of the cluster."""
        of_slurm = view.keeps_limit, view.plans_softly, view.reopens
        before = self._keeps_limit, self._plans_softly, self._reopens
        if of_slurm != before:  # upgraded, or answers at last
            self._keeps_limit, self._plans_softly, self._reopens = of_slurm
            self._cache = _RequestCache(_MOST_SIZE)
        self._cluster = view
        self._types = {}
        self._terms = {}

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
        self,
        job: Job,
        now_s: float,
        *,
        private: bool = False,
        prompt: bool = False,
        guess: bool = False,
    ) -> Situation:
        """Context of a job.

        private: only this user's runs are looked at.
        prompt: to change the job, and without counting many nodes.
        guess: where its command never ran, with what other jobs say; for advice alone.
        """
        cluster = self._bookings.view(job.user_name)
        asked = AllocationRequest.of(job)
        places = self._places(cluster, asked) if cluster else []
        wait = prompt and self._later and not all(place.counted for place in places)
        partition = partition_in(cluster, asked, places) if cluster and not wait else None
        rules = RequestRules.of(partition) if partition and partition.is_known else None
        account = self._account_of(job)
        sharing = account if self._shares(job, account) else ""
        guess_in = _GuessBounds.of(job, partition) if guess else None
        key = (_ALL_BUT_ARGV(job), *job.argv, rules, account, sharing, private, prompt, guess_in)
        cached = self._cache  # another thread may exchange the tables, and begin with none
        requested = cached.get(key)
        if requested is not None and requested[2].deadline_s is not None:
            requested = _due(requested, now_s)
        if requested is None:
            requested = self._follow(
                job,
                rules,
                account,
                sharing,
                now_s,
                private=private,
                acting=prompt,
                guess_in=guess_in,
            )
            cached.put(key, requested, _size(key))
        identity, site, request, table = requested
        if cluster and job.dependency:
            awaited = cluster.awaited(job.dependency, job.user_name, job.name, request.array)
            request = _behind(request, awaited)
        supply = partition.supply if partition and request.unit is Unit.NODES else None
        if request.unit is not Unit.NODES and partition and cluster and table:
            between = sizes_between(request.low, request.high, table) if prompt else table.nodes
            supply = sized_supply(
                asked,
                table,
                [size for size in between if size % request.segment == 0],
                partial(self._partition, cluster),
                own=request.given[0],
                margin=self._config.policy.memory_margin,
            )
        made = Situation(
            request,
            table,
            supply,
            self._rules,
            now_s,
            identity,
            site,
            partition,
            blind=self._blind(job, partition, now_s, unready=bool(wait)),
            unready=bool(wait),
        )
        if prompt and table and table.node_type and cluster and request.orders_places and not wait:
            made = replace(made, places=self._place_options(asked, cluster, table, request))
        return on_nodes(made, self._type(asked, partition) if table and table.node_type else "")

    def _place_options(
        self, job: AllocationRequest, cluster: Cluster, table: PredictionTable, request: Request
    ) -> tuple[PlaceOption, ...]:
        """Give the partitions that a job names, or else the alternatives of its constraint."""
        names = job.partition.split(",")
        parts = [cluster.partitions.get(name) for name in names]
        kinds = [(name, job, part) for name, part in zip(names, parts, strict=True)]
        if len(names) == 1 and alternatives(job.features) is not None:
            words = job.features.split("|")
            kinds = [(word, replace(job, features=word), parts[0]) for word in words]
        options = []
        for name, one, part in kinds:
            node_type = self._type(one, part)
            if part is None or not node_type:
                return ()
            typed = for_limit(for_type(table, node_type), request.limit_s)
            options.append(PlaceOption(name, part.tier, typed))
        return tuple(options)

    def without_data(self, job: Job, now_s: float) -> Situation:
        """Context of a job that is not looked at any closer."""
        site = self._config.for_job(names_of(job, job.name))
        low = job.min_nodes or 1
        high = job.max_nodes or job.min_nodes or 1
        request = Request(low=low, high=high, fixed=Reason.PROCESSOR_TIME, **submitted(job))
        identity = Identity(job.user_name, job.name)
        return Situation(request, None, None, self._rules, now_s, identity, site)

    def _blind(
        self, job: Job, partition: Partition | None, now_s: float, *, unready: bool
    ) -> Reason | None:
        """Say why the nodes that a job would run on are unknown."""
        if self._cluster is None:
            return Reason.NO_SNAPSHOT
        if now_s - self._cluster.taken_s > self._config.snapshot.max_age_s:
            return Reason.STALE_SNAPSHOT
        if unready:
            return Reason.NEW_SHAPE
        # Components that wait for two queues start when both let them.
        elsewhere = any(one.partition != job.partition for one in job.components)
        known = partition is not None and partition.up and not elsewhere
        return None if known else Reason.UNKNOWN_PARTITION

    def other_partitions(self, case: Situation) -> list[Supply]:
        """Give what other partitions have that the job might ask for, as far as it is counted."""
        asked = case.request.resources
        cluster = self._bookings.view(asked.user_name)
        if cluster is None or case.partition is None:
            return []
        own = case.partition.name.split(",")
        others: list[Partition | None] = []
        for job in in_each_partition(cluster, asked):
            places = self._places(cluster, job) if job.partition not in own else []
            if all(place.counted for place in places):
                others.append(partition_in(cluster, job, places))
        return [part.supply for part in others if part is not None]

    def _places(self, cluster: Cluster, job: AllocationRequest) -> list[Place]:
        return places_for(cluster, job, self._terms, self._budget.each)

    def _partition(self, cluster: Cluster, job: AllocationRequest) -> Partition | None:
        return partition_in(cluster, job, self._places(cluster, job))

    def _follow(  # noqa: PLR0913 - each by its name
        self,
        job: Job,
        rules: RequestRules | None,
        account: str,
        sharing: str,
        now_s: float,
        *,
        private: bool,
        acting: bool,
        guess_in: _GuessBounds | None,
    ) -> _Requested:
        one = SubmittedJob.of(job, rules)
        identity = one.identity
        self._budget.check()
        site = self._config.for_job(one.names)
        tags = () if private else self._config.sharing.tags
        shared = shared_by(tags, identity, sharing)
        table = self._tables.find(
            identity,
            one.layouts,
            shared=tuple(shared),
            attributes=partial(one.attributes, account),
            acting=acting,
        )
        self._budget.check()
        table = table and sizes.in_unit(table, one.sizes)
        table = for_one_count(table) if table and job.het_job_offset == 0 else table
        if guess_in is not None and (table is None or table.level == KeyLevel.USER):
            table = self._guess(one, guess_in, private=private) or table
        off = table is not None and self._tables.is_off(table)
        if table is not None:
            table = for_submission(
                table,
                work_dir=job.work_dir,
                changed_s=job.inputs_changed_s,
                script=identity.script,
                warned=bool(one.script.option("signal")),
            )
        opt_in = self._config.opt_in
        request = resolve(
            one,
            table,
            settings=site,
            opt_in=opt_in,
            now_s=now_s,
            distrusted=distrust(
                table,
                site,
                user=job.user_name,
                shared=shared,
                own_runs=1 if learns(one, opt_in, site) else self._config.sharing.own_runs,
                off=off,
            ),
            with_least=self._keeps_limit,
            plans_softly=self._plans_softly,
            lengthen=self._config.time_limit.lengthen,
            reopens=self._reopens,
        )
        return identity, site, request, table

    def _guess(
        self, one: SubmittedJob, where: _GuessBounds, *, private: bool
    ) -> PredictionTable | None:
        """Table of a job whose command never ran, by what other jobs took; None: there is none."""
        site = self._config.sharing.first_runs is Whose.SITE
        return self._tables.neighbours.table(
            one.job.user_name,
            one.beside_others(where.partition, where.most_nodes),
            others=site and not private,
            confidence=self._config.fit.confidence,
        )

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

    def type_of(self, node: str) -> str:
        """Type of a node; empty: nobody measured it."""
        cluster = self._config.cluster or (self._cluster.name if self._cluster else "")
        return self._tables.node_types.get((cluster, node), "")

    def _type(self, job: AllocationRequest, partition: Partition | None) -> str:
        """Type of all nodes that a job may get; empty where it is unknown, or they differ."""
        cluster = self._cluster
        node_types = self._tables.node_types
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


def on_nodes(case: Situation, node_type: str) -> Situation:
    """Give the same job on nodes of this type."""
    table = case.table
    until_limit = table is not None and table.kind is JobKind.UNTIL_LIMIT
    if table is None or not (table.by_type or table.at_limits or until_limit):
        return replace(case, node_type=node_type) if node_type else case
    table = for_limit(for_type(table, node_type), case.request.limit_s)
    return replace(case, table=table, node_type=node_type)
