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
from slurm_plugin.wait_forecasts.awaited_jobs import BEHIND, AwaitedJobs, is_held, is_limited

#: What is predicted of a job's run time: log quantiles, and a number for its application.
RunTimes = Callable[[RawJob], tuple[tuple[float, ...], int]]

#: Limit of jobs that have none.
_FOREVER_S = 365 * 86_400.0
_GOLDEN = 0.618034  #: its multiples are spread evenly between whole numbers
_LATER = frozenset({"BeginTime"})


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
        return frozenset(job.key for job in (*self.state.running, *self.state.waiting))

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
        raw, run_times, now_s=now_s, settings=settings, limits=limits, span_of=span_of
    )
    partitions_of: dict[frozenset[str], list[str]] = defaultdict(list)
    for name, nodes in scene.members.items():
        partitions_of[nodes].append(name)
    result = []
    for nodes, names in partitions_of.items():
        past = [of for name, of in (arrivals or {}).items() if name in names]
        result.append(scene.queue(tuple(names), nodes, past))
    return result


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
        tiers: dict[str, int] = {}
        exclusive: set[str] = set()
        for partition in raw.partitions:
            name = partition.name
            tiers[name] = partition.tier
            if partition.exclusive or settings.whole_nodes:
                exclusive.add(name)
            inside = frozenset(node.name for node in nodes.values() if name in node.partitions)
            if inside and partition.up:
                members[name] = inside
        alone = {
            job.job_id: job.alone or not exclusive.isdisjoint(job.partitions) for job in raw.jobs
        }
        return cls(
            raw=raw,
            nodes=nodes,
            members=members,
            tiers=tiers,
            exclusive=frozenset(exclusive),
            alone=alone,
            run_times=run_times,
            now_s=now_s,
            counts_memory=settings.counts_memory,
            depth=settings.depth,
            startable=StartableJobs(raw, settings, limits),
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
        self, names: tuple[str, ...], nodes: frozenset[str], arrivals: Sequence[PastArrivals] = ()
    ) -> PartitionQueue:
        """Make the queue of some nodes.

        names: partitions that have just these nodes; none: all count with the part of theirs.
        nodes: their names.
        arrivals: how jobs came to these partitions.
        """
        overlap = {
            name: len(nodes & members) / len(members) for name, members in self.members.items()
        }
        units = self._units(nodes, overlap)
        running = [*self._running(nodes, units), *self._unseen(nodes, units)]
        waiting = self._held(list(self._waiting(names, nodes, overlap)), running)
        waiting = sorted(waiting, key=lambda record: record.place)
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
                closings=self._closings(nodes, units),
                arrivals=_arrivals(arrivals, units),
            ),
            waiting=sum(record.start_by_themselves for record in waiting),
            demand=_demand(arrivals, units),
        )

    def _units(self, names: frozenset[str], overlap: Mapping[str, float]) -> NodeUnits:
        """Count in nodes where jobs have whole ones, and in CPUs elsewhere."""
        nodes = [self.nodes[name] for name in names]
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

    def _running(self, nodes: frozenset[str], units: NodeUnits) -> Iterator[QueuedJob]:
        for job in self.raw.jobs:
            if job.state in WAITS or not job.node_names:
                continue
            inside = sum(name in nodes for name in job.node_names)
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

    def _unseen(self, nodes: frozenset[str], units: NodeUnits) -> Iterator[QueuedJob]:
        """Nodes in use by jobs that we may not see: unknown for how long."""
        used = {name for job in self.raw.jobs for name in job.node_names}
        hidden = sum(self.nodes[name].cpus_used > 0 for name in nodes - used)
        if hidden:
            taken = max(hidden * units.units // units.nodes, 1)
            yield QueuedJob(units=taken, limit_s=_FOREVER_S)

    def _waiting(
        self, names: Sequence[str], nodes: frozenset[str], overlap: Mapping[str, float]
    ) -> "Iterator[_Waiting]":
        places: dict[tuple[Sequence[str], NodeShare | None], tuple[float, int, bool]] = {}
        for job in self.raw.jobs:
            if job.state not in WAITS or job.reservation:
                continue
            later = job.reason in _LATER and job.start_s < inf
            behind = job.reason == BEHIND and self.awaited.of(job) is not None
            if later or behind or is_limited(job.reason):
                partitions = self.startable.fitting(job)
            else:
                partitions = self.startable.partitions(job)
            if not partitions:
                continue
            share = None if names else _particular(job)
            key = partitions, share
            if key not in places:
                part, tier, inside = self._where(partitions, names, overlap)
                if part and share is not None:
                    part = self._part(partitions, share, nodes)
                places[key] = part, tier, inside
            part, tier, inside = places[key]
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
        if not any(is_held(record.job) for record in waiting):
            return waiting
        running_keys = {job.key for job in running}
        while True:
            keys = running_keys | {_key(record.job) for record in waiting}
            held = [self._behind(record, keys) for record in waiting]
            remaining = [record for record in held if record is not None]
            if len(remaining) == len(waiting):
                return remaining
            waiting = remaining

    def _behind(self, record: "_Waiting", keys: Collection[int]) -> "_Waiting | None":
        """Say what holds a job among those of ``keys``; None: its start cannot be reckoned."""
        if not is_held(record.job):
            return record
        hold = self.awaited.hold(record.job, keys)
        if hold is None:
            return None
        begin_s = max(hold.begin_s - self.now_s, record.begin_s, 0.0)
        return replace(record, awaits=hold.awaits, of_tasks=hold.of_tasks, begin_s=begin_s)

    def _where(
        self, partitions: Sequence[str], names: Sequence[str], overlap: Mapping[str, float]
    ) -> tuple[float, int, bool]:
        """Part of this queue's nodes for jobs of these partitions, their tier, if it is theirs."""
        part = max((overlap.get(name, 0.0) for name in partitions), default=0.0)
        tier = max((self.tiers.get(name, 1) for name in partitions), default=1)
        return part, tier, not frozenset(names).isdisjoint(partitions)

    def _part(self, partitions: Sequence[str], share: NodeShare, nodes: frozenset[str]) -> float:
        """Part of the nodes that could take a share of which these are."""
        fits: dict[NodeGroup, bool] = {}
        able = []
        members = [self.members.get(partition, frozenset()) for partition in partitions]
        for name in frozenset().union(*members):
            group = empty_node(self.nodes[name])
            if group not in fits:
                fits[group] = could_hold(group, share)
            if fits[group]:
                able.append(name)
        if not able:
            return 0.0
        return sum(name in nodes for name in able) / len(able)

    def _task(self, units: NodeUnits, record: "_Waiting") -> QueuedJob:
        job = record.job
        log_run_s, application = self.run_times(job)
        nodes = max(job.nodes, 1)
        share = 1.0 if record.own else max(record.part, 1 / nodes)
        return QueuedJob(
            units=max(ceil(self._size(job, nodes, units) * share), 1),
            limit_s=job.limit_s or _FOREVER_S,
            log_run_s=log_run_s,
            application=application,
            begin_s=record.begin_s,
            owner=job.user,
            account=job.account,
            number=_key(job) if record.own else -1,
            key=_key(job),
            awaits=record.awaits,
        )

    def _size(self, job: RawJob, nodes: int, units: NodeUnits) -> int:
        return size_of(job, nodes, units, alone=self.alone[job.job_id])

    def _closings(self, nodes: frozenset[str], units: NodeUnits) -> Sequence[Closing]:
        """Reservations, less what their own jobs have of them already."""
        closings = []
        for reservation in self.raw.reservations:
            inside = frozenset(reservation.node_names) & nodes
            free = sum(name in nodes for name in reservation.node_names)
            for job in self.raw.jobs:
                if job.reservation == reservation.name:
                    free -= sum(name in inside for name in job.node_names)
            left = max(free, 0) * units.units // units.nodes
            end_s = reservation.end_s - self.now_s
            if left and end_s > 0:
                closings.append((max(reservation.start_s - self.now_s, 0.0), end_s, left))
        return closings


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
    cpus = job.tres.get("cpu", 1.0) / count
    memory = job.tres.get("mem", 0.0) / count
    return max(ceil(nodes * units.part(cpus, memory, gres) * each - 1e-9), 1)


def _arrivals(past: Sequence[PastArrivals], units: NodeUnits) -> Arrivals:
    """Jobs to come in all partitions of a queue, in its units."""
    per_s = sum(partition.per_s for partition in past)
    if not per_s:
        return Arrivals()
    whole_nodes = units.units == units.nodes
    shapes: list[JobShape] = []
    for partition in past:
        for shape in partition.shapes:
            size = shape.nodes if whole_nodes else shape.cpus
            size = min(max(size, 1), units.units)
            shapes.append(JobShape(size, max(shape.limit_s, 1.0), shape.run_s))
    ahead = sum(partition.per_s * partition.ahead for partition in past) / per_s
    return Arrivals(per_s=per_s, ahead=ahead, shapes=shapes)


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
    of_tasks: Mapping[int, Sequence[Awaited]] = field(default_factory=dict)

    @property
    def start_by_themselves(self) -> int:
        """How many of its tasks wait for nodes alone."""
        return 0 if self.begin_s or self.awaits else self.job.jobs - len(self.of_tasks)


class _Tasks(Sequence[QueuedJob]):
    """Jobs that wait, those of an array one by one; each is made when it is looked at."""

    def __init__(
        self,
        waiting: Sequence[_Waiting],
        make: Callable[[_Waiting], QueuedJob],
        jobs: dict[Place, QueuedJob] | None = None,
    ) -> None:
        self._waiting = waiting
        self._make = make
        self._jobs = {} if jobs is None else jobs
        self._ends = list(accumulate(record.job.jobs for record in waiting))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def before(self, place: Place, awaited: Collection[int] = frozenset()) -> "_Tasks":
        """Those that go before a job's place; that job, wherever it is now, is not among them.

        awaited: ids of others that count, wherever they are.
        """
        until = bisect_left(self._waiting, place, key=lambda record: record.place)
        ahead = [*self._waiting[:until]]
        ahead += [record for record in self._waiting[until:] if _key(record.job) in awaited]
        others = [record for record in ahead if record.place[-1] != place[-1]]
        return _Tasks(others, self._make, self._jobs)

    def within(self, records: int) -> int:
        """How many jobs the first records stand for: Slurm looks at an array once."""
        if not self._ends:
            return max(0, records)
        return max(self._ends[min(records, len(self._ends)) - 1], records)

    @overload
    def __getitem__(self, place: int) -> QueuedJob: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[QueuedJob]: ...
    def __getitem__(self, place: int | slice) -> QueuedJob | Sequence[QueuedJob]:
        if isinstance(place, slice):
            return [self[index] for index in range(*place.indices(len(self)))]
        if not 0 <= place < len(self):
            raise IndexError(place)
        index = bisect_right(self._ends, place)
        record = self._waiting[index]
        if record.place not in self._jobs:
            self._jobs[record.place] = self._make(record)
        job = self._jobs[record.place]
        task = place - self._ends[index] + record.job.jobs
        if task in record.of_tasks:
            return replace(job, awaits=(*job.awaits, *record.of_tasks[task]))
        return job


def _demand(past: Sequence[PastArrivals], units: NodeUnits) -> ArrivalDemand:
    """Give what jobs to come want of a queue; of its busiest partition where it has several."""
    busiest = max(past, key=lambda partition: partition.per_s, default=None)
    if busiest is None:
        return ArrivalDemand()
    whole_nodes = units.units == units.nodes
    demand = busiest.node_demand if whole_nodes else busiest.cpu_demand
    return demand.scaled(1 / units.units)
