"""The options of each task: place, nodes, and whether inputs are staged."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from sacct_ingest.text.durations import duration_text
from slurm_plugin.experiments.plan.run_times import TaskEstimate
from slurm_plugin.experiments.plan.schedule import PlanningProblem, TaskOption
from slurm_plugin.experiments.plan.workflow import DataAccess, PlanSite, Task

#: Most node counts that are tried for one task at one place.
_COUNTS = 12


@dataclass(frozen=True, slots=True)
class OptionChoice:
    """An option with its time and node-seconds where all inputs are near."""

    option: TaskOption
    time_s: float
    node_s: float


#: For each task what may be chosen.
Choices = Mapping[str, Sequence[OptionChoice]]


def choices(problem: PlanningProblem) -> dict[str, list[OptionChoice]]:
    """List the options of each task; of two alike only the better one.

    Raises LookupError: a task has no option: its run time is unknown, or no place has enough nodes.
    """
    placed = {step.name for step in problem.done}
    by_task = {}
    for task in problem.workflow.tasks.values():
        if task.name in placed:
            continue
        by_task[task.name] = _of_task(problem, task)
        if not by_task[task.name]:
            raise LookupError(_why_none(problem, task))
    return by_task


def restricted(all_of: Choices, *, place: str | None = None, stage: bool | None = None) -> Choices:
    """Select options of one place, or that stage (or do not); empty where a task has none."""
    remaining = {
        task: [
            one
            for one in own
            if place in (None, one.option.place) and stage in (None, one.option.stage)
        ]
        for task, own in all_of.items()
    }
    return remaining if all(remaining.values()) else {}


def at_one_place(all_of: Choices) -> Iterator[dict[str, OptionChoice]]:
    """Put all tasks at one place, staging or not: what keeps data where it is.

    Yields dict: for each place and way the fastest option of each task, and the cheapest.  Where a
        task has none that way, its options at the same place count; without any the place is left
        out.
    """
    kinds = sorted({(one.option.place, one.option.stage) for own in all_of.values() for one in own})
    for kind in kinds:
        own = {
            task: [c for c in many if (c.option.place, c.option.stage) == kind]
            or [c for c in many if c.option.place == kind[0]]
            for task, many in all_of.items()
        }
        if all(own.values()):
            yield {task: min(many, key=lambda c: c.time_s) for task, many in own.items()}
            yield {task: min(many, key=lambda c: c.node_s) for task, many in own.items()}


def next_option(own: Sequence[OptionChoice], present: OptionChoice, *, late: bool) -> OptionChoice:
    """Give the option that is a little faster, or a little cheaper.

    own: options of a task.
    present: the one that it has now; it stays where there is no other.
    late: whether a faster one is asked for.
    """
    if late:
        faster = [c for c in own if c.time_s < present.time_s]
        return max(faster, key=lambda c: c.time_s, default=present)
    cheaper = [c for c in own if c.node_s < present.node_s]
    return max(cheaper, key=lambda c: c.node_s, default=present)


def _of_task(problem: PlanningProblem, task: Task) -> list[OptionChoice]:
    options = []
    for name in task.places or problem.workflow.places:
        place = problem.workflow.places[name]
        useful: list[OptionChoice] = []  # without those that are no faster than less
        longest_s = problem.room(task, place).longest_s
        for option, estimate in _estimated(problem, task, place):
            if estimate.longest_s > longest_s:
                continue
            if not useful or estimate.time_s < useful[-1].time_s:
                node_s = option.nodes * estimate.time_s
                useful.append(OptionChoice(option, estimate.time_s, node_s))
        options += [
            replace(choice, option=replace(choice.option, stage=stage))
            for choice in useful
            for stage in _ways(problem, task, place)
        ]
    return options


def _estimated(
    problem: PlanningProblem, task: Task, place: PlanSite
) -> list[tuple[TaskOption, TaskEstimate]]:
    """Run times with what the task may have at a place: node counts, CPUs and memory rise."""
    room = problem.room(task, place)
    free = max(problem.free[place.name].free, default=0)
    most = min(task.high or inf, place.high or inf, free, room.high)
    least = max(task.low, place.low, room.low)
    counts = [n for n in problem.runs.counts(task, place) if least <= n <= most]
    options = [
        TaskOption(place.name, nodes, resources=resources)
        for nodes in thinned(counts, _COUNTS)
        for resources in problem.runs.resources(task, place)
    ]
    estimates = [(option, problem.run(task, option)) for option in options]
    return [(option, estimate) for option, estimate in estimates if estimate is not None]


def thinned(counts: Sequence[int], most: int) -> list[int]:
    """Take at most so many of rising counts, their ratios alike; the first and the last remain.

    >>> thinned(range(1, 65), 4)
    [1, 4, 16, 64]
    """
    if len(counts) <= most:
        return list(counts)
    first = counts[0]
    last = counts[-1]
    targets = [first * (last / first) ** (i / (most - 1)) for i in range(most)]
    return sorted({min(counts, key=lambda n, w=w: abs(n - w)) for w in targets})  # type: ignore[misc]


def _ways(problem: PlanningProblem, task: Task, place: PlanSite) -> tuple[bool, ...]:
    """Whether inputs may be staged, read in place, or, where that makes no difference, just one."""
    flow = problem.workflow
    open_to = [
        name
        for name in task.reads
        if flow.files[name].access is DataAccess.ANY and place.storage not in flow.files[name].at
    ]
    linked = any(link.remote and link.target == place.storage for link in flow.links.values())
    return (True, False) if open_to and linked else (True,)


def _why_none(problem: PlanningProblem, task: Task) -> str:
    places = {
        name: problem.workflow.places[name] for name in task.places or problem.workflow.places
    }
    if not any(problem.runs.counts(task, place) for place in places.values()):
        return (
            f"{task.name}: its run time is unknown: name its application as "
            "'nimo predict' lists it, or give run_time"
        )
    timed = {name: _estimated(problem, task, place) for name, place in places.items()}
    if any(timed.values()):
        details = ", ".join(
            f"{duration_text(min(one.longest_s for _, one in own))} at {name}, which gives "
            f"{duration_text(problem.room(task, places[name]).longest_s)}"
            for name, own in timed.items()
            if own
        )
        return f"{task.name}: no place gives it the time that it may take: {details}"
    refused = {name: problem.runs.refused(task, place) for name, place in places.items()}
    if any(refused.values()):
        details = "; ".join(f"{name}: {why}" for name, why in refused.items() if why)
        return f"{task.name}: its samples do not support a run time: {details}"
    details = ", ".join(_has(problem, task, name) for name in places)
    most = "" if task.high == task.low else f" to {task.high}" if task.high else " or more"
    return (
        f"{task.name}: no place has the nodes ({task.low}{most}) for which it has a run time: "
        f"{details}"
    )


def _has(problem: PlanningProblem, task: Task, name: str) -> str:
    """Say what a place has for a task, and which limit sets it."""
    room = problem.room(task, problem.workflow.places[name])
    text = f"{name} has {max(problem.free[name].free, default=0)} nodes"
    if room.why and room.high < inf:
        text += f" and gives {room.high} ({room.why})"
    return text
