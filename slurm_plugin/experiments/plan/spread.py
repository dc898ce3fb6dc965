"""When a plan ends, as a distribution: run times, copies and waits are drawn many times.

All runs of one application share the error of its curve, what is left of a step's uncertainty is
its own.  A wait for other people's jobs is drawn too: they rarely take all of their limits, and
others come before.  The order on nodes that the plan shares out itself stays as planned.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slurm_plugin.experiments.plan.schedule import PlanSchedule, Step

_DRAWS = 2_000
_SEED = 20_061
#: Standard deviation of the log of a wait: 1.45 times the wait is seldom exceeded (the policy's
#: factor for deadlines), once in twenty cases.
_WAIT = 0.226
_GRAIN_S = 1e-6

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EndSpread:
    """End of a plan, drawn; seconds since the epoch."""

    drawn_s: Floats

    def quantile(self, share: float) -> float:
        """Moment at which the plan has ended in ``share`` of the cases."""
        return float(np.quantile(self.drawn_s, share))

    def chance(self, deadline_s: float) -> float:
        """Share of the cases in which it ends in time."""
        return float((self.drawn_s <= deadline_s).mean())


def ends(schedule: PlanSchedule, now_s: float) -> EndSpread:
    """Draw the end of a schedule; the same draws each time."""
    draws = np.random.default_rng(_SEED)
    common: dict[str, Floats] = {}
    ended: dict[str, Floats] = {}
    last = np.full(_DRAWS, now_s)
    pools: dict[str, list[Step]] = defaultdict(list)
    for step in schedule.steps:
        pools[step.pool].append(step)
    for step in sorted(schedule.steps, key=lambda step: (step.start_s, step.end_s)):
        ready = np.full(_DRAWS, now_s)
        for name in step.needs:
            ready = np.maximum(ready, ended[name])
        own = _before(step, pools[step.pool])
        for one in own:
            ready = np.maximum(ready, ended[one.name])
        wait_s = _foreign_wait(step, own)
        wait = wait_s * np.exp(_WAIT * draws.standard_normal(_DRAWS)) if wait_s else 0.0
        ended[step.name] = ready + wait + _taken(step, draws, common)
        last = np.maximum(last, ended[step.name])
    return EndSpread(last)


def _taken(step: Step, draws: np.random.Generator, common: dict[str, Floats]) -> Floats:
    """Durations of a step."""
    estimate = step.estimate
    own = draws.standard_normal(_DRAWS)
    widest = max(estimate.up, estimate.down)
    if not widest:
        return np.full(_DRAWS, estimate.time_s)
    share = min(estimate.common / widest, 1.0)
    if share:
        if estimate.group not in common:
            common[estimate.group] = draws.standard_normal(_DRAWS)
        own = share * common[estimate.group] + np.sqrt(1 - share**2) * own
    return estimate.time_s * np.exp(own * np.where(own > 0, estimate.up, estimate.down))


def _before(step: Step, same_pool: Iterable[Step]) -> list[Step]:
    """List the steps of the plan itself whose nodes this one waited for."""
    if step.wait_s <= _GRAIN_S:
        return []
    return [
        one
        for one in same_pool
        if step.ready_s < one.end_s <= step.start_s + _GRAIN_S and one.start_s < step.start_s
    ]


def _foreign_wait(step: Step, own: Iterable[Step]) -> float:
    """Part of a wait that other users' jobs cause, beyond that for the plan's ``own`` steps."""
    if step.wait_s <= _GRAIN_S:
        return 0.0
    return max(step.start_s - max([step.ready_s, *(one.end_s for one in own)]), 0.0)
