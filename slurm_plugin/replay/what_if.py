"""One workload, as its users asked and as the policy would have had it; and the best settings.

The policy that decides is :func:`slurm_plugin.decision.policy.decide`, the one that runs in nimod;
it sees the replayed cluster in the form that nimod has of a real one.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from math import exp, inf
from statistics import fmean
from typing import Self

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from predictor.table import at
from predictor.waits.easy import Engine, JobShape, Order, ReplaySchedule
from predictor.waits.error_record import ENOUGH
from predictor.waits.estimate import WaitEstimate
from predictor.waits.history import arrival_demand
from predictor.waits.workload import ArrivalDemand
from slurm_plugin.config import settings as config
from slurm_plugin.config.setting_types import Bystanders
from slurm_plugin.decision.allowed_counts import PolicySettings
from slurm_plugin.decision.policy import Action, decide
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.evaluation.effects import Gain
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.replay.measures import (
    Measures,
    ReplayComparison,
    compare,
    guard_held,
    measure,
    utilisation,
)
from slurm_plugin.replay.workload import Moldable, Workload, proven, recent_mean
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.slurm.node_pool import NodeAvailability, NodeShare, profile

DAY_S = 86400.0
_HOUR_S = 3600.0
#: Waiting jobs for which a start is planned, as Slurm's backfill does (``bf_max_job_test``).
PLANNED = 50
_NO_DEMAND = ArrivalDemand()
#: A job that outlives its expected run time is expected to run for half as long again.
_OVERDUE = 1.5
#: Least wait of a job that does not start at once, and least run time, seconds.
_LEAST_S = 1.0
#: No wait; the replay's waits are as good as those of a site with a record.
_RECORDED = WaitEstimate((0.0,), ENOUGH)
#: Jobs of the first look; there is another one each time there are twice as many.
_FIRST = 100
#: Prices and guards that a search for a suggestion tries.
PRICES = (2.0, 4.0, 8.0, 16.0, 32.0)
GUARDS = (1.1, 1.25, 1.5)
#: The mean response has to fall by this much for the policy to be worth switching on ...
WORTH = 0.02
#: Jobs that take no part are hurt where their response or slowdown grows by this much more than it
#: does by chance, in so many replays.
HURT, _CHANCES = 0.01, 3
#: Settings that differ by less than this are alike: the present one stays.
ALIKE = 0.01


@dataclass(frozen=True, slots=True)
class ExpectedWaits:
    """Waits in the replayed cluster by expected run times, in the place of nimod's outlook.

    Whether a job starts at once is exact.  Otherwise it starts when enough nodes are free for its
    limit, with each job ending when it is expected to: one future, where nimod draws several.
    """

    engine: Engine
    now_s: float
    profile: NodeAvailability  #: by expected run times
    demand: ArrivalDemand  #: of jobs to come, as shares of the cluster
    _free_now: dict[float, int] = field(default_factory=dict)

    def for_share(self, share: NodeShare, fitting: int, user: str = "") -> Self:
        """Outlook as it is: jobs get whole nodes, and all nodes are alike."""
        del share, fitting, user
        return self

    def wait(self, nodes: int, limit_s: float) -> WaitEstimate:
        """Estimate the wait of a job; infinite where it is larger than the cluster."""
        if limit_s not in self._free_now:
            self._free_now[limit_s] = self.engine.most_at_once(self.now_s, [limit_s])[0]
        if nodes <= self._free_now[limit_s]:
            return _RECORDED
        start_s = self.profile.earliest_start(nodes, limit_s, from_s=self.now_s)
        return replace(_RECORDED, waits_s=(max(start_s - self.now_s, _LEAST_S),))

    def arriving(self, span_s: float, level: float) -> float:
        """Give the share of the cluster that sufficed for all who came within a span."""
        return self.demand.within(span_s, level)


@dataclass(slots=True)
class ClusterViewer:
    """Reads an engine's state as nimod reads a cluster's, with the mean queue of a day.

    ``expected_s`` are the run times to expect of all jobs, in seconds and in the order of their
    submission.
    """

    engine: Engine
    expected_s: Sequence[float]
    queue_mean: float = 0.0
    _observed_s: float = -inf

    def look(self, now_s: float, demand: ArrivalDemand = _NO_DEMAND) -> Partition:
        """Make the view at a moment; moments must not go back.

        now_s: the moment.
        demand: of jobs to come, as shares of the cluster.
        """
        depth = len(self.engine.waiting_jobs)
        share = 1 - exp(-(now_s - self._observed_s) / DAY_S)
        self.queue_mean += share * (depth - self.queue_mean)
        self._observed_s = now_s
        return Partition(
            name="replay",
            nodes=self.engine.nodes,
            profile=planned(
                self.engine.free, self.engine.releases(), self.engine.waiting[:PLANNED], now_s
            ),
            queue=depth,
            queue_mean=self.queue_mean,
            outlook=ExpectedWaits(self.engine, now_s, self._expected(now_s), demand),
        )

    def _expected(self, now_s: float) -> NodeAvailability:
        """Nodes free over time if each job takes as long as it is expected to."""
        engine = self.engine
        expected_s = self.expected_s
        there = zip(engine.running_jobs, engine.releases(), strict=True)
        releases = [
            (min(start_s + max(expected_s[job], _OVERDUE * (now_s - start_s)), limit_s), nodes)
            for (job, start_s), (limit_s, nodes) in there
        ]
        queued = zip(engine.waiting_jobs[:PLANNED], engine.waiting[:PLANNED], strict=True)
        waiting = [
            shape._replace(limit_s=max(min(expected_s[job], shape.limit_s), _LEAST_S))
            for job, shape in queued
        ]
        return planned(engine.free, sorted(releases), waiting, now_s)


def planned(
    free: int, releases: Sequence[tuple[float, int]], waiting: Iterable[JobShape], now_s: float
) -> NodeAvailability:
    """Nodes free over time, with a place for each job that waits, in their order.

    free: nodes free now.
    releases: when nodes become free, and how many; in order of time.
    waiting: jobs to plan for.
    now_s: the present, where the profile begins.
    """
    changes = [(now_s, free), *((max(end_s, now_s), nodes) for end_s, nodes in releases)]
    return profile(changes).planned((shape.nodes, shape.limit_s) for shape in waiting)


@dataclass(frozen=True, slots=True)
class WhatIfOutcome:
    """A schedule and a count of the policy's reasons; ``moved`` are the jobs with other nodes."""

    schedule: ReplaySchedule
    reasons: Counter[Reason]
    moved: npt.NDArray[np.bool_]


class WhatIf:
    """Replays one workload.

    workload: what was submitted.
    moldable: for each job whether and how its node count could have been chosen.
    order: how the scheduler backfills.
    """

    def __init__(
        self,
        workload: Workload,
        moldable: Sequence[Moldable | None],
        order: Order = Order.SUBMITTED,
    ) -> None:
        self.workload = workload
        self.moldable_jobs = moldable
        self._order = order
        self._submits: list[float] = workload.submit_s.tolist()
        own = workload.nodes, workload.limit_s, workload.run_s
        self._own = [JobShape(*row) for row in zip(*(one.tolist() for one in own), strict=True)]

    @property
    def moldable(self) -> npt.NDArray[np.bool_]:
        """Which jobs could have run on other node counts, shape ``(jobs,)``."""
        return np.array([one is not None for one in self.moldable_jobs], dtype=bool)

    def at_load(self, load: float) -> "WhatIf":
        """Replay of the same jobs closer together or farther apart."""
        return WhatIf(self.workload.at_load(load), self.moldable_jobs, self._order)

    def adopted(self, share: float, *, seed: int = 1) -> "WhatIf":
        """Replay where only a share of the moldable jobs takes part, as when users are advised."""
        takes_part = np.random.default_rng(seed).random(len(self.moldable_jobs)) < share
        drawn = zip(self.moldable_jobs, takes_part, strict=True)
        return WhatIf(self.workload, [one if yes else None for one, yes in drawn], self._order)

    def proven(self) -> "WhatIf":
        """Replay where only jobs take part whose users completed them on other counts."""
        return WhatIf(self.workload, proven(self.workload, self.moldable_jobs), self._order)

    def rigid(self) -> ReplaySchedule:
        """Schedule every job on the nodes that it had."""
        return self._engine().run(self._submits, lambda job, _: self._own[job])

    def disturbed(self, *, seed: int) -> ReplaySchedule:
        """Schedule the requests, but every tenth job runs two per cent longer.

        A schedule answers a small change with many: what differs here differs by chance.
        """
        longer = np.where(np.random.default_rng(seed).random(len(self._own)) < 0.1, 1.02, 1.0)
        shapes = [
            own._replace(run_s=own.run_s * factor)
            for own, factor in zip(self._own, longer.tolist(), strict=True)
        ]
        return self._engine().run(self._submits, lambda job, _: shapes[job])

    def under(self, rules: PolicySettings) -> WhatIfOutcome:
        """Schedule with the policy deciding on the moldable jobs."""
        engine = self._engine()
        # Run times to expect: by the job's table, or else by its user's last two jobs.
        last_two = recent_mean(self.workload)
        jobs = zip(self.moldable_jobs, last_two, self._own, strict=True)
        expected_s = [at(job.table, own.nodes).time_s if job else run_s for job, run_s, own in jobs]
        viewer = ClusterViewer(engine, expected_s)
        past = ObservedArrivals(self.workload)
        reasons: Counter[Reason] = Counter()

        def shape_of(job: int, now_s: float) -> JobShape:
            moldable = self.moldable_jobs[job]
            if moldable is None:
                return self._own[job]
            own = self._own[job]
            partition = viewer.look(now_s, past.demand(now_s))
            request = Request(
                low=moldable.low,
                high=moldable.high,
                counts=moldable.counts,
                asked=own.nodes,
                limit_s=own.limit_s,
            )
            decision = decide(Situation(request, moldable.table, partition.supply, rules, now_s))
            reasons[decision.reason] += 1
            if decision.action is not Action.SET or decision.chosen is None:
                return own
            nodes = decision.chosen.nodes
            limit_s = decision.chosen.limit_s or own.limit_s
            expected_s[job] = decision.chosen.prediction.time_s
            return JobShape(nodes, limit_s, own.run_s * moldable.truth(nodes))

        schedule = engine.run(self._submits, shape_of)
        return WhatIfOutcome(schedule, reasons, schedule.nodes != self.workload.nodes)

    def _engine(self) -> Engine:
        return Engine(self.workload.cluster_nodes, self._order)


class ObservedArrivals:
    """The demand of jobs to come, looked at anew when twice as many have come.

    workload: all jobs.  Only those that came before a moment count there.
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._submits: list[float] = workload.submit_s.tolist()
        self._next = _FIRST
        self._demand = ArrivalDemand()

    def demand(self, now_s: float) -> ArrivalDemand:
        """Give the demand at a moment, as shares of the cluster; moments must not go back."""
        if self._next <= len(self._submits) and self._submits[self._next - 1] < now_s:
            work = self._workload
            count = bisect_right(self._submits, now_s)
            made = arrival_demand(
                self._submits[:count], work.nodes[:count].tolist(), work.run_s[:count].tolist()
            )
            self._demand = made.scaled(1 / work.cluster_nodes)
            self._next = 2 * count
        return self._demand


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One point of the search: load None is the load that there was."""

    policy: config.Policy
    load: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Results of a setting: for all jobs, the moldable ones and the rigid ones."""

    setting: Setting
    load: float
    jobs: int
    moldable_jobs: int
    moved: float  #: share of the moldable jobs that got other nodes
    utilisation: tuple[float, float]  #: of the requests, and under the policy
    requested: Measures
    measures: Measures
    everybody: ReplayComparison
    moldable: ReplayComparison
    rigid: ReplayComparison
    #: the rigid jobs again, as asked, with small disturbances: what chance alone changes
    by_chance: tuple[ReplayComparison, ...]
    guard_held: float  #: share of the moved jobs that ended as the guard promises, by what came
    reasons: dict[Reason, int]

    @property
    def much_worse_by_chance(self) -> float:
        """Most rigid jobs that take more than twice as long by chance alone, as a share."""
        return max((one.much_worse for one in self.by_chance), default=0.0)

    @property
    def hurts_bystanders(self) -> bool:
        """Whether the jobs that take no part fare worse on average than chance alone makes them."""
        before, after = self.rigid.slowdown
        response = max((one.response_ratio for one in self.by_chance), default=1.0)
        slowdown = max((one.slowdown[1] for one in self.by_chance), default=before)
        return self.rigid.response_ratio > max(response, 1.0) * (1 + HURT) or after > max(
            slowdown, before
        ) * (1 + HURT)


def settings(
    policy: config.Policy,
    *,
    prices: Iterable[float] = (),
    guards: Iterable[float] = (),
    loads: Iterable[float] = (),
    bystanders: Iterable[Bystanders] = (),
) -> list[Setting]:
    """All combinations; ``policy`` and the real load stand in for a list that is empty.

    Where each bystander counts, no job ends later than it asked for: one guard stands for all.
    """
    chosen = product(
        tuple(loads) or (None,),
        tuple(prices) or (policy.price,),
        tuple(guards) or (policy.guard_ratio,),
        tuple(bystanders) or (policy.bystanders,),
    )
    made = []
    for load, price, guard, who in chosen:
        ratio = guard if who is Bystanders.GROUP else policy.guard_ratio
        own = replace(policy, price=price, guard_ratio=ratio, bystanders=who)
        made.append(Setting(policy=own, load=load))
    return list(dict.fromkeys(made))


def evaluate(
    what_if: WhatIf,
    candidates: Sequence[Setting],
    deadline: config.Deadline,
    *,
    executor: Executor | None = None,
) -> Iterator[Result]:
    """Replay each setting, in the order given; ``executor`` spreads them."""
    one = partial(_evaluate, what_if, deadline)
    yield from executor.map(one, candidates) if executor else map(one, candidates)


def gain_of_proven(what_if: WhatIf, rules: PolicySettings) -> Gain:
    """Say what ``opt_in.proven: on`` alone would give the jobs whose count it changes."""
    opened = what_if.proven()
    if not opened.moldable.any():
        return Gain()
    outcome = opened.under(rules)
    asked = opened.rigid()
    own, other = (measure(opened.workload, s, outcome.moved) for s in (asked, outcome.schedule))
    return Gain(
        jobs=own.jobs,
        node_hours=(own.node_s - other.node_s) / _HOUR_S,
        wait_jobs=own.jobs,
        wait_hours=own.jobs * (own.wait_s - other.wait_s) / _HOUR_S,
    )


def suggest(results: Sequence[Result], present: config.Policy) -> Result | None:
    """Choose the setting with the shortest mean response; None where switching on would not help.

    A setting that hurts jobs that take no part, at any load, is chosen only where all others do so.
    The mean over all loads counts; the result returned is that at the highest one.  Of settings
    alike within one per cent the present one wins, or else the one with the fewest jobs worse off.
    """
    settings: dict[config.Policy, list[Result]] = defaultdict(list)
    for one in results:
        settings[one.setting.policy].append(one)

    def response(policy: config.Policy) -> float:
        return fmean(r.everybody.response_ratio for r in settings[policy])

    def worse_off(policy: config.Policy) -> float:
        return fmean(r.everybody.worse_off for r in settings[policy])

    helpful = [policy for policy in settings if response(policy) <= 1 - WORTH]
    harmless = [p for p in helpful if not any(r.hurts_bystanders for r in settings[p])]
    candidates = harmless or helpful
    if not candidates:
        return None
    best = min(map(response, candidates))
    alike = [policy for policy in candidates if response(policy) <= best * (1 + ALIKE)]
    own = [policy for policy in alike if policy == present]
    chosen = min(own or alike, key=lambda policy: (worse_off(policy), response(policy)))
    return max(settings[chosen], key=lambda result: result.load)


def _evaluate(what_if: WhatIf, deadline: config.Deadline, setting: Setting) -> Result:
    scaled = what_if if setting.load is None else what_if.at_load(setting.load)
    workload, moldable = scaled.workload, scaled.moldable
    requested = scaled.rigid()
    outcome = scaled.under(PolicySettings(setting.policy, deadline))

    def against(of: npt.NDArray[np.bool_] | None) -> ReplayComparison:
        return compare(workload, requested, outcome.schedule, of)

    return Result(
        setting=setting,
        load=workload.load,
        jobs=len(workload),
        moldable_jobs=int(moldable.sum()),
        moved=float(outcome.moved[moldable].mean()) if moldable.any() else 0.0,
        utilisation=(utilisation(workload, requested), utilisation(workload, outcome.schedule)),
        requested=measure(workload, requested),
        measures=measure(workload, outcome.schedule),
        everybody=against(None),
        moldable=against(moldable),
        rigid=against(~moldable),
        by_chance=tuple(
            compare(workload, requested, scaled.disturbed(seed=seed), ~moldable)
            for seed in range(_CHANCES)
        ),
        guard_held=guard_held(
            workload,
            requested,
            outcome.schedule,
            outcome.moved,
            ratio=setting.policy.guard_ratio,
            allowance_s=setting.policy.guard_s,
        ),
        reasons=dict(outcome.reasons.most_common()),
    )
