"""The state of a queue as features: what a regression corrects the queue run forward by.

The same function makes them of a queue of the past, when a refit learns, and of the present one.
All amounts are shares of the queue's size, so that what was learned holds when nodes come or go.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from predictor.waits.estimate import ALLOWANCE_S
from predictor.waits.simulation import LIMITS_S, QueuedJob, QueueState

Floats = npt.NDArray[np.float64]

#: Names of the features that each site learns from; times in seconds, work in hours of the queue.
COMMON = (
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
#: What the job's account has in the queue, and who used less than others of late.
OF_ACCOUNT = (
    "account_running",
    "account_used",
    "account_limits_running",
    "account_waiting",
    "account_units_ahead",
    "account_limits_ahead",
)
FAIR_SHARE = ("user_fair_share", "account_fair_share")
#: All of them, in the order of a row.
FEATURES = (*COMMON, *OF_ACCOUNT, *FAIR_SHARE)
ESTIMATE = "estimate_s"
_HOUR_S, _DAY_S = 3600.0, 86_400.0
_LEAST_LEFT_S = 60.0
_NOTHING = np.zeros(3)


def columns_of(features: Sequence[str]) -> list[int]:
    """Places of features in a row. Raises ValueError: there is no such feature."""
    return [FEATURES.index(name) for name in features]


class Submitter(NamedTuple):
    """Who submits a job, with the fair-share factors of user and account."""

    user: str = ""
    account: str = ""
    user_fair_share: float = 1.0
    account_fair_share: float = 1.0


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """What each user, or each account, has in a queue.

    Of the jobs of each there are their number, units and work by time limits: of those that run,
    of all that wait, and of those that wait before a place (shape ``(places, 3)``).
    """

    running: Mapping[str, Floats]
    waiting: Mapping[str, Floats]
    before: Floats

    @classmethod
    def of(
        cls, state: QueueState, front: Sequence[QueuedJob], name_of: Callable[[QueuedJob], str]
    ) -> "GroupLoad":
        """Sum up by names that jobs have."""
        running, _ = _by_name(state.running, state.units, name_of)
        waiting, before = _by_name(front, state.units, name_of)
        return cls(running, waiting, before)

    def rows(self, names: Sequence[str], places: Sequence[int]) -> list[list[float]]:
        """List what each of these has running, and waiting before a place; -1: behind all."""
        return [
            [
                *self.running.get(name, _NOTHING),
                *(self.before[at] if at >= 0 else self.waiting.get(name, _NOTHING)),
            ]
            for at, name in zip(places, names, strict=True)
        ]

    def units_of(self, name: str) -> float:
        """Share of the queue that the jobs of one take, running and waiting ones."""
        sums = self.running.get(name, _NOTHING) + self.waiting.get(name, _NOTHING)
        return float(sums[1])


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """What runs in a queue, and what stands before each place in it.

    ``ahead`` has shape ``(places, 4)``: jobs, units, predicted work and work by time limits before
    a place, the last one behind all.  Units and work are shares of the queue.
    """

    used: float
    running: int
    work_h: float
    limits_h: float
    ahead: Floats
    users: GroupLoad
    accounts: GroupLoad

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
        return cls(
            used=units,
            running=len(left),
            work_h=work / _HOUR_S,
            limits_h=limits / _HOUR_S,
            ahead=sums / scale,
            users=GroupLoad.of(state, front, lambda job: job.owner),
            accounts=GroupLoad.of(state, front, lambda job: job.account),
        )

    def rows(
        self,
        draws_s: npt.ArrayLike,
        share: npt.ArrayLike,
        limit_s: npt.ArrayLike,
        places: npt.ArrayLike,
        at_s: float,
        submitters: Sequence[Submitter] = (),
    ) -> Floats:
        """Make rows of features.

        draws_s: waits of each job as the queue run forward has them, rising, shape ``(jobs,
            draws)``.
        share: of the queue that each takes, shape ``(jobs,)``.
        limit_s: time limits, shape ``(jobs,)``.
        places: of each job in the queue, from 0; -1: behind all.
        at_s: moment of asking, seconds since the epoch.
        submitters: of each job; none: they have nothing in the queue, and used nothing of late.
        Returns array: shape ``(jobs, features)``.
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
                self._of_submitters(
                    np.broadcast_to(places, count).tolist(), submitters or [Submitter()] * count
                ),
            ]
        )

    def _of_submitters(self, places: Sequence[int], submitters: Sequence[Submitter]) -> Floats:
        """List what users and accounts have in the queue, and their factors."""
        own = self.users.rows([one.user for one in submitters], places)
        theirs = self.accounts.rows([one.account for one in submitters], places)
        factors = [(one.user_fair_share, one.account_fair_share) for one in submitters]
        return np.hstack([np.array(own), np.array(theirs), np.array(factors)])


def _by_name(
    jobs: Sequence[QueuedJob], units: int, name_of: Callable[[QueuedJob], str]
) -> tuple[dict[str, Floats], Floats]:
    """Sum up the jobs of each name: all of them, and those before each; shares of the queue.

    Jobs without a name are nobody's.
    """
    sums: dict[str, Floats] = {}
    before = np.zeros((len(jobs), 3))
    for place, job in enumerate(jobs):
        if name := name_of(job):
            before[place] = sums.get(name, _NOTHING)
            limit_h = max(job.limit_s - job.ran_s, 0.0) / _HOUR_S
            sums[name] = before[place] + (1.0, job.units / units, job.units / units * limit_h)
    return sums, before


def _expected_s(job: QueuedJob) -> float:
    """Half of such jobs run for so long."""
    if not job.log_run_s:
        return job.limit_s
    return min(exp(job.log_run_s[len(job.log_run_s) // 2]), job.limit_s)
