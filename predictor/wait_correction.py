"""The queue run forward, corrected by what a refit learned of the queue's state.

Evaluated in nimod's background, without scikit-learn.
"""

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from predictor.queue_forward import Forward, QueueState
from predictor.queue_wait import QueueWaitFit, QueueWaits, decode
from predictor.wait_estimate import WaitGrid
from predictor.wait_features import FEATURES, QueueLoad

Floats = npt.NDArray[np.float64]
#: Sizes that are corrected: so many times larger each; those between count as the next one.
_STEP = 1.25
#: Users whose waits are corrected for what they have in the queue.
_OWNERS = 200
#: Starts of jobs, and of each task of arrays, by their numbers.
_Starts = dict[int, tuple[float, ...]]
_TaskStarts = dict[int, tuple[tuple[float, ...], ...]]


def as_draws(waits: QueueWaits) -> Floats:
    """Take low ends, medians and high ends as draws, rising, shape ``(jobs, 3)``."""
    return np.column_stack([waits.low_s, waits.median_s, waits.high_s])


def correction_of(payload: str) -> QueueWaitFit:
    """Read a correction that a refit wrote.

    Raises
    ------
    ValueError
        It is damaged, or has other features: it is of another release.
    """
    fit = decode(payload.encode())
    if tuple(fit.features) != FEATURES:
        raise ValueError("the correction of waits has other features; run 'nimo fit'")
    return fit


def corrected_forward(
    fit: QueueWaitFit, state: QueueState, forward: Forward, *, at_s: float
) -> Forward:
    """Correct the waits of new jobs and of those that wait.

    Parameters
    ----------
    fit
        What was learned.
    state
        The queue.
    forward
        What came of running it forward.
    at_s
        Moment of that, seconds since the epoch.
    """
    load = QueueLoad.of(state, forward.front)
    grid, sizes = forward.grid, _some(forward.grid.sizes)
    chosen = [grid.draws_s[grid.sizes.index(size)] for size in sizes]
    draws = np.array(chosen)
    cells, count = draws.shape[:2], draws.shape[2]
    rows = load.rows(
        draws.reshape(-1, count),
        np.repeat(np.array(sizes) / state.units, cells[1]),
        np.tile(np.array(grid.limits_s), cells[0]),
        -1,
        at_s,
    )
    made = as_draws(fit.predict(rows)).reshape(*cells, 3)
    # More units or a longer limit never start earlier.
    rising = np.maximum.accumulate(np.maximum.accumulate(made, axis=0), axis=1)
    starts_s, tasks_s = _starts(fit, load, state, forward, at_s)
    return replace(
        forward,
        grid=WaitGrid(
            sizes=sizes,
            limits_s=grid.limits_s,
            draws_s=tuple(tuple(map(tuple, row)) for row in rising.tolist()),
        ),
        starts_s=starts_s,
        tasks_s=tasks_s,
        factors=_factors(fit, load, state, forward, at_s),
    )


def _factors(
    fit: QueueWaitFit, load: QueueLoad, state: QueueState, forward: Forward, at_s: float
) -> dict[str, float]:
    """By how much longer users wait for what they have in the queue: each for a job like its last.

    The waits of all sizes and limits are worked out once, for users who have nothing there.
    """
    last = {job.owner: job for job in (*state.running, *forward.front) if job.owner}
    # Those with most in the queue first.
    busiest = sorted(last, key=lambda one: -load.units_of(one))[:_OWNERS]
    if not busiest:
        return {}
    limits_s = [last[owner].limit_s for owner in busiest]
    sizes = [min(last[owner].units, state.units) for owner in busiest]
    draws = [
        forward.grid.draws(size, limit_s) for size, limit_s in zip(sizes, limits_s, strict=True)
    ]
    columns = (np.array(draws), np.array(sizes) / state.units, np.array(limits_s), -1, at_s)
    more = fit.median(load.rows(*columns, busiest)) - fit.median(load.rows(*columns))
    return dict(zip(busiest, (10.0**more).tolist(), strict=True))


def _starts(
    fit: QueueWaitFit, load: QueueLoad, state: QueueState, forward: Forward, at_s: float
) -> tuple[_Starts, _TaskStarts]:
    """Correct the starts of jobs that wait: each as one that is submitted behind those ahead."""
    places: defaultdict[int, list[int]] = defaultdict(list)
    for place, job in enumerate(forward.front):
        places[job.number].append(place)
    tasks = [(n, k) for n, starts in forward.tasks_s.items() for k in range(len(starts))]
    each = [(n, 0) for n in forward.starts_s if n not in forward.tasks_s] + tasks
    if not each:
        return {}, {}
    jobs = [(places[number][task], forward.front[places[number][task]]) for number, task in each]
    starts_s = [
        forward.tasks_s[number][task] if number in forward.tasks_s else forward.starts_s[number]
        for number, task in each
    ]
    rows = load.rows(
        np.array(starts_s),
        np.array([job.units / state.units for _, job in jobs]),
        np.array([job.limit_s for _, job in jobs]),
        [place for place, _ in jobs],
        at_s,
        [job.owner for _, job in jobs],
    )
    made: defaultdict[int, list[tuple[float, ...]]] = defaultdict(list)
    for (number, _), draws in zip(each, as_draws(fit.predict(rows)).tolist(), strict=True):
        made[number].append(tuple(draws))
    first = {number: draws[0] for number, draws in made.items()}
    return first, {number: tuple(made[number]) for number in forward.tasks_s}


def _some(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Choose sizes in larger steps, the largest among them."""
    chosen = [sizes[0]]
    for size, larger in pairwise(sizes):
        if larger > chosen[-1] * _STEP > 0 and size > chosen[-1]:
            chosen.append(size)
    return (*chosen, sizes[-1]) if sizes[-1] > chosen[-1] else tuple(chosen)
