"""The queue run forward, corrected by what a refit learned of the queue's state.

Evaluated in nimod's background, without scikit-learn.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from predictor.waits.estimate import WaitGrid
from predictor.waits.features import COMMON, FAIR_SHARE, FEATURES, QueueLoad, Submitter, columns_of
from predictor.waits.regression import QueueWaitFit
from predictor.waits.simulation import Forward, QueueState
from predictor.waits.workload import FairShares, decode

Floats = npt.NDArray[np.float64]
#: Sizes that are corrected: so many times larger each; those between count as the next one.
_STEP = 1.25
#: Users whose waits are corrected for what they have in the queue, and used of late.
_OWNERS = 200
_NO_USE = FairShares()
#: Starts of jobs, and of each task of arrays, by their numbers.
_Starts = dict[int, tuple[float, ...]]
_TaskStarts = dict[int, tuple[tuple[float, ...], ...]]


def correction_of(payload: str) -> QueueWaitFit:
    """Read a correction that a refit wrote.

    Raises ValueError: it is damaged, or has other features: it is of another release.
    """
    fit = decode(payload, QueueWaitFit)
    if tuple(fit.features[: len(COMMON)]) != COMMON or not set(fit.features) <= set(FEATURES):
        raise ValueError("the correction of waits has other features; run 'nimo fit'")
    return fit


def corrected_forward(
    fit: QueueWaitFit,
    state: QueueState,
    forward: Forward,
    *,
    at_s: float,
    fair_shares: FairShares = _NO_USE,
) -> Forward:
    """Correct the waits of new jobs and of those that wait.

    fit: what was learned.
    state: the queue.
    forward: what came of running it forward.
    at_s: moment of that, seconds since the epoch.
    fair_shares: factors of users and accounts.
    """
    one = _Correction(fit, QueueLoad.of(state, forward.front), state, at_s, fair_shares)
    starts_s, tasks_s = one.starts(forward)
    return replace(
        forward,
        grid=one.grid(forward.grid),
        starts_s=starts_s,
        tasks_s=tasks_s,
        factors=one.factors(forward),
    )


@dataclass(frozen=True, slots=True)
class _Correction:
    """A queue at one moment, and what was learned of such queues."""

    fit: QueueWaitFit
    load: QueueLoad
    state: QueueState
    at_s: float
    fair_shares: FairShares

    def grid(self, grid: WaitGrid) -> WaitGrid:
        """Correct the waits of new jobs, of users who have nothing in the queue."""
        # Choose sizes in larger steps, the largest among them.
        chosen = [grid.sizes[0]]
        for size, larger in pairwise(grid.sizes):
            if larger > chosen[-1] * _STEP > 0 and size > chosen[-1]:
                chosen.append(size)
        sizes = (*chosen, grid.sizes[-1]) if grid.sizes[-1] > chosen[-1] else tuple(chosen)
        draws = np.array([grid.draws_s[grid.sizes.index(size)] for size in sizes])
        cells = draws.shape[:2]
        count = draws.shape[2]
        rows = self._rows(
            draws.reshape(-1, count),
            np.repeat(sizes, cells[1]),
            np.tile(np.array(grid.limits_s), cells[0]),
            -1,
        )
        made = self.fit.predict(rows).reshape(*cells, 3)
        # More units or a longer limit never start earlier.
        rising = np.maximum.accumulate(np.maximum.accumulate(made, axis=0), axis=1)
        return WaitGrid(
            sizes=sizes,
            limits_s=grid.limits_s,
            draws_s=tuple(tuple(map(tuple, row)) for row in rising.tolist()),
        )

    def factors(self, forward: Forward) -> dict[str, float]:
        """By how much longer users wait than one of typical use who has nothing in the queue.

        The waits of all sizes and limits are worked out for that one.  Of the users with most in
        the queue each has a factor for a job like the last one there, the others for a middle one.
        """
        there = [*self.state.running, *forward.front]
        last = {job.owner: job for job in there if job.owner}
        busiest = sorted(last, key=lambda user: -self.load.users.units_of(user))
        users = self.fair_shares.users if not set(FAIR_SHARE).isdisjoint(self.fit.features) else {}
        # Those who used most first.
        absent = sorted(users.keys() - last.keys(), key=lambda user: (users[user], user))
        chosen = [*busiest, *absent][:_OWNERS]
        if not there or not chosen:
            return {}
        middle = sorted(there, key=lambda job: job.units * job.limit_s)[len(there) // 2]
        jobs = [last.get(user, replace(middle, account="")) for user in chosen]
        sizes = [min(job.units, self.state.units) for job in jobs]
        limits_s = [job.limit_s for job in jobs]
        draws = [
            forward.grid.draws(size, limit_s) for size, limit_s in zip(sizes, limits_s, strict=True)
        ]
        columns = (np.array(draws), np.array(sizes), np.array(limits_s), -1)
        own = [self._submitter(user, job.account) for user, job in zip(chosen, jobs, strict=True)]
        more = self.fit.median(self._rows(*columns, own)) - self.fit.median(self._rows(*columns))
        return dict(zip(chosen, (10.0**more).tolist(), strict=True))

    def starts(self, forward: Forward) -> tuple[_Starts, _TaskStarts]:
        """Correct the starts of jobs that wait: each as one submitted behind those ahead."""
        places: defaultdict[int, list[int]] = defaultdict(list)
        for place, job in enumerate(forward.front):
            places[job.number].append(place)
        tasks = [(n, k) for n, starts in forward.tasks_s.items() for k in range(len(starts))]
        each = [(n, 0) for n in forward.starts_s if n not in forward.tasks_s] + tasks
        if not each:
            return {}, {}
        jobs = [(places[n][task], forward.front[places[n][task]]) for n, task in each]
        starts_s = [
            forward.tasks_s[number][task] if number in forward.tasks_s else forward.starts_s[number]
            for number, task in each
        ]
        rows = self._rows(
            np.array(starts_s),
            np.array([job.units for _, job in jobs]),
            np.array([job.limit_s for _, job in jobs]),
            [place for place, _ in jobs],
            [self._submitter(job.owner, job.account) for _, job in jobs],
        )
        made: defaultdict[int, list[tuple[float, ...]]] = defaultdict(list)
        for (number, _), draws in zip(each, self.fit.predict(rows).tolist(), strict=True):
            made[number].append(tuple(draws))
        first = {number: draws[0] for number, draws in made.items()}
        return first, {number: tuple(made[number]) for number in forward.tasks_s}

    def _submitter(self, user: str, account: str) -> Submitter:
        return Submitter(user, account, *self.fair_shares.of(user, account))

    def _rows(
        self,
        draws_s: Floats,
        units: Floats,
        limits_s: Floats,
        places: npt.ArrayLike,
        submitters: Sequence[Submitter] = (),
    ) -> Floats:
        """Make rows of the features that were learned from."""
        whose = submitters or [Submitter("", "", *self.fair_shares.typical())] * len(draws_s)
        share = units / self.state.units
        rows = self.load.rows(draws_s, share, limits_s, places, self.at_s, whose)
        return rows[:, columns_of(self.fit.features)]
