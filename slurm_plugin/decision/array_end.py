"""When a job array ends: its tasks run as places become free, and as many at once as it allows."""

from collections import deque
from math import ceil, inf

from sacct_ingest.text.durations import duration_text
from sacct_ingest.text.hostlist import count_indexes
from slurm_plugin.decision.node_options import Option
from slurm_plugin.decision.request import Request
from slurm_plugin.slurm.node_pool import NodeAvailability, first_fit, take
from slurm_plugin.slurm.supply import Supply

#: Moments at which tasks start that are looked at; the rest goes on at the pace of the later half.
_STARTS = 300
#: Steps of what is free that are looked at; of more steps several are taken as their least.
_STEPS = 200


def tasks_text(
    request: Request, shown: Option | None, supply: Supply | None, *, now_s: float
) -> str:
    """Say of an array that the numbers are those of a task, and when all tasks have ended.

    shown: what is advised, or asked for; None: nothing.
    supply: what is free over time; None: unknown.
    Returns an empty text where the job is no array.
    """
    if shown is None or not request.array:
        return ""
    end = array_text(
        request.array,
        shown.nodes,
        shown.prediction.time_s,
        supply.room if supply else None,
        begin_s=max(now_s, request.begin_s),
        last_begin_s=request.last_begin_s,
    )
    return " ".join(filter(None, ("The numbers are those of one task of the array.", end)))


def array_text(
    array: str,
    size: int,
    run_s: float,
    supply: NodeAvailability | None,
    *,
    begin_s: float,
    last_begin_s: float = -inf,
) -> str:
    """Say when all tasks of an array have ended; empty where that is not known, or it has one.

    array: as ``--array`` has it, ``0-99%4``.
    size: nodes, CPUs or GPUs of a task; ``run_s``: its run time, seconds.
    supply: what is free of them over time; None: unknown, and enough for what may run at once.
    begin_s: no task starts before, seconds since the epoch; ``last_begin_s``: nor the last one.
    """
    indexes, _, throttle = array.partition("%")
    try:
        tasks = count_indexes(indexes)
    except ValueError:  # Slurm refuses it
        return ""
    at_once = min(int(throttle), tasks) if throttle.isdecimal() and int(throttle) else tasks
    if tasks < 2 or (supply is None and at_once == tasks):
        return ""
    if supply is None:
        supply = NodeAvailability((begin_s,), (size * at_once,), rising=True)
    end_s = _last_end(tasks, at_once, size, run_s, supply, begin_s)
    end_s = max(end_s, last_begin_s + run_s)
    if end_s == inf:
        return ""
    throttled = f", {at_once} at once," if at_once < tasks else ""
    return f"All {tasks} tasks{throttled} end in about {duration_text(end_s - begin_s)}."


def _last_end(
    tasks: int, at_once: int, size: int, run_s: float, supply: NodeAvailability, begin_s: float
) -> float:
    """Moment when the last task has ended; infinite where one never fits."""
    times, free = _thinned(supply)
    running: deque[tuple[float, int]] = deque()  # ends, which rise, and how many tasks end then
    start_s = begin_s
    waiting = tasks
    allowed = at_once
    half_s = begin_s
    half_waiting = tasks
    for number in range(_STARTS):
        if number == _STARTS // 2:
            half_s = start_s
            half_waiting = waiting
        if not allowed:
            end_s, allowed = running.popleft()
            start_s = max(start_s, end_s)
        start_s = first_fit(times, free, size, run_s, start_s)
        if start_s == inf:
            return inf
        while running and running[0][0] <= start_s:
            allowed += running.popleft()[1]
        end_s = start_s + run_s
        fitting = NodeAvailability(tuple(times), tuple(free)).least(start_s, end_s) // size
        started = min(fitting, allowed, waiting)
        take(times, free, started * size, start_s, end_s)
        running.append((end_s, started))
        allowed -= started
        waiting -= started
        if not waiting:
            return end_s
    pace_s = (start_s - half_s) / (half_waiting - waiting)
    return end_s + waiting * pace_s


def _thinned(supply: NodeAvailability) -> tuple[list[float], list[int]]:
    """Give the steps of what is free, few enough to look at each many times."""
    stride = ceil(len(supply.times_s) / _STEPS)
    firsts = range(0, len(supply.times_s), stride)
    free = [min(supply.free[first : first + stride]) for first in firsts]
    return list(supply.times_s[::stride]), free
