"""What each node count means for a job, apart from the queue and the free nodes: pure, cached.

Most submissions repeat an application, a request and settings; only the queue and the free nodes
are new.  So what follows from the application, the request and the settings is computed once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from math import inf
from operator import attrgetter
from statistics import fmean
from typing import TypeGuard

import msgspec

from predictor.change.request import ratios
from predictor.table import OTHER_LAYOUT, at, covers, verdict_at
from predictor.types import Prediction, PredictionTable, Verdict
from sacct_ingest.runs.layout import Each, Unit
from slurm_plugin.config import settings as config
from slurm_plugin.config.setting_types import Bystanders, TimeUse
from slurm_plugin.decision.memory import memory_floor
from slurm_plugin.decision.time_limits import TimeLimits, from_prediction, whole_minutes
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.cluster_state import Partition, lower_of

#: Most different requests in the cache.
_CACHED = 1024


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a job asks for, as far as a decision needs it."""

    low: int  #: fewest nodes it may get
    high: int  #: most nodes
    segment: int = 1  #: node counts are multiples of it
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
    time_use: TimeUse = TimeUse.OFF  #: of a limit from the prediction
    with_least: bool = False  #: a ``--time-min`` may go with it
    soft: bool = False  #: Slurm may plan with less than its time limit
    unit: Unit = Unit.NODES  #: of all counts
    lower_memory: bool = False  #: memory that its runs do not need may be taken off
    advised: bool = False  #: before a deadline it gets the limit of the line to paste
    given: tuple[int, int] = (0, 0)  #: fewest and most nodes that its user gave; 0: none
    explore: bool = False  #: it may run on a count that was not tried
    proven: tuple[int, ...] = ()  #: counts that its user completed the same script on, too
    counts: tuple[int, ...] = ()  #: that it may get, its own apart; none: all of the range


@dataclass(frozen=True, slots=True, eq=False)
class PolicySettings:
    """Settings that a decision depends on; the same object as long as the settings hold."""

    policy: config.Policy
    deadline: config.Deadline
    time_limit: config.TimeLimit = field(default_factory=config.TimeLimit)

    @classmethod
    def of(cls, site: config.Config) -> "PolicySettings":
        """Take them out of a site's configuration."""
        return cls(site.policy, site.deadline, site.time_limit)


class PartitionBounds(msgspec.Struct, frozen=True):
    """What a partition leaves to choose, as long as its nodes and limits stay as they are."""

    fewest: int  #: nodes for one job
    most: int
    node_mem_bytes: int | None

    @classmethod
    def of(cls, partition: Partition) -> "PartitionBounds":
        """Take it out of a partition."""
        return cls(partition.min_nodes, partition.largest, partition.node_mem_bytes)


class Candidate(msgspec.Struct, frozen=True):
    """One node count on its own."""

    prediction: Prediction
    time_s: float  #: expected run time
    limit_s: float | None
    work_s: float  #: node time, made non-decreasing in nodes
    limits: TimeLimits | None  #: what the prediction makes of the time limit
    fits: bool = True  #: its nodes have the memory that the job needed so far


@lru_cache(maxsize=_CACHED)
def choices(
    request: Request,
    table: PredictionTable,
    room: PartitionBounds,
    rules: PolicySettings,
    asked: int,
) -> tuple[Candidate, ...]:
    """Candidates: the trusted counts up to where more nodes no longer help, and of the request.

    asked: the count that Slurm would give, inside the table.
    """
    share = lower_of(request.mem_node_bytes, room.node_mem_bytes)
    floor = memory_floor(table, share, margin=rules.policy.memory_margin)
    counts = _candidates(request, table, room, rules, asked, floor)
    return side_by_side(counts, request, table, rules, asked, floor)


@lru_cache(maxsize=_CACHED)
def standing(
    request: Request,
    table: PredictionTable,
    room: PartitionBounds,
    rules: PolicySettings,
    asked: int,
) -> Candidate:
    """Candidate of a job that keeps its request; its limit holds on all counts it may start on."""
    (one,) = side_by_side([at(table, asked)], request, table, rules, asked)
    limits = limits_on(_possible(request, table, room), request, table, rules)
    # Of the count that is looked at alone a shorter limit might hold.
    limit_s = _limit(one.prediction, limits, request, rules, asked)
    return Candidate(one.prediction, one.time_s, limit_s, one.work_s, limits)


def trusted(table: PredictionTable, nodes: int) -> bool:
    """Whether the run time on ``nodes`` is sure enough to make a time limit of."""
    return not table.is_guess and verdict_at(table, nodes) is Verdict.RELIABLE


def scales(table: PredictionTable, nodes: int) -> bool:
    """Whether a change to ``nodes`` can be judged: the runs are of one application and layout.

    A table that says nothing of a change has to be reliable itself.
    """
    if table.change is None:
        return trusted(table, nodes)
    return not (table.is_guess or table.parts or is_serial(table) or is_otherwise(table))


def is_otherwise(table: PredictionTable) -> bool:
    """Whether all runs had another layout than the job."""
    return any(problem.name == OTHER_LAYOUT for problem in table.problems)


def why_alone(
    request: Request, table: PredictionTable, only: Candidate, rules: PolicySettings
) -> Reason:
    """Say why a request has no other candidate, by what the prediction alone leaves to choose."""
    if is_serial(table):
        return Reason.SERIAL
    asked, most = only.prediction.nodes, max(table.nodes)
    unbounded = PartitionBounds(1, most, None)
    counts = _candidates(request, table, unbounded, rules, asked, 0)
    if len(counts) > 1:
        return Reason.NO_CHOICE
    others = (n for n in table.nodes if request.low <= n <= request.high and n != asked)
    sure = any(scales(table, n) for n in others)
    return Reason.BEST_ALREADY if sure else Reason.ONE_COUNT


def is_serial(table: PredictionTable) -> bool:
    """Whether all runs had one CPU of one node."""
    own = table.layout
    if table.is_guess:
        return False
    on_one = table.unit is Unit.NODES and {one.nodes for one in table.observed} == {1}
    return on_one and own.each is Each.NODE and own.cpus == 1 and own.tasks <= 1 and not own.gpus


def limits_on(
    counts: Iterable[int], request: Request, table: PredictionTable, rules: PolicySettings
) -> TimeLimits | None:
    """Time limit that holds the run on any of ``counts``, if set and reliable."""
    asked = list(counts)
    unwanted = request.time_use is TimeUse.OFF or request.distrusted
    if unwanted or not all(trusted(table, n) for n in asked):
        return None
    return from_prediction(
        table,
        asked,
        rules.time_limit,
        own_s=request.asked_limit_s,
        own_least_s=request.least_s,
        with_least=request.with_least,
    )


def shortens(limits: TimeLimits | None, request: Request) -> TypeGuard[TimeLimits]:
    """Whether a limit from the prediction takes the place of the user's."""
    return limits is not None and request.time_use is TimeUse.SET


def _candidates(
    request: Request,
    table: PredictionTable,
    room: PartitionBounds,
    rules: PolicySettings,
    asked: int,
    floor: int,
) -> list[Prediction]:
    policy = rules.policy
    low = max(request.low, room.fewest, floor)
    own_cost = policy.bystanders is Bystanders.EACH and request.deadline_s is None
    if own_cost:
        low = max(low, asked)
    high = min(request.high, room.most, table.nodes[-1])
    counts = {n for n in table.nodes if low < n < high}
    counts |= {n for n in (low, high) if low <= high and covers(table, n)}
    if request.counts:
        counts = {n for n in request.counts if low <= n <= high and covers(table, n)}
    whole = sorted(n for n in counts if n % request.segment == 0)
    useful = [at(table, n) for n in whole if scales(table, n)]
    best = min((p.time_s for p in useful), default=0.0)
    last = next((i for i, p in enumerate(useful) if p.time_s <= best), 0)
    candidates = [p for p in useful[: last + 1] if p.nodes != asked]
    return sorted([*candidates, at(table, asked)], key=attrgetter("nodes"))


def side_by_side(
    predictions: Sequence[Prediction],
    request: Request,
    table: PredictionTable,
    rules: PolicySettings,
    asked: int,
    floor: int = 0,
) -> tuple[Candidate, ...]:
    """Candidates for rising node counts, the request's among them.

    floor: fewest nodes that have the memory of the job.
    """
    base_s = next(p.time_s for p in predictions if p.nodes == asked)
    times = [base_s * fmean(ratios(table, p.nodes)) for p in predictions]
    shorter = [limits_on([p.nodes], request, table, rules) for p in predictions]
    work = accumulate((p.nodes * t for p, t in zip(predictions, times, strict=True)), max)
    return tuple(
        Candidate(
            prediction=one,
            time_s=time_s,
            limit_s=_limit(one, own, request, rules, asked),
            work_s=work_s,
            limits=own,
            fits=one.nodes >= floor,
        )
        for one, time_s, own, work_s in zip(predictions, times, shorter, work, strict=True)
    )


def _limit(
    one: Prediction, shorter: TimeLimits | None, request: Request, rules: PolicySettings, asked: int
) -> float | None:
    """Time limit: the user's own, a longer one that fewer nodes need, or a shorter one."""
    own = request.limit_s
    if shortens(shorter, request):
        return min(shorter.limit_s, own or inf)
    if own is None or one.nodes >= asked or not request.limit_raisable:
        return own
    return max(own, whole_minutes(one.high_s * rules.policy.limit_margin))


def _possible(request: Request, table: PredictionTable, room: PartitionBounds) -> list[int]:
    """List the counts that Slurm may give a job whose request stands, when it starts."""
    if request.asked is not None:
        return [request.asked]
    high = min(request.high, room.most)
    inside = {n for n in table.nodes if request.low < n < high}
    return sorted(inside | {request.low, high})
