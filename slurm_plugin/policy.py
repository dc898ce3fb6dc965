"""Which node count a job gets: a pure function of request, prediction, cluster and settings.

A count costs the job's own turnaround plus the delay that it imposes on the others::

    C(n) = w(n) + T(n) + q·n·T(n)/N,    q = price·(Q + Q̄/2 + 2)

with the wait w from the limits of what runs, the predicted run time T, Q jobs waiting now, Q̄ over
a day, and N nodes.  Among the counts that the guard, the time limits and the deadline allow, the
cheapest is taken.  A fuller queue never leads to more nodes: the price is charged on a node time
made non-decreasing in n, and nothing else depends on the queue.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate
from math import exp, hypot, inf
from operator import attrgetter

from predictor.table import at, covers, verdict_at
from predictor.types import Prediction, PredictionTable, Verdict
from slurm_plugin import config
from slurm_plugin.limits import Limits, from_prediction, raised
from slurm_plugin.memory import memory_floor
from slurm_plugin.reasons import Reason
from slurm_plugin.slurm.state import Partition


class Action(StrEnum):
    """What is to be done with the job."""

    KEEP = "keep"
    SET = "set"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a job asks for, as far as a decision needs it."""

    low: int  #: fewest nodes it may get
    high: int  #: most nodes
    asked: int | None = None  #: what to compare with; None: what Slurm would give
    limit_s: float | None = None  #: the least that it may be cut down to; None: no limit
    asked_limit_s: float | None = None  #: its time limit before that
    least_s: float | None = None  #: its own ``--time-min``
    limit_raisable: bool = True  #: the user gave it; a default of the partition is not ours
    deadline_s: float | None = None  #: seconds since the epoch
    begin_s: float = -inf  #: not before this, seconds since the epoch
    mem_node_bytes: int | None = None  #: memory it asks for on each node
    fixed: Reason | None = None  #: why its count must not be changed
    distrusted: Reason | None = None  #: why the prediction is only observed
    time_use: config.TimeUse = config.TimeUse.OFF  #: of a limit from the prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One node count and what it would mean."""

    nodes: int
    time_s: float  #: run time to decide by: with the uncertainty of a change added
    prediction: Prediction
    limit_s: float | None
    wait_s: float
    cost_s: float
    in_guard: bool  #: its turnaround is near that of the request
    in_limit: bool  #: its time limit is allowed
    late_s: float  #: by how much it misses the deadline; zero or less: made
    limits: Limits | None = None  #: what the prediction makes of the time limit

    @property
    def turnaround_s(self) -> float:
        """Wait and run time."""
        return self.wait_s + self.time_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do with a job, and why."""

    action: Action
    reason: Reason
    chosen: Option | None = None  #: what it gets, or would get
    request: Option | None = None  #: what it would have had
    deadline_met: bool | None = None  #: None: no deadline, or not known


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings that a decision depends on."""

    policy: config.Policy
    deadline: config.Deadline
    time_limit: config.TimeLimit = field(default_factory=config.TimeLimit)

    @classmethod
    def of(cls, site: config.Config) -> "Rules":
        """Take them out of a site's configuration."""
        return cls(site.policy, site.deadline, site.time_limit)


def decide(
    request: Request, table: PredictionTable, partition: Partition, rules: Rules, *, now_s: float
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
    scene = _Scene(request, table, partition, rules, now_s, asked)
    if kept := request.fixed or request.distrusted:
        return _checked(scene, kept)
    if not trusted(table, asked, rules.policy):
        unknown = table.model == "history"
        return _checked(scene, Reason.NO_CURVE if unknown else Reason.UNRELIABLE_CURVE)
    candidates = _candidates(scene)
    if len(candidates) == 1:
        return _checked(scene, Reason.NO_CHOICE)
    return _choose(scene, scene.options(candidates))


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

    def start(nodes: int) -> float:
        return partition.profile.earliest_start(nodes, duration, from_s=begin)

    counts = range(request.low, high + 1)
    return counts[bisect_right(counts, start(request.low), key=start) - 1]


def trusted(table: PredictionTable, nodes: int, policy: config.Policy) -> bool:
    """Whether the prediction on ``nodes`` is good enough to act on."""
    verdict = verdict_at(table, nodes)
    return verdict is Verdict.RELIABLE or (policy.accept_doubtful and verdict is Verdict.DOUBTFUL)


def limits_on(
    counts: Iterable[int], request: Request, table: PredictionTable, rules: Rules
) -> Limits | None:
    """Time limit that holds the run on any of ``counts``, where that is wanted and trusted."""
    asked = list(counts)
    unwanted = request.time_use is config.TimeUse.OFF or request.distrusted
    if unwanted or not all(trusted(table, n, rules.policy) for n in asked):
        return None
    return from_prediction(
        table,
        asked,
        rules.time_limit,
        own_s=request.asked_limit_s,
        own_least_s=request.least_s,
    )


@dataclass(frozen=True, slots=True)
class _Scene:
    """All that the counts of one decision have in common."""

    request: Request
    table: PredictionTable
    partition: Partition
    rules: Rules
    now_s: float
    asked: int

    def options(self, predictions: Sequence[Prediction]) -> list[Option]:
        """Options for rising node counts, the request among them."""
        asked = next(i for i, p in enumerate(predictions) if p.nodes == self.asked)
        medians = list(accumulate((p.time_s for p in predictions), min))
        base, base_s = predictions[asked], medians[asked]
        times = [self._pessimistic(p, base, m) for p, m in zip(predictions, medians, strict=True)]
        shorter = [self.limits([p.nodes]) for p in predictions]
        limits = [
            self._limit(p.nodes, t / base_s, own)
            for p, t, own in zip(predictions, times, shorter, strict=True)
        ]
        waits = self._waits(predictions, limits)
        work = accumulate((p.nodes * t for p, t in zip(predictions, times, strict=True)), max)
        policy, part = self.rules.policy, self.partition
        most = policy.guard_ratio * (waits[asked] + times[asked]) + policy.guard_s
        price = policy.price * (part.queue + part.queue_mean / 2 + 2) / part.nodes
        return [
            Option(
                nodes=one.nodes,
                time_s=time_s,
                prediction=one,
                limit_s=limit_s,
                wait_s=wait_s,
                cost_s=wait_s + time_s + price * node_s,
                in_guard=wait_s + time_s <= most,
                in_limit=self._allows(one, limit_s, wait_s, shortened=self._shortens(own)),
                late_s=self._late(one, wait_s),
                limits=own,
            )
            for one, time_s, limit_s, own, wait_s, node_s in zip(
                predictions, times, limits, shorter, waits, work, strict=True
            )
        ]

    def limits(self, counts: Iterable[int]) -> Limits | None:
        """See :func:`limits_on`."""
        return limits_on(counts, self.request, self.table, self.rules)

    def _shortens(self, own: Limits | None) -> bool:
        return own is not None and self.request.time_use is config.TimeUse.SET

    def _pessimistic(self, one: Prediction, base: Prediction, median_s: float) -> float:
        if one.nodes == base.nodes:
            return median_s
        return median_s * exp(self.rules.policy.pessimism * hypot(one.curve_sd, base.curve_sd))

    def _limit(self, nodes: int, ratio: float, shorter: Limits | None) -> float | None:
        """Time limit: the user's own, longer where fewer nodes need longer, or a shorter one."""
        own = self.request.limit_s
        if shorter is not None and self._shortens(shorter):
            return min(shorter.limit_s, own or inf)
        if own is None or nodes >= self.asked or not self.request.limit_raisable:
            return own
        return raised(own, ratio, self.rules.policy.limit_margin)

    def _waits(
        self, predictions: Sequence[Prediction], limits: Sequence[float | None]
    ) -> list[float]:
        free, begin = self.partition.profile, max(self.now_s, self.request.begin_s)
        starts: list[float] = []
        before = inf
        for one, limit_s in zip(predictions, limits, strict=True):
            duration = limit_s or one.high_s
            # More nodes for at least as long never start earlier.
            since = starts[-1] if duration >= before else begin
            starts.append(free.earliest_start(one.nodes, duration, from_s=since))
            before = duration
        return [start - self.now_s for start in starts]

    def _allows(
        self, one: Prediction, limit_s: float | None, wait_s: float, *, shortened: bool
    ) -> bool:
        if wait_s == inf:
            return False
        if limit_s is None or one.nodes >= self.asked:
            return True
        if not self.request.limit_raisable and not shortened:
            return one.high_s * self.rules.policy.limit_margin <= limit_s
        # Slurm does not start a job whose limit reaches beyond its deadline.
        deadline = self.request.deadline_s
        in_time = deadline is None or self.now_s + wait_s + limit_s <= deadline
        return in_time and limit_s <= (self.partition.max_time_s or inf)

    def _late(self, one: Prediction, wait_s: float) -> float:
        if self.request.deadline_s is None:
            return -inf
        wait_s = wait_s * self.rules.deadline.wait_factor
        return self.now_s + wait_s + one.high_s - self.request.deadline_s


def _candidates(scene: _Scene) -> list[Prediction]:
    """List the trusted counts up to where more nodes no longer help, and that of the request."""
    table, policy, part = scene.table, scene.rules.policy, scene.partition
    share = _least(scene.request.mem_node_bytes, part.node_mem_bytes)
    memory = memory_floor(table, share, margin=policy.memory_margin)
    low = max(scene.request.low, part.min_nodes, memory)
    widest = max((p.nodes for p in table.observed), default=0)
    reach = policy.observed_reach * max(widest, table.widest)
    high = min(scene.request.high, part.largest, int(reach))
    counts = {n for n in table.nodes if low < n < high}
    counts |= {n for n in (low, high) if low <= high and covers(table, n)}
    useful = [at(table, n) for n in sorted(counts) if trusted(table, n, policy)]
    best = min((p.time_s for p in useful), default=0.0)
    last = next((i for i, p in enumerate(useful) if p.time_s <= best), 0)
    kept = [p for p in useful[: last + 1] if p.nodes != scene.asked]
    return sorted([*kept, at(table, scene.asked)], key=attrgetter("nodes"))


def _choose(scene: _Scene, options: Sequence[Option]) -> Decision:
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
        deadline_met=None if scene.request.deadline_s is None else True,
    )


def _feasible(options: Sequence[Option], asked: Option) -> list[Option]:
    """Select the counts that may be taken; the guard yields to a deadline."""
    allowed = [o for o in options if o.late_s <= 0 and (o.in_limit or o is asked)]
    return [o for o in allowed if o.in_guard] or allowed


def _reason(
    scene: _Scene,
    best: Option,
    asked: Option,
    feasible: Sequence[Option],
    options: Sequence[Option],
) -> Reason:
    due = scene.request.deadline_s is not None
    if due and (asked.late_s > 0 or len(feasible) == 1):
        return Reason.DEADLINE
    if best is not asked:
        return Reason.CHEAPEST
    if len(feasible) > 1:
        return Reason.BEST_ALREADY
    out_of_guard = any(o.in_limit and not o.in_guard for o in options)
    return Reason.OUTSIDE_GUARD if out_of_guard else Reason.LIMIT_TOO_LONG


def _missed(scene: _Scene, options: Sequence[Option], asked: Option) -> Decision:
    """No count makes the deadline: the one that comes closest, or a refusal."""
    allowed = [o for o in options if o.in_limit or o is asked]
    closest = min(allowed, key=lambda o: (o.late_s, o.nodes))
    refuse = scene.rules.deadline.missed is config.OnMissed.REFUSE
    return Decision(
        action=Action.REFUSE if refuse else Action.SET,
        reason=Reason.DEADLINE_MISSED,
        chosen=closest,
        request=asked,
        deadline_met=False,
    )


def _checked(scene: _Scene, reason: Reason) -> Decision:
    """Let the request stand, and look at its deadline as far as the prediction allows."""
    if verdict_at(scene.table, scene.asked) is Verdict.REFUSED:
        return Decision(action=Action.KEEP, reason=reason)
    (one,) = scene.options([at(scene.table, scene.asked)])
    only = replace(one, limits=scene.limits(_possible(scene)))
    kept = Decision(action=Action.KEEP, reason=reason, chosen=only, request=only)
    if scene.request.deadline_s is None or scene.request.distrusted:
        return kept
    if only.late_s <= 0:
        return replace(kept, deadline_met=True)
    sure = trusted(scene.table, scene.asked, scene.rules.policy)
    refuse = sure and scene.rules.deadline.missed is config.OnMissed.REFUSE
    return replace(
        kept,
        action=Action.REFUSE if refuse else Action.KEEP,
        reason=Reason.DEADLINE_MISSED,
        deadline_met=False,
    )


def _possible(scene: _Scene) -> list[int]:
    """List the counts that Slurm may give a job whose request stands, when it starts."""
    request, high = scene.request, min(scene.request.high, scene.partition.largest)
    if request.asked is not None:
        return [request.asked]
    inside = {n for n in scene.table.nodes if request.low < n < high}
    return sorted(inside | {request.low, high})


def _least(one: int | None, other: int | None) -> int | None:
    return min((n for n in (one, other) if n is not None), default=None)


def _cheapest(options: Iterable[Option]) -> Option:
    return min(options, key=lambda o: (o.cost_s, o.nodes))
