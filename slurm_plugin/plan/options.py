"""What may be chosen for each task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from slurm_plugin.plan.estimates import TaskEstimate
from slurm_plugin.plan.schedule import PlanningProblem, TaskOption
from slurm_plugin.plan.workflow import DataAccess, PlanSite, Task

#: Most node counts that are tried for one task at one place.
_COUNTS = 12


@dataclass(frozen=True, slots=True)
class OptionChoice:
    """An option with what it takes where all inputs are near."""

    option: TaskOption
    time_s: float
    node_s: float


#: For each task what may be chosen.
Choices = Mapping[str, Sequence[OptionChoice]]


def choices(problem: PlanningProblem) -> dict[str, list[OptionChoice]]:
    """List what may be chosen for each task; of two alike only the better one.

    Raises
    ------
    LookupError
        There is nothing for a task: its run time is not known, or no place has enough nodes.
    """
    placed = {step.name for step in problem.done}
    found = {}
    for task in problem.workflow.tasks.values():
        if task.name in placed:
            continue
        found[task.name] = _of_task(problem, task)
        if not found[task.name]:
            raise LookupError(_why_none(problem, task))
    return found


def restricted(all_of: Choices, *, place: str | None = None, stage: bool | None = None) -> Choices:
    """Keep what is at one place, or what stages (or not); empty where a task has nothing left."""
    kept = {
        task: [
            one
            for one in own
            if place in (None, one.option.place) and stage in (None, one.option.stage)
        ]
        for task, own in all_of.items()
    }
    return kept if all(kept.values()) else {}


def _of_task(problem: PlanningProblem, task: Task) -> list[OptionChoice]:
    found = []
    for name in task.places or problem.workflow.places:
        place = problem.workflow.places[name]
        made = [
            OptionChoice(TaskOption(name, known.option.nodes, stage), known.time_s, known.node_s)
            for known in _useful(_counted(problem, task, place))
            for stage in _ways(problem, task, place)
        ]
        found += made
    return found


def _counted(problem: PlanningProblem, task: Task, place: PlanSite) -> list[OptionChoice]:
    """Node counts that the task may have at a place, with their times; they rise."""
    longest_s = problem.room(task, place).longest_s
    return [
        OptionChoice(TaskOption(place.name, nodes), estimate.time_s, nodes * estimate.time_s)
        for nodes, estimate in _estimated(problem, task, place)
        if estimate.longest_s <= longest_s
    ]


def _estimated(
    problem: PlanningProblem, task: Task, place: PlanSite
) -> list[tuple[int, TaskEstimate]]:
    """Run times on the node counts that the task may have at a place; the counts rise."""
    room, free = problem.room(task, place), max(problem.free[place.name].free, default=0)
    most = min(task.high or inf, place.high or inf, free, room.high)
    least = max(task.low, place.low, room.low)
    known = [n for n in problem.runs.counts(task, place) if least <= n <= most]
    told = [(nodes, problem.run(task, place, nodes)) for nodes in thinned(known, _COUNTS)]
    return [(nodes, estimate) for nodes, estimate in told if estimate is not None]


def _useful(counted: Sequence[OptionChoice]) -> list[OptionChoice]:
    """Leave out counts on which the task is no faster than on fewer nodes."""
    useful: list[OptionChoice] = []
    for one in counted:
        if not useful or one.time_s < useful[-1].time_s:
            useful.append(one)
    return useful


def thinned(counts: Sequence[int], most: int) -> list[int]:
    """Take at most so many of rising counts, their ratios alike; the first and the last remain.

    >>> thinned(range(1, 65), 4)
    [1, 4, 16, 64]
    """
    if len(counts) <= most:
        return list(counts)
    first, last = counts[0], counts[-1]
    wanted = [first * (last / first) ** (i / (most - 1)) for i in range(most)]
    return sorted({min(counts, key=lambda n, w=w: abs(n - w)) for w in wanted})  # type: ignore[misc]


def _ways(problem: PlanningProblem, task: Task, place: PlanSite) -> tuple[bool, ...]:
    """Whether inputs may be staged, read in place, or, where that makes no difference, just one."""
    flow = problem.workflow
    open_to = [
        name
        for name in task.reads
        if flow.files[name].access is DataAccess.ANY and flow.files[name].at != place.storage
    ]
    linked = any(link.remote and link.target == place.storage for link in flow.links.values())
    return (True, False) if open_to and linked else (True,)


def _why_none(problem: PlanningProblem, task: Task) -> str:
    """Say why there is nothing to choose for a task."""
    places = {
        name: problem.workflow.places[name] for name in task.places or problem.workflow.places
    }
    if not any(problem.runs.counts(task, place) for place in places.values()):
        return (
            f"{task.name}: nothing is known about its run time: name its application as "
            "'nimo predict' lists it, or give run_time"
        )
    timed = {name: _estimated(problem, task, place) for name, place in places.items()}
    if any(timed.values()):
        told = ", ".join(
            f"{_hours(min(one.longest_s for _, one in own))} at {name}, which gives "
            f"{_hours(problem.room(task, places[name]).longest_s)}"
            for name, own in timed.items()
            if own
        )
        return f"{task.name}: no place gives it the time that it may take: {told}"
    refused = {name: problem.runs.refused(task, place) for name, place in places.items()}
    if any(refused.values()):
        told = "; ".join(f"{name}: {why}" for name, why in refused.items() if why)
        return f"{task.name}: its samples do not support a run time: {told}"
    told = ", ".join(_has(problem, task, name) for name in places)
    most = "" if task.high == task.low else f" to {task.high}" if task.high else " or more"
    return (
        f"{task.name}: no place has the nodes ({task.low}{most}) for which its run time is known: "
        f"{told}"
    )


def _has(problem: PlanningProblem, task: Task, name: str) -> str:
    """Say what a place has for a task, and who says so."""
    room = problem.room(task, problem.workflow.places[name])
    text = f"{name} has {max(problem.free[name].free, default=0)} nodes"
    if room.why and room.high < inf:
        text += f" and gives {room.high} ({room.why})"
    return text


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.3g} h"
