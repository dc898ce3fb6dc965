"""How a job spreads over its nodes: runs with another layout are another curve.

A layout counts tasks, CPUs and GPUs, of each node or of the whole job.  Zero tasks or CPUs are not
known, and differ from nothing.  Zero GPUs are none, or not accounted: Slurm does not say which.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar


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
    def node_type(self) -> str: ...  # noqa: D102


R = TypeVar("R", bound=Sized)


@dataclass(frozen=True, slots=True, order=True)
class Layout:
    """Tasks, CPUs and GPUs of each node, or with ``in_all`` of the whole job.

    A request leaves ``gpus`` open (None) where it gets all that its nodes have.
    """

    tasks: int = 0
    cpus: int = 0
    in_all: bool = False
    gpus: int | None = 0

    def __str__(self) -> str:
        counts = ((self.tasks, "task"), (self.cpus, "CPU"), (self.gpus or 0, "GPU"))
        words = [_counted(count, word) for count, word in counts if count]
        where = "in all" if self.in_all else "on each node"
        listed = " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
        return f"{listed} {where}" if words else ""

    def matches(self, other: "Layout") -> bool:
        """Whether nothing differs that both say; tasks go before CPUs."""
        if self.in_all != other.in_all:
            return False
        if None not in (self.gpus, other.gpus) and self.gpus != other.gpus:
            return False
        if self.tasks and other.tasks and self.tasks != other.tasks:
            return False
        return not (self.cpus and other.cpus) or self.cpus == other.cpus


#: Of runs that say nothing.
ANY = Layout()
#: GPUs of a request whose number cannot be worked out: no run had as many.
UNKNOWN_GPUS = -1


def layouts(runs: Sequence[R]) -> dict[Layout, list[R]]:
    """Group runs by their layout, the largest group first; runs keep their order.

    What is counted is whatever tells fewer layouts apart: usually tasks and CPUs of each node, and
    those of the whole job where a fixed number was spread over several node counts.
    """
    by_cpus = _cpus_differ(runs)
    each = _grouped(runs, [_of_node(run, by_cpus=by_cpus) for run in runs])
    if len(each) > 1:
        whole = _grouped(runs, [_in_all(run, by_cpus=by_cpus) for run in runs])
        each = min(each, whole, key=len)
    return dict(sorted(each.items(), key=lambda one: (-len(one[1]), one[0])))


def _of_node(run: Sized, *, by_cpus: bool) -> Layout:
    nodes = max(run.nodes, 1)
    cpus = -(-run.cpus // nodes) if by_cpus else 0
    return Layout(-(-(run.tasks or 0) // nodes), cpus, gpus=-(-(run.gpus or 0) // nodes))


def _in_all(run: Sized, *, by_cpus: bool) -> Layout:
    cpus = run.cpus if by_cpus else 0
    return Layout(run.tasks or 0, cpus, in_all=True, gpus=run.gpus or 0)


def _counted(count: int, word: str) -> str:
    if count == UNKNOWN_GPUS:
        return f"an unknown number of {word}s"
    return f"{count} {word}{'s' * (count != 1)}"


def _cpus_differ(runs: Iterable[Sized]) -> bool:
    """Whether CPUs tell layouts apart: not where each node type merely has its own number."""
    counts: dict[str, set[int]] = {}
    for run in runs:
        counts.setdefault(run.node_type, set()).add(-(-run.cpus // max(run.nodes, 1)))
    return len(counts) < 2 or any(len(numbers) > 1 for numbers in counts.values())


def _grouped(runs: Sequence[R], layout_of: Sequence[Layout]) -> dict[Layout, list[R]]:
    """Group runs; those whose tasks are not known join others with as many CPUs and GPUs."""
    full = {(one.cpus, one.gpus): one for one in sorted(set(layout_of), reverse=True) if one.tasks}
    groups: dict[Layout, list[R]] = {}
    for run, layout in zip(runs, layout_of, strict=True):
        own = layout if layout.tasks else full.get((layout.cpus, layout.gpus), layout)
        groups.setdefault(own, []).append(run)
    return groups
