"""The state of a queue as features: what a regression corrects the queue run forward by.

The same function makes them of a queue of the past, when a refit learns, and of the present one.
All amounts are shares of the queue's size, so that what was learned holds when nodes come or go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
import numpy.typing as npt

from predictor.queue_forward import LIMITS_S, QueuedJob, QueueState
from predictor.wait_estimate import ALLOWANCE_S

Floats = npt.NDArray[np.float64]

#: Names of the features, in the order of a row; times in seconds, work in hours of the whole queue.
FEATURES = (
    "estimate_s",
    "spread",
    "earliest",
    "latest",
    "share",
    "limit_s",
    "used",
    "running",
    "work_running",
    "limits_running",
    "waiting",
    "units_ahead",
    "work_ahead",
    "limits_ahead",
    "backlog",
    "hour",
    "weekday",
    "own_running",
    "own_used",
    "own_limits_running",
    "own_waiting",
    "own_units_ahead",
    "own_limits_ahead",
)
ESTIMATE = "estimate_s"
_HOUR_S, _DAY_S = 3600.0, 86_400.0
_LEAST_LEFT_S = 60.0
_NOTHING = np.zeros(3)


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """What runs in a queue, and what stands before each place in it.

    ``ahead`` has shape ``(places, 4)``: jobs, units, predicted work and work by time limits before
    a place, the last one behind all.  Units and work are shares of the queue.

    Of each user's jobs there are their number, units and work by time limits: of those that run,
    of all that wait, and of those that wait before a place.
    """

    used: float
    running: int
    work_h: float
    limits_h: float
    ahead: Floats
    own_running: Mapping[str, Floats]
    own_waiting: Mapping[str, Floats]
    own_ahead: Floats

    @classmethod
    def of(cls, state: QueueState, front: Sequence[QueuedJob]) -> "QueueLoad":
        """Sum up a queue; ``front`` are the jobs that stand for those that wait."""
        left = [
            (
                job.units,
                job.units * max(_expected_s(job) - job.ran_s, _LEAST_LEFT_S),
                job.units * max(job.limit_s - job.ran_s, 0.0),
            )
            for job in state.running
        ]
        units, work, limits = np.array(left).reshape(-1, 3).sum(axis=0) / state.units
        amounts = [
            (1.0, job.units, job.units * _expected_s(job), job.units * job.limit_s) for job in front
        ]
        sums = np.cumsum(np.array([(0.0,) * 4, *amounts]), axis=0)
        # Some stand for several.
        sums[:, 0] *= len(state.waiting) / max(len(front), 1)
        scale = np.array([1.0, state.units, state.units * _HOUR_S, state.units * _HOUR_S])
        running, _ = _by_owner(state.running, state.units)
        waiting, before = _by_owner(front, state.units)
        return cls(
            used=units,
            running=len(left),
            work_h=work / _HOUR_S,
            limits_h=limits / _HOUR_S,
            ahead=sums / scale,
            own_running=running,
            own_waiting=waiting,
            own_ahead=before,
        )

    def rows(
        self,
        draws_s: npt.ArrayLike,
        share: npt.ArrayLike,
        limit_s: npt.ArrayLike,
        places: npt.ArrayLike,
        at_s: float,
        owners: Sequence[str] = (),
    ) -> Floats:
        """Make rows of features.

        Parameters
        ----------
        draws_s
            Waits of each job as the queue run forward has them, rising, shape ``(jobs, draws)``.
        share
            Of the queue that each takes, shape ``(jobs,)``.
        limit_s
            Time limits, shape ``(jobs,)``.
        places
            Of each job in the queue, from 0; -1: behind all.
        at_s
            Moment of asking, seconds since the epoch.
        owners
            User of each job; none: they are of users who have nothing in the queue.

        Returns
        -------
        array
            Shape ``(jobs, features)``.
        """
        logs = np.log10(np.minimum(np.asarray(draws_s), 1e9) + ALLOWANCE_S)
        middle = np.median(logs, axis=1)
        count = len(logs)
        ahead = np.broadcast_to(self.ahead[np.asarray(places)], (count, 4))
        backlog_s = _HOUR_S * (ahead[:, 2] + self.work_h)
        return np.column_stack(
            [
                np.maximum(10**middle - ALLOWANCE_S, 0.0),
                logs.std(axis=1),
                logs[:, 0] - middle,
                logs[:, -1] - middle,
                np.log10(share),
                np.log10(np.clip(limit_s, 1.0, LIMITS_S[-1])),
                *(np.full(count, x) for x in (self.used, self.running, self.work_h, self.limits_h)),
                ahead,
                np.log10(backlog_s + ALLOWANCE_S) - middle,
                np.full(count, at_s % _DAY_S / _HOUR_S),
                np.full(count, at_s // _DAY_S % 7),
                self._own(np.broadcast_to(places, count).tolist(), owners),
            ]
        )

    def units_of(self, owner: str) -> float:
        """Share of the queue that a user's jobs take, running and waiting ones."""
        sums = self.own_running.get(owner, _NOTHING) + self.own_waiting.get(owner, _NOTHING)
        return float(sums[1])

    def _own(self, places: Sequence[int], owners: Sequence[str]) -> Floats:
        """List what the users of jobs have in the queue themselves, shape ``(jobs, 6)``."""
        if not owners:
            return np.zeros((len(places), 6))
        return np.array(
            [
                (
                    *self.own_running.get(owner, _NOTHING),
                    *(self.own_ahead[at] if at >= 0 else self.own_waiting.get(owner, _NOTHING)),
                )
                for at, owner in zip(places, owners, strict=True)
            ]
        )


def _by_owner(jobs: Sequence[QueuedJob], units: int) -> tuple[dict[str, Floats], Floats]:
    """Sum up the jobs of each user: all of them, and those before each; shares of the queue."""
    sums: dict[str, Floats] = {}
    before = np.zeros((len(jobs), 3))
    for place, job in enumerate(jobs):
        before[place] = sums.get(job.owner, _NOTHING)
        limit_h = max(job.limit_s - job.ran_s, 0.0) / _HOUR_S
        sums[job.owner] = before[place] + (1.0, job.units / units, job.units / units * limit_h)
    return sums, before


def _expected_s(job: QueuedJob) -> float:
    """Half of such jobs run for so long."""
    if not job.log_run_s:
        return job.limit_s
    return min(exp(job.log_run_s[len(job.log_run_s) // 2]), job.limit_s)
