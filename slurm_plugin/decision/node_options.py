"""Each node count of a decision and what it would mean: wait, cost, time limit, deadline.

A count costs the job's own turnaround plus the delay that it imposes on the others::

    C(n) = w(n) + T(n) + q·n·p·T(n)/N,    q = price·(Q + Q̄/2 + 2)

with the wait w, the predicted run time T, Q jobs waiting now, Q̄ over a day, and N nodes, of each of
which the job takes the part p.  A fuller queue never leads to more nodes: the price is charged on a
node time made non-decreasing in n, and nothing else depends on the queue.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

import msgspec
from msgspec.structs import replace

from predictor.types import Prediction, PredictionTable
from predictor.waits.calibration import ENOUGH
from predictor.waits.estimate import WaitEstimate
from slurm_plugin.config.setting_types import Bystanders, TimeUse
from slurm_plugin.decision.candidates import (
    Candidate,
    PolicySettings,
    Request,
    shortens,
    trusted,
)
from slurm_plugin.decision.time_limits import TimeLimits, fitting
from slurm_plugin.slurm.cluster_state import Partition

#: Where each single bystander counts, a job grows only where what it leaves sufficed after so many
#: moments of the past.
_LEVEL = 0.95


class DeadlineVerdict(StrEnum):
    """Whether a count makes the deadline: the worst that holds."""

    MADE = "made"
    WAIT = "wait"  #: that depends on when the job starts
    LIMIT = "limit"  #: its time limit reaches beyond the deadline: Slurm ends it without a run
    RUN = "run"  #: it takes too long, even if it starts at once


#: Reason for each verdict on a deadline; None: unknown.
_MET = {
    None: None,
    DeadlineVerdict.MADE: True,
    DeadlineVerdict.WAIT: None,
    DeadlineVerdict.LIMIT: False,
    DeadlineVerdict.RUN: False,
}


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One node count and what it would mean now.

    A structure of msgspec as there are dozens of them in a decision: it is made six times as fast
    as a dataclass.
    """

    nodes: int
    time_s: float  #: run time to decide by: with the uncertainty of a change added
    prediction: Prediction
    limit_s: float | None
    wait_s: float
    cost_s: float
    in_guard: bool  #: its turnaround is near that of the request
    in_limit: bool  #: its time limit is allowed
    leaves_room: bool  #: others find enough free nodes beside it, or it does not grow
    fits: bool  #: its nodes have the memory that the job needed so far
    late_s: float  #: by how much it misses the deadline; zero or less: made
    limits: TimeLimits | None = None  #: what the prediction makes of the time limit
    wait: WaitEstimate | None = None  #: ``wait_s`` is its median
    chance: float | None = None  #: of making the deadline; None: none, or unknown
    deadline: DeadlineVerdict | None = None  #: None: there is none
    #: time limit that ends by the deadline and holds the run
    fitting_limit_s: float | None = None

    @property
    def bound(self) -> bool:
        """Whether ``wait_s`` follows from the limits of other jobs: it may be far shorter."""
        return self.wait is not None and self.wait.bound

    @property
    def meets_deadline(self) -> bool | None:
        """Whether it makes the deadline; None: there is none, or that depends on the wait."""
        return _MET[self.deadline]


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """All that the counts of one decision have in common."""

    request: Request
    table: PredictionTable
    partition: Partition
    rules: PolicySettings
    now_s: float
    asked: int

    def options(self, candidates: Sequence[Candidate]) -> list[Option]:
        """Options for rising node counts, the request among them."""
        estimates = self._waits(candidates)
        waits = [one.median_s for one in estimates]
        asked = next(i for i, p in enumerate(candidates) if p.prediction.nodes == self.asked)
        policy, part = self.rules.policy, self.partition
        room = self._room(candidates, waits)
        # The request may start earlier than expected, above all where limits are all there is.
        sure_s = policy.guard_wait * waits[asked] if policy.guard_wait else 0.0
        sure_s *= policy.guard_ratio if estimates[asked].recorded >= ENOUGH else 1.0
        most = sure_s + policy.guard_ratio * candidates[asked].time_s + policy.guard_s
        price = policy.price * (part.queue + part.queue_mean / 2 + 2) * part.node_part / part.nodes
        made = [
            Option(
                nodes=one.prediction.nodes,
                time_s=one.time_s,
                prediction=one.prediction,
                limit_s=one.limit_s,
                wait_s=wait_s,
                cost_s=wait_s + one.time_s + price * one.work_s,
                in_guard=one is candidates[asked]
                or wait_s + max(one.time_s, one.prediction.time_s) <= most,
                in_limit=self._allows(one, wait_s),
                leaves_room=leaves_room,
                fits=one.fits,
                late_s=-inf,
                limits=one.limits,
                wait=wait,
            )
            for one, wait, wait_s, leaves_room in zip(
                candidates, estimates, waits, room, strict=True
            )
        ]
        deadline_s = self.request.deadline_s
        return made if deadline_s is None else [self._judged(one, deadline_s) for one in made]

    def _judged(self, one: Option, deadline_s: float) -> Option:
        """Judge a count by its run time alone, by its time limit, and then with its wait."""
        left_s = deadline_s - max(self.now_s, self.request.begin_s)
        wait_s = self.now_s + one.wait_s * self.rules.deadline.wait_factor
        late_s = wait_s + one.prediction.high_s - deadline_s
        one = replace(one, late_s=late_s, chance=self._chance(one, 0.0, deadline_s))
        if one.prediction.high_s > left_s:
            return replace(one, deadline=DeadlineVerdict.RUN)
        limit_s = self._least_limit(one)
        margin = self.rules.policy.limit_margin
        own_s = self.request.asked_limit_s or self.request.limit_s or inf
        fits_s = fitting(one.limits, one.prediction.high_s, margin, left_s, own_s)
        # Slurm starts no job whose limit reaches beyond its deadline: it ends it instead.
        if limit_s > left_s:
            if fits_s is None or not self._may_set(one.nodes):
                chance = None if one.chance is None else 0.0
                verdict = DeadlineVerdict.LIMIT
                return replace(one, deadline=verdict, fitting_limit_s=fits_s, chance=chance)
            limit_s, one = fits_s, replace(one, limit_s=fits_s, limits=TimeLimits(fits_s))
        chance = self._chance(one, limit_s, deadline_s)
        if chance is None:
            in_time = late_s <= 0 and self.now_s + one.wait_s + limit_s <= deadline_s
        else:
            in_time = chance >= self.rules.deadline.confidence
        verdict = DeadlineVerdict.MADE if in_time else DeadlineVerdict.WAIT
        return replace(one, deadline=verdict, fitting_limit_s=fits_s, chance=chance)

    def _chance(self, one: Option, limit_s: float, deadline_s: float) -> float | None:
        """Chance of wait and run together; None: waits follow from time limits alone."""
        if one.wait is None or self.partition.outlook is None:
            return None
        return one.wait.chance(one.prediction, deadline_s - self.now_s, limit_s=limit_s)

    def _least_limit(self, one: Option) -> float:
        """Shortest limit that the job may run with: its ``--time-min``, where it has one."""
        least_s = one.limits.least_s if shortens(one.limits, self.request) else None
        return least_s or one.limit_s or 0.0

    def _may_set(self, nodes: int) -> bool:
        opted_in = self.request.time_use is TimeUse.SET and not self.request.distrusted
        return opted_in and trusted(self.table, nodes, self.rules.policy)

    def _waits(self, candidates: Sequence[Candidate]) -> list[WaitEstimate]:
        """Estimate the waits; more nodes for at least as long never start earlier."""
        waits: list[WaitEstimate] = []
        before = inf
        for one in candidates:
            duration = _planned_s(one)
            nodes = one.prediction.nodes
            since = self.request.begin_s
            if duration >= before and self.partition.outlook is None:
                since = self.now_s + waits[-1].median_s
            waits.append(self.partition.wait(nodes, duration, now_s=self.now_s, begin_s=since))
            before = duration
        return waits

    def _room(self, candidates: Sequence[Candidate], waits: Sequence[float]) -> list[bool]:
        """Whether a count that is larger than the request leaves most of the free nodes to others.

        Jobs that arrive while a grown job runs find only what it left.
        """
        return [
            one.prediction.nodes <= self.asked or self._leaves_room(one, wait_s)
            for one, wait_s in zip(candidates, waits, strict=True)
        ]

    def _leaves_room(self, one: Candidate, wait_s: float) -> bool:
        """Whether others find enough beside a count: those here, and those likely to come."""
        free, policy = self.partition.spare or self.partition.profile, self.rules.policy
        nodes, start_s = one.prediction.nodes, self.now_s + wait_s
        least = free.least(start_s, start_s + _planned_s(one))
        if nodes > policy.growth_share * least:
            return False
        if policy.bystanders is Bystanders.GROUP:
            return True
        outlook = self.partition.outlook
        ends_s = wait_s + one.prediction.high_s
        arriving = outlook.arriving(ends_s, _LEVEL) if outlook else inf
        return nodes + arriving * self.partition.nodes <= least

    def _allows(self, one: Candidate, wait_s: float) -> bool:
        limit_s = one.limit_s
        if wait_s == inf:
            return False
        if limit_s is None or one.prediction.nodes >= self.asked:
            return True
        if not (self.request.limit_raisable or shortens(one.limits, self.request)):
            return one.prediction.high_s * self.rules.policy.limit_margin <= limit_s
        return limit_s <= (self.partition.max_time_s or inf)


def _planned_s(one: Candidate) -> float:
    """Time for which a scheduler plans with a count."""
    return one.limit_s or one.prediction.high_s
