"""Replays under several settings, and which of them would be best here."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import product
from statistics import fmean

import msgspec
import numpy as np
import numpy.typing as npt

from slurm_plugin.config import settings as config
from slurm_plugin.config.setting_types import Bystanders
from slurm_plugin.decision.candidates import PolicySettings
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.replay.what_if import WhatIf
from slurm_plugin.replay.workload import (
    Measures,
    ReplayComparison,
    compare,
    guard_held,
    measure,
    utilisation,
)

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
    made = (
        Setting(policy=_with(policy, price, guard, who), load=load)
        for load, price, guard, who in chosen
    )
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


def _with(
    policy: config.Policy, price: float, guard: float, bystanders: Bystanders
) -> config.Policy:
    ratio = guard if bystanders is Bystanders.GROUP else policy.guard_ratio
    return msgspec.structs.replace(policy, price=price, guard_ratio=ratio, bystanders=bystanders)
