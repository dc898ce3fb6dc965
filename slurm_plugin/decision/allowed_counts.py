"""What each node count means for a job, apart from the queue and the free nodes: pure, cached.

Most submissions repeat an application, a request and settings; only the queue and the free nodes
are new.  So what follows from the application, the request and the settings is computed once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from operator import attrgetter
from statistics import fmean
from typing import NamedTuple, TypeGuard

import msgspec
from msgspec.structs import replace

from predictor.application.count_changes import levels, ratios
from predictor.job_table import is_otherwise
from predictor.prediction_table import PredictionTable
from predictor.table import at, covers, verdict_at
from predictor.types import Prediction, Verdict
from slurm_plugin.config import settings as config
from slurm_plugin.config.setting_types import Bystanders, TimeUse
from slurm_plugin.decision.memory_need import memory_floor
from slurm_plugin.decision.request import CountRequest
from slurm_plugin.decision.time_limits import (
    AskedLimit,
    TimeLimits,
    from_prediction,
    holding_all,
    whole_minutes,
)
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.cluster_state import lower_of

#: What products of run times are off by, at most.
EXACT = 1 - 1e-12
#: Most different requests in the cache.
_CACHED = 1024


@dataclass(frozen=True, slots=True, eq=False)
class PolicySettings:
    """Settings that a decision depends on; the same object as long as the settings hold."""

    policy: config.Policy
    deadline: config.Deadline
    time_limit: config.TimeLimit = field(default_factory=config.TimeLimit)
    energy: config.Energy = field(default_factory=config.Energy)

    @classmethod
    def of(cls, site: config.Config) -> "PolicySettings":
        """Take them out of a site's configuration."""
        return cls(site.policy, site.deadline, site.time_limit, site.energy)


class PartitionBounds(msgspec.Struct, frozen=True):
    """What a partition leaves to choose, as long as its nodes and limits stay as they are."""

    fewest: int  #: nodes for one job
    most: int
    node_mem_bytes: int | None


class Candidate(msgspec.Struct, frozen=True):
    """One node count on its own."""

    prediction: Prediction
    ratios: tuple[float, ...]  #: its run time over that on the count asked for, equally likely
    time_s: float  #: expected run time
    limit_s: float | None
    work_s: float  #: node time, made non-decreasing in nodes
    limits: TimeLimits | None  #: what the prediction makes of the time limit
    #: by how much it takes longer than the guard's ratio allows on the count asked for, rising
    longer_s: tuple[float, ...] = ()
    fits: bool = True  #: its nodes have the memory that the job needed so far


class CountQuestion(NamedTuple):
    """All that the counts of a job depend on, but for the queue and the free nodes."""

    request: CountRequest
    table: PredictionTable
    bounds: PartitionBounds
    rules: PolicySettings
    asked: int  #: the count that Slurm would give, inside the table
    any_limit: PredictionTable  #: the same of jobs with any time limit: what limits follow from

    def limits_on(self, counts: Sequence[int]) -> list[TimeLimits | None]:
        """Time limit that holds the run on each of ``counts``, if set and reliable."""
        request = self.request
        wanted = request.time_use is not TimeUse.OFF and not request.distrusted
        sure = trusted(self.table, counts) if wanted else []
        limits = limits_for(request, self.any_limit, self.rules, sure) if sure else ()
        on_each = dict(zip(sure, limits, strict=True))
        return [on_each.get(n) for n in counts]

    def limit(self, shorter: TimeLimits | None, needed_s: float = 0.0) -> float | None:
        """Time limit: the user's own, a longer one that fewer nodes need, or a shorter one."""
        own = self.request.limit_s
        if shortens(shorter, self.request):
            return min(shorter.limit_s, own or inf)
        return own if own is None else max(own, needed_s)

    def counts(self, floor: int) -> list[Prediction]:
        """Trusted counts up to where more nodes no longer help, and that of the request.

        floor: fewest nodes that have the memory of the job.
        """
        request = self.request
        table = self.table
        asked = self.asked
        policy = self.rules.policy
        low = max(request.low, self.bounds.fewest, floor)
        if policy.bystanders is Bystanders.EACH and request.deadline_s is None:
            low = max(low, asked)
        high = min(request.high, self.bounds.most, table.nodes[-1])
        counts = {n for n in table.nodes if low < n < high}
        counts |= {n for n in (low, high) if low <= high and covers(table, n)}
        if request.counts:
            counts = {n for n in request.counts if low <= n <= high and covers(table, n)}
        whole = sorted(n for n in counts if n % request.segment == 0)
        useful = [at(table, n) for n in scales(table, whole)]
        best = min((p.time_s for p in useful), default=0.0)
        last = next((i for i, p in enumerate(useful) if p.time_s <= best), 0)
        candidates = [p for p in useful[: last + 1] if p.nodes != asked]
        return sorted([*candidates, at(table, asked)], key=attrgetter("nodes"))

    def side_by_side(
        self, predictions: Sequence[Prediction], floor: int = 0
    ) -> tuple[Candidate, ...]:
        """Candidates for rising node counts, the request's among them.

        floor: fewest nodes that have the memory of the job.
        """
        counts = tuple(one.nodes for one in predictions)
        base_s = predictions[counts.index(self.asked)].time_s
        margin = self.rules.policy.limit_margin
        needed = [
            whole_minutes(one.high_s * margin)
            if one.nodes < self.asked and self.request.limit_raisable
            else 0.0
            for one in predictions
        ]
        columns = predictions, ratios(self.table, counts), self.limits_on(counts), needed
        made = []
        work_s = 0.0
        for one, changes, own, needed_s in zip(*columns, strict=True):
            time_s = base_s * fmean(changes)
            work_s = max(work_s, one.nodes * time_s)
            limit_s = self.limit(own, needed_s)
            longer_s = () if one.nodes == self.asked else self._longer_s(changes)
            fits = one.nodes >= floor
            made.append(Candidate(one, changes, time_s, limit_s, work_s, own, longer_s, fits))
        return tuple(made)

    def _longer_s(self, changes: Sequence[float]) -> tuple[float, ...]:
        most = self.rules.policy.guard_ratio
        runs_s = levels(self.table)
        each = zip(changes, runs_s, strict=True)
        return tuple(sorted(ratio * run_s * EXACT - most * run_s for ratio, run_s in each))


@lru_cache(maxsize=_CACHED)
def choices(question: CountQuestion) -> tuple[Candidate, ...]:
    """Candidates: the trusted counts up to where more nodes no longer help, and of the request."""
    share = lower_of(question.request.mem_node_bytes, question.bounds.node_mem_bytes)
    floor = memory_floor(question.table, share, margin=question.rules.policy.memory_margin)
    return question.side_by_side(question.counts(floor), floor)


@lru_cache(maxsize=_CACHED)
def standing(question: CountQuestion) -> Candidate:
    """Candidate of a job that keeps its request; its limit holds on all counts it may start on."""
    request = question.request
    table = question.table
    asked = question.asked
    (one,) = question.side_by_side([at(table, asked)])
    high = min(request.high, question.bounds.most)
    between = {n for n in table.nodes if request.low < n < high}
    possible = [request.asked] if request.asked is not None else [request.low, *between, high]
    # Of the count that is looked at alone a shorter limit might hold.
    limits = holding_all(question.limits_on(possible))
    return replace(one, limit_s=question.limit(limits), limits=limits)


def trusted(table: PredictionTable, counts: Sequence[int]) -> Sequence[int]:
    """Those of ``counts`` on which the run time is sure enough to make a time limit of."""
    if table.is_guess:
        return ()
    return [n for n in counts if verdict_at(table, n) is Verdict.RELIABLE]


def scales(table: PredictionTable, counts: Sequence[int]) -> Sequence[int]:
    """Those of ``counts`` to which a change can be judged: runs are of one application and layout.

    A table that says nothing of a change has to be reliable itself.
    """
    if is_serial(table):
        return ()
    if table.change is None:
        return trusted(table, counts)
    judged = not (table.is_guess or table.parts or is_otherwise(table))
    return counts if judged else ()


def why_alone(question: CountQuestion) -> Reason:
    """Say why a request has no other candidate, by what the prediction alone leaves to choose."""
    request = question.request
    table = question.table
    if is_serial(table):
        return Reason.SERIAL
    unbounded = PartitionBounds(1, max(table.nodes), None)
    if len(question._replace(bounds=unbounded).counts(0)) > 1:
        return Reason.NO_CHOICE
    others = [n for n in table.nodes if request.low <= n <= request.high and n != question.asked]
    return Reason.BEST_ALREADY if scales(table, others) else Reason.ONE_COUNT


def is_serial(table: PredictionTable) -> bool:
    """Whether all runs had one CPU of one node."""
    return table.one_cpu and not table.is_guess


def is_supported(table: PredictionTable, nodes: int) -> bool:
    """Whether runs of this work say how likely something is on a count.

    It was run, or two others were: from one count alone nothing follows for another.
    """
    if table.is_guess or is_serial(table):
        return nodes == 1 and is_serial(table)
    ran = {one.nodes for one in table.observed}
    ran |= {*(table.change.learnt if table.change else ())}
    return nodes in ran or len(ran) > 1


def is_own_work(table: PredictionTable, user: str) -> bool:
    """Whether a user's own runs of this work, and no others, made a table.

    Lines to paste rest on nothing else: what other work or other users' runs needed may end a job.
    """
    return not table.is_guess and bool(user) and table.owner == user


def limits_for(
    request: CountRequest, table: PredictionTable, rules: PolicySettings, counts: Sequence[int]
) -> list[TimeLimits | None]:
    """Time limits that the prediction makes of a request's; see `from_prediction`."""
    return from_prediction(table, counts, rules.time_limit, asked_limit_of(request))


def asked_limit_of(request: CountRequest) -> AskedLimit:
    """Give what a request asks for of time."""
    return AskedLimit(request.asked_limit_s, request.least_s, request.with_least)


def shortens(limits: TimeLimits | None, request: CountRequest) -> TypeGuard[TimeLimits]:
    """Whether a limit from the prediction takes the place of the user's."""
    return limits is not None and request.time_use is TimeUse.SET
