"""What is left of a plan, planned again, and how that is done to what was submitted."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from msgspec import structs

from slurm_plugin.experiments.plan import replan
from slurm_plugin.experiments.plan.chain import jobs
from slurm_plugin.experiments.plan.exchange import exchange
from slurm_plugin.experiments.plan.plans import Plan, plans
from slurm_plugin.experiments.plan.replan import plan_again, steps_begun
from slurm_plugin.experiments.plan.run_times import PlaceSpeed, RunFactors, TaskEstimate
from slurm_plugin.experiments.plan.schedule import PlanSchedule, TaskOption
from tests.slurm_plugin.experiments.plan.made import NOW, problem
from tests.slurm_plugin.experiments.plan.test_chain import SITE
from tests.slurm_plugin.experiments.plan.test_followed_plan import become, plan
from tests.slurm_plugin.experiments.plan.test_followed_plan import given as recorded
from tests.slurm_plugin.experiments.plan.test_followed_plan import job as planned

HOUR = 3600.0
#: One after the other; two nodes take more node-hours than one.
CHAIN = """
name: chain
storages: {s: {path: /s}}
places: {p: {storage: s}}
tasks:
  a: {command: x, run_time: {1: 1000}, application: sim/a}
  b: {command: x, after: [a], run_time: {1: 1000, 2: 600}, application: sim/a}
  c: {command: x, after: [b], run_time: {1: 1000, 2: 600}}
"""
DEADLINE = NOW + 3500.0


@pytest.fixture
def flow():
    return problem(CHAIN)


@pytest.fixture
def given(flow):
    """The plan of the chain as submitted: every task on one node."""
    schedule = plans(flow, deadline_s=DEADLINE)[0].schedule
    planned_jobs = jobs(flow.workflow, schedule, rooms={}, deadline_s=DEADLINE)
    made = recorded(*planned_jobs, workflow="chain", deadline_s=DEADLINE)
    assert [job.step.nodes for job in made.jobs] == [1, 1, 1]
    return made


def ran(given, step, start_s, end_s=None):
    state = "RUNNING" if end_s is None else "COMPLETED"
    become(
        given, step, state=state, started_s=NOW + start_s,
        ended_s=None if end_s is None else NOW + end_s,
    )  # fmt: skip


class Queue:
    """Slurm's queue, where it changes jobs or refuses to."""

    def __init__(self, *, refuses=False):
        self.refuses, self.changed = refuses, []

    def on(self, _cluster):
        return self

    def update(self, job_id, values):
        self.changed.append((job_id, values))
        return not self.refuses


def later(flow, by_s):
    free = {name: replace(line, times_s=(NOW + by_s,)) for name, line in flow.free.items()}
    return replace(flow, now_s=NOW + by_s, free=free)


def nodes(result):
    return {job.name: job.step.nodes for job in result.jobs}


def test_a_task_that_was_long_makes_the_others_faster(flow, given):
    ran(given, "a", 0, 2000)
    result = plan_again(later(flow, 2000), given)
    assert result.changed
    assert nodes(result) == {"b": 2, "c": 2}
    assert result.plan.high_s <= DEADLINE


def test_a_run_that_goes_on_is_expected_to_go_on(flow, given):
    ran(given, "a", 0)
    (step,) = steps_begun(given, NOW + 2000)
    assert step.end_s == pytest.approx(NOW + 2400)
    assert nodes(plan_again(later(flow, 2000), given)) == {"b": 2, "c": 2}


def test_nothing_is_left_to_decide_where_all_have_begun_or_are_lost(flow, given):
    ran(given, "a", 0, 1000)
    ran(given, "b", 1000)
    become(given, "c", state="CANCELLED")
    assert plan_again(later(flow, 1100), given) is None


def test_copies_for_what_was_lost_stay_what_they_are():
    flow = problem("""
storages: {home: {path: /h}, far: {path: /f}}
links: [{from: home, to: far, bandwidth: 10M, remote: false}]
places: {here: {storage: home}, there: {storage: far}}
files: {raw: {at: home, size: 10M}, made: {size: 10M, deliver: home}}
tasks:
  lost: {command: x, reads: [raw], places: [there], run_time: 100}
  done: {command: x, writes: [made], places: [there], run_time: 100}
  open: {command: x, after: [done], reads: [raw], places: [there], run_time: {1: 100, 2: 60}}
""")
    given = recorded(*jobs(flow.workflow, plans(flow)[0].schedule, rooms={}))
    ran(given, "raw to far", 0, 1)
    ran(given, "done", 0, 100)
    become(given, "lost", state="FAILED")
    result = plan_again(later(flow, 100), given)
    # The copy home has not begun; its task has, so that it stays as it was submitted.
    assert {job.name for job in result.jobs} == {"open", "made to home"}
    before = given.job_id("made to home")
    list(exchange(given, result.jobs, Queue()))
    assert given.job_id("made to home") == before
    assert not given.others


def test_what_slurm_refuses_to_change_is_submitted_again(flow, given, tmp_path):
    ran(given, "a", 0, 2000)
    result = plan_again(later(flow, 2000), given)
    list(exchange(given, result.jobs, Queue(refuses=True)))
    assert list(given.steps) == ["a"]
    assert [(one.job_id, one.unwanted) for one in given.others] == [(2, True), (3, True)]
    # Nothing is submitted before they are out of the way.
    assert plan(given, tmp_path).next(NOW + 2000) is None
    given.others = [structs.replace(one, state="CANCELLED") for one in given.others]
    new = plan(given, tmp_path).next(NOW + 2000)
    assert (new.step, new.nodes, new.job_name) == ("b", 2, f"chain.b.{given.mark}-2")


def test_followed_it_says_what_it_does_and_why(flow, given, tmp_path):
    ran(given, "a", 0, 2000)
    given.astray = "a ended 17 min later than planned"
    lines, queue = [], Queue()
    made = plan(
        given, tmp_path, queue, lines,
        planner=lambda submitted: plan_again(later(flow, 2000), submitted),
    )  # fmt: skip
    assert made.next(NOW + 2000) is None
    assert lines[0].startswith("a ended 17 min later than planned: planned again; all ended by ")
    assert "that meets the deadline" in lines[0]
    assert lines[1:] == [
        "b: 2 nodes at p instead of 1 node at p",
        "c: 2 nodes at p instead of 1 node at p",
    ]
    assert [job_id for job_id, _ in queue.changed] == [2, 3]
    # The budget counts what they are now.
    assert [given.steps[name].nodes for name in "abc"] == [1, 2, 2]


def test_a_limit_that_holds_the_run_stays_and_a_shorter_one_grows():
    had = with_options("--nodes=1", "--time=10")

    def limited(*options):
        return exchanged(had, replace(had, options=options))[2].jobs[-1].options

    assert limited("--nodes=1", "--time=8") == ("--nodes=1", "--time=10")
    assert limited("--nodes=1", "--time=12") == ("--nodes=1", "--time=12")
    # On other nodes it is another run; within a deadline it has to end.
    assert limited("--nodes=2", "--time=8") == ("--nodes=2", "--time=8")
    assert limited("--nodes=1", "--time=8", "--deadline=uts5")[1] == "--time=8"
    new = replace(planned("y", 0, 9), options=("--nodes=1", "--time=3"))
    assert exchanged(had, new)[2].jobs[-1] is new


def exchanged(before, after, **also):
    queue = Queue()
    one = recorded(planned("a", 0, 9), before, **also)
    said = list(exchange(one, [planned("a", 0, 9), after], queue))
    return said, queue.changed, one


def with_options(*options, **also):
    return replace(planned("x", 0, 9, "a"), options=options, **also)


def kept(one):
    """Ids of the jobs that stay, and of those that leave."""
    ids = {name: run.job_id for name, run in one.steps.items()}
    return ids, [run.job_id for run in one.others]


def test_only_numbers_that_differ_are_updated_and_all_else_takes_a_new_job():
    before = with_options("--nodes=1", "--time=10", "--comment=c")
    same = exchanged(before, before)
    assert same[:2] == ([], [])
    _, changed, one = exchanged(before, with_options("--nodes=2", "--time=12", "--comment=c"))
    assert changed == [(2, {"NumNodes": "2-2", "TimeLimit": "12"})]
    assert kept(one) == ({"a": 1, "x": 2}, [])
    for after in (
        with_options("--nodes=1", "--time=10", "--comment=d"),
        with_options("--nodes=1", "--time=10", "--comment=c", "--deadline=uts5"),
        with_options("--nodes=1", "--time=10", "--comment=c", script="other"),
        with_options("--nodes=1", "--time=10", "--comment=c", cluster="big"),
    ):
        _, changed, one = exchanged(before, after)
        assert kept(one) == ({"a": 1}, [2])
        assert changed == []


def test_who_waits_for_a_new_job_is_new_and_for_a_completed_one_is_not():
    before = with_options("--nodes=1", "--time=10")
    free = replace(before, step=replace(before.step, needs=()))
    _, _, one = exchanged(before, free)
    assert kept(one)[1] == [2]
    _, _, one = exchanged(before, free, states={"a": "COMPLETED"})
    assert kept(one)[1] == []
    # A job that was not submitted yet is none to cancel.
    _, _, one = exchanged(before, free, ids={"a": 1})
    assert kept(one)[1] == []


def test_steps_that_have_begun_stay_with_what_is_left_of_them():
    """Done: nothing is left.  Running for 60 s of 100: the median of those that take longer."""
    copy = replace(planned("r", 100, 10, "x"), step=replace(
        planned("r", 100, 10, "x").step, nodes=0, task="x"))  # fmt: skip
    one = recorded(
        planned("d", 0, 50), planned("x", 0, 100), copy, planned("y", 110, 5, "r"),
        states={"d": "COMPLETED", "x": "RUNNING"}, started_s={"x": NOW},
    )  # fmt: skip
    one.jobs[1] = replace(one.jobs[1], step=replace(one.jobs[1].step, task="x"))
    done, running, home = steps_begun(one, NOW + 60)
    assert (done.start_s, done.end_s, done.needs) == (NOW + 60, NOW + 60, ())
    left_s = TaskEstimate(100.0, 0.1, 0.1).left(60.0).time_s
    assert running.end_s == pytest.approx(NOW + 60 + left_s)
    assert (home.start_s, home.end_s) == (running.end_s, pytest.approx(running.end_s + 10))
    assert home.ready_s == home.start_s
    become(one, "r", state="FAILED")
    assert [each.name for each in steps_begun(one, NOW + 60)] == ["d", "x"]


@pytest.mark.parametrize(
    ("ran_s", "runs", "factor"),
    [
        # up 0.2 and c 0.1: c² = 0.01, o² = 0.03; one run counts a quarter, three runs a half.
        (150.0, 1, 1.5**0.25),
        (150.0, 3, 1.5**0.5),
        # down 0.1: nothing is its own.
        (80.0, 1, 0.8),
    ],
)
def test_factors_are_the_part_of_the_mean_error_that_is_the_curve_s(ran_s, runs, factor):
    estimate = TaskEstimate(100.0, 0.1, 0.2, 0.1, "app")
    every = [planned(f"x{n}", 0, 100) for n in range(runs)]
    one = recorded(*(replace(each, step=replace(each.step, estimate=estimate)) for each in every))
    for each in every:
        ran(one, each.name, 0, ran_s)
    taken = replan.factors(one)["app"]
    assert (taken.idle, taken.now) == pytest.approx((factor, factor))
    one.jobs = [replace(each, step=replace(each.step, nodes=0)) for each in one.jobs]
    assert replan.factors(one) == {}


def test_runs_that_say_nothing_of_their_curve_have_no_factor():
    own = TaskEstimate(100.0, 0.1, 0.2, 0.0, "app")
    one = recorded(
        replace(planned("x", 0, 100), step=replace(planned("x", 0, 100).step, estimate=own))
    )
    ran(one, "x", 0, 150)
    assert replan.factors(one) == {}
    shared = replace(own, common=0.1)
    one.jobs = [replace(one.jobs[0], step=replace(one.jobs[0].step, estimate=shared))]
    assert replan.factors(one)["app"].idle == pytest.approx(1.5**0.25)
    become(one, "x", ended_s=NOW)
    assert replan.factors(one) == {}
    become(one, "x", ended_s=NOW + 150, state="FAILED")
    assert replan.factors(one) == {}


#: Runs of one application on two places, and one of it to come.
TWO_PLACES = """
storages: {s: {path: /s}}
places: {p: {storage: s}, q: {storage: s}}
tasks:
  a: {command: x, places: [p], run_time: {1: 1000}, application: sim/a}
  b: {command: x, places: [q], run_time: {1: 400}, application: sim/a}
  c: {command: x, after: [a, b], run_time: {1: 1000, 2: 600}, application: sim/a}
"""
IDLE_S = {"a": 1000.0, "b": 400.0}


def at_shares(shares):
    """Give the problem of two places, where a process gets these shares of a CPU now."""
    speeds = {place: PlaceSpeed(1.0, share) for place, share in shares.items()}
    return problem(TWO_PLACES, speeds=speeds)


def to_come(then, now, ran_s):
    """Estimates of the last task by place and nodes, after runs that were planned at other shares.

    then, now: shares when the runs were planned, and when the last task is.
    ran_s: what the runs took.
    """
    flow = at_shares(then)
    one = recorded(*jobs(flow.workflow, plans(flow)[0].schedule, rooms={}))
    for name, length_s in ran_s.items():
        ran(one, name, 0, length_s)
    again = replace(at_shares(now), factors=replan.factors(one))
    task = again.workflow.tasks["c"]
    places = [TaskOption(place, count) for place in "pq" for count in (1, 2)]
    return [again.run(task, option).time_s for option in places]


shares_of_places = st.fixed_dictionaries({"p": st.floats(0.01, 1.0), "q": st.floats(0.01, 1.0)})
IDLE = {"p": 1.0, "q": 1.0}


@drawn(shares_of_places, shares_of_places, st.tuples(st.floats(0.2, 5.0), st.floats(0.2, 5.0)))
def test_nothing_measured_makes_a_step_shorter_than_idle_nodes_and_runs_on_them(then, now, errors):
    ran_s = {name: IDLE_S[name] * error for name, error in zip("ab", errors, strict=True)}
    measured = to_come(then, now, ran_s)
    for time_s, idle_s in zip(measured, to_come(IDLE, IDLE, ran_s), strict=True):
        assert time_s >= idle_s * (1 - 1e-9)


@drawn(st.floats(0.01, 1.0))
def test_runs_as_slow_as_was_measured_are_not_counted_twice(share):
    busy = {"p": share, "q": share}
    ran_s = {name: idle_s / share for name, idle_s in IDLE_S.items()}
    planned_s = [idle_s / share for idle_s in (1000.0, 600.0, 1000.0, 600.0)]
    assert to_come(busy, busy, ran_s) == pytest.approx(planned_s)


def test_an_estimate_that_runs_took_longer_than_is_compared_with_the_curve_again():
    estimate = TaskEstimate(100.0, 0.1, 0.1, 0.1, "app")
    assert estimate.longer(RunFactors(1.5, 1.5)).time_s == 150.0
    assert estimate.longer(RunFactors(1.5, 1.5)).undisturbed_s == 100.0


def judged(high_s, node_s):
    schedule = PlanSchedule((), {}, NOW + high_s, node_s)
    return Plan(
        label="", schedule=schedule, end_s=NOW + high_s, low_s=NOW, high_s=NOW + high_s,
        confidence=0.95, chance=None, proven=False, path=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("new", "before", "deadline_s", "worth"),
    [
        # Without a deadline: 30 s and a twentieth sooner.
        ((569.0, 1.0), (600.0, 1.0), inf, True),
        ((570.0, 1.0), (600.0, 1.0), inf, False),
        ((1899.0, 1.0), (2000.0, 1.0), inf, True),
        ((1901.0, 1.0), (2000.0, 1.0), inf, False),
        # Both in time: a twentieth fewer node-hours.
        ((500.0, 94.0), (100.0, 100.0), 600.0, True),
        ((600.0, 96.0), (600.0, 100.0), 600.0, False),
        ((100.0, 100.0), (600.0, 100.0), 600.0, False),
        # One in time is worth it; of two late ones the one that is sooner.
        ((600.0, 900.0), (601.0, 1.0), 600.0, True),
        ((650.0, 1.0), (700.0, 1.0), 600.0, True),
        ((680.0, 1.0), (700.0, 1.0), 600.0, False),
        ((601.0, 1.0), (600.0, 900.0), 600.0, False),
    ],
)
def test_a_plan_is_exchanged_where_that_is_worth_it(new, before, deadline_s, *, worth):
    given_s = None if deadline_s == inf else NOW + deadline_s
    assert replan.worth_changing(judged(*new), judged(*before), given_s, NOW) == worth


def test_a_step_that_reads_in_place_goes_on_so_where_it_may_choose():
    step = replace(planned("x", 0, 9).step, pool="b", nodes=2, remote=(("f", "s"),))

    def goes_on(text, present):
        """What the plan is for the step, as it was planned."""
        one = recorded(replace(planned("x", 0, 9), step=present))
        before = plan_again(problem(text), one)
        return before.before.schedule.choices["x"]

    assert goes_on(SITE, step) == TaskOption("b", 2, stage=False)
    assert goes_on(SITE, replace(step, remote=())) == TaskOption("b", 2, stage=True)
    forced = SITE.replace("path: in/raw", "path: in/raw, access: remote")
    assert goes_on(forced, step) == TaskOption("b", 2, stage=True)
