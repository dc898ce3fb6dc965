"""When a job array ends: its tasks run as places become free, and as many at once as it allows."""

from heapq import heappop, heappush
from math import inf

from sacct_ingest.text.hostlist import count_indexes
from sacct_ingest.text.slurm_text import time_span
from slurm_plugin.slurm.node_pool import NodeAvailability, first_fit, take

#: Tasks that are placed one by one; the rest ends at the pace of the later half of these.
_PLACED = 5000


def array_text(
    array: str, size: int, run_s: float, supply: NodeAvailability | None, *, begin_s: float
) -> str:
    """Say when all tasks of an array have ended; empty where that is not known, or it has one.

    array: as ``--array`` has it, ``0-99%4``.
    size: nodes, CPUs or GPUs of a task; ``run_s``: its run time, seconds.
    supply: what is free of them over time; None: unknown, and taken for enough.
    begin_s: no task starts before, seconds since the epoch.
    """
    indexes, _, throttle = array.partition("%")
    try:
        tasks = count_indexes(indexes)
    except ValueError:  # Slurm refuses it
        return ""
    if tasks < 2:
        return ""
    at_once = int(throttle) if throttle.isdecimal() and int(throttle) else tasks
    some = f", {at_once} at once," if at_once < tasks else ""
    if supply is None:
        supply = NodeAvailability((begin_s,), (size * tasks,), rising=True)
    end_s = _last_end(tasks, min(at_once, tasks), size, run_s, supply, begin_s)
    if end_s == inf:
        return ""
    return f"All {tasks} tasks{some} end in about {time_span(end_s - begin_s)}."


def _last_end(
    tasks: int, at_once: int, size: int, run_s: float, supply: NodeAvailability, begin_s: float
) -> float:
    """Moment when the last task has ended; infinite where one never fits."""
    times, free = list(supply.times_s), list(supply.free)
    running: list[float] = []
    ends: list[float] = []
    start_s = begin_s
    for _ in range(min(tasks, _PLACED)):
        if len(running) == at_once:
            start_s = max(start_s, heappop(running))
        start_s = first_fit(times, free, size, run_s, start_s)  # none before a like one
        if start_s == inf:
            return inf
        take(times, free, size, start_s, start_s + run_s)
        heappush(running, start_s + run_s)
        ends.append(start_s + run_s)
    ends.sort()
    rest = tasks - len(ends)
    if not rest:
        return ends[-1]
    half = len(ends) // 2
    pace_s = (ends[-1] - ends[half - 1]) / (len(ends) - half)
    return ends[-1] + rest * max(pace_s, run_s / at_once)
