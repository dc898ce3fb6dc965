"""The search against plain enumeration, and what it does with larger workflows."""

import random
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from math import inf
from operator import attrgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_plugin.experiments.plan.options import choices
from slurm_plugin.experiments.plan.plan_search import (
    exact,
    fixed,
    heft,
    heuristic,
    score,
    search,
)
from slurm_plugin.experiments.plan.schedule import PlanningProblem, PlanSchedule, build
from tests.slurm_plugin.experiments.plan.made import NOW, problem, random_text


def orders(made: PlanningProblem) -> Iterator[Sequence[str]]:
    """All orders in which each task comes after those that it needs."""
    before = made.workflow.before
    for order in permutations(made.workflow.tasks):
        placed = {name: at for at, name in enumerate(order)}
        if all(placed[one] < placed[name] for name in order for one in before[name]):
            yield order


def everything(made: PlanningProblem) -> Iterator[PlanSchedule]:
    """All schedules: every order with every combination of options."""
    own = {name: [c.option for c in many] for name, many in choices(made).items()}
    for order in orders(made):
        for combination in product(*own.values()):
            schedule = build(made, order, dict(zip(own, combination, strict=True)))
            if schedule is not None:
                yield schedule


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_as_good_as_the_best_of_all_plans(seed, tasks):
    draw = random.Random(seed)
    made = problem(random_text(draw, tasks=tasks, places=2, counts=2), nodes=draw.randint(2, 4))
    schedules = list(everything(made))
    ends = sorted(one.end_s for one in schedules)
    for target_s in (NOW, ends[len(ends) // 3], inf):
        result = search(made, choices(made), target_s)
        if not schedules:
            assert result is None
            continue
        assert result.proven
        best = min(score(one, target_s) for one in schedules)
        assert score(result.schedule, target_s) == pytest.approx(best, abs=1e-5, rel=0)
        # The tree alone, too, without a good plan to begin with.
        alone = exact(made, choices(made), target_s)
        assert score(alone.schedule, target_s) == pytest.approx(best, abs=1e-5, rel=0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_heuristic_is_near_the_best(seed):
    made = problem(random_text(random.Random(seed), tasks=4, places=2, counts=2), nodes=4)
    all_of = choices(made)
    fast, best = heuristic(made, all_of, NOW), search(made, all_of, NOW)
    assert fast.end_s - NOW <= 1.35 * (best.schedule.end_s - NOW)
    cheap, least = heuristic(made, all_of, inf), search(made, all_of, inf)
    assert cheap.node_s == pytest.approx(least.schedule.node_s)


@pytest.fixture(scope="module")
def large() -> PlanningProblem:
    return problem(random_text(random.Random(5), tasks=40, places=3, counts=3), nodes=32)


def test_large_ones_are_no_worse_than_the_usual_rules(large):
    all_of = choices(large)
    rules = [heft(large, all_of)]
    for cost in ("time_s", "node_s"):
        least = {task: min(own, key=attrgetter(cost)) for task, own in all_of.items()}
        rules.append(fixed(large, all_of, least))
    for target_s in (NOW, inf):
        result = search(large, all_of, target_s)
        assert not result.proven
        assert all(score(result.schedule, target_s) <= score(one, target_s) for one in rules if one)


def test_a_deadline_between_costs_less_than_the_fastest(large):
    all_of = choices(large)
    fast, cheap = search(large, all_of, NOW), search(large, all_of, inf)
    target_s = (fast.schedule.end_s + cheap.schedule.end_s) / 2
    result = search(large, all_of, target_s)
    assert result.schedule.end_s <= target_s
    assert cheap.schedule.node_s <= result.schedule.node_s < fast.schedule.node_s


def test_the_same_plan_each_time(large):
    plans = [search(large, choices(large), NOW) for _ in range(2)]
    assert plans[0] == plans[1]


def test_steps_keep_their_order_and_never_take_more_nodes_than_there_are(large):
    result = search(large, choices(large), NOW)
    ends = {step.name: step.end_s for step in result.schedule.steps}
    for step in result.schedule.steps:
        assert all(ends[name] <= step.start_s + 1e-6 for name in step.needs)
    for place in large.workflow.places:
        own = [step for step in result.schedule.steps if step.pool == place]
        for moment in {step.start_s for step in own}:
            busy = sum(s.nodes for s in own if s.start_s <= moment < s.end_s - 1e-6)
            assert busy <= 32
