"""The queue run forward, corrected by what a refit learned of the queue's state.

Evaluated in nimod's background, without scikit-learn.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from predictor.queue_forward import Forward, QueuedJob, QueueState
from predictor.queue_wait import QueueWaitFit, QueueWaits, decode
from predictor.wait_estimate import WaitGrid
from predictor.wait_features import FEATURES, QueueLoad

Floats = npt.NDArray[np.float64]
#: Sizes that are corrected: so many times larger each; those between count as the next one.
_STEP = 1.25


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
    load, front = QueueLoad.of(state, forward.front), list(enumerate(forward.front))
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
    return replace(
        forward,
        grid=WaitGrid(
            sizes=sizes,
            limits_s=grid.limits_s,
            draws_s=tuple(tuple(map(tuple, row)) for row in rising.tolist()),
        ),
        starts_s=_starts(fit, load, state, forward.starts_s, _places(reversed(front)), at_s),
        last_s=_starts(fit, load, state, forward.last_s, _places(front), at_s),
    )


#: Places in the queue with their jobs.
_Front = Iterable[tuple[int, QueuedJob]]


def _places(front: _Front) -> dict[int, tuple[int, QueuedJob]]:
    """Place of each number; of several tasks that which comes last here."""
    return {job.number: (place, job) for place, job in front}


def _starts(
    fit: QueueWaitFit,
    load: QueueLoad,
    state: QueueState,
    starts_s: Mapping[int, tuple[float, ...]],
    places: Mapping[int, tuple[int, QueuedJob]],
    at_s: float,
) -> dict[int, tuple[float, ...]]:
    """Correct the starts of jobs that wait: each as one that is submitted behind those ahead."""
    if not starts_s:
        return {}
    jobs = [places[number] for number in starts_s]
    rows = load.rows(
        np.array(list(starts_s.values())),
        np.array([job.units / state.units for _, job in jobs]),
        np.array([job.limit_s for _, job in jobs]),
        [place for place, _ in jobs],
        at_s,
    )
    made = as_draws(fit.predict(rows)).tolist()
    return {number: tuple(draws) for number, draws in zip(starts_s, made, strict=True)}


def _some(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Choose sizes in larger steps, the largest among them."""
    chosen = [sizes[0]]
    for size, larger in pairwise(sizes):
        if larger > chosen[-1] * _STEP > 0 and size > chosen[-1]:
            chosen.append(size)
    return (*chosen, sizes[-1]) if sizes[-1] > chosen[-1] else tuple(chosen)
