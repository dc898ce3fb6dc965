"""The queues of a cluster as the predictor runs them forward: pure.

Partitions that have the same nodes share a queue.  Where they share some nodes only, each has a
queue of its own, in which the others' jobs count with the part that they may take of its nodes.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from math import ceil, inf
from typing import overload

from predictor.waits.easy import Closing, JobShape
from predictor.waits.probes import Awaited
from predictor.waits.simulation import Arrivals, QueuedJob, QueueState
from predictor.waits.workload import ArrivalDemand, PastArrivals
from slurm_plugin.slurm.cluster_state import RawJob, RawNode, RawState
from slurm_plugin.slurm.dependencies import JobTimes, Span, span_by_limit
from slurm_plugin.slurm.limits import LimitTables
from slurm_plugin.slurm.node_pool import NodeGroup, NodeShare, could_hold
from slurm_plugin.slurm.node_states import UNUSABLE
from slurm_plugin.slurm.outlook import NodeUnits
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.slurm.startable import WAITS, StartableJobs, empty_node
from slurm_plugin.wait_forecasts.awaited_jobs import AwaitedJobs

#: What is predicted of a job's run time: log quantiles, and a number for its application.
RunTimes = Callable[[RawJob], tuple[tuple[float, ...], int]]

#: Limit of jobs that have none.
_FOREVER_S = 365 * 86_400.0
_GOLDEN = 0.618034  #: its multiples are spread evenly between whole numbers
_LATER = frozenset({"BeginTime"})
_BEHIND = "Dependency"  #: reason of jobs that wait for others


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionQueue:
    """A queue, the partitions that it is for, and who waits in it."""

    partitions: tuple[str, ...]
    units: NodeUnits
    state: QueueState
    waiting: int  #: jobs that wait for nodes
    demand: ArrivalDemand  #: of jobs to come, as shares of all units

    @property
    def keys(self) -> frozenset[int]:
        """Ids of the jobs that run or wait in it."""
        return frozenset(one.key for one in (*self.state.running, *self.state.waiting))

    def before(self, place: "Place", awaited: Collection[int] = frozenset()) -> "PartitionQueue":
        """Queue as one of its jobs sees it: of those alone that go before, or that it waits for."""
        waiting = self.state.waiting
        assert isinstance(waiting, _Tasks)
        ahead = waiting.before(place, awaited)
        return replace(self, state=replace(self.state, waiting=ahead), waiting=len(ahead))


def queues(
    raw: RawState,
    run_times: RunTimes,
    *,
    now_s: float,
    settings: SlurmConf,
    limits: LimitTables,
    arrivals: Mapping[str, PastArrivals] | None = None,
    span_of: Callable[[RawJob, float], Span] = span_by_limit,
) -> list[PartitionQueue]:
    """Make the queues of a cluster.

    raw: what Slurm said.
    run_times: gives what is predicted of a job.
    now_s: time of the look, seconds since the epoch.
    settings: of Slurm's configuration.
    limits: those of QOS and associations.
    arrivals: how jobs came to each partition.
    span_of: tells when a job of another queue starts and ends that one waits for.
    """
    scene = QueueScene.of(
        *(raw, run_times), now_s=now_s, settings=settings, limits=limits, span_of=span_of
    )
    together: dict[frozenset[str], list[str]] = defaultdict(list)
    for name, own in scene.members.items():
        together[own].append(name)
    past = arrivals or {}
    return [
        scene.queue(tuple(names), own, [one for name, one in past.items() if name in names])
        for own, names in together.items()
    ]


#: What comes before what in a queue: tier, priority, submission, id.
Place = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class QueueScene:
    """What the queues of one look have in common."""

    raw: RawState
    nodes: Mapping[str, RawNode]
    members: Mapping[str, frozenset[str]]
    tiers: Mapping[str, int]
    exclusive: frozenset[str]  #: partitions that give whole nodes only
    alone: Mapping[int | None, bool]
    run_times: RunTimes
    now_s: float
    counts_memory: bool
    depth: int  #: jobs of a queue that Slurm looks at
    startable: StartableJobs
    awaited: AwaitedJobs

    @classmethod
    def of(
        cls,
        raw: RawState,
        run_times: RunTimes,
        *,
        now_s: float,
        settings: SlurmConf,
        limits: LimitTables,
        span_of: Callable[[RawJob, float], Span] = span_by_limit,
    ) -> "QueueScene":
        """Make it of what Slurm said; parameters as of :func:`queues`."""
        nodes = {node.name: node for node in raw.nodes if node.state.isdisjoint(UNUSABLE)}
        members: dict[str, frozenset[str]] = {}
        for one in raw.partitions:
            own = frozenset(name for name, node in nodes.items() if one.name in node.partitions)
            if own and one.up:
                members[one.name] = own
        exclusive = {one.name for one in raw.partitions if one.exclusive or settings.whole_nodes}
        tiers = {one.name: one.tier for one in raw.partitions}
        alone = {
            job.job_id: job.alone or not exclusive.isdisjoint(job.partitions) for job in raw.jobs
        }
        startable = StartableJobs(raw, settings, limits)
        return cls(
            *(raw, nodes, members, tiers, frozenset(exclusive), alone, run_times, now_s),
            counts_memory=settings.counts_memory,
            depth=settings.depth,
            startable=startable,
            awaited=AwaitedJobs(JobTimes(raw.jobs, now_s, span_of)),
        )

    def is_alone(self, job: RawJob) -> bool:
        """Whether a job has its nodes to itself."""
        return job.alone or not self.exclusive.isdisjoint(job.partitions)

    def place(self, job: RawJob) -> Place:
        """Give a job's place among all: the smaller goes first."""
        tier = max((self.tiers.get(name, 1) for name in job.partitions), default=1)
        return (-tier, -job.priority, job.submit_s, job.job_id or 0)

    def queue(
        self, names: tuple[str, ...], own: frozenset[str], arrivals: Sequence[PastArrivals] = ()
    ) -> PartitionQueue:
        """Make the queue of some nodes.

        names: partitions that have just these nodes; none: all count with the part of theirs.
        own: the nodes.
        arrivals: how jobs came to these partitions.
        """
        overlap = {name: len(own & other) / len(other) for name, other in self.members.items()}
        units = self._units(own, overlap)
        running = [*self._running(own, units), *self._unseen(own, units)]
        known = self._held(list(self._waiting(names, own, overlap)), running)
        waiting = sorted(known, key=lambda one: one.place)
        tasks = _Tasks(waiting, partial(self._task, units))
        return PartitionQueue(
            partitions=names,
            units=units,
            state=QueueState(
                units=units.units,
                nodes=units.nodes,
                running=running,
                waiting=tasks,
                depth=tasks.within(self.depth),
                closings=self._closings(own, units),
                arrivals=_arrivals(arrivals, units),
            ),
            waiting=sum(one.job.jobs for one in waiting if one.starts_by_itself),
            demand=_demand(arrivals, units),
        )

    def _units(self, own: frozenset[str], overlap: Mapping[str, float]) -> NodeUnits:
        """Count in nodes where jobs have whole ones, and in CPUs elsewhere."""
        nodes = [self.nodes[name] for name in own]
        gres: dict[str, float] = defaultdict(float)
        for node in nodes:
            for name, count in node.gres.items():
                gres[name] += count / len(nodes)
        cpus = sum(node.cpus for node in nodes)
        jobs = [job for job in self.raw.jobs if any(overlap.get(p) for p in job.partitions)]
        whole = all(self.alone[job.job_id] for job in jobs)
        return NodeUnits(
            nodes=len(nodes),
            units=len(nodes) if whole and jobs else cpus,
            cpus=cpus / len(nodes),
            mem_mib=sum(n.mem_mib for n in nodes) / len(nodes) if self.counts_memory else 0.0,
            gres=dict(gres),
        )

    def _running(self, own: frozenset[str], units: NodeUnits) -> Iterator[QueuedJob]:
        for job in self.raw.jobs:
            if job.state in WAITS or not job.node_names:
                continue
            inside = sum(name in own for name in job.node_names)
            if inside:
                limit_s = job.end_s - job.start_s if job.end_s < inf else _FOREVER_S
                log_run_s, application = self.run_times(job)
                yield QueuedJob(
                    units=self._size(job, inside, units),
                    limit_s=max(limit_s, 1.0),
                    log_run_s=log_run_s,
                    application=application,
                    ran_s=max(self.now_s - job.start_s, 0.0) if job.start_s < inf else 0.0,
                    owner=job.user,
                    account=job.account,
                    key=_key(job),
                )

    def _unseen(self, own: frozenset[str], units: NodeUnits) -> Iterator[QueuedJob]:
        """Nodes in use by jobs that we may not see: unknown for how long."""
        used = {name for job in self.raw.jobs for name in job.node_names}
        hidden = sum(self.nodes[name].cpus_used > 0 for name in own - used)
        if hidden:
            taken = max(hidden * units.units // units.nodes, 1)
            yield QueuedJob(units=taken, limit_s=_FOREVER_S)

    def _waiting(
        self, names: Sequence[str], own: frozenset[str], overlap: Mapping[str, float]
    ) -> "Iterator[_Waiting]":
        places: dict[tuple[Sequence[str], NodeShare | None], tuple[float, int, bool]] = {}
        for job in self.raw.jobs:
            if job.state not in WAITS or job.reservation:
                continue
            later = job.reason in _LATER and job.start_s < inf
            behind = job.reason == _BEHIND and self.awaited.of(job) is not None
            fitting, may_start = self.startable.fitting, self.startable.partitions
            able = fitting(job) if later or behind else may_start(job)
            if not able:
                continue
            key = able, None if names else _particular(job)
            if (where := places.get(key)) is None:
                part, tier, inside = self._where(able, names, overlap)
                if part and key[1] is not None:
                    part = self._part(able, key[1], own)
                where = places[key] = part, tier, inside
            part, tier, inside = where
            if not part:
                continue
            # Of others' small jobs so many count in full as have their nodes here.
            if not inside and (job.job_id or 0) * _GOLDEN % 1.0 >= part * job.nodes:
                continue
            place = (-tier, -job.priority, job.submit_s, job.job_id or 0)
            begin_s = max(job.start_s - self.now_s, 0.0) if later else 0.0
            yield _Waiting(place, job, part, begin_s, inside)

    def _held(
        self, waiting: Sequence["_Waiting"], running: Sequence[QueuedJob]
    ) -> Sequence["_Waiting"]:
        """Say of jobs that wait for others what holds them; the unknown ones are left out."""
        if not any(one.job.reason == _BEHIND for one in waiting):
            return waiting
        run = {job.key for job in running}
        while True:
            there = run | {_key(one.job) for one in waiting}
            made = [self._behind(one, there) for one in waiting]
            known = [one for one in made if one is not None]
            if len(known) == len(waiting):
                return known
            waiting = known

    def _behind(self, one: "_Waiting", there: Collection[int]) -> "_Waiting | None":
        if one.job.reason != _BEHIND:
            return one
        hold = self.awaited.hold(one.job, there)
        if hold is None:
            return None
        begin_s = max(hold.begin_s - self.now_s, 0.0)
        return replace(one, awaits=hold.awaits, of_tasks=hold.of_tasks, begin_s=begin_s)

    def _where(
        self, partitions: Sequence[str], names: Sequence[str], overlap: Mapping[str, float]
    ) -> tuple[float, int, bool]:
        """Part of this queue's nodes for jobs of these partitions, their tier, if it is theirs."""
        part = max((overlap.get(name, 0.0) for name in partitions), default=0.0)
        tier = max((self.tiers.get(name, 1) for name in partitions), default=1)
        return part, tier, not frozenset(names).isdisjoint(partitions)

    def _part(self, partitions: Sequence[str], share: NodeShare, own: frozenset[str]) -> float:
        """Part of the nodes that could take a share of which these are."""
        fits: dict[NodeGroup, bool] = {}
        able = []
        for name in frozenset().union(*(self.members.get(one, frozenset()) for one in partitions)):
            group = empty_node(self.nodes[name])
            if group not in fits:
                fits[group] = could_hold(group, share)
            if fits[group]:
                able.append(name)
        return sum(name in own for name in able) / len(able) if able else 0.0

    def _task(self, units: NodeUnits, one: "_Waiting") -> QueuedJob:
        log_run_s, application = self.run_times(one.job)
        share = 1.0 if one.own else max(one.part, 1 / max(one.job.nodes, 1))
        return QueuedJob(
            units=max(ceil(self._size(one.job, max(one.job.nodes, 1), units) * share), 1),
            limit_s=one.job.limit_s or _FOREVER_S,
            log_run_s=log_run_s,
            application=application,
            begin_s=one.begin_s,
            owner=one.job.user,
            account=one.job.account,
            number=one.job.job_id if one.own and one.job.job_id is not None else -1,
            key=_key(one.job),
            awaits=one.awaits,
        )

    def _size(self, job: RawJob, nodes: int, units: NodeUnits) -> int:
        return size_of(job, nodes, units, alone=self.alone[job.job_id])

    def _closings(self, own: frozenset[str], units: NodeUnits) -> Sequence[Closing]:
        """Reservations, less what their own jobs have of them already."""
        made = []
        for one in self.raw.reservations:
            nodes = sum(name in own for name in one.node_names)
            inside = frozenset(one.node_names) & own
            theirs = sum(
                sum(name in inside for name in job.node_names)
                for job in self.raw.jobs
                if job.reservation == one.name
            )
            left = max(nodes - theirs, 0) * units.units // units.nodes
            if left and one.end_s > self.now_s:
                made.append((max(one.start_s - self.now_s, 0.0), one.end_s - self.now_s, left))
        return made


def _key(job: RawJob) -> int:
    return -1 if job.job_id is None else job.job_id


def _particular(job: RawJob) -> NodeShare | None:
    """Give what some nodes only could meet; None: any node of its partitions will do."""
    if not (job.features or job.gpu_type):
        return None
    return NodeShare(gpu_type=job.gpu_type, constraint=job.features)


def size_of(job: RawJob, nodes: int, units: NodeUnits, *, alone: bool) -> int:
    """Units that a job takes on so many of its nodes."""
    each = units.units / units.nodes
    if alone:
        return max(ceil(nodes * each), 1)
    count = max(len(job.node_names) or job.nodes, 1)
    gres = {name: amount / count for name, amount in job.devices.items()}
    cpus, memory = job.tres.get("cpu", 1.0) / count, job.tres.get("mem", 0.0) / count
    return max(ceil(nodes * units.part(cpus, memory, gres) * each - 1e-9), 1)


def _arrivals(past: Sequence[PastArrivals], units: NodeUnits) -> Arrivals:
    """Jobs to come in all partitions of a queue, in its units."""
    per_s = sum(one.per_s for one in past)
    if not per_s:
        return Arrivals()
    whole = units.units == units.nodes
    return Arrivals(
        per_s=per_s,
        ahead=sum(one.per_s * one.ahead for one in past) / per_s,
        shapes=[
            JobShape(
                min(max(shape.nodes if whole else shape.cpus, 1), units.units),
                max(shape.limit_s, 1.0),
                shape.run_s,
            )
            for one in past
            for shape in one.shapes
        ],
    )


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A record of squeue that stands for one job that waits, or for several tasks."""

    place: tuple[float, ...]  #: in the order of priority, the first first
    job: RawJob
    part: float  #: part of its nodes that it may take of this queue's
    begin_s: float  #: it does not start earlier, seconds from now
    own: bool  #: it may run in a partition of this queue
    awaits: tuple[Awaited, ...] = ()  #: jobs of this queue that it waits for
    #: by the place of a task what it waits for besides
    of_tasks: Mapping[int, Awaited] = field(default_factory=dict)

    @property
    def starts_by_itself(self) -> bool:
        """Whether it waits for nodes alone."""
        return not (self.begin_s or self.awaits or self.of_tasks)


class _Tasks(Sequence[QueuedJob]):
    """Jobs that wait, those of an array one by one; each is made when it is looked at."""

    def __init__(
        self,
        waiting: Sequence[_Waiting],
        make: Callable[[_Waiting], QueuedJob],
        made: dict[Place, QueuedJob] | None = None,
    ) -> None:
        self._waiting, self._make = waiting, make
        self._made = {} if made is None else made
        self._ends = list(accumulate(one.job.jobs for one in waiting))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def before(self, place: Place, awaited: Collection[int] = frozenset()) -> "_Tasks":
        """Those that go before a job's place; that job, wherever it is now, is not among them.

        awaited: ids of others that count, wherever they are.
        """
        until = bisect_left(self._waiting, place, key=lambda one: one.place)
        behind = [one for one in self._waiting[until:] if _key(one.job) in awaited]
        others = [one for one in [*self._waiting[:until], *behind] if one.place[-1] != place[-1]]
        return _Tasks(others, self._make, self._made)

    def within(self, records: int) -> int:
        """How many jobs the first records stand for: Slurm looks at an array once."""
        return max(self._ends[min(records, len(self._ends)) - 1] if self._ends else 0, records)

    @overload
    def __getitem__(self, place: int) -> QueuedJob: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[QueuedJob]: ...
    def __getitem__(self, place: int | slice) -> QueuedJob | Sequence[QueuedJob]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not 0 <= place < len(self):
            raise IndexError(place)
        record = bisect_right(self._ends, place)
        one = self._waiting[record]
        if (job := self._made.get(one.place)) is None:
            job = self._made[one.place] = self._make(one)
        task = place - self._ends[record] + one.job.jobs
        if task in one.of_tasks:
            return replace(job, awaits=(*job.awaits, one.of_tasks[task]))
        return job


def _demand(past: Sequence[PastArrivals], units: NodeUnits) -> ArrivalDemand:
    """Give what jobs to come want of a queue; of its busiest partition where it has several."""
    whole = units.units == units.nodes
    busiest = max(past, key=lambda one: one.per_s, default=None)
    if busiest is None:
        return ArrivalDemand()
    return (busiest.node_demand if whole else busiest.cpu_demand).scaled(1 / units.units)
