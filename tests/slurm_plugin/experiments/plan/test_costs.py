"""What a plan costs, against closed forms: runs, copies, remote reading, waits, node-hours."""

from dataclasses import replace
from math import exp, inf, log
from statistics import NormalDist

import pytest

from slurm_plugin.experiments.plan import run_times
from slurm_plugin.experiments.plan.options import choices, restricted, thinned
from slurm_plugin.experiments.plan.plan_search import score
from slurm_plugin.experiments.plan.run_times import GUESSED, PlaceSpeed, TaskEstimate, TransferPath
from slurm_plugin.experiments.plan.schedule import Step, TaskBounds, TaskOption, Timeline, build
from tests.slurm_plugin.experiments.plan.made import NOW, problem

FLOW = """
storages: {home: {path: /h}, far: {path: /f}}
links: [{from: home, to: far, bandwidth: 10M, latency: 2s}]
places:
  near: {storage: home, nodes: 1-8}
  fast: {storage: far, nodes: 1-8, speed: 4}
files: {raw: {at: home, size: 1000M}, made: {size: 100M, deliver: home}}
tasks:
  work: {command: x, reads: [raw], writes: [made], run_time: {1: 800, 2: 500, 4: 300}}
"""
MIB = 2.0**20


def steps_of(option):
    made = build(problem(FLOW), ["work"], {"work": option})
    return {one.name: (one.start_s - NOW, one.end_s - NOW) for one in made.steps}


def test_a_copy_takes_latency_and_size_over_bandwidth():
    """1,000 MB and 100 MB at 10 MB/s and 2 s; the place is four times as fast."""
    made = steps_of(TaskOption("fast", 1))
    copy_s = 2 + 1000 / 10
    assert made["raw to far"] == (0.0, pytest.approx(copy_s, rel=1e-6))
    assert made["work"] == (pytest.approx(copy_s), pytest.approx(copy_s + 800 / 4))
    back = copy_s + 200 + 2 + 100 / 10
    assert made["made to home"] == (pytest.approx(copy_s + 200), pytest.approx(back))


def test_reading_in_place_stalls_for_latency_and_bandwidth_of_each_byte():
    """o_n = latency / 1 MiB + 1 / bandwidth for each byte; the copy back as before."""
    made = build(problem(FLOW), ["work"], {"work": TaskOption("fast", 1, stage=False)})
    size = problem(FLOW).workflow.files["raw"].size_bytes
    bandwidth = problem(FLOW).workflow.links["home", "far"].bandwidth_bytes_per_s
    assert bandwidth is not None
    (work,) = (one for one in made.steps if one.name == "work")
    assert work.remote == (("raw", "home"),)
    assert work.estimate.time_s == pytest.approx(200 + size * (2 / MIB + 1 / bandwidth))


def test_score_counts_lateness_then_node_seconds_then_the_end():
    made = build(problem(FLOW), ["work"], {"work": TaskOption("near", 2)})
    assert score(made, NOW + 400.0) == (100 * 10**6, 1_000 * 10**6, NOW + 500.0)
    assert score(made, NOW + 500.0)[0] == 0
    assert score(made, inf)[0] == 0


def test_choices_have_their_times_and_leave_out_what_is_no_faster():
    result = choices(problem(FLOW))["work"]
    assert {(one.option.place, one.option.nodes): (one.time_s, one.node_s) for one in result} == {
        ("near", 1): (800, 800),
        ("near", 2): (500, 1000),
        ("near", 3): (pytest.approx(exp(_between(500, 300, 3))), pytest.approx(
            3 * exp(_between(500, 300, 3))
        )),
        ("near", 4): (300, 1200),
        ("fast", 1): (200, 200),
        ("fast", 2): (125, 250),
        ("fast", 3): (pytest.approx(exp(_between(500, 300, 3)) / 4), pytest.approx(
            3 * exp(_between(500, 300, 3)) / 4
        )),
        ("fast", 4): (75, 300),
    }  # fmt: skip
    slower = FLOW.replace("4: 300", "4: 501")
    assert max(one.option.nodes for one in choices(problem(slower))["work"]) == 2
    assert {one.option.stage for one in result if one.option.place == "near"} == {True}
    assert {one.option.stage for one in result if one.option.place == "fast"} == {True, False}
    assert restricted({"work": result}, place="fast", stage=False)["work"]
    assert restricted({"work": result}, place="nowhere") == {}


def _between(at_2, at_4, nodes):
    """Log time on a count between two and four: linear in log nodes."""
    share = log(nodes / 2) / log(2)
    return (1 - share) * log(at_2) + share * log(at_4)


def test_an_interval_makes_an_estimate_that_says_the_same():
    made = run_times.of_interval(100.0, 80.0, 150.0, 0.9, 0.05, "app")
    assert (made.time_s, made.common, made.group) == (100.0, 0.05, "app")
    assert made.quantile(0.05) == pytest.approx(80.0)
    assert made.quantile(0.95) == pytest.approx(150.0)
    assert made.longest_s == pytest.approx(100 * exp(2.3263 * log(1.5) / 1.6449), rel=1e-3)


def test_remote_reading_adds_its_own_uncertainty_in_its_share():
    local = TaskEstimate(100.0, 0.1, 0.2, 0.05, "app", "why")
    path = TransferPath(size_bytes=50 * MIB, bandwidth_bytes_per_s=MIB, latency_s=1.0)
    made = run_times.with_remote(local, [path])
    assert made.time_s == pytest.approx(200.0)
    assert made.down == pytest.approx((0.1 + GUESSED) / 2)
    assert made.up == pytest.approx((0.2 + GUESSED) / 2)
    assert made.common == pytest.approx(0.025)
    assert (made.group, made.doubt) == ("app", "why")
    assert made.undisturbed_s == local.time_s
    assert run_times.with_remote(local, []) is local


def test_times_scale_and_given_ones_are_interpolated():
    made = TaskEstimate(100.0, 0.1, 0.2, 0.05, "app", "why").at_speed(PlaceSpeed(4.0))
    assert made == TaskEstimate(25.0, 0.1, 0.2, 0.05, "app", "why", 25.0)
    busy = TaskEstimate(100.0).at_speed(PlaceSpeed(4.0, 0.5))
    assert (busy.time_s, busy.undisturbed_s) == (50.0, 25.0)
    table = {2: 500.0, 4: 300.0}
    assert run_times.of_run_times(table, 2, "g") == TaskEstimate(500.0, 0.1, 0.1, 0.05, "g")
    between = run_times.of_run_times(table, 3, "g")
    assert between.time_s == pytest.approx(exp(_between(500, 300, 3)))
    assert run_times.of_run_times(table, 1, "g") is None
    assert run_times.of_run_times(table, 5, "g") is None


@pytest.mark.parametrize("elapsed_s", [0.0, 90.0, 100.0, 120.0])
def test_what_is_left_is_the_median_of_those_that_take_longer(elapsed_s):
    sd = 0.2 if elapsed_s > 100 else 0.1
    gone = NormalDist().cdf(log(elapsed_s / 100) / sd) if elapsed_s else 0.0
    z = NormalDist().inv_cdf((1 + gone) / 2)
    expected = 100 * exp(z * (0.2 if z > 0 else 0.1)) - elapsed_s
    made = TaskEstimate(100.0, 0.1, 0.2).left(elapsed_s)
    assert made.time_s == pytest.approx(expected)
    assert made.up == made.down == GUESSED


def test_an_overdue_step_is_expected_to_take_a_fifth_more():
    assert TaskEstimate(100.0, 0.1, 0.1).left(130.0).time_s == pytest.approx(26.0)
    assert TaskEstimate(100.0).left(40.0).time_s == pytest.approx(60.0)
    assert TaskEstimate(100.0).left(100.0).time_s == pytest.approx(20.0)


def test_gaps_in_free_nodes():
    line = Timeline([0.0], [4])
    line.take(3, 10.0, 20.0)
    assert (line.times_s, line.free) == ([0.0, 10.0, 20.0], [4, 1, 4])
    assert line.earliest(2, 10.0, 0.0) == 0.0
    assert line.earliest(2, 10.5, 0.0) == 20.0
    assert line.earliest(1, 50.0, 0.0) == 0.0
    assert line.earliest(1, 1.0, 12.5) == 12.5
    assert line.earliest(4, 1.0, 15.0) == 20.0
    assert line.earliest(5, 1.0, 0.0) == inf
    other = Timeline.of(line)
    other.take(1, 0.0, 5.0)
    assert (other.times_s, other.free) == ([0.0, 5.0, 10.0, 20.0], [3, 4, 1, 4])
    assert line.free == [4, 1, 4]
    line.take(1, 5.0, 5.0)
    assert line.times_s == [0.0, 10.0, 20.0]


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


def counts(made, place):
    return [one.option.nodes for one in choices(made)["x"] if one.option.place == place]


def bounded(bounds, text=SITE, nodes=8):
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


def ways(text, place):
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
