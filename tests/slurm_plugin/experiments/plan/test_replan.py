"""What is left of a plan, planned again, and how that is done to what was submitted."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sacct_ingest.errors import SlurmError
from slurm_plugin.experiments.plan import state_file
from slurm_plugin.experiments.plan.chain import jobs
from slurm_plugin.experiments.plan.monitor import PlanMonitor
from slurm_plugin.experiments.plan.plans import plans
from slurm_plugin.experiments.plan.replan import Replan, plan_again, steps_begun
from slurm_plugin.experiments.plan.resubmit import change, settle
from slurm_plugin.experiments.plan.schedule import PlanningProblem
from slurm_plugin.experiments.plan.submit import submit_ready
from tests.slurm_plugin.experiments.plan.made import NOW, Slurm, problem

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
def flow() -> PlanningProblem:
    return problem(CHAIN)


@pytest.fixture
def given(flow: PlanningProblem) -> state_file.Submitted:
    """The plan of the chain as submitted: every task on one node."""
    schedule = plans(flow, deadline_s=DEADLINE)[0].schedule
    made = state_file.Submitted(
        workflow="chain",
        deadline_s=DEADLINE,
        submitted_s=NOW,
        jobs=jobs(flow.workflow, schedule, rooms={}, deadline_s=DEADLINE),
        ids={"a": "1", "b": "2", "c": "3"},
    )
    assert [job.step.nodes for job in made.jobs] == [1, 1, 1]
    return made


def ran(given: state_file.Submitted, step: str, start_s: float, end_s: float | None = None) -> None:
    given.states[step] = "RUNNING" if end_s is None else "COMPLETED"
    given.started_s[step] = NOW + start_s
    if end_s is not None:
        given.ended_s[step] = NOW + end_s


def later(flow: PlanningProblem, by_s: float) -> PlanningProblem:
    free = {name: replace(line, times_s=(NOW + by_s,)) for name, line in flow.free.items()}
    return replace(flow, now_s=NOW + by_s, free=free)


def nodes(result: Replan | None) -> dict[str, int]:
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
    given.states["c"] = "CANCELLED"
    assert plan_again(later(flow, 1100), given) is None


def test_copies_for_what_was_lost_stay_what_they_are(tmp_path):
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
    given = state_file.Submitted(
        workflow="w",
        deadline_s=None,
        submitted_s=NOW,
        jobs=jobs(flow.workflow, plans(flow)[0].schedule, rooms={}),
    )
    ran(given, "raw to far", 0, 1)
    ran(given, "done", 0, 100)
    given.states["lost"] = "FAILED"
    result = plan_again(later(flow, 100), given)
    # The copy home has not begun; its task has, so that it stays as it was submitted.
    assert {job.name for job in result.jobs} == {"open", "made to home"}
    given.ids = {"open": "1", "made to home": "2"}
    slurm, path = Slurm(), tmp_path / "r"
    list(change(given, result.jobs, path, slurm.ask))
    assert given.ids["made to home"] == "2"
    assert not given.leaving


def changed(
    given: state_file.Submitted,
    flow: PlanningProblem,
    path: Path,
    ask: Callable[[Sequence[str]], str],
) -> list[str]:
    """What is said when the plan is changed after a first task that took twice as long."""
    ran(given, "a", 0, 2000)
    result = plan_again(later(flow, 2000), given)
    return list(change(given, result.jobs, path, ask))


def test_what_slurm_lets_be_changed_is_changed_in_place(flow, given, tmp_path):
    slurm = Slurm()
    assert changed(given, flow, tmp_path / "r", slurm.ask) == [
        "b: 2 nodes at p instead of 1 node at p",
        "c: 2 nodes at p instead of 1 node at p",
    ]
    update = ["scontrol", "update", "JobId=2", "NumNodes=2-2"]
    assert slurm.lines[0][:4] == update
    assert given.ids == {"a": "1", "b": "2", "c": "3"}
    assert not given.leaving


def refusing(slurm: Slurm) -> Callable[[Sequence[str]], str]:
    """Slurm where it lets nobody change jobs."""

    def ask(argv: Sequence[str]) -> str:
        if argv[0] == "scontrol":
            raise SlurmError("scontrol: error: Access/permission denied for job 2")
        return slurm.ask(argv)

    return ask


def test_what_slurm_refuses_to_change_is_submitted_again(flow, given, tmp_path):
    slurm, path = Slurm(), tmp_path / "r"
    changed(given, flow, path, refusing(slurm))
    remaining = state_file.load(path)
    assert (remaining.ids, [one for one, _ in remaining.leaving]) == ({"a": "1"}, ["2", "3"])
    # Killed here, what leaves is cancelled by whoever goes on.
    assert settle(remaining, path, slurm.ask) == []
    assert slurm.lines[-1] == ["scancel", "--state=PENDING", "2", "3"]
    remaining.tried = {"a": 1, "b": 1, "c": 1}
    submit_ready(remaining, path, slurm.sbatch, slurm.ask)
    first, second = (line for line in slurm.lines if line[0] == "sbatch")
    assert f"--job-name=chain.b.{remaining.mark}-2" in first
    assert f"--dependency=afterok:{remaining.ids['b']}" in second


def test_followed_it_says_what_it_does_and_why(flow, given, tmp_path):
    slurm, clock = Slurm(), iter([2000.0, 4000.0, 4100.0])
    slurm.shown = {"1": f"COMPLETED|{NOW:.0f}|{NOW + 2000:.0f}", "2": "PENDING|N/A|N/A"}
    slurm.shown |= {"3": "PENDING|N/A|N/A"}
    ends = {"2": f"COMPLETED|{NOW + 2000:.0f}|{NOW + 2600:.0f}"}
    ends |= {"3": f"COMPLETED|{NOW + 2600:.0f}|{NOW + 3200:.0f}"}
    now = [next(clock)]

    def sleep(_: float) -> None:
        now[0] = next(clock)
        slurm.shown |= ends

    follower = PlanMonitor(
        submitted=given,
        path=tmp_path / "r",
        planner=lambda submitted: plan_again(later(flow, now[0]), submitted),
        ask=slurm.ask,
        submit=slurm.sbatch,
        sleep=sleep,
        clock=lambda: NOW + now[0],
    )
    lines = list(follower.lines(1.0))
    assert lines[0] == "a: COMPLETED, 1000 s later than planned"
    assert lines[1].startswith("a ended 1000 s later than planned: planned again; all ended by ")
    assert "that meets the deadline" in lines[1]
    assert lines[2:4] == [
        "b: 2 nodes at p instead of 1 node at p",
        "c: 2 nodes at p instead of 1 node at p",
    ]
    assert lines[-1].startswith("c: COMPLETED")
