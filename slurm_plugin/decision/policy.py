"""Which node count a job gets: a pure function of request, prediction, cluster and settings.

A count costs the job's own turnaround plus the delay that it imposes on the others::

    C(n) = w(n) + T(n) + q·n·T(n)/N,    q = price·(Q + Q̄/2 + 2)

with the wait w from the limits of what runs, the predicted run time T, Q jobs waiting now, Q̄ over
a day, and N nodes.  Among the counts that the guard, the time limits and the deadline allow, the
cheapest is taken.  A fuller queue never leads to more nodes: the price is charged on a node time
made non-decreasing in n, and nothing else depends on the queue.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

import msgspec
from msgspec.structs import replace

from predictor.table import OTHER_LAYOUT, at, covers, verdict_at
from predictor.types import Prediction, PredictionTable, Verdict
from predictor.wait_estimate import ENOUGH, WaitEstimate
from slurm_plugin import config
from slurm_plugin.decision.candidates import (
    Candidate,
    PartitionBounds,
    PolicySettings,
    Request,
    choices,
    shortens,
    side_by_side,
    standing,
    trusted,
)
from slurm_plugin.decision.reasons import Reason
from slurm_plugin.decision.time_limits import TimeLimits, fitting
from slurm_plugin.slurm.cluster_state import Partition


class Action(StrEnum):
    """What is to be done with the job."""

    KEEP = "keep"
    SET = "set"
    REFUSE = "refuse"


class DeadlineVerdict(StrEnum):
    """Whether a count makes the deadline: the worst that holds."""

    MADE = "made"
    WAIT = "wait"  #: that depends on when the job starts
    LIMIT = "limit"  #: its time limit reaches beyond the deadline: Slurm ends it without a run
    RUN = "run"  #: it takes too long, even if it starts at once


#: What is said of a deadline by its verdict; None: nobody knows.
_MET = {
    None: None,
    DeadlineVerdict.MADE: True,
    DeadlineVerdict.WAIT: None,
    DeadlineVerdict.LIMIT: False,
    DeadlineVerdict.RUN: False,
}
_REASONS = {
    DeadlineVerdict.WAIT: Reason.DEADLINE_UNSURE,
    DeadlineVerdict.LIMIT: Reason.DEADLINE_LIMIT,
    DeadlineVerdict.RUN: Reason.DEADLINE_MISSED,
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
    leaves_room: bool = True  #: others find enough free nodes beside it, or it does not grow
    fits: bool = True  #: its nodes have the memory that the job is known to need
    late_s: float  #: by how much it misses the deadline; zero or less: made
    limits: TimeLimits | None = None  #: what the prediction makes of the time limit
    wait: WaitEstimate | None = None  #: ``wait_s`` is its median
    chance: float | None = None  #: of making the deadline; None: none, or not known
    deadline: DeadlineVerdict | None = None  #: None: there is none
    #: time limit that ends by the deadline and holds the run
    fitting_limit_s: float | None = None

    @property
    def meets_deadline(self) -> bool | None:
        """Whether it makes the deadline; None: there is none, or that depends on the wait."""
        return _MET[self.deadline]


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with a job, and why."""

    action: Action
    reason: Reason
    chosen: Option | None = None  #: what it gets, or would get
    request: Option | None = None  #: what it would have had
    deadline_met: bool | None = None  #: None: no deadline, or not known
    options: Sequence[Option] = ()  #: all that were weighed
    remedies: Sequence[str] = ()  #: what would make the deadline, in words


def decide(
    request: Request,
    table: PredictionTable,
    partition: Partition,
    rules: PolicySettings,
    *,
    now_s: float,
) -> Decision:
    """Choose the node count of a job.

    Parameters
    ----------
    request
        What the job asks for.
    table
        Predicted run time of its application.
    partition
        Fresh view of the partition it asks for.
    rules
        The site's settings.
    now_s
        Time of the decision, seconds since the epoch.
    """
    asked = as_scheduled(request, partition, now_s=now_s)
    if asked is None:
        return Decision(action=Action.KEEP, reason=request.fixed or Reason.BEYOND_LIMITS)
    if not covers(table, asked):
        return Decision(action=Action.KEEP, reason=request.fixed or Reason.OUTSIDE_CURVE)
    scene = _PolicyContext(request, table, partition, rules, now_s, asked)
    if unchanged := request.fixed or request.distrusted:
        return _checked(scene, unchanged)
    if not trusted(table, asked, rules.policy):
        return _checked(scene, _why_distrusted(table))
    prospects = choices(request, table, PartitionBounds.of(partition), rules, asked)
    if len(prospects) == 1:
        return _checked(scene, Reason.NO_CHOICE)
    return _choose(scene, scene.options(prospects))


def _why_distrusted(table: PredictionTable) -> Reason:
    if any(problem.name == OTHER_LAYOUT for problem in table.problems):
        return Reason.OTHER_LAYOUT
    return Reason.UNRELIABLE_CURVE if table.is_curve else Reason.NO_CURVE


def as_scheduled(request: Request, partition: Partition, *, now_s: float) -> int | None:
    """Node count that Slurm would give: it starts as soon as the fewest are free, on all there are.

    None where the partition does not have that many.
    """
    if request.asked is not None:
        return request.asked if request.asked <= partition.largest else None
    high = min(request.high, partition.largest)
    if request.low > high:
        return None
    begin = max(now_s, request.begin_s)
    duration = request.limit_s or partition.max_time_s or inf
    start = partition.profile.earliest_start(request.low, duration, from_s=begin)
    free = min(high, partition.profile.least(start, start + duration)) if start < inf else high
    return max(free - free % request.segment, request.low)


@dataclass(frozen=True, slots=True)
class _PolicyContext:
    """All that the counts of one decision have in common."""

    request: Request
    table: PredictionTable
    partition: Partition
    rules: PolicySettings
    now_s: float
    asked: int

    def options(self, prospects: Sequence[Candidate]) -> list[Option]:
        """Options for rising node counts, the request among them."""
        estimates = self._waits(prospects)
        waits = [one.median_s for one in estimates]
        asked = next(i for i, p in enumerate(prospects) if p.prediction.nodes == self.asked)
        policy, part = self.rules.policy, self.partition
        room = self._room(prospects, waits)
        most = policy.guard_ratio * (waits[asked] + prospects[asked].time_s) + policy.guard_s
        price = policy.price * (part.queue + part.queue_mean / 2 + 2) / part.nodes
        made = [
            Option(
                nodes=one.prediction.nodes,
                time_s=one.time_s,
                prediction=one.prediction,
                limit_s=one.limit_s,
                wait_s=wait_s,
                cost_s=wait_s + one.time_s + price * one.work_s,
                in_guard=wait_s + one.time_s <= most,
                in_limit=self._allows(one, wait_s),
                leaves_room=leaves_room,
                fits=one.fits,
                late_s=-inf,
                limits=one.limits,
                wait=wait,
            )
            for one, wait, wait_s, leaves_room in zip(
                prospects, estimates, waits, room, strict=True
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
        fits_s = fitting(one.limits, one.prediction.high_s, margin, left_s)
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
        opted_in = self.request.time_use is config.TimeUse.SET and not self.request.distrusted
        return opted_in and trusted(self.table, nodes, self.rules.policy)

    def _waits(self, prospects: Sequence[Candidate]) -> list[WaitEstimate]:
        """Estimate the waits; more nodes for at least as long never start earlier."""
        begin = max(self.now_s, self.request.begin_s)
        waits: list[WaitEstimate] = []
        before = inf
        for one in prospects:
            duration = _planned_s(one)
            nodes = one.prediction.nodes
            since = begin
            if duration >= before and self.partition.outlook is None:
                since = self.now_s + waits[-1].median_s
            waits.append(self.partition.wait(nodes, duration, now_s=self.now_s, begin_s=since))
            before = duration
        return waits

    def _room(self, prospects: Sequence[Candidate], waits: Sequence[float]) -> list[bool]:
        """Whether a count that is larger than the request leaves most of the free nodes to others.

        Jobs that arrive while a grown job runs find only what it left.  Most of them are small.
        """
        share, free = self.rules.policy.growth_share, self.partition.spare or self.partition.profile
        room = []
        for one, wait_s in zip(prospects, waits, strict=True):
            nodes, start_s = one.prediction.nodes, self.now_s + wait_s
            end_s = start_s + _planned_s(one)
            grows = nodes > self.asked
            room.append(not grows or nodes <= share * free.least(start_s, end_s))
        return room

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


def _choose(scene: _PolicyContext, options: Sequence[Option]) -> Decision:
    asked = next(o for o in options if o.nodes == scene.asked)
    feasible = _feasible(options, asked)
    if not feasible:
        return _missed(scene, options, asked)
    best = _cheapest(feasible)
    return Decision(
        action=Action.SET,
        reason=_reason(scene, best, asked, feasible, options),
        chosen=best,
        request=asked,
        deadline_met=best.meets_deadline,
        options=options,
    )


def _feasible(options: Sequence[Option], asked: Option) -> list[Option]:
    """Select the counts that may be taken; room and guard yield to memory and to a deadline."""
    in_time = (None, DeadlineVerdict.MADE)
    allowed = [o for o in options if o.deadline in in_time and (o.in_limit or o is asked)]
    allowed = [o for o in allowed if o.fits] or allowed
    allowed = [o for o in allowed if o.leaves_room] or allowed
    return [o for o in allowed if o.in_guard] or allowed


def _reason(
    scene: _PolicyContext,
    best: Option,
    asked: Option,
    feasible: Sequence[Option],
    options: Sequence[Option],
) -> Reason:
    due = scene.request.deadline_s is not None
    if due and (asked.deadline is not DeadlineVerdict.MADE or len(feasible) == 1):
        return Reason.DEADLINE
    if best is not asked:
        return Reason.CHEAPEST
    if len(feasible) > 1:
        return Reason.BEST_ALREADY
    if any(o.in_limit and not o.in_guard for o in options):
        return Reason.OUTSIDE_GUARD
    crowded = any(o.in_limit and not o.leaves_room for o in options)
    return Reason.NO_ROOM_TO_GROW if crowded else Reason.LIMIT_TOO_LONG


def _missed(scene: _PolicyContext, options: Sequence[Option], asked: Option) -> Decision:
    """No count is sure to make the deadline: the one that comes closest, or a refusal."""
    allowed = [o for o in options if o.in_limit or o is asked]
    closest = min(allowed, key=lambda o: (_distance(o, asked), o.late_s, o.nodes))
    verdict = closest.deadline or DeadlineVerdict.MADE
    action = Action.KEEP if verdict is DeadlineVerdict.LIMIT else Action.SET
    return Decision(
        action=Action.REFUSE if _refused(scene, allowed) else action,
        reason=_REASONS[verdict],
        chosen=closest,
        request=asked,
        deadline_met=closest.meets_deadline,
        options=options,
    )


def _distance(option: Option, asked: Option) -> tuple[int, bool]:
    """Say how far an option is from its deadline; only another limit helps where that is long."""
    verdict = option.deadline or DeadlineVerdict.MADE
    worse = verdict is DeadlineVerdict.LIMIT and option is not asked
    return tuple(DeadlineVerdict).index(verdict), worse


def _refused(scene: _PolicyContext, options: Iterable[Option]) -> bool:
    """Whether the site refuses the job: no count has a chance, even if nothing goes wrong.

    A wait counts where what such waits were off by is on record.
    """
    deadline_s, rules = scene.request.deadline_s, scene.rules.deadline
    if deadline_s is None or rules.missed is not config.OnMissed.REFUSE:
        return False
    begin_s = max(scene.now_s, scene.request.begin_s)
    return all(
        begin_s + o.prediction.low_s > deadline_s or _hopeless(o, 1 - rules.confidence)
        for o in options
    )


def _hopeless(option: Option, least: float) -> bool:
    wait, chance = option.wait, option.chance
    by_limit = option.deadline is DeadlineVerdict.LIMIT
    recorded = wait is not None and wait.recorded >= ENOUGH
    return recorded and not by_limit and chance is not None and chance < least


def _checked(scene: _PolicyContext, reason: Reason) -> Decision:
    """Let the request stand, and look at its deadline as far as the prediction allows."""
    if verdict_at(scene.table, scene.asked) is Verdict.REFUSED:
        return Decision(action=Action.KEEP, reason=reason)
    room = PartitionBounds.of(scene.partition)
    one = standing(scene.request, scene.table, room, scene.rules, scene.asked)
    (only,) = options = scene.options([one])
    decision = Decision(
        action=Action.KEEP, reason=reason, chosen=only, request=only, options=options
    )
    if only.deadline is None or scene.request.distrusted:
        return decision
    sure = trusted(scene.table, scene.asked, scene.rules.policy)
    return replace(
        decision,
        action=Action.REFUSE if sure and _refused(scene, options) else Action.KEEP,
        reason=_REASONS.get(only.deadline, reason),
        deadline_met=only.meets_deadline,
    )


def every_option(
    request: Request,
    table: PredictionTable,
    partition: Partition,
    rules: PolicySettings,
    decision: Decision,
    *,
    now_s: float,
) -> list[Option]:
    """Options for all counts that the table tells of, those of the decision among them.

    Parameters
    ----------
    decision
        Made of the other parameters.
    """
    asked = decision.request.nodes if decision.request else request.low
    counts = {n for n in table.nodes if n <= partition.largest}
    counts = {n for n in counts if verdict_at(table, n) is not Verdict.REFUSED}
    if not counts:
        return list(decision.options)
    if asked not in counts and not covers(table, asked):
        asked = min(counts, key=lambda n: abs(n - asked))
    scene = _PolicyContext(request, table, partition, rules, now_s, asked)
    predictions = [at(table, n) for n in sorted(counts | {asked})]
    options = scene.options(side_by_side(predictions, request, table, rules, asked))
    own = {option.nodes: option for option in decision.options}
    return [own.pop(option.nodes, option) for option in options] + list(own.values())


def limits_to_ask(option: Option, request: Request) -> TimeLimits | None:
    """Time limit to ask for on a count: a shorter one, or a longer one that it needs."""
    if option.deadline in (DeadlineVerdict.LIMIT, DeadlineVerdict.WAIT) and option.fitting_limit_s:
        return TimeLimits(option.fitting_limit_s)
    if option.limits is not None:
        return option.limits
    own, limit_s = request.asked_limit_s or request.limit_s, option.limit_s
    return TimeLimits(limit_s) if own and limit_s and limit_s > own else None


def _cheapest(options: Iterable[Option]) -> Option:
    return min(options, key=lambda o: (o.cost_s, o.nodes))
