"""Steps in time: each task of a workflow, in some order, where and on how many nodes was chosen.

Serial schedule generation: one task after the other takes the first gap after what it needs.  The
orders of all tasks together give all active schedules, with the best one among them (Kolisch,
*European Journal of Operational Research* 90, 1996).
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import inf

from slurm_plugin.experiments.plan import run_times
from slurm_plugin.experiments.plan import workflow as flows
from slurm_plugin.slurm.node_pool import NodeAvailability, first_fit, take


@dataclass(slots=True)
class Timeline:
    """Step function as :class:`slurm_plugin.slurm.node_pool.NodeAvailability`, changed in place.

    A plan of a thousand tasks looks for a gap some ten thousand times.

    >>> line = Timeline([0.0], [4])
    >>> line.take(3, 0.0, 10.0)
    >>> line.earliest(2, 5.0, 0.0), line.earliest(1, 5.0, 0.0)
    (10.0, 0.0)
    """

    times_s: list[float]
    free: list[int]

    @classmethod
    def of(cls, profile: "NodeAvailability | Timeline") -> "Timeline":
        """Timeline that begins as another, and is changed apart from it."""
        return cls(list(profile.times_s), list(profile.free))

    def earliest(self, nodes: int, duration_s: float, from_s: float) -> float:
        """First time from ``from_s`` on when ``nodes`` are free for so long; inf: never."""
        return first_fit(self.times_s, self.free, nodes, duration_s, from_s)

    def take(self, nodes: int, start_s: float, end_s: float) -> None:
        """Take nodes from a time to another."""
        if end_s > start_s:
            take(self.times_s, self.free, nodes, start_s, end_s)


@dataclass(frozen=True, slots=True)
class TaskBounds:
    """Node counts and time that a task may have at a place."""

    low: int = 1
    high: float = inf  #: 0: none at all
    longest_s: float = inf
    why: str = ""  #: what sets the node counts, for people


_ANY = TaskBounds()


@dataclass(frozen=True, slots=True, order=True)
class TaskOption:
    """Where a task may run: inputs that lie elsewhere are copied first, or else read in place."""

    place: str
    nodes: int
    stage: bool = True
    resources: run_times.Resources = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One task, or one copy of a file, in time."""

    name: str
    start_s: float
    end_s: float
    ready_s: float  #: when all that it needs is there
    estimate: run_times.TaskEstimate
    needs: tuple[str, ...]  #: steps that have to end before
    pool: str  #: place or link that it runs on
    nodes: int = 0  #: 0: a copy
    file: str = ""  #: what is copied ...
    source: str = ""  #: ... from which storage ...
    target: str = ""  #: ... to which
    remote: tuple[tuple[str, str], ...] = ()  #: inputs read in place, with their storages
    task: str = ""  #: task that it is, or that the copy is made for
    resources: run_times.Resources = ()

    @property
    def wait_s(self) -> float:
        """Time that it waits for nodes or for the link."""
        return self.start_s - self.ready_s

    @property
    def node_s(self) -> float:
        """Node-seconds."""
        return self.nodes * self.estimate.time_s


@dataclass(frozen=True, slots=True)
class PlanSchedule:
    """All steps of a plan in the order in which they were placed."""

    steps: tuple[Step, ...]
    choices: Mapping[str, TaskOption]
    end_s: float
    node_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningProblem:
    """The workflow, the run times and the site that a plan is made for.

    ``free`` are the nodes of each place over time, ``rooms`` what a task may have at a place where
    that is limited.  ``done`` are steps that have begun or ended already: they stay as they are.
    ``factors`` say how much longer than expected runs of each group of estimates took so far.
    """

    workflow: flows.Workflow
    runs: run_times.LearnedRunTimes
    transfers: run_times.Copies
    free: Mapping[str, NodeAvailability]
    now_s: float
    rooms: Mapping[tuple[str, str], TaskBounds] = field(default_factory=dict)
    done: tuple[Step, ...] = ()
    factors: Mapping[str, run_times.RunFactors] = field(default_factory=dict)
    memo: dict[object, run_times.TaskEstimate | None] = field(
        default_factory=dict, compare=False, repr=False
    )

    def run(
        self, task: flows.Task, option: TaskOption, remote: tuple[tuple[str, str], ...] = ()
    ) -> run_times.TaskEstimate | None:
        """Run time of a task that reads ``remote`` (files and storages) in place."""
        key = (task.name, option.place, option.nodes, option.resources, remote)
        if key not in self.memo:
            place = self.workflow.places[option.place]
            paths = [self._path(file, source, place.storage) for file, source in remote]
            made = self.runs.run(task, place, option.nodes, paths, option.resources)
            factors = self.factors.get(made.group) if made else None
            self.memo[key] = made.longer(factors) if made and factors else made
        return self.memo[key]

    def room(self, task: flows.Task, place: flows.PlanSite) -> TaskBounds:
        """Give the bounds of a task at a place."""
        return self.rooms.get((task.name, place.name), _ANY)

    def copy(self, file: str, source: str, target: str) -> run_times.TaskEstimate | None:
        """Time of a copy; None where there is no way."""
        key = (file, source, target)
        if key not in self.memo:
            size = self.workflow.files[file].size_bytes
            linked = (source, target) in self.workflow.links
            self.memo[key] = self.transfers.copy(size, source, target) if linked else None
        return self.memo[key]

    def read_s(self, file: str, source: str, target: str) -> float:
        """Time that reading a file in place takes; inf: its link's bandwidth is unknown."""
        path = self._path(file, source, target)
        return inf if path.bandwidth_bytes_per_s is None else path.stall_s

    def _path(self, file: str, source: str, target: str) -> run_times.TransferPath:
        size = self.workflow.files[file].size_bytes
        link = self.workflow.links[source, target]
        bandwidth = link.bandwidth_bytes_per_s
        if bandwidth is None:
            took = self.copy(file, source, target)
            bandwidth = size / took.time_s if took else None
        return run_times.TransferPath(
            size, bandwidth if size else inf, link.latency_s, f"{source} to {target}"
        )


class Board:
    """A schedule under construction."""

    def __init__(self, problem: PlanningProblem) -> None:
        flow = problem.workflow
        self.problem = problem
        self.steps: list[Step] = []
        self.choices: dict[str, TaskOption] = {}
        self.ends: dict[str, float] = {}
        self.end_s = problem.now_s
        self.node_s = 0.0
        self._lines = {name: Timeline.of(line) for name, line in problem.free.items()}
        #: Where each file is from when on, and by which step.
        self._at: dict[str, dict[str, tuple[float, str]]] = {
            file.name: dict.fromkeys(file.at, (problem.now_s, "")) for file in flow.files.values()
        }
        self._used: dict[str, float] = {}
        for step in problem.done:
            # Nodes of what runs are not free in the profiles already; links have none.
            self._add(step, take=not step.nodes)

    def copy(self) -> "Board":
        """Copy the board, so that another schedule can go on from here."""
        made = copy.copy(self)
        made.steps = self.steps.copy()
        made.choices = self.choices.copy()
        made.ends = self.ends.copy()
        made._lines = {name: Timeline.of(line) for name, line in self._lines.items()}
        made._at = {name: places.copy() for name, places in self._at.items()}
        made._used = self._used.copy()
        return made

    def draft(self, task: flows.Task, option: TaskOption) -> list[Step] | None:
        """List the steps of a task if this is chosen for it; None: that is not possible."""
        flow = self.problem.workflow
        place = flow.places[option.place]
        drafted: list[Step] = []
        needs = [(self.ends[one], one) for one in flow.before[task.name]]
        remote: list[tuple[str, str]] = []
        for name in task.reads:
            there = self._at[name].get(place.storage)
            access = flow.files[name].access
            in_place = access is flows.DataAccess.REMOTE or (
                access is flows.DataAccess.ANY and not option.stage
            )
            if there is None and in_place:
                there, source = self._nearest(name, place.storage)
                remote.append((name, source))
            elif there is None:
                copied = self._stage(name, place.storage, task.name, drafted)
                if copied is None:
                    return None
                there = (copied.end_s, copied.name)
            if there is None:
                return None
            needs.append(there)
        run = self._run(task, option, needs, tuple(remote))
        if run is None:
            return None
        drafted.append(run)
        return drafted if self._deliver(task, place, drafted) and self._fits(drafted) else None

    def commit(self, task: flows.Task, option: TaskOption, drafted: Iterable[Step]) -> None:
        """Take a draft."""
        self.choices[task.name] = option
        for step in drafted:
            self._add(step)

    def schedule(self) -> PlanSchedule:
        """Give the schedule as it is by now."""
        return PlanSchedule(tuple(self.steps), dict(self.choices), self.end_s, self.node_s)

    def _nearest(self, file: str, target: str) -> tuple[tuple[float, str] | None, str]:
        """Copy of a file that is read first from ``target``, with its storage."""
        flow = self.problem.workflow
        copies = [
            (at, source)
            for source, at in self._at[file].items()
            if (link := flow.links.get((source, target))) is not None and link.remote
        ]
        if len(copies) > 1:
            copies.sort(key=lambda one: one[0][0] + self.problem.read_s(file, one[1], target))
        return copies[0] if copies else (None, "")

    def _stage(self, file: str, target: str, task: str, drafted: list[Step]) -> Step | None:
        """Draft the copy of a file that arrives first."""
        made = [
            step
            for source, at in self._at[file].items()
            if (step := self._copy(file, source, target, at, task, drafted)) is not None
        ]
        first = min(made, key=lambda step: step.end_s, default=None)
        if first is not None:
            drafted.append(first)
        return first

    def _copy(
        self,
        file: str,
        source: str,
        target: str,
        at: tuple[float, str],
        task: str,
        drafted: Sequence[Step],
    ) -> Step | None:
        link = self.problem.workflow.links.get((source, target))
        estimate = self.problem.copy(file, source, target)
        if link is None or estimate is None or estimate.time_s == inf:
            return None
        pool = f"{source} to {target}"
        # Drafts are not on the lines yet: another copy of this task on the same link comes after.
        before = max((one.end_s for one in drafted if one.pool == pool), default=0.0)
        ready_s, needed = at
        start_s = self._line(pool, link).earliest(1, estimate.time_s, max(ready_s, before))
        return Step(
            name=f"{file} to {target}",
            start_s=start_s,
            end_s=start_s + estimate.time_s,
            ready_s=ready_s,
            estimate=estimate,
            needs=(needed,) if needed else (),
            pool=pool,
            file=file,
            source=source,
            target=target,
            task=task,
        )

    def _run(
        self,
        task: flows.Task,
        option: TaskOption,
        needs: Sequence[tuple[float, str]],
        remote: tuple[tuple[str, str], ...],
    ) -> Step | None:
        place = self.problem.workflow.places[option.place]
        estimate = self.problem.run(task, option, remote)
        if estimate is None:
            return None
        ready_s = max((end for end, _ in needs), default=self.problem.now_s)
        ready_s = max(ready_s, self.problem.now_s)
        start_s = self._lines[place.name].earliest(option.nodes, estimate.time_s, ready_s)
        if start_s == inf:
            return None
        return Step(
            name=task.name,
            start_s=start_s,
            end_s=start_s + estimate.time_s,
            ready_s=ready_s,
            estimate=estimate,
            needs=tuple(dict.fromkeys(step for _, step in needs if step)),
            pool=place.name,
            nodes=option.nodes,
            target=place.storage,
            remote=remote,
            task=task.name,
            resources=option.resources,
        )

    def _deliver(self, task: flows.Task, place: flows.PlanSite, drafted: list[Step]) -> bool:
        """Draft the copies that bring results to where they have to be."""
        run = drafted[-1]
        for name in task.writes:
            target = self.problem.workflow.files[name].deliver
            if target is None or target == place.storage:
                continue
            at = (run.end_s, run.name)
            step = self._copy(name, place.storage, target, at, task.name, drafted)
            if step is None:
                return False
            drafted.append(step)
        return True

    def _fits(self, drafted: Iterable[Step]) -> bool:
        """Whether the storages have room for what the steps leave there."""
        more: dict[str, float] = {}
        for storage, file in ((step.target, f) for step in drafted for f in self._leaves(step)):
            more[storage] = more.get(storage, self._used.get(storage, 0.0)) + file.size_bytes
        storages = self.problem.workflow.storages
        return all(size <= storages[storage].free_bytes for storage, size in more.items())

    def _leaves(self, step: Step) -> list[flows.File]:
        """Files that a step leaves at its target."""
        flow = self.problem.workflow
        names = flow.tasks[step.name].writes if step.nodes else (step.file,)
        return [flow.files[name] for name in names]

    def _line(self, pool: str, link: flows.NetworkLink) -> Timeline:
        if pool not in self._lines:
            self._lines[pool] = Timeline([self.problem.now_s], [link.streams])
        return self._lines[pool]

    def _add(self, step: Step, *, take: bool = True) -> None:
        for file in self._leaves(step):
            self._used[step.target] = self._used.get(step.target, 0.0) + file.size_bytes
            self._at[file.name][step.target] = (step.end_s, step.name)
        if take and step.nodes:
            self._lines[step.pool].take(step.nodes, step.start_s, step.end_s)
        elif take:
            link = self.problem.workflow.links[step.source, step.target]
            self._line(step.pool, link).take(1, step.start_s, step.end_s)
        self.steps.append(step)
        self.ends[step.name] = step.end_s
        self.end_s = max(self.end_s, step.end_s)
        self.node_s += step.node_s


def build(
    problem: PlanningProblem,
    order: Iterable[str],
    choices: Mapping[str, TaskOption],
    others: Mapping[str, Iterable[TaskOption]] | None = None,
) -> PlanSchedule | None:
    """Place all tasks in this order; None where a choice is not possible.

    others: options of tasks that take the place of choices that are not possible.
    """
    board = Board(problem)
    for name in order:
        task = problem.workflow.tasks[name]
        for option in chain((choices[name],), others[name] if others else ()):
            drafted = board.draft(task, option)
            if drafted is not None:
                board.commit(task, option, drafted)
                break
        else:
            return None
    return board.schedule()
