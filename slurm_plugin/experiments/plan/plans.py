"""Ranked plans: the best one for the target, others beside it, and why they lose."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from sacct_ingest.text.durations import duration_text
from slurm_plugin.experiments.plan import plan_search
from slurm_plugin.experiments.plan.options import Choices, choices, restricted
from slurm_plugin.experiments.plan.schedule import PlanningProblem, PlanSchedule, Step

#: Times that the target is moved until the plan keeps the deadline with the chance asked for.
_TRIES = 6
#: Plans that differ by less of their time end together: then node-hours count.
_TOGETHER = 0.01
#: Node-hours that differ by less of theirs are the same: two digits are shown.
_SAME = 0.005
#: Effort for each plan but the first: many of them are shown beside each other.
_LESS = plan_search.EFFORT // 5
_UNSURE = "not surely in time, at the least node-hours"
_DRAWS = 2_000
_SEED = 20_061
#: Standard deviation of the log of a wait: 1.45 times the wait is seldom exceeded (the policy's
#: factor for deadlines), once in twenty cases.
_WAIT = 0.226
_GRAIN_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A schedule with its costs and its risk; times are seconds since the epoch.

    It has ended by ``low_s`` in 5 % of the cases, by ``high_s`` in ``confidence`` of them.
    """

    label: str  #: what it is, in words
    schedule: PlanSchedule
    end_s: float  #: median
    low_s: float
    high_s: float
    confidence: float
    chance: float | None  #: that the deadline is met; None: there is none
    proven: bool  #: no plan does better
    path: tuple[Step, ...]  #: critical path
    why: str = ""  #: why it is not the first one

    @property
    def doubts(self) -> dict[str, str]:
        """Steps whose time is doubtful, and why."""
        return {s.name: s.estimate.doubt for s in self.schedule.steps if s.estimate.doubt}

    @property
    def node_hours(self) -> float:
        """Node-hours of all tasks."""
        return self.schedule.node_s / 3600


def plans(
    problem: PlanningProblem, *, deadline_s: float | None = None, confidence: float = 0.95
) -> list[Plan]:
    """Make plans; the first is the one to take.

    Without a deadline it is the one that ends first, of those that end together the one of the
    least node-hours; with one it is the one of the least node-hours
    among those that keep it in ``confidence`` of the cases, or else the one that is most likely to.

    Raises LookupError: a task has no option, or there is no plan.
    """
    all_of = choices(problem)
    made: dict[tuple[object, ...], Plan] = {}
    for label, result in _candidates(problem, all_of, deadline_s, confidence):
        key = tuple((s.name, s.pool, s.nodes, s.remote) for s in result.schedule.steps)
        plan = judged(
            problem,
            label,
            result.schedule,
            deadline_s=deadline_s,
            confidence=confidence,
            proven=result.proven,
        )
        made.setdefault(tuple(sorted(key)), plan)
    if not made:
        flow = problem.workflow
        slow = [
            f"{link.source} to {link.target}"
            for link in flow.links.values()
            if link.bandwidth_bytes_per_s is None
            and problem.transfers.copy(1.0, link.source, link.target) is None
        ]
        known = f" (give the bandwidth of {', '.join(slow)}: none was measured)" if slow else ""
        raise LookupError(
            f"no plan is possible: look at links{known}, at access and at room on storages"
        )
    took_s = min(one.end_s for one in made.values()) - problem.now_s
    together_s = problem.now_s + (1 + _TOGETHER) * took_s
    first, *others = sorted(made.values(), key=lambda one: rank(one, deadline_s, together_s))
    return [first, *(replace(one, why=drawback(one, first, deadline_s)) for one in others)]


def judged(
    problem: PlanningProblem,
    label: str,
    schedule: PlanSchedule,
    *,
    deadline_s: float | None,
    confidence: float,
    proven: bool = False,
) -> Plan:
    """Make a plan of a schedule: add its costs and its risk."""
    drawn = ends(schedule, problem.now_s)
    end_s, low_s, high_s = np.quantile(drawn, (0.5, 0.05, confidence)).tolist()
    return Plan(
        label=label,
        schedule=schedule,
        end_s=end_s,
        low_s=low_s,
        high_s=high_s,
        confidence=confidence,
        chance=None if deadline_s is None else float((drawn <= deadline_s).mean()),
        proven=proven,
        path=tuple(plan_search.critical(schedule)),
    )


def _candidates(
    problem: PlanningProblem, all_of: Choices, deadline_s: float | None, confidence: float
) -> Iterator[tuple[str, plan_search.SearchResult]]:
    now_s = problem.now_s
    if deadline_s is not None:
        yield from _in_time(problem, all_of, deadline_s, confidence)
    for label, target_s in (("fastest", now_s), ("fewest node-hours", inf)):
        if (best := plan_search.search(problem, all_of, target_s)) is not None:
            yield label, best
    target_s = now_s if deadline_s is None else deadline_s
    for label, some in _alternatives(problem, all_of):
        schedule = plan_search.heuristic(problem, some, target_s, effort=_LESS) if some else None
        if schedule is not None:
            yield label, plan_search.SearchResult(schedule)


def _alternatives(problem: PlanningProblem, all_of: Choices) -> Iterator[tuple[str, Choices]]:
    """Plans that keep to one place or to one way with data: P1 to P3 of the NIMO papers."""
    flow = problem.workflow
    for name in flow.places:
        for stage, way in ((True, "copying what is elsewhere"), (False, "reading it in place")):
            yield f"all at {name}, {way}", restricted(all_of, place=name, stage=stage)
        yield f"all at {name}", restricted(all_of, place=name)


def _in_time(
    problem: PlanningProblem, all_of: Choices, deadline_s: float, confidence: float
) -> Iterator[tuple[str, plan_search.SearchResult]]:
    """Plans for targets before the deadline, nearer and nearer to the latest that keeps it."""
    late_s = deadline_s
    early_s = problem.now_s
    target_s = deadline_s
    effort = plan_search.EFFORT
    for _ in range(_TRIES):
        result = plan_search.search(problem, all_of, target_s, effort=effort)
        effort = _LESS
        if result is None:
            return
        high_s = float(np.quantile(ends(result.schedule, problem.now_s), confidence))
        if high_s <= deadline_s:
            yield "in time at the least node-hours", result
            early_s = target_s
            if target_s == deadline_s:
                return
        else:
            best = "as early as possible" if result.schedule.end_s > target_s else _UNSURE
            yield best, result
            late_s = target_s
        # A plan this much shorter would be in time if its spread were the same; then halve.
        share = (deadline_s - problem.now_s) / (high_s - problem.now_s)
        guess_s = problem.now_s + share * (min(result.schedule.end_s, target_s) - problem.now_s)
        target_s = guess_s if early_s < guess_s < late_s else (early_s + late_s) / 2


def rank(plan: Plan, deadline_s: float | None, together_s: float) -> tuple[float, ...]:
    """Order of plans: the lowest is the one to take.

    deadline_s: of those that keep it the one of the least node-hours is first; None: what ends
        first.
    together_s: plans that end until then do so together, without a deadline.
    """
    if deadline_s is None or plan.chance is None:
        return (max(plan.end_s, together_s), plan.node_hours, plan.end_s)
    if plan.high_s <= deadline_s:
        return (0.0, plan.node_hours, plan.end_s)
    return (1.0, plan.high_s, plan.node_hours)


def drawback(plan: Plan, first: Plan, deadline_s: float | None) -> str:
    """Say in words what speaks against a plan, compared with the one to take.

    plan, first: the plan, and the one to take.
    deadline_s: where both keep it, only node-hours count; None: there is none.
    """
    if deadline_s is not None and plan.high_s > deadline_s >= first.high_s:
        return f"in time in {plan.chance or 0:.0%} of the cases only{_because(plan, first)}"
    slower_s = plan.end_s - first.end_s
    dearer = plan.node_hours - first.node_hours
    if abs(dearer) < _SAME * first.node_hours:
        dearer = 0.0
    parts = []
    if slower_s >= 1 and (deadline_s is None or first.high_s > deadline_s):
        parts.append(f"ends {duration_text(slower_s)} later{_because(plan, first)}")
    if dearer > 0:
        parts.append(f"takes {dearer:.2g} node-hours more")
    if parts:
        return "; ".join(parts)
    later_s = max(slower_s, plan.high_s - first.high_s)
    later = f"may end {duration_text(later_s)} later" if later_s > 0 else "no later"
    hours = f"{-dearer:.2g} node-hours less" if dearer < 0 else "the same node-hours"
    return f"{later}, for {hours}"


def _because(plan: Plan, first: Plan) -> str:
    """Which part of its critical path is the longer one."""
    own, better = _made_of(plan), _made_of(first)
    part = max(own, key=lambda name: own[name] - better[name])
    more_s = own[part] - better[part]
    return f": {part} {duration_text(more_s)} more on its critical path" if more_s >= 1 else ""


def _made_of(plan: Plan) -> dict[str, float]:
    """Seconds of a critical path by what they are spent on."""
    made = {"copies take": 0.0, "waits take": 0.0, "remote reading and runs take": 0.0}
    made["runs take"] = 0.0
    before_s = None
    for step in plan.path:
        kind = "runs take" if not step.remote else "remote reading and runs take"
        made[kind if step.nodes else "copies take"] += step.end_s - step.start_s
        if before_s is None or step.start_s > before_s:
            made["waits take"] += step.wait_s if before_s is None else step.start_s - before_s
        before_s = step.end_s
    return made


Floats = NDArray[np.float64]


def ends(schedule: PlanSchedule, now_s: float) -> Floats:
    """Draw the end of a schedule, seconds since the epoch; the same draws each time.

    All runs of one application share the error of its curve, what is left of a step's uncertainty
    is its own.  A wait for other people's jobs is drawn too: they rarely take all of their limits,
    and others come before.  The order on nodes that the plan shares out itself stays as planned.
    """
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
        # Part of its wait that other users' jobs cause.
        foreign_s = step.start_s - max([step.ready_s, *(one.end_s for one in own)])
        wait_s = max(foreign_s, 0.0) if step.wait_s > _GRAIN_S else 0.0
        wait = wait_s * np.exp(_WAIT * draws.standard_normal(_DRAWS)) if wait_s else 0.0
        ended[step.name] = ready + wait + _taken(step, draws, common)
        last = np.maximum(last, ended[step.name])
    return last


def _taken(step: Step, draws: np.random.Generator, common: dict[str, Floats]) -> Floats:
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
