"""Following a plan: what is late, by how much that is too much, and what is said of it; by hand."""

from contextlib import suppress
from copy import deepcopy
from dataclasses import replace

import pytest

from sacct_ingest.errors import FormatError, NimoError, SlurmError
from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments.plan import state_file
from slurm_plugin.experiments.plan.chain import PlannedJob
from slurm_plugin.experiments.plan.monitor import JobStatus, PlanMonitor, look
from slurm_plugin.experiments.plan.resubmit import find
from slurm_plugin.experiments.plan.run_times import TaskEstimate
from slurm_plugin.experiments.plan.schedule import Step
from slurm_plugin.text.formatting import clock
from tests.slurm_plugin.experiments.fake_slurm import cuts
from tests.slurm_plugin.experiments.plan.made import NOW, Slurm


def job(name, start_s, takes_s, *needs, cluster=""):
    estimate = TaskEstimate(takes_s, 0.1, 0.1)
    step = Step(
        name, NOW + start_s, NOW + start_s + takes_s, NOW + start_s, estimate, needs, "p", nodes=1
    )
    return PlannedJob(step=step, options=("--nodes=1", "--time=10"), script="", cluster=cluster)


def given(*jobs, **also):
    """Jobs with the ids 1, 2, ..., submitted now."""
    ids = {one.name: str(number) for number, one in enumerate(jobs, 1)}
    recorded = {"workflow": "w", "deadline_s": None, "submitted_s": NOW, "ids": ids} | also
    return state_file.Submitted(jobs=list(jobs), **recorded)


class RoundOverError(Exception):
    """The monitor sleeps until the next round."""


def pause(_):
    raise RoundOverError


def follower(submitted, path, **also):
    slurm = Slurm()
    rest = {"ask": slurm.ask, "submit": slurm.sbatch, "sleep": pause} | also
    return PlanMonitor(submitted=submitted, path=path / "w.plan.json", **rest)


def one_round(monitor):
    """Lines of one round."""
    lines = []
    with suppress(RoundOverError):
        lines.extend(monitor.lines(1.0))
    return lines


def silent(_):
    """Slurm has no news."""
    return ""


def followed(submitted, after_s, path):
    """What is said of a plan that stays, so long after it was submitted, and the plan by then.

    A step beside it begins in a year.
    """
    one = deepcopy(submitted)
    one.jobs = [*one.jobs, job("far", 3e7, 1.0)]
    one.ids = {**one.ids, "far": "99"}
    made = follower(one, path, ask=silent, clock=lambda: NOW + after_s)
    return "".join(one_round(made)), one


def late(submitted, after_s, path):
    return followed(submitted, after_s, path)[0].partition(": all ended by ")[0]


def test_a_run_is_late_where_its_expected_end_is_off_by_more_than_allowed(tmp_path):
    """It takes 1000 s and began 101 s after the plan: 1 s more than a tenth of its time."""
    one = given(job("x", 0, 1000), states={"x": "RUNNING"}, started_s={"x": NOW + 101})
    assert late(one, 101, tmp_path) == "x is expected to end 1.7 min later than planned"
    one.started_s["x"] = NOW + 99
    assert late(one, 99, tmp_path) == ""
    one.started_s["x"] = NOW - 101
    assert late(one, -101, tmp_path) == "x is expected to end 1.7 min earlier than planned"
    # 30 s of a short one.
    short = given(job("x", 0, 100), states={"x": "RUNNING"}, started_s={"x": NOW + 31})
    assert late(short, 31, tmp_path) == "x is expected to end 31 s later than planned"
    short.started_s["x"] = NOW + 29
    assert late(short, 29, tmp_path) == ""


def test_a_wait_for_nodes_is_late_by_a_tenth_of_the_run_and_three_tenths_of_the_wait(tmp_path):
    """Planned to start at 100, it is ready since 0: 0.3 of 143 s is 42.9, of 142 s 42.6."""
    one = given(job("x", 100, 100))
    assert late(one, 131, tmp_path) == ""
    assert late(one, 142.5, tmp_path) == ""
    assert late(one, 143.5, tmp_path) == "x waits for nodes longer than planned"
    assert late(one, 50, tmp_path) == ""
    # Ready later, when what it needs has ended: the wait counts from there.
    two = given(job("a", 0, 100), job("x", 100, 100, "a"), states={"a": "COMPLETED"})
    two.ended_s["a"] = NOW + 100
    assert late(two, 129, tmp_path) == ""
    assert late(two, 131, tmp_path) == "x waits for nodes longer than planned"
    # What it needs is not there, or it was not submitted: no wait for nodes.
    assert late(given(job("a", 300, 9), job("x", 100, 100, "a")), 200, tmp_path) == ""
    fresh = given(job("x", 100, 100), ids={})
    assert followed(fresh, 500, tmp_path)[0] == "x: submitted as 1"


def test_planned_times_move_to_what_is_expected_so_that_a_delay_is_reported_once(tmp_path):
    """At 40 one is 50 s late.  Two wait, one should have begun; the others are as planned."""
    one = given(
        job("x", 0, 100), job("waits", 0, 100), job("ahead", 60, 100), job("next", 40, 100),
        job("done", 0, 100),
        states={"x": "RUNNING", "done": "COMPLETED"},
        started_s={"x": NOW + 50}, ended_s={"done": NOW + 40},
    )  # fmt: skip
    said, moved = followed(one, 50, tmp_path)
    assert said.startswith("x is expected to end 50 s later than planned: ")
    times = {
        each.name: (each.step.start_s - NOW, each.step.end_s - NOW) for each in moved.jobs[:-1]
    }
    assert times == {
        "x": (0, pytest.approx(150)), "waits": (50, 150), "ahead": (60, 160), "next": (50, 150),
        "done": (0, 100),
    }  # fmt: skip
    again = follower(moved, tmp_path, ask=silent, clock=lambda: NOW + 50)
    assert one_round(again) == []


def test_the_end_of_all_follows_what_ended_and_what_is_to_come(tmp_path):
    """a ended at 150 instead of 100; b needs it and takes 50; c is planned for 300 to 310."""
    one = given(
        job("a", 0, 100), job("b", 100, 50, "a"), job("c", 180, 10), states={"a": "RUNNING"}
    )

    def reported(**also):
        copy = deepcopy(one)
        for name, value in also.items():
            setattr(copy, name, value)
        copy.astray = "a is off"
        made = follower(copy, tmp_path, ask=silent, clock=lambda: NOW)
        return "".join(one_round(made))

    assert reported() == f"a is off: all ended by {clock(NOW + 190)}"
    ended = {"states": {"a": "COMPLETED"}, "ended_s": {"a": NOW + 150}}
    whole = f"a is off: all ended by {clock(NOW + 200)}"
    assert reported(**ended) == whole
    text = f"; that meets the deadline {clock(NOW + 200)}"
    assert reported(**ended, deadline_s=NOW + 200) == f"{whole}{text}"
    assert "that MAY MISS the deadline" in reported(**ended, deadline_s=NOW + 199)


@pytest.mark.parametrize(
    ("ended_s", "message", "again"),
    [
        (1129.0, "x: COMPLETED, 2.1 min later than planned", True),
        (1101.0, "x: COMPLETED, 1.7 min later than planned", True),
        (1099.0, "x: COMPLETED, 1.6 min later than planned", False),
        (1029.0, "x: COMPLETED", False),
        (899.0, "x: COMPLETED, 1.7 min earlier than planned", True),
    ],
)
def test_an_end_off_by_more_than_a_tenth_of_the_run_is_planned_again(
    tmp_path, ended_s, message, *, again
):
    slurm, asked = Slurm(), []
    slurm.shown = {"1": f"COMPLETED|{NOW:.0f}|{NOW + ended_s:.0f}", "2": "PENDING|N/A|N/A"}
    one = given(job("x", 0, 1000), job("y", 5000, 10, "x"))
    made = follower(
        one, tmp_path, ask=slurm.ask, clock=lambda: NOW + ended_s,
        planner=lambda submitted: asked.append(submitted.astray),
    )  # fmt: skip
    assert one_round(made) == [message]
    assert bool(asked) == again
    assert one.ended_s == {"x": NOW + ended_s}
    assert one.started_s == {"x": NOW}
    # The second look has nothing new.
    assert one_round(made) == []
    assert len(asked) == again


def test_a_start_is_reported_with_how_far_it_is_off(tmp_path):
    slurm = Slurm()
    one = given(job("x", 0, 1000), job("y", 0, 1000))
    slurm.shown = {"1": f"RUNNING|{NOW + 30:.0f}|N/A", "2": f"RUNNING|{NOW + 29:.0f}|N/A"}
    made = follower(one, tmp_path, ask=slurm.ask, clock=lambda: NOW + 30)
    assert one_round(made) == ["x: RUNNING, 30 s later than planned", "y: RUNNING"]
    assert one.started_s == {"x": NOW + 30, "y": NOW + 29}


def test_waiting_jobs_are_no_news_and_a_planned_start_is_none(tmp_path):
    slurm = Slurm()
    slurm.shown = {"1": f"PENDING|{NOW + 500:.0f}|N/A"}
    one = given(job("x", 0, 1000))
    assert one_round(follower(one, tmp_path, ask=slurm.ask, clock=lambda: NOW)) == []
    assert one.started_s == {}


def test_an_end_that_slurm_does_not_tell_is_now(tmp_path):
    slurm = Slurm()
    slurm.shown = {"1": "COMPLETED|Unknown|Unknown"}
    one = given(job("x", 0, 1000))
    one_round(follower(one, tmp_path, ask=slurm.ask, clock=lambda: NOW + 990))
    assert (one.started_s, one.ended_s) == ({}, {"x": NOW + 990})


def test_a_job_that_slurm_has_lost_is_no_reason_to_wait_for_ever(tmp_path):
    one, now = given(job("x", 0, 100), job("y", 100, 100, "x"), ids={"x": "1"}), [NOW]
    sleep = {"sleep": lambda s: now.insert(0, now[0] + s)}
    made = follower(one, tmp_path, ask=silent, clock=lambda: now[0], **sleep)
    lines = list(made.lines(600.0))
    assert lines[-2:] == ["x: UNKNOWN", "y: cancelled, for x is UNKNOWN (job 1)"]
    assert now[0] == NOW + 1200


def test_a_plan_that_stays_is_reported_and_one_that_cannot_be_made_as_well(tmp_path):
    def broken(_):
        raise NimoError("no place has the nodes")

    slurm = Slurm()
    for planner, message in (
        (None, f"x ended 3.3 min later than planned: all ended by {clock(NOW + 1210)}"),
        (broken, f"x ended 3.3 min later than planned: all ended by {clock(NOW + 1210)}; "
                 "not planned again: no place has the nodes"),
    ):  # fmt: skip
        slurm.shown = {"1": f"COMPLETED|{NOW:.0f}|{NOW + 1200:.0f}", "2": "PENDING|N/A|N/A"}
        one = given(job("x", 0, 1000), job("y", 1000, 10, "x"))
        made = follower(one, tmp_path, ask=slurm.ask, clock=lambda: NOW + 1200, planner=planner)
        assert one_round(made)[1:] == [message]
        assert one.astray == ""
        assert one.jobs[1].step.start_s == NOW + 1200


def test_an_outage_while_planning_again_is_sat_out(tmp_path):
    calls = []

    def planner(submitted):
        calls.append(submitted.astray)
        if len(calls) == 1:
            raise SlurmError("squeue: error")

    slurm, slept = Slurm(), []
    slurm.shown = {"1": f"COMPLETED|{NOW:.0f}|{NOW + 1200:.0f}", "2": "PENDING|N/A|N/A"}

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 2:
            slurm.shown["2"] = f"COMPLETED|{NOW + 1200:.0f}|{NOW + 1210:.0f}"

    one = given(job("x", 0, 1000), job("y", 1000, 10, "x"))
    made = follower(
        one, tmp_path, ask=slurm.ask, clock=lambda: NOW + 1200, planner=planner, sleep=sleep
    )
    lines = list(made.lines(7.0))
    assert lines == [
        "x: COMPLETED, 3.3 min later than planned",
        "Slurm does not answer, trying again: squeue: error",
        "y: COMPLETED",
    ]
    assert len(calls) == 2
    assert slept == [7.0, 7.0]


def test_jobs_that_squeue_has_forgotten_are_looked_for_in_the_accounting():
    slurm, lines = Slurm(), []
    slurm.shown = {"1": "RUNNING|100|N/A", "9": "RUNNING|1|2", "bad": "line"}
    slurm.accounted = {"2": "CANCELLED by 1000|100|200"}

    def ask(argv):
        lines.append(list(argv))
        return slurm.ask(argv)

    one = given(job("x", 0, 1), job("y", 0, 1), job("z", 0, 1), job("o", 0, 1, cluster="big"))
    one.states = {"z": "COMPLETED"}
    assert look(one, ask) == {
        "x": JobStatus("RUNNING", 100.0, None),
        "y": JobStatus("CANCELLED", 100.0, 200.0),
    }
    assert [argv[0] for argv in lines] == ["squeue", "sacct", "squeue", "sacct"]
    assert lines[1][lines[1].index("-j") + 1] == "2"
    assert lines[1][lines[1].index("-S") + 1] == f"uts{NOW:.0f}"
    assert "--clusters=big" in lines[2]
    assert not JobStatus("RUNNING", 1.0, None).ended
    assert JobStatus("CANCELLED", 1.0, None).ended


def test_a_record_cut_at_any_byte_is_refused_with_the_place(tmp_path):
    path = tmp_path / "w.plan.json"
    held_jobs.write(path, given(job("x", 0, 100), job("y", 100, 100, "x"), text="é"))
    assert state_file.load(path) is not None
    for data in cuts(path.read_bytes()):
        path.write_bytes(data)
        at = rf"w\.plan\.json: cut off at byte {len(data)}; remove it to submit anew"
        with pytest.raises(FormatError, match=at):
            state_file.load(path)


def test_names_tell_tries_apart_and_a_job_is_looked_for_from_a_minute_before():
    one = given(job("x", 0, 1), mark="abc")
    assert one.name("x") == "w.x.abc"
    one.tried = {"x": 1}
    assert one.name("x") == "w.x.abc"
    one.tried = {"x": 2}
    assert one.name("x") == "w.x.abc-2"
    lines = []

    def ask(argv):
        lines.append(list(argv))
        return "7\n8\n" if argv[0] == "sacct" else ""

    assert find(one, one.jobs[0], ask) == "7"
    assert f"uts{NOW - 60:.0f}" in lines[1]
    assert find(one, one.jobs[0], lambda _: "") == ""
    assert find(one, replace(one.jobs[0], cluster="big"), lambda argv: argv[-1]) == "--clusters=big"
