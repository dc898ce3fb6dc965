"""What may be chosen for a task: counts, places and ways to its data, and why there is nothing."""

from dataclasses import replace
from math import exp
from statistics import NormalDist

import pytest

from slurm_plugin.experiments.plan.options import choices, thinned
from slurm_plugin.experiments.plan.run_times import TaskEstimate
from slurm_plugin.experiments.plan.schedule import PlanningProblem, Step, TaskBounds
from tests.slurm_plugin.experiments.plan.made import NOW, problem

SITE = """
storages: {s: {path: /s}, t: {path: /t}}
links: [{from: s, to: t, bandwidth: 10M, one_way: true}]
places: {a: {storage: s, nodes: 2-6}, b: {storage: t}}
files: {f: {at: s, size: 10M}}
tasks:
  x: {command: x, reads: [f], nodes: 1-5, run_time: {1: 160, 2: 80, 4: 40, 8: 20}}
"""
#: A run time that somebody gave is exceeded by so much in one of a hundred runs.
LONGEST = exp(0.1 * NormalDist().inv_cdf(0.99))


def counts(made: PlanningProblem, place: str) -> list[int]:
    return [one.option.nodes for one in choices(made)["x"] if one.option.place == place]


def bounded(bounds: TaskBounds, text: str = SITE, nodes: int = 8) -> PlanningProblem:
    return replace(problem(text, nodes), rooms={("x", "a"): bounds, ("x", "b"): bounds})


def test_counts_are_within_task_place_limits_and_nodes_that_are_there():
    assert counts(problem(SITE), "a") == [2, 3, 4, 5]
    assert counts(problem(SITE, 3), "a") == [2, 3]
    assert counts(problem(SITE.replace("2-6", "2-4")), "a") == [2, 3, 4]
    assert counts(problem(SITE.replace("1-5", "3-8")), "a") == [3, 4, 5, 6]
    assert counts(bounded(TaskBounds(low=3, high=4)), "a") == [3, 4]


def test_a_time_limit_leaves_out_what_may_take_longer():
    """Four nodes take 40 s, and 40 s times the factor of one run in a hundred."""
    assert counts(bounded(TaskBounds(longest_s=40 * LONGEST)), "a") == [4, 5]
    assert counts(bounded(TaskBounds(longest_s=40 * LONGEST - 0.01)), "a") == [5]


def test_a_task_may_be_restricted_to_places():
    made = problem(SITE.replace("nodes: 1-5", "nodes: 1-5, places: [a]"))
    assert {one.option.place for one in choices(made)["x"]} == {"a"}


def ways(text: str, place: str) -> set[bool]:
    return {one.option.stage for one in choices(problem(text))["x"] if one.option.place == place}


def test_reading_in_place_is_a_way_where_a_link_can_open_what_lies_elsewhere():
    assert ways(SITE, "a") == {True}
    assert ways(SITE, "b") == {True, False}
    assert ways(SITE.replace("one_way: true", "remote: false"), "b") == {True}
    assert ways(SITE.replace("10M}}", "10M, access: stage}}"), "b") == {True}
    # The only link leads away from the place.
    assert ways(SITE.replace("from: s, to: t", "from: t, to: s"), "b") == {True}
    assert ways(SITE.replace("reads: [f], ", ""), "b") == {True}


def test_at_most_twelve_counts_are_tried_in_like_ratios():
    """64 to the power of i/11, each to the nearest count."""
    text = SITE.replace("nodes: 1-5, run_time: {1: 160, 2: 80, 4: 40, 8: 20}",
                        "run_time: {1: 640, 64: 10}")  # fmt: skip
    assert counts(problem(text, 64), "b")[::2] == [1, 2, 3, 5, 7, 10, 14, 21, 30, 44, 64]
    assert thinned(range(1, 13), 12) == list(range(1, 13))
    assert thinned(range(1, 14), 12)[-2:] == [10, 13]


def test_what_is_placed_already_is_not_chosen_again():
    step = Step("x", NOW, NOW + 5, NOW, TaskEstimate(5.0), (), "a", nodes=2, target="s")
    assert choices(replace(problem(SITE), done=(step,))) == {}


@pytest.mark.parametrize(
    ("changed", "bounds", "why"),
    [
        ((", run_time: {1: 160, 2: 80, 4: 40, 8: 20}", ", places: [a], application: other"), None,
         "x: its run time is unknown: name its application as"),
        (("1-5", "7-8"), TaskBounds(high=6, why="MaxNodes of partition b"),
         "x: no place has the nodes (7 to 8) for which it has a run time: "
         "a has 8 nodes and gives 6 (MaxNodes of partition b), b has 8 nodes"),
        (("1-5", "9"), None, "x: its run time is unknown"),
        (("1-5", "7"), TaskBounds(high=6),
         "x: no place has the nodes (7) for which it has a run time: "
         "a has 8 nodes, b has 8 nodes"),
        (("nodes: 1-5, run_time: {1: 160, 2: 80, 4: 40, 8: 20}", "run_time: {16: 9}"), None,
         "x: no place has the nodes (1 or more) for which"),
        (("2-6", "2-6"), TaskBounds(longest_s=36.0),
         "x: no place gives it the time that it may take: 40 s at a, which gives 36 s, "
         "40 s at b, which gives 36 s"),
    ],
)  # fmt: skip
def test_why_a_task_has_no_option(changed, bounds, why):
    made = bounded(bounds or TaskBounds(), SITE.replace(*changed))
    with pytest.raises(LookupError) as raised:
        choices(made)
    assert str(raised.value).startswith(why)
