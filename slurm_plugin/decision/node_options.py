"""Each node count of a decision and what it would mean: wait, cost, time limit, deadline.

A count costs the job's own turnaround plus the delay that it imposes on the others::

    C(n) = w(n) + T(n) + q·n·p·T(n)/N,    q = price·(Q + Q̄/2 + 2)

with the wait w, the predicted run time T, Q jobs waiting now, Q̄ over a day, and N nodes, of each of
which the job takes the part p.  A fuller queue never leads to more nodes: the price is charged on a
node time made non-decreasing in n, and nothing else depends on the queue.  Where cost or energy is
the objective C(n) is this node time n·T(n): both go by it on nodes of one type.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache
from math import inf, log
from operator import itemgetter

import msgspec
from msgspec.structs import replace

from predictor.application.count_changes import DRAWS, levels
from predictor.application.request import for_request
from predictor.job_table import of_all_limits
from predictor.prediction_table import PredictionTable
from predictor.types import Prediction
from predictor.waits.error_record import ENOUGH
from predictor.waits.estimate import WaitEstimate
from slurm_plugin.config.setting_types import Bystanders, Objective, TimeUse
from slurm_plugin.decision import allowed_counts as counting
from slurm_plugin.decision.allowed_counts import EXACT
from slurm_plugin.decision.request import CountRequest, Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.time_limits import TimeLimits, fitting, shortest
from slurm_plugin.slurm.supply import Supply

#: So long Slurm may take to start a job on idle nodes (its own looks at the queue are up to half a
#: minute apart): a margin of NIMO's, which Slurm does not know.
STARTING_S = 60.0
#: A limit is named for its chance to make a deadline where it has so much more.
_BETTER = 0.005
#: Where each single bystander counts, a job grows only where what it leaves sufficed after so many
#: moments of the past.
_LEVEL = 0.95
#: Logarithms of products that differ by less are equal: the count asked for has precedence.
_EQUAL = 1e-9
#: Step through the values of a wait, so that each meets other run times than the last.
_STEP = 7


class DeadlineVerdict(StrEnum):
    """Whether a count makes the deadline: the worst that holds."""

    MADE = "made"
    WAIT = "wait"  #: that depends on when the job starts
    LIMIT = "limit"  #: its time limit reaches beyond the deadline: Slurm ends it without a run
    RUN = "run"  #: it takes too long, even if it starts at once


#: What each verdict says of a deadline; of others it is unknown.
_MET = {DeadlineVerdict.MADE: True, DeadlineVerdict.LIMIT: False, DeadlineVerdict.RUN: False}


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One node count and what it would mean now.

    A structure of msgspec as there are dozens of them in a decision: it is made six times as fast
    as a dataclass.
    """

    nodes: int
    time_s: float  #: expected run time
    prediction: Prediction
    limit_s: float | None
    wait_s: float
    cost_s: float
    in_guard: bool  #: its turnaround is near that of the request, as sure as the site wants it
    no_later: bool  #: by the limits of others' jobs alone it starts, or ends, as the request does
    opens: bool  #: it gets its range back where it does not start as planned
    most_wait_s: float  #: with which its turnaround is near that of the request, by limits too
    in_limit: bool  #: its time limit is allowed
    leaves_room: bool  #: others find enough free nodes beside it, or it does not grow
    fits: bool  #: its nodes have the memory that the job needed so far
    worthwhile: bool  #: it has no fewer nodes than asked for, or what they save is worth the time
    late_s: float  #: by how much it misses the deadline; zero or less: made
    limits: TimeLimits | None = None  #: what the prediction makes of the time limit
    wait: WaitEstimate | None = None  #: ``wait_s`` is its median
    ratios: tuple[float, ...] = ()  #: as of its `Candidate`
    sure: float = 1.0  #: chance that its turnaround is near that of the request
    chance: float | None = None  #: of making the deadline; None: none, or unknown
    deadline: DeadlineVerdict | None = None  #: None: there is none
    #: time limit that is better before the deadline, and holds the run; None: its own is as good
    fitting_limit_s: float | None = None
    fitting_chance: float | None = None  #: with it

    @property
    def bound(self) -> bool:
        """Whether ``wait_s`` follows from the limits of other jobs: it may be far shorter."""
        return self.wait is not None and self.wait.bound

    @property
    def meets_deadline(self) -> bool | None:
        """Whether it makes the deadline; None: there is none, or that depends on the wait."""
        return _MET.get(self.deadline) if self.deadline else None


class Comparison(msgspec.Struct, frozen=True, eq=False):
    """All that the counts of one decision have in common."""

    request: Request
    supply: Supply
    rules: counting.PolicySettings
    now_s: float
    table: PredictionTable  #: of a job that would have ``asked``
    asked: int  #: count that the job would have without NIMO
    #: what of it depends neither on the queue nor on the free nodes
    question: counting.CountQuestion

    @classmethod
    def of(
        cls, situation: Situation, table: PredictionTable, supply: Supply, asked: int
    ) -> "Comparison":
        """Compare the counts of a job which would have ``asked`` nodes."""
        request = situation.request
        rules = situation.rules
        own = for_request(table, asked, request.given)
        any_limit = for_request(of_all_limits(table), asked, request.given)
        bounds = counting.PartitionBounds(supply.fewest, supply.most, supply.node_mem_bytes)
        counted = CountRequest.of(request)
        question = counting.CountQuestion(counted, own, bounds, rules, asked, any_limit)
        return cls(request, supply, rules, situation.now_s, own, asked, question)

    def with_asked(self, asked: int) -> "Comparison":
        """Give the same for another count; the table of one job stays as it is."""
        table = for_request(self.table, asked, self.request.given)
        any_limit = self.question.any_limit
        if not self.table.asked:
            any_limit = for_request(of_all_limits(self.table), asked, self.request.given)
        question = self.question._replace(table=table, asked=asked, any_limit=any_limit)
        return replace(self, table=table, asked=asked, question=question)

    @property
    def price(self) -> float:
        """Delay of others for each node and second: q p/N; without nodes, as with one."""
        supply = self.supply
        nodes = max(supply.total, 1)
        waiting = supply.waiting + supply.waiting_mean / 2 + 2
        return self.rules.policy.price * waiting * supply.part / nodes

    @property
    def hurries(self) -> bool:
        """Whether turnaround is what a count is to be the best for."""
        return self.request.objective is Objective.TURNAROUND

    def options(self, candidates: Sequence[counting.Candidate]) -> list[Option]:
        """Options for rising node counts, the request among them."""
        deadline_s = self.request.deadline_s
        better = list[float | None]()
        if deadline_s is not None:
            better = [self._fitting(one, deadline_s) for one in candidates]
            rows = zip(candidates, better, strict=True)
            candidates = [self._with_limit(one, limit_s) for one, limit_s in rows]
        estimates = self._waits(candidates)
        waits_s = [one.median_s for one in estimates]
        each = list(zip(candidates, estimates, waits_s, strict=True))
        base, asked, asked_wait_s = next(
            row for row in each if row[0].prediction.nodes == self.asked
        )
        policy = self.rules.policy
        price = self.price
        hurries = self.hurries
        # The request may start earlier than expected, above all where limits are all there is.
        share = policy.guard_wait * (policy.guard_ratio if asked.recorded >= ENOUGH else 1.0)
        most = share * asked_wait_s if share else 0.0
        most += policy.guard_ratio * base.time_s + policy.guard_s
        runs_s = list[tuple[float, float]]()
        made = list[Option]()
        ratio = policy.guard_ratio
        certain = all(one.waits_s[0] == one.waits_s[-1] < inf for one in estimates)
        left_s = share * asked_wait_s + policy.guard_s if certain else 0.0
        first_s = max(self.now_s, self.request.begin_s)
        by_limits = self.supply.free_by_limits
        asked_start_s = by_limits.earliest_start(
            self.request.asked or self.request.low, _planned_s(base), from_s=first_s
        )
        if len(each) > 1 and not certain:
            runs_s = [
                (run_s, (share and share * own_s) + ratio * run_s + policy.guard_s)
                for run_s, own_s in zip(levels(self.table), waits_of(asked), strict=True)
            ]
        worth = self._worthwhile(candidates, waits_s)
        for (one, wait, wait_s), worthwhile in zip(each, worth, strict=True):
            nodes = one.prediction.nodes
            if one is base or not certain:
                sure = 1.0 if one is base else _kept(one, wait, runs_s)
            else:  # the same, counted in a list that is sorted once
                sure = bisect_right(one.longer_s, left_s - wait_s * EXACT) / DRAWS
            ends_s = wait_s + max(one.time_s, one.prediction.time_s)
            start_s = by_limits.earliest_start(nodes, _planned_s(one), from_s=first_s)
            later_s = start_s - asked_start_s if start_s > asked_start_s else 0.0
            no_later = one is base or not later_s or later_s + one.time_s <= base.time_s
            opens = self._opens(one)
            near = (no_later or opens) and sure >= policy.confidence and ends_s <= most
            option = Option(
                nodes=nodes,
                time_s=one.time_s,
                prediction=one.prediction,
                limit_s=one.limit_s,
                wait_s=wait_s,
                cost_s=wait_s + one.time_s + price * one.work_s if hurries else one.work_s,
                in_guard=one is base or near,
                sure=sure,
                no_later=no_later,
                opens=opens,
                most_wait_s=max(most - one.time_s, wait_s, start_s - self.now_s),
                in_limit=self._allows(one, wait_s),
                leaves_room=nodes <= self.asked or self._leaves_room(one, wait_s),
                fits=one.fits,
                worthwhile=worthwhile,
                late_s=-inf,
                limits=one.limits,
                wait=wait,
                ratios=one.ratios,
            )
            made.append(option)
        if deadline_s is None:
            return made
        judged = zip(made, better, strict=True)
        return [self._judged(one, limit_s, deadline_s) for one, limit_s in judged]

    def _worthwhile(
        self, candidates: Sequence[counting.Candidate], waits_s: Sequence[float]
    ) -> list[bool]:
        """Say of each count whether its user would take it for the one asked for.

        More nodes cost a price.  Fewer must save a share of node time that is worth the share of
        turnaround that they cost, and twice that share where others wait: of all counts up to that
        asked for theirs is the least product of both.  Without waits this is the processor working
        set of Ghosal, Serazzi and Tripathi (IEEE Transactions on Software Engineering 17, 1991).
        A product needs nothing to compare with: who takes a count is advised no other one.
        """
        if not self.hurries:
            return [True] * len(candidates)
        weight = self.rules.policy.saving_weight * (2 if self.supply.waiting else 1)
        least = inf
        worthwhile = list[bool]()
        for one, wait_s in zip(reversed(candidates), reversed(waits_s), strict=True):
            product = log(wait_s + one.time_s) + weight * log(one.work_s)
            fewer = one.prediction.nodes < self.asked
            worthwhile.append(not fewer or product < least - _EQUAL)
            if one.prediction.nodes <= self.asked:
                least = min(least, product)
        return worthwhile[::-1]

    def _fitting(self, one: counting.Candidate, deadline_s: float) -> float | None:
        """Find the limit that is better before the deadline; None: its own is as good, or all."""
        if self.table.is_guess:
            return None
        high_s = one.prediction.high_s
        left_s = deadline_s - max(self.now_s, self.request.begin_s) - STARTING_S
        margin = self.rules.policy.limit_margin
        longest_s = self.supply.longest_s or inf
        least_s, most_s = self._limits(one)
        best_s = None
        best = self._chance_of(one.prediction, least_s, most_s)
        # Slurm starts no job whose limit reaches beyond its deadline: it ends it instead.
        lost = least_s > left_s or (best is None and most_s < high_s)
        if not lost and (best is None or best >= self.rules.deadline.confidence):
            return None
        own_s = self.request.asked_limit_s or self.request.limit_s or 0.0
        floor_s = shortest(self.table, one.prediction.nodes, self.rules.time_limit, own_s)
        for limits in dict.fromkeys((one.limits, None)):
            fits_s = fitting(limits, high_s, margin, left_s, floor_s)
            if fits_s is None or fits_s > longest_s:
                continue
            chance = self._chance_of(one.prediction, fits_s, fits_s)
            if lost or (chance or 0.0) > (best or 0.0) + _BETTER:
                best_s = fits_s
                best = chance
                lost = False
        return best_s

    def _with_limit(self, one: counting.Candidate, limit_s: float | None) -> counting.Candidate:
        """Give a count the limit that is better, where that may be set."""
        own_s = self.request.asked_limit_s or self.request.limit_s or inf
        advised = self.request.advised and not self.request.distrusted
        opted_in = self.request.time_use is TimeUse.SET and not self.request.distrusted
        may_set = opted_in and counting.trusted(self.table, [one.prediction.nodes])
        if limit_s is not None and (advised or (limit_s <= own_s and may_set)):
            return replace(one, limit_s=limit_s, limits=TimeLimits(limit_s))
        if advised and self.request.deadline_s and not counting.shortens(one.limits, self.request):
            return replace(one, limit_s=self.request.limit_s)
        return one

    def _limits(self, one: counting.Candidate | Option) -> tuple[float, float]:
        """Shortest limit that the job may start with, and the one that ends it."""
        limits = one.limits
        if counting.shortens(limits, self.request) or (limits and limits.limit_s == one.limit_s):
            return limits.least_s or one.limit_s or 0.0, limits.limit_s
        own_s = self.request.limit_s if self.request.advised else one.limit_s
        least_s = self.request.least_limit_s(own_s)
        return least_s, max(own_s or 0.0, self.request.asked_limit_s or 0.0) or inf

    def _judged(self, one: Option, better_s: float | None, deadline_s: float) -> Option:
        """Judge a count by its run time alone, by its time limit, and then with its wait."""
        left_s = deadline_s - max(self.now_s, self.request.begin_s)
        wait_s = self.now_s + one.wait_s * self.rules.deadline.wait_factor
        late_s = wait_s + one.prediction.high_s - deadline_s
        # Advice says what comes of the job with its limit.
        limits = self._limits(one) if self.request.advised else (0.0, inf)
        one = replace(one, late_s=late_s, chance=self._chance_of(one.prediction, *limits, one.wait))
        if one.prediction.high_s > left_s:
            return replace(one, deadline=DeadlineVerdict.RUN)
        if better_s is not None and better_s != one.limit_s:
            chance = self._chance_of(one.prediction, better_s, better_s)
            one = replace(one, fitting_limit_s=better_s, fitting_chance=chance)
        least_s, most_s = self._limits(one)
        if least_s > left_s:
            chance = None if one.chance is None else 0.0
            return replace(one, deadline=DeadlineVerdict.LIMIT, chance=chance)
        # A limit that is too short for the run is the user's affair where it is not advised on.
        most_s = most_s if self.request.advised else inf
        chance = self._chance_of(one.prediction, least_s, most_s, one.wait)
        tight = least_s > left_s - STARTING_S
        if tight:  # nothing says how long Slurm takes to start a job
            chance = None
        if chance is None:
            in_time = late_s <= 0 and self.now_s + one.wait_s + least_s <= deadline_s
            in_time = in_time and one.prediction.high_s <= most_s
        else:
            in_time = chance >= self.rules.deadline.confidence
        in_time = in_time and not tight
        verdict = DeadlineVerdict.MADE if in_time else DeadlineVerdict.WAIT
        return replace(one, deadline=verdict, chance=chance)

    def _chance_of(
        self, run: Prediction, least_s: float, most_s: float, wait: WaitEstimate | None = None
    ) -> float | None:
        """Chance of wait and run together; None: no run or no record of waits supports one.

        wait: None: the one with these limits.
        """
        supply = self.supply
        deadline_s = self.request.deadline_s
        now_s = self.now_s
        if supply.outlook is None or deadline_s is None:
            return None
        if not counting.is_supported(self.table, run.nodes):
            return None
        planned_s = least_s or run.high_s
        begin_s = self.request.begin_s
        wait = wait or supply.wait(run.nodes, planned_s, now_s=now_s, begin_s=begin_s)
        return wait.chance(run, deadline_s - now_s, limit_s=least_s, most_s=most_s)

    def _waits(self, candidates: Sequence[counting.Candidate]) -> list[WaitEstimate]:
        """Estimate the waits; more nodes for at least as long never start earlier."""
        waits: list[WaitEstimate] = []
        before = inf
        for one in candidates:
            nodes = one.prediction.nodes
            duration = _planned_s(one)
            since = self.request.begin_s
            if duration >= before and self.supply.outlook is None:
                since = self.now_s + waits[-1].median_s
            waits.append(self.supply.wait(nodes, duration, now_s=self.now_s, begin_s=since))
            before = duration
        return waits

    def _opens(self, one: counting.Candidate) -> bool:
        """Whether a job gets its range back where it does not start as planned on a count."""
        return self.request.reopens and one.limit_s == self.request.limit_s

    def _leaves_room(self, one: counting.Candidate, wait_s: float) -> bool:
        """Whether others find enough beside a count: those here, and those likely to come.

        Jobs that arrive while a grown job runs find only what it left.
        """
        supply = self.supply
        policy = self.rules.policy
        nodes = one.prediction.nodes
        start_s = self.now_s + wait_s
        profiles = [supply.free_in_all or supply.free]
        if not self._opens(one):
            profiles.append(supply.free_in_all or supply.free_by_limits)
        least = min(free.least(start_s, start_s + _planned_s(one)) for free in profiles)
        if nodes > policy.growth_share * least:
            return False
        if policy.bystanders is Bystanders.GROUP:
            return True
        outlook = supply.outlook
        ends_s = wait_s + one.prediction.high_s
        arriving = outlook.arriving(ends_s, _LEVEL) if outlook else inf
        return nodes + arriving * supply.total <= least

    def _allows(self, one: counting.Candidate, wait_s: float) -> bool:
        limit_s = one.limit_s
        if wait_s == inf:
            return False
        if limit_s is None or one.prediction.nodes >= self.asked:
            return True
        if not (self.request.limit_raisable or counting.shortens(one.limits, self.request)):
            return one.prediction.high_s * self.rules.policy.limit_margin <= limit_s
        return limit_s <= (self.supply.longest_s or inf)


def end_differences(table: PredictionTable, one: Option, asked: Option) -> list[float]:
    """Give by how many seconds a job ends later on a count than on the one asked for.

    They rise, and are equally likely.
    """
    drawn = zip(levels(table), one.ratios, waits_of(one.wait), waits_of(asked.wait), strict=True)
    return sorted(
        (wait_s + ratio * level_s) * EXACT - asked_s - level_s
        for level_s, ratio, wait_s, asked_s in drawn
    )


def _kept(
    one: counting.Candidate, wait: WaitEstimate, runs_s: Sequence[tuple[float, float]]
) -> float:
    """Chance that a count's turnaround stays near that of the request.

    runs_s: run time of the request and the turnaround that is near, as equally likely values.
    """
    drawn = zip(runs_s, one.ratios, waits_of(wait), strict=True)
    kept = [(wait_s + ratio * run_s) * EXACT <= most_s for (run_s, most_s), ratio, wait_s in drawn]
    return sum(kept) / len(kept)


def waits_of(estimate: WaitEstimate | None) -> tuple[float, ...]:
    """Give waits in an order of their own: a long one meets long and short runs."""
    waits_s = estimate.waits_s if estimate else (0.0,)
    return _in_steps(len(waits_s))(waits_s)


@cache
def _in_steps(count: int) -> Callable[[tuple[float, ...]], tuple[float, ...]]:
    return itemgetter(*((i * _STEP) % count for i in range(DRAWS)))


def _planned_s(one: counting.Candidate) -> float:
    """Time for which a scheduler plans with a count."""
    return one.limit_s or one.prediction.high_s
