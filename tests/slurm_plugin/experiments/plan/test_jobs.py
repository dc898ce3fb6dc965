"""A plan's jobs: names, limits, deadlines, scripts, and how they change; worked out by hand."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, exp, inf
from pathlib import Path
from statistics import NormalDist

import pytest

from sacct_ingest.errors import SlurmError
from slurm_plugin.experiments.plan import replan, resubmit, state_file
from slurm_plugin.experiments.plan.chain import (
    PlannedJob,
    command_line,
    dependents,
    job_name,
    jobs,
    path_of,
)
from slurm_plugin.experiments.plan.estimates import TaskEstimate
from slurm_plugin.experiments.plan.plans import Plan
from slurm_plugin.experiments.plan.schedule import PlanSchedule, Step, TaskBounds, TaskOption, build
from slurm_plugin.experiments.plan.workflow import File, Storage
from tests.slurm_plugin.experiments.plan.made import NOW, problem
from tests.slurm_plugin.experiments.plan.test_monitor import given
from tests.slurm_plugin.experiments.plan.test_monitor import job as planned

SITE = """
name: w
storages: {s: {path: /s}, t: {path: /t/}, u: {path: /u}}
links: [{from: s, to: t, bandwidth: 10M}, {from: s, to: u, bandwidth: 10M}]
places:
  a: {storage: s, partition: batch}
  b: {storage: t, cluster: big}
files: {f: {at: s, size: 100M, path: in/raw}, r: {size: 40M, deliver: s}}
tasks:
  x: {command: "run {f} {r} {other}", reads: [f], writes: [r], run_time: {1: 500, 2: 500},
      application: app/p 1}
"""
ABC = """
storages: {s: {path: /s}}
places: {a: {storage: s}}
tasks: {a: {command: a}, b: {command: b}, c: {command: c}}
"""
Z99 = NormalDist().inv_cdf(0.99)


def made(text: str = SITE, option: TaskOption | None = None, **also: object) -> list[PlannedJob]:
    flow = problem(text)
    schedule = build(flow, ["x"], {"x": option or TaskOption("b", 2)})
    assert schedule is not None
    return jobs(flow.workflow, schedule, **{"rooms": {}, **also})  # type: ignore[arg-type]


def option(one: PlannedJob, name: str) -> str | None:
    words = [word.partition("=")[2] for word in one.options if word.startswith(f"--{name}=")]
    return words[0] if words else None


def test_limits_hold_what_hardly_any_run_exceeds_and_a_margin():
    """1.2 times the 99 % quantile and a minute, in minutes rounded up."""
    copy, run, back = made(SITE)
    run_s = 500 * exp(0.1 * Z99) * 1.2 + 60
    copy_s = 10 * exp(0.35 * Z99) * 1.2 + 60
    assert [option(one, "time") for one in (copy, run)] == [
        str(ceil(copy_s / 60)), str(ceil(run_s / 60)),
    ]  # fmt: skip
    assert (option(copy, "nodes"), option(run, "nodes"), option(back, "nodes")) == ("1", "2", "1")
    assert (copy.cluster, run.cluster, back.cluster) == ("big", "big", "")
    assert option(run, "partition") == "b"
    assert option(back, "partition") == "batch"
    assert option(run, "comment") == "nimo:app=app,problem=p-1"
    assert option(copy, "comment") == "nimo:off"
    assert option(run, "deadline") is None


@pytest.mark.parametrize(("longest_s", "limit"), [(599.0, "9"), (600.0, "10"), (59.0, "1")])
def test_limits_are_no_longer_than_a_place_gives(longest_s, limit):
    rooms = {("x", "b"): TaskBounds(longest_s=longest_s)}
    assert option(made(SITE, rooms=rooms)[1], "time") == limit


def test_hard_deadlines_leave_what_follows_its_fast_time():
    """The copy home may take 4 s at 0.05 of 0.35; the run 500 s at 0.05 of 0.1."""
    z = NormalDist().inv_cdf(0.05)
    back_s, run_s = 4 * exp(0.35 * z), 500 * exp(0.1 * z)
    copy, run, back = made(SITE, deadline_s=NOW + 1000, hard=True)
    assert option(back, "deadline") == f"uts{ceil(NOW + 1000)}"
    assert option(run, "deadline") == f"uts{ceil(NOW + 1000 - back_s)}"
    assert option(copy, "deadline") == f"uts{ceil(NOW + 1000 - back_s - run_s)}"
    assert option(run, "time") == str(ceil((500 * exp(0.1 * Z99) * 1.2 + 60) / 60))
    tight = made(SITE, deadline_s=NOW + 600, hard=True)[1]
    assert option(tight, "time") == str(int((600 - back_s - 10) // 60))
    assert all(option(one, "deadline") is None for one in made(SITE, deadline_s=NOW + 1000))


def test_latest_ends_are_the_earliest_that_any_follower_asks_for():
    def step(name: str, takes_s: float, *needs: str) -> Step:
        estimate = TaskEstimate(takes_s)
        return Step(name, NOW, NOW + takes_s, NOW, estimate, needs, "a", nodes=1, task=name)

    steps = (step("a", 5), step("b", 10, "a"), step("c", 20, "a", "gone"))
    flow = problem(ABC).workflow
    schedule = PlanSchedule(steps, {}, NOW, 0.0)
    timed = jobs(flow, schedule, rooms={}, deadline_s=NOW + 100, hard=True)
    latest = {one.name: option(one, "deadline") for one in timed}
    assert latest == {"a": f"uts{NOW + 80:.0f}"} | dict.fromkeys("bc", f"uts{NOW + 100:.0f}")
    untimed = jobs(flow, schedule, rooms={}, hard=True)
    assert all(option(one, "deadline") is None for one in untimed)


def test_scripts_make_folders_and_copy_beside_the_target_first():
    copy, run, back = made(SITE)
    assert run.script.splitlines() == [
        "#!/bin/sh", "set -e", "mkdir -p -- /t", "run /t/in/raw /t/r {other}",
    ]  # fmt: skip
    assert copy.script.splitlines() == [
        "#!/bin/sh", "set -e", "mkdir -p -- /t/in", "rm -rf -- /t/in/raw.part",
        "cp -a -- /s/in/raw /t/in/raw.part", "mv -T -- /t/in/raw.part /t/in/raw",
    ]  # fmt: skip
    assert back.script.splitlines()[-1] == "mv -T -- /s/r.part /s/r"
    remote = made(SITE, TaskOption("b", 1, stage=False))[0]
    assert remote.script.splitlines()[-1] == "run /s/in/raw /t/r {other}"
    assert path_of(File(name="f"), Storage(name="s", path="/s/")) == "/s/f"


def test_a_copy_runs_near_its_target_or_else_its_source():
    text = SITE.replace("u: {path: /u}", "u: {path: /u}, v: {path: /v}")
    text = text.replace("links: [", "links: [{from: u, to: v, bandwidth: 10M}, ")
    flow = problem(text).workflow
    step = next(one.step for one in made(SITE) if not one.step.nodes)
    # The last has no place near either end: the first one.
    for source, target, partition in (("s", "t", "b"), ("s", "u", "batch"), ("u", "v", "batch")):
        copy = replace(step, source=source, target=target)
        (one,) = jobs(flow, PlanSchedule((copy,), {}, NOW, 0.0), rooms={})
        assert option(one, "partition") == partition


def test_what_waits_for_a_job_of_its_own_cluster_says_so():
    copy, run, _ = made(SITE)
    assert command_line(run, "n", {copy.name: "7"})[-2:] == [
        "--dependency=afterok:7", "--kill-on-invalid-dep=yes",
    ]  # fmt: skip
    assert command_line(run, "n", {"other": "7"})[:3] == ["sbatch", "--parsable", "--job-name=n"]
    assert not any("dependency" in word for word in command_line(run, "n", {}))
    assert job_name("w", "f to t") == "w.f-to-t"
    assert dependents(made(SITE), "f to t") == ["x", "r to s"]
    assert dependents(made(SITE), "x") == ["r to s"]
    assert dependents(made(SITE), "r to s") == []


def test_a_limit_that_holds_the_run_stays_and_a_shorter_one_grows(tmp_path):
    had = with_options("--nodes=1", "--time=10")

    def limited(*options: str) -> tuple[str, ...]:
        return changed(had, replace(had, options=options), tmp_path)[2].jobs[-1].options

    assert limited("--nodes=1", "--time=8") == ("--nodes=1", "--time=10")
    assert limited("--nodes=1", "--time=12") == ("--nodes=1", "--time=12")
    # On other nodes it is another run; within a deadline it has to end.
    assert limited("--nodes=2", "--time=8") == ("--nodes=2", "--time=8")
    assert limited("--nodes=1", "--time=8", "--deadline=uts5")[1] == "--time=8"
    new = replace(planned("y", 0, 9), options=("--nodes=1", "--time=3"))
    assert changed(had, new, tmp_path)[2].jobs[-1] is new


def changed(
    before: PlannedJob, after: PlannedJob, path: Path, **also: object
) -> tuple[list[str], list[list[str]], state_file.Submitted]:
    lines: list[list[str]] = []

    def ask(argv: Sequence[str]) -> str:
        lines.append(list(argv))
        return ""

    one = given(planned("a", 0, 9), before, **also)
    said = list(resubmit.change(one, [planned("a", 0, 9), after], path / "w.json", ask))
    return said, lines, one


def with_options(*options: str, **also: object) -> PlannedJob:
    return replace(planned("x", 0, 9, "a"), options=options, **also)  # type: ignore[arg-type]


def test_only_numbers_that_differ_are_updated_and_all_else_takes_a_new_job(tmp_path):
    before = with_options("--nodes=1", "--time=10", "--comment=c")
    same = changed(before, before, tmp_path)
    assert same[:2] == ([], [])
    _, lines, one = changed(before, with_options("--nodes=2", "--time=12", "--comment=c"), tmp_path)
    assert lines == [["scontrol", "update", "JobId=2", "NumNodes=2-2", "TimeLimit=12"]]
    assert (one.ids, one.leaving) == ({"a": "1", "x": "2"}, [])
    for after in (
        with_options("--nodes=1", "--time=10", "--comment=d"),
        with_options("--nodes=1", "--time=10", "--comment=c", "--deadline=uts5"),
        with_options("--nodes=1", "--time=10", "--comment=c", script="other"),
        with_options("--nodes=1", "--time=10", "--comment=c", cluster="big"),
    ):
        _, lines, one = changed(before, after, tmp_path)
        assert (one.ids, [number for number, _ in one.leaving]) == ({"a": "1"}, ["2"])
        assert lines == []


def test_who_waits_for_a_new_job_is_new_and_for_a_completed_one_is_not(tmp_path):
    before = with_options("--nodes=1", "--time=10")
    free = replace(before, step=replace(before.step, needs=()))
    _, _, one = changed(before, free, tmp_path)
    assert [number for number, _ in one.leaving] == ["2"]
    _, _, one = changed(before, free, tmp_path, states={"a": "COMPLETED"})
    assert one.leaving == []
    # A job that was not submitted yet is none to cancel.
    _, _, one = changed(before, free, tmp_path, ids={"a": "1"})
    assert one.leaving == []


def test_an_update_that_slurm_refuses_takes_a_new_job(tmp_path):
    def refuse(_: Sequence[str]) -> str:
        raise SlurmError("denied")

    one = given(with_options("--nodes=1", "--time=10"))
    new = with_options("--nodes=2", "--time=10")
    list(resubmit.change(one, [new], tmp_path / "w", refuse))
    assert [number for number, _ in one.leaving] == ["1"]


@pytest.mark.parametrize(
    ("state", "left", "stays"), [("PENDING", 1, False), ("CANCELLED", 0, False), ("", 0, False),
                                 ("RUNNING", 0, True), ("COMPLETED", 0, True)],
)  # fmt: skip
def test_jobs_that_leave_are_cancelled_and_those_that_began_stay(tmp_path, state, left, *, stays):
    """Still waiting: the next round cancels it again.  It stays before what needs it."""
    before = planned("x", 0, 9)
    one = given(planned("a", 0, 9), planned("y", 0, 9, "x"), leaving=[("5", before)])
    asked: list[Sequence[str]] = []

    def ask(argv: Sequence[str]) -> str:
        asked.append(argv)
        return f"5|{state}\nnoise\n" if argv[0] == "squeue" and state else ""

    assert resubmit.settle(one, tmp_path / "w", ask) == (["x"] if stays else [])
    assert list(asked[0]) == ["scancel", "--state=PENDING", "5"]
    assert len(one.leaving) == left
    names = [each.name for each in one.jobs]
    assert names == (["a", "x", "y"] if stays else ["a", "y"])
    assert one.astray == ("x began meanwhile" if stays else "")
    assert one.ids.get("x") == ("5" if stays else None)


def test_steps_that_have_begun_stay_with_what_is_left_of_them():
    """Done: nothing is left.  Running for 60 s of 100: the median of those that take longer."""
    copy = replace(planned("r", 100, 10, "x"), step=replace(
        planned("r", 100, 10, "x").step, nodes=0, task="x"))  # fmt: skip
    one = given(
        planned("d", 0, 50), planned("x", 0, 100), copy, planned("y", 110, 5, "r"),
        states={"d": "COMPLETED", "x": "RUNNING"}, started_s={"x": NOW},
    )  # fmt: skip
    one.jobs[1] = replace(one.jobs[1], step=replace(one.jobs[1].step, task="x"))
    done, running, home = replan.steps_begun(one, NOW + 60)
    assert (done.start_s, done.end_s, done.needs) == (NOW + 60, NOW + 60, ())
    left_s = TaskEstimate(100.0, 0.1, 0.1).left(60.0).time_s
    assert running.end_s == pytest.approx(NOW + 60 + left_s)
    assert (home.start_s, home.end_s) == (running.end_s, pytest.approx(running.end_s + 10))
    assert home.ready_s == home.start_s
    one.states["r"] = "FAILED"
    assert [each.name for each in replan.steps_begun(one, NOW + 60)] == ["d", "x"]


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
    one = given(*(replace(each, step=replace(each.step, estimate=estimate)) for each in every))
    for each in every:
        one.states[each.name] = "COMPLETED"
        one.started_s[each.name], one.ended_s[each.name] = NOW, NOW + ran_s
    assert replan.factors(one) == {"app": pytest.approx(factor)}
    one.jobs = [replace(each, step=replace(each.step, nodes=0)) for each in one.jobs]
    assert replan.factors(one) == {}


def test_runs_that_say_nothing_of_their_curve_have_no_factor():
    own = TaskEstimate(100.0, 0.1, 0.2, 0.0, "app")
    one = given(
        replace(planned("x", 0, 100), step=replace(planned("x", 0, 100).step, estimate=own))
    )
    one.states["x"] = "COMPLETED"
    one.started_s["x"], one.ended_s["x"] = NOW, NOW + 150
    assert replan.factors(one) == {}
    shared = replace(own, common=0.1)
    one.jobs = [replace(one.jobs[0], step=replace(one.jobs[0].step, estimate=shared))]
    assert replan.factors(one) == {"app": pytest.approx(1.5**0.25)}
    one.ended_s["x"] = NOW
    assert replan.factors(one) == {}
    one.ended_s["x"], one.states["x"] = NOW + 150, "FAILED"
    assert replan.factors(one) == {}


def judged(high_s: float, node_s: float) -> Plan:
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

    def goes_on(text: str, present: Step) -> TaskOption:
        """What the plan is for the step, as it was planned."""
        one = given(replace(planned("x", 0, 9), step=present))
        before = replan.plan_again(problem(text), one)
        return before.before.schedule.choices["x"]

    assert goes_on(SITE, step) == TaskOption("b", 2, stage=False)
    assert goes_on(SITE, replace(step, remote=())) == TaskOption("b", 2, stage=True)
    forced = SITE.replace("path: in/raw", "path: in/raw, access: remote")
    assert goes_on(forced, step) == TaskOption("b", 2, stage=True)
