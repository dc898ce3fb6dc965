"""A workflow and the sites it may run on: tasks, files, places, storages and the links between.

A workflow is a directed acyclic graph of tasks; a plan assigns to each of them a compute resource,
and the storage and the network that its data is reached by (NIMO, VLDB 2006, section 2.1).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from math import inf

import msgspec

_LINK = {
    "source": "from",
    "target": "to",
    "bandwidth_bytes_per_s": "bandwidth",
    "latency_s": "latency",
}


class DataAccess(StrEnum):
    """How a task may reach a file that lies on another storage."""

    ANY = "any"
    STAGE = "stage"  #: only after it was copied
    REMOTE = "remote"  #: only in place, over the network


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry of a workflow's file, under its name; renamed are what stands there."""

    name: str = ""


class _OnNodes(_Entry, frozen=True, kw_only=True):
    """With the fewest and the most nodes of one task; None: as many as there are."""

    nodes: tuple[int, int | None] = (1, None)

    @property
    def low(self) -> int:
        """Fewest nodes."""
        return self.nodes[0]

    @property
    def high(self) -> int | None:
        """Most nodes."""
        return self.nodes[1]


class Storage(_Entry, frozen=True, kw_only=True, rename={"free_bytes": "free"}):
    """Where files lie: a folder that the nodes of one or more places see as their own."""

    path: str
    free_bytes: float = inf  #: room for copies and for what tasks write
    host: str = ""  #: name of the machine in the series of probes


class NetworkLink(_Entry, frozen=True, kw_only=True, rename=_LINK):
    """Way from one storage to another; None: what was measured between their hosts counts."""

    source: str
    target: str
    bandwidth_bytes_per_s: float | None = None
    latency_s: float | None = None
    remote: bool = True  #: files at the source can be opened from the target's nodes
    streams: int = 1  #: copies at a time at this bandwidth each
    one_way: bool = False  #: else the file means both ways
    copy: str = "cp -a -- {source} {target}"  #: command of a copy

    def __post_init__(self) -> None:
        if self.streams < 1:
            raise ValueError(f"streams: {self.streams} copies at a time are none")
        if self.bandwidth_bytes_per_s == 0.0:
            raise ValueError("bandwidth: has to be above zero")


class PlanSite(_OnNodes, frozen=True, kw_only=True):
    """A partition of a cluster, with the storage that is near to it."""

    storage: str
    partition: str = ""  #: the file may leave it out where it is the name
    cluster: str = ""  #: empty: the one that sbatch submits to
    #: of its nodes, relative to where run times were learned; None: what was measured counts
    speed: float | None = None
    attributes: dict[str, float] = {}  #: resource profile ρ

    def __post_init__(self) -> None:
        if self.speed is not None and not 0 < self.speed < inf:
            raise ValueError("speed: has to be above zero and finite")
        if wrong := [key for key, value in self.attributes.items() if not 0 < value < inf]:
            raise ValueError(f"attributes: {wrong[0]} has to be above zero and finite")


class File(_Entry, frozen=True, kw_only=True, rename={"size_bytes": "size"}):
    """A file or folder; ``at`` where it and its replicas lie before, empty if a task writes it."""

    size_bytes: float = 0.0
    at: tuple[str, ...] = ()
    path: str = ""  #: below its storage's path; empty: its name
    deliver: str | None = None  #: storage where it has to be in the end
    access: DataAccess = DataAccess.ANY


class Task(
    _OnNodes, frozen=True, kw_only=True, rename={"run_times_s": "run_time", "options": "sbatch"}
):
    """One job of the workflow."""

    command: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    after: tuple[str, ...] = ()  #: tasks that come before although no file says so
    places: tuple[str, ...] = ()  #: where it may run; empty: everywhere
    application: str = ""  #: label of its prediction table
    run_times_s: dict[int, float] = {}  #: by node count, rising
    samples: str = ""  #: file of runs that an occupancy model is learned from
    options: tuple[str, ...] = ()  #: more options for sbatch

    def __post_init__(self) -> None:
        if not all(time > 0 and nodes > 0 for nodes, time in self.run_times_s.items()):
            raise ValueError("run_time: node counts and times have to be above zero")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """Tasks in an order in which each comes after those that it needs."""

    name: str
    storages: Mapping[str, Storage]
    links: Mapping[tuple[str, str], NetworkLink]
    places: Mapping[str, PlanSite]
    files: Mapping[str, File]
    tasks: Mapping[str, Task]
    deadline: str = ""  #: as sbatch takes it
    before: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  #: direct predecessors
    behind: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  #: direct successors


def link_ends(flow: Workflow, source: str, target: str) -> tuple[str, str]:
    """Name both ends of a link as the series of probes and transfers have them.

    That is the storage's host, or its name.  Of two storages of one host the folders tell which.
    """
    ends = [flow.storages[name] for name in (source, target)]
    names = [end.host or end.name for end in ends]
    if names[0] == names[1]:
        names = [f"{name}:{end.path}" for name, end in zip(names, ends, strict=True)]
    return names[0], names[1]


def ordered(flow: Workflow) -> Workflow:
    """Put the tasks of a workflow in order, and note which needs which.

    Raises ValueError: tasks wait for each other in a circle, two tasks write one file, or a file
        comes from nowhere.
    """
    writers = _writers(flow.files, flow.tasks)
    tasks = flow.tasks
    before = {
        task.name: tuple(
            dict.fromkeys([*task.after, *(writers[f] for f in task.reads if f in writers)])
        )
        for task in tasks.values()
    }
    try:
        order = list(TopologicalSorter(before).static_order())
    except CycleError as error:
        circle = " -> ".join(map(str, error.args[1]))
        raise ValueError(f"tasks wait for each other in a circle: {circle}") from error
    behind: dict[str, list[str]] = {task: [] for task in tasks}
    for task, needed in before.items():
        for one in needed:
            behind[one].append(task)
    return replace(
        flow,
        tasks={task: tasks[task] for task in order},
        before=before,
        behind={task: tuple(followers) for task, followers in behind.items()},
    )


def _writers(files: Mapping[str, File], tasks: Mapping[str, Task]) -> dict[str, str]:
    writers: dict[str, str] = {}
    for task in tasks.values():
        for file in task.writes:
            if file in writers:
                raise ValueError(f"{file} is written by two tasks, {writers[file]} and {task.name}")
            if files[file].at:
                raise ValueError(
                    f"{file} is there already, and {task.name} writes it: leave out at"
                )
            writers[file] = task.name
    for task in tasks.values():
        for file in task.reads:
            if file not in writers and not files[file].at:
                raise ValueError(
                    f"{task.name} reads {file}, which no task writes: say at which storage it is"
                )
    return writers
