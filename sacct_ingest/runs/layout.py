"""How a job is laid out besides its size: runs with another layout are another curve.

A size is a count of nodes, CPUs or GPUs (:class:`Unit`).  A layout is what stays the same where the
size changes.  Zero tasks or CPUs are unknown, and match everything.  Zero GPUs are none, or
not accounted: Slurm does not say which.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Protocol, TypeVar

#: Of node types, and of Slurm's options, nothing is counted.
_NODE = re.compile(r"(?<!-)\bnode(s?)\b(?! type)")
#: Stands for components that are not known; where all of them are, no run's are the same.
SOME_SHAPE = "several"
#: Amounts of a component in words, and what stands between components: as `RunRow.shape` has it.
_AMOUNT = re.compile(r"(\d+) (node|CPU|GPU)")
_BESIDE = " + "
#: Nodes of a component that says more; its tasks may happen to get others next time.
_NODES = re.compile(r"\d+ nodes?, ")
#: GPUs of a request whose number cannot be worked out: no run had as many.
UNKNOWN_GPUS = -1


class Sized(Protocol):
    """What of a run its layout is made of, as :class:`sacct_ingest.store.RunRow` has it."""

    @property
    def nodes(self) -> int: ...  # noqa: D102
    @property
    def tasks(self) -> int | None: ...  # noqa: D102
    @property
    def cpus(self) -> int: ...  # noqa: D102
    @property
    def gpus(self) -> int | None: ...  # noqa: D102
    @property
    def gpu_type(self) -> str: ...  # noqa: D102
    @property
    def node_type(self) -> str: ...  # noqa: D102
    @property
    def shape(self) -> str: ...  # noqa: D102


R = TypeVar("R", bound=Sized)


class Unit(StrEnum):
    """What the size of a run is counted in: the axis of its curve."""

    NODES = "nodes"
    CPUS = "cpus"
    GPUS = "gpus"

    @property
    def word(self) -> str:
        """One of them, for people."""
        return _WORDS[self]

    @property
    def plural(self) -> str:
        """Several of them, for people."""
        return f"{self.word}s"

    def counted(self, number: int) -> str:
        """Put a number beside its noun.

        >>> Unit.NODES.counted(1), Unit.CPUS.counted(4)
        ('1 node', '4 CPUs')
        """
        return f"{number} {self.word if number == 1 else self.plural}"

    def several(self, numbers: Sequence[int]) -> str:
        """List numbers before their noun.

        >>> Unit.NODES.several([4, 6, 8]), Unit.CPUS.several([1])
        ('4, 6 and 8 nodes', '1 CPU')
        """
        *others, last = numbers
        before = f"{', '.join(map(str, others))} and " if others else ""
        return f"{before}{last} {self.plural if others or last != 1 else self.word}"

    def size_of(self, run: Sized) -> int:
        """Size of a run; 0 where it is unknown, or where it has none."""
        return getattr(run, self.value) or 0

    def words(self, text: str) -> str:
        """Give a text about a number of nodes in the words of this unit.

        >>> Unit.CPUS.words("runs on 4 nodes; no run on that node type")
        'runs on 4 CPUs; no run on that node type'
        """
        return text if self is Unit.NODES else _NODE.sub(rf"{self.word}\1", text)


_WORDS = {Unit.NODES: "node", Unit.CPUS: "CPU", Unit.GPUS: "GPU"}


class Each(StrEnum):
    """What CPUs are counted for where a size changes on a number of nodes."""

    NODE = "node"
    TASK = "task"
    GPU = "GPU"
    JOB = "job"
    ANY = "any"  #: the size alone counts, however it is laid out


_WHERE = {
    Each.NODE: "on each node",
    Each.TASK: "for each task",
    Each.GPU: "for each GPU",
    Each.JOB: "in all",
    Each.ANY: "",
}


@dataclass(frozen=True, slots=True, order=True)
class Layout:
    """Tasks, CPUs and GPUs of each node, of each task or GPU, or with ``in_all`` of the whole job.

    A request leaves ``gpus`` open (None) where it gets all that its nodes have.
    """

    tasks: int = 0
    cpus: int = 0
    in_all: bool = False
    gpus: int | None = 0
    each: Each = Each.NODE
    nodes: int = 0  #: that all runs had; 0: the size is counted in nodes, or any number
    gpu_type: str = ""  #: empty: unknown, or any
    shape: str = ""  #: of a heterogeneous job: what its components have; no other layout is alike

    def __str__(self) -> str:
        if self.shape:
            return f"components of {self.shape}"
        gpu = " ".join(filter(None, (self.gpu_type, "GPU")))
        counts = ((self.tasks, "task"), (self.cpus, "CPU"), (self.gpus or 0, gpu))
        words = [_counted(count, word) for count, word in counts if count]
        for_each_gpu = self.each is Each.GPU
        if self.gpu_type and not self.gpus and not (for_each_gpu and words):
            words.append(f"{gpu}s")
        where = "in all" if self.in_all else _WHERE[self.each]
        if for_each_gpu:
            where = f"for each {gpu}"
        if self.each is Each.ANY and self.cpus:
            where = _WHERE[Each.TASK]
        listed = " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
        counted = f"{listed} {where}".strip() if words else ""
        return " ".join(
            filter(None, (counted, f"on {_counted(self.nodes, 'node')}" if self.nodes else ""))
        )

    def matches(self, other: "Layout") -> bool:
        """Whether nothing differs that both say; tasks go before CPUs."""
        if (self.in_all, self.each) != (other.in_all, other.each):
            return False
        if self.shape or other.shape:
            return self.shape == other.shape or _alike(self.shape, other.shape)
        gpus = {self.gpus, other.gpus}
        if None not in gpus and len(gpus) > 1:
            return False
        # Where GPUs are what is counted, a job without any has no size.
        if gpus == {None, 0} and self.each is not Each.NODE:
            return False
        said = (
            (self.nodes, other.nodes),
            (self.gpu_type, other.gpu_type),
            (self.tasks, other.tasks),
            (self.cpus, other.cpus),
        )
        return all(own == its for own, its in said if own and its)


@lru_cache(maxsize=1024)
def _alike(one: str, other: str) -> bool:
    """Whether components of two shapes differ in nothing that both say; no GPUs are said, too.

    >>> _alike("1 node + 2 nodes, 2 CPUs", "1 node, 1 CPU + 2 nodes, 2 CPUs")
    True
    >>> _alike("1 node + 2 nodes", "1 node + 2 nodes, 2 GPUs"), _alike("1 node + 2 nodes", "")
    (False, False)
    >>> _alike(f"1 node + {SOME_SHAPE}", "1 node, 1 CPU + 2 nodes, 2 CPUs")
    True
    """
    ours = one.split(_BESIDE)
    theirs = other.split(_BESIDE)
    if SOME_SHAPE in (one, other) or not (one and other):
        return False
    if SOME_SHAPE in (ours[-1], theirs[-1]):
        return all(map(_same_component, ours[:1], theirs[:1]))
    return len(ours) == len(theirs) and all(map(_same_component, ours, theirs))


def _same_component(one: str, other: str) -> bool:
    ours, theirs = (
        {match[2]: int(match[1]) for match in _AMOUNT.finditer(text)} for text in (one, other)
    )
    gpus = ours.get("GPU", 0) == theirs.get("GPU", 0)
    return gpus and all(ours[word] == theirs[word] for word in ours.keys() & theirs.keys())


#: Of runs that say nothing.
ANY = Layout()


def layouts(runs: Sequence[R]) -> dict[Layout, list[R]]:
    """Group runs by their layout, the largest group first; runs keep their order.

    What is counted is whatever gives fewer layouts: usually tasks and CPUs of each node, and
    those of the whole job where a fixed number was spread over several node counts.
    """
    # Whether CPUs distinguish layouts: not where each node type merely has its own number.
    counts: dict[str, set[int]] = {}
    for run in runs:
        counts.setdefault(run.node_type, set()).add(-(-run.cpus // max(run.nodes, 1)))
    by_cpus = len(counts) < 2 or any(len(numbers) > 1 for numbers in counts.values())
    each = _grouped(runs, [_of_node(run, by_cpus=by_cpus) for run in runs])
    if len(each) > 1:
        whole = _grouped(runs, [_in_all(run, by_cpus=by_cpus) for run in runs])
        each = min(each, whole, key=len)
    return dict(sorted(each.items(), key=lambda one: (-len(one[1]), one[0])))


def size_layouts(runs: Sequence[R], unit: Unit, each: Each | None = None) -> dict[Layout, list[R]]:
    """Group runs that differ in CPUs or GPUs on as many nodes; as :func:`layouts` does.

    Either the tasks stay, and each has more CPUs, or each task (or GPU) has as many CPUs.

    each: which of both it is; None: what gives fewer layouts.
    """
    made = [[way(run) for run in runs] for way in _WAYS[unit]]
    if each is not None:
        made = [one for one in made if one[0].each is each] or made
    return _sorted(min((_grouped(runs, one) for one in made), key=len))


def any_layout(runs: Sequence[R], unit: Unit) -> dict[Layout, list[R]]:
    """Group runs by the GPUs that they have: the number of CPUs alone counts.

    Runs with other CPUs for each task are another group, as those on half-filled nodes.
    """
    several = unit is Unit.CPUS and len({_cpus_of_task(run) for run in runs if run.tasks}) > 1
    return _sorted(_grouped(runs, [_of_any(run, unit, by_tasks=several) for run in runs]))


def layouts_of_run(run: Sized) -> tuple[Layout, ...]:
    """Layouts that a run has, whatever the size is counted in."""
    ways = [way for unit in _WAYS.values() for way in unit]
    sized = [way(run) for way in ways]
    whole = [_of_node(run, by_cpus=True), _in_all(run, by_cpus=True)]
    return (*whole, *sized, *(_of_any(run, unit, by_tasks=True) for unit in _WAYS))


def second_sizes(layouts: Sequence[Layout]) -> Mapping[Layout, int]:
    """Second size of each of these layouts; empty where they are not told apart by one.

    GPUs, or else tasks, or else CPUs, or else nodes.

    >>> list(second_sizes([Layout(4, 4), Layout(8, 8)]).values())
    [4, 8]
    >>> second_sizes([Layout(cpus=8, each=Each.GPU, gpus=None, nodes=n) for n in (1, 2)]).values()
    dict_values([1, 2])
    """
    one_kind = {(one.each, one.in_all, one.gpu_type, one.shape) for one in layouts}
    if len(layouts) < 2 or len(one_kind) > 1 or layouts[0].in_all:
        return {}
    for name in ("gpus", "tasks", "cpus", "nodes"):
        sizes = [getattr(one, name) or 0 for one in layouts]
        if min(sizes) > 0 and len(set(sizes)) == len(sizes):
            return dict(zip(layouts, sizes, strict=True))
    return {}


def _of_any(run: Sized, unit: Unit, *, by_tasks: bool) -> Layout:
    gpus = None if unit is Unit.GPUS else run.gpus or 0
    cpus = _cpus_of_task(run) if by_tasks and unit is Unit.CPUS else 0
    if run.shape:
        return Layout(each=Each.ANY, shape=run.shape)
    return Layout(cpus=cpus, gpus=gpus, each=Each.ANY, gpu_type=run.gpu_type)


def _cpus_of_task(run: Sized) -> int:
    """CPUs of each task; 0 where the tasks are not known."""
    return run.cpus // run.tasks if run.tasks else 0


def _sized(run: Sized, each: Each, tasks: int = 0, cpus: int = 0, gpus: int | None = 0) -> Layout:
    if run.shape:
        return Layout(each=each, nodes=run.nodes, shape=run.shape)
    return Layout(tasks, cpus, gpus=gpus, each=each, nodes=run.nodes, gpu_type=run.gpu_type)


#: Either the tasks stay, or what each task has; either the CPUs, or what each GPU has.
_WAYS: dict[Unit, tuple[Callable[[Sized], Layout], ...]] = {
    Unit.CPUS: (
        lambda run: _sized(run, Each.JOB, tasks=run.tasks or 0, gpus=run.gpus or 0),
        lambda run: _sized(run, Each.TASK, cpus=_cpus_of_task(run), gpus=run.gpus or 0),
    ),
    Unit.GPUS: (
        lambda run: _sized(run, Each.JOB, cpus=run.cpus, gpus=None),
        lambda run: _sized(
            run, Each.GPU, cpus=-(-run.cpus // run.gpus) if run.gpus else 0, gpus=None
        ),
    ),
}


def _sorted(groups: dict[Layout, list[R]]) -> dict[Layout, list[R]]:
    """Largest group first; ``gpus`` may be open, which has no order."""
    return dict(sorted(groups.items(), key=lambda one: (-len(one[1]), str(one[0]), one[0].tasks)))


def _of_node(run: Sized, *, by_cpus: bool) -> Layout:
    if run.shape:
        return Layout(shape=run.shape)
    nodes = max(run.nodes, 1)
    cpus = -(-run.cpus // nodes) if by_cpus else 0
    tasks = -(-(run.tasks or 0) // nodes)
    gpus = -(-(run.gpus or 0) // nodes)
    return Layout(tasks, cpus, gpus=gpus, gpu_type=run.gpu_type)


def _in_all(run: Sized, *, by_cpus: bool) -> Layout:
    if run.shape:
        return Layout(in_all=True, shape=_NODES.sub("", run.shape))
    cpus = run.cpus if by_cpus else 0
    return Layout(run.tasks or 0, cpus, in_all=True, gpus=run.gpus or 0, gpu_type=run.gpu_type)


def _counted(count: int, word: str) -> str:
    if count == UNKNOWN_GPUS:
        return f"an unknown number of {word}s"
    return f"{count} {word}{'s' * (count != 1)}"


def _grouped(runs: Sequence[R], layout_of: Sequence[Layout]) -> dict[Layout, list[R]]:
    """Group runs; those of unknown tasks join others with as many CPUs and GPUs.

    GPUs of an unknown type join the only type that there is.
    """
    types = {run.gpu_type for run in runs if run.gpu_type}
    if len(types) == 1:
        (only,) = types
        layout_of = [
            replace(one, gpu_type=only) if run.gpus and not run.shape else one
            for run, one in zip(runs, layout_of, strict=True)
        ]
    full = {_but_tasks(one): one for one in sorted(set(layout_of), key=_rank) if one.tasks}
    groups: dict[Layout, list[R]] = {}
    for run, layout in zip(runs, layout_of, strict=True):
        own = layout if layout.tasks else full.get(_but_tasks(layout), layout)
        groups.setdefault(own, []).append(run)
    return groups


def _rank(layout: Layout) -> tuple[int, ...]:
    """Most tasks first."""
    return (-layout.tasks, -layout.cpus, -(layout.gpus or 0), -layout.nodes)


def _but_tasks(layout: Layout) -> tuple[int, int | None, int, str, str]:
    return layout.cpus, layout.gpus, layout.nodes, layout.gpu_type, layout.shape
