"""Following a plan: what is late, by how much that is too much, and what is said and done of it."""

from copy import deepcopy
from dataclasses import replace

import pytest
from msgspec import structs

from sacct_ingest.errors import FormatError, NimoError, SlurmError
from sacct_ingest.records import JobState
from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments.campaign import spent
from slurm_plugin.experiments.plan import state_file
from slurm_plugin.experiments.plan.chain import PlannedJob, job_name
from slurm_plugin.experiments.plan.followed_plan import FollowedPlan
from slurm_plugin.experiments.plan.run_times import TaskEstimate
from slurm_plugin.experiments.plan.schedule import Step
from slurm_plugin.experiments.plan.state_file import StepRun
from slurm_plugin.text.formatting import clock
from tests.slurm_plugin.experiments.fake_slurm import FakeSlurm, Killed, campaign, cuts
from tests.slurm_plugin.experiments.plan.made import NOW
from tests.slurm_plugin.reports.rows import run as job_of


def job(name, start_s, takes_s, *needs, cluster=""):
    estimate = TaskEstimate(takes_s, 0.1, 0.1)
    step = Step(
        name, NOW + start_s, NOW + start_s + takes_s, NOW + start_s, estimate, needs, "p", nodes=1
    )
    return PlannedJob(step=step, options=("--nodes=1", "--time=10"), script="", cluster=cluster)


def given(*jobs, ids=None, states=(), started_s=(), ended_s=(), **also):
    """Jobs with the ids 1, 2, ..., submitted now."""
    numbers = {one.name: number for number, one in enumerate(jobs, 1)} if ids is None else ids
    submitted = state_file.Submitted(
        jobs=list(jobs), **{"workflow": "w", "deadline_s": None, "submitted_s": NOW} | also
    )
    for one in jobs:
        if one.name in numbers:
            submitted.steps[one.name] = StepRun(
                planned_s=int(NOW), limit_s=600.0, nodes=1, where=one.cluster,
                step=one.name, job_name=job_name("w", one.name, submitted.mark),
                job_id=numbers[one.name],
                state=dict(states).get(one.name, "PENDING"),
                started_s=dict(started_s).get(one.name), ended_s=dict(ended_s).get(one.name),
            )  # fmt: skip
    return submitted


def become(submitted, name, **changes):
    """Change what is known of a step's job."""
    submitted.steps[name] = structs.replace(submitted.steps[name], **changes)


def outcome(failing=(), refused=()):
    """What becomes of jobs: 100 s each."""

    def of(slurm, argv):
        name = next(w.partition("=")[2] for w in argv if w.startswith("--job-name="))
        step, state = name.split(".")[1], JobState.COMPLETED
        if step in refused:
            return "no such partition"
        if step in failing:
            state = JobState.FAILED
        return job_of(job_id=len(slurm.jobs) + 1, state=state, elapsed_s=100.0, end_s=None)

    return of


def plan(submitted, path, slurm=None, said=None, **also):
    return FollowedPlan(
        submitted, path / "w.plan.json", jobs=slurm or FakeSlurm(outcome()),
        tell=(said if said is not None else []).append, **also,
    )  # fmt: skip


def followed(submitted, path, slurm, **also):
    """What is said of a plan until all has ended, and why that is."""
    said = []
    flow = plan(submitted, path, slurm, said, **also)
    whole = campaign(flow, slurm, report=lambda run: said.append(flow.line(run)), tell=said.append)
    return said, whole.follow()


def late(submitted, after_s, path):
    """What is said of a plan that stays, so long after it was submitted."""
    said = []
    one = deepcopy(submitted)
    one.jobs.append(job("far", 3e7, 1.0))  # so that there is something that waits
    plan(one, path, said=said).next(NOW + after_s)
    return "".join(said).partition(": all ended by ")[0]


def test_a_run_is_late_where_its_expected_end_is_off_by_more_than_allowed(tmp_path):
    """It takes 1000 s and began 101 s after the plan: 1 s more than a tenth of its time."""
    one = given(job("x", 0, 1000), states={"x": "RUNNING"}, started_s={"x": NOW + 101})
    assert late(one, 101, tmp_path) == "x is expected to end 1.7 min later than planned"
    become(one, "x", started_s=NOW + 99)
    assert late(one, 99, tmp_path) == ""
    become(one, "x", started_s=NOW - 101)
    assert late(one, -101, tmp_path) == "x is expected to end 1.7 min earlier than planned"
    # 30 s of a short one.
    short = given(job("x", 0, 100), states={"x": "RUNNING"}, started_s={"x": NOW + 31})
    assert late(short, 31, tmp_path) == "x is expected to end 31 s later than planned"
    become(short, "x", started_s=NOW + 29)
    assert late(short, 29, tmp_path) == ""


def test_a_wait_for_nodes_is_late_by_a_tenth_of_the_run_and_three_tenths_of_the_wait(tmp_path):
    """Planned to start at 100, it is ready since 0: 0.3 of 143 s is 42.9, of 142 s 42.6."""
    one = given(job("x", 100, 100))
    assert late(one, 131, tmp_path) == ""
    assert late(one, 142.5, tmp_path) == ""
    assert late(one, 143.5, tmp_path) == "x waits for nodes longer than planned"
    assert late(one, 50, tmp_path) == ""
    # Ready later, when what it needs has ended: the wait counts from there.
    two = given(
        job("a", 0, 100), job("x", 100, 100, "a"), states={"a": "COMPLETED"},
        ended_s={"a": NOW + 100},
    )  # fmt: skip
    assert late(two, 129, tmp_path) == ""
    assert late(two, 131, tmp_path) == "x waits for nodes longer than planned"
    # What it needs is not there, or it was not submitted: no wait for nodes.
    assert late(given(job("a", 300, 9), job("x", 100, 100, "a")), 200, tmp_path) == ""
    assert late(given(job("x", 100, 100), ids={}), 500, tmp_path) == ""


def test_planned_times_move_to_what_is_expected_so_that_a_delay_is_reported_once(tmp_path):
    """At 40 one is 50 s late.  Two wait, one should have begun; the others are as planned."""
    one = given(
        job("x", 0, 100), job("waits", 0, 100), job("ahead", 60, 100), job("next", 40, 100),
        job("done", 0, 100),
        states={"x": "RUNNING", "done": "COMPLETED"},
        started_s={"x": NOW + 50}, ended_s={"done": NOW + 40},
    )  # fmt: skip
    said = []
    flow = plan(one, tmp_path, said=said)
    assert flow.next(NOW + 50) is None
    assert said[0].startswith("x is expected to end 50 s later than planned: ")
    times = {each.name: (each.step.start_s - NOW, each.step.end_s - NOW) for each in one.jobs}
    assert times == {
        "x": (0, pytest.approx(150)), "waits": (50, 150), "ahead": (60, 160), "next": (50, 150),
        "done": (0, 100),
    }  # fmt: skip
    assert flow.next(NOW + 50) is None
    assert len(said) == 1


def test_the_end_of_all_follows_what_ended_and_what_is_to_come(tmp_path):
    """a ended at 150 instead of 100; b needs it and takes 50; c is planned for 300 to 310."""

    def reported(**also):
        said = []
        jobs = job("a", 0, 100), job("b", 100, 50, "a"), job("c", 180, 10)
        one = given(*jobs, **{"states": {"a": "RUNNING"}, "astray": "a is off"} | also)
        plan(one, tmp_path, said=said).next(NOW)
        return "".join(said)

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
    asked = []
    one = given(job("x", 0, 1000), job("y", 5000, 10, "x"))
    flow = plan(one, tmp_path, planner=lambda submitted: asked.append(submitted.astray))
    row = job_of(
        job_id=1, state=JobState.COMPLETED, start_s=NOW, end_s=NOW + ended_s, elapsed_s=ended_s
    )
    assert flow.line(flow.save(flow.as_ended(one.steps["x"], row, ""))) == message
    assert flow.next(NOW + ended_s) is None
    assert bool(asked) == again
    assert (one.started_s("x"), one.ended_s("x")) == (NOW, NOW + ended_s)
    assert flow.next(NOW + ended_s) is None
    assert len(asked) == again


def test_a_start_is_reported_with_how_far_it_is_off(tmp_path):
    one = given(job("x", 0, 1000), job("y", 0, 1000))
    flow = plan(one, tmp_path)
    for name, start_s, said in (("x", 30, ", 30 s later than planned"), ("y", 29, "")):
        seen = one.steps[name].seen(
            held_jobs.QueuedJob(1, "RUNNING", "None", "", start_s=NOW + start_s)
        )
        assert flow.line(flow.save(seen)) == f"{name}: RUNNING{said}"
        assert one.started_s(name) == NOW + start_s
    waits = held_jobs.QueuedJob(1, "PENDING", "Resources", "", start_s=NOW + 500)
    fresh = given(job("x", 0, 9)).steps["x"]
    assert fresh.seen(waits) is fresh  # a planned start is none
    assert one.steps["x"].seen(waits).started_s is None  # requeued
    ends = held_jobs.QueuedJob(1, "COMPLETING", "None", "", start_s=NOW)
    assert fresh.seen(ends).state == "RUNNING"


def test_a_plan_is_followed_to_its_end(tmp_path):
    slurm = FakeSlurm(outcome(), now_s=NOW)
    one = given(job("x", 0, 100), job("y", 100, 100, "x"), job("z", 0, 100, "x"), ids={})
    said, why = followed(one, tmp_path, slurm)
    assert why == "all steps have ended"
    assert said[:3] == ["x: submitted as 1", "y: submitted as 2", "z: submitted as 3"]
    assert {"y: RUNNING", "x: COMPLETED", "z: COMPLETED"} <= {*said}
    assert [fake.option("dependency") for fake in slurm.jobs.values()] == [
        "", "afterok:1", "afterok:1",
    ]  # fmt: skip
    assert all("--hold" in fake.argv for fake in slurm.jobs.values())
    assert {run.state for run in one.steps.values()} == {"COMPLETED"}
    # Once more it has nothing to do.
    assert followed(one, tmp_path, slurm) == ([], "all steps have ended")


def test_a_job_of_another_cluster_is_submitted_when_what_it_needs_has_completed(tmp_path):
    slurm = FakeSlurm(outcome(), now_s=NOW)
    one = given(
        job("x", 0, 100), job("y", 100, 100, "x", cluster="big"),
        job("z", 200, 100, "y", cluster="big"), ids={},
    )  # fmt: skip
    said, _ = followed(one, tmp_path, slurm)
    assert said.index("y: submitted as 2") > said.index("x: COMPLETED")
    assert slurm.jobs[2].option("dependency") == ""
    assert slurm.jobs[3].option("dependency") == "afterok:2"


def test_a_failure_takes_along_what_needs_it_and_a_refusal_as_well(tmp_path):
    jobs = job("x", 0, 100), job("y", 100, 100, "x"), job("z", 0, 100)
    slurm = FakeSlurm(outcome(failing=("x",)), now_s=NOW)
    one = given(*jobs, ids={})
    said, _ = followed(one, tmp_path, slurm)
    assert "x: FAILED" in said
    assert "y: cancelled, for x is FAILED (job 1)" in said
    assert [one.state(name) for name in "xyz"] == ["FAILED", "CANCELLED", "COMPLETED"]
    assert slurm.left == []

    slurm = FakeSlurm(outcome(refused=("x",)), now_s=NOW)
    one = given(*jobs, ids={})
    said, _ = followed(one, tmp_path, slurm)
    assert said[:2] == ["x: REFUSED: no such partition", "y: cancelled, for x is REFUSED"]
    assert [one.state(name) for name in "xyz"] == ["REFUSED", "CANCELLED", "COMPLETED"]
    assert len(slurm.jobs) == 1


def test_no_job_is_submitted_that_might_exceed_the_budget(tmp_path):
    """Each may take ten minutes, and takes 100 s."""
    slurm = FakeSlurm(outcome(), now_s=NOW)
    one = given(*(job(name, 0, 100) for name in "xyz"), ids={}, budget=0.25)
    said, why = followed(one, tmp_path, slurm)
    assert why == "all steps have ended"
    assert said.index("y: submitted as 2") > said.index("x: COMPLETED")
    one = given(*(job(name, 0, 100) for name in "xyz"), ids={}, budget=0.2)
    _, why = followed(one, tmp_path, FakeSlurm(outcome(), now_s=NOW))
    assert why == "the budget is used: z may need more"
    assert spent(list(one.steps.values())) == pytest.approx(200 / 3600)


@pytest.mark.parametrize("kill_at", range(1, 26, 2))
def test_killed_at_any_call_it_goes_on_from_its_record(tmp_path, kill_at):
    """No step runs twice, and none is forgotten."""
    path = tmp_path / "w.plan.json"
    held_jobs.write(path, given(job("x", 0, 100), job("y", 100, 100, "x"), ids={}))
    slurm = FakeSlurm(outcome(), now_s=NOW, kill_at=kill_at)
    try:
        followed(state_file.load(path), tmp_path, slurm)
    except Killed:
        followed(state_file.load(path), tmp_path, slurm)
    assert slurm.left == []
    assert {run.state for run in state_file.load(path).steps.values()} == {"COMPLETED"}
    ran = [fake.option("job-name") for fake in slurm.jobs.values() if fake.state == "RUNNING"]
    assert len(ran) == len(set(ran)) == 2


def test_interrupted_it_leaves_no_job_and_goes_on(tmp_path):
    one = given(job("x", 0, 100), job("y", 100, 100, "x"), ids={})
    slurm = FakeSlurm(outcome(), now_s=NOW)
    said, moments = [], iter([None])

    def interrupted(_):
        next(moments, None)
        raise KeyboardInterrupt

    flow = plan(one, tmp_path, slurm, again="nimo lab plan --follow w.yaml")
    with pytest.raises(KeyboardInterrupt):
        campaign(flow, slurm, sleep=interrupted, tell=said.append).follow()
    assert slurm.left == []
    assert said == ["cancelled (1, 2); 'nimo lab plan --follow w.yaml' goes on"]
    left = state_file.load(tmp_path / "w.plan.json")
    assert [run.job_id for run in left.steps.values()] == [None, None]
    assert followed(left, tmp_path, slurm)[1] == "all steps have ended"
    assert [run.job_id for run in left.steps.values()] == [3, 4]


def test_an_outage_is_sat_out_for_a_quarter_of_an_hour(tmp_path):
    def broken(outage):
        slurm, calls = FakeSlurm(outcome(), now_s=NOW), []

        def queue():
            calls.append(slurm.now_s)
            if len(calls) in outage:
                raise SlurmError("slurm_load_jobs error: Unable to contact slurm controller")
            return FakeSlurm.queue(slurm)

        slurm.queue = queue
        return slurm

    one = given(job("x", 0, 100), job("y", 100, 100, "x"), ids={})
    said, why = followed(one, tmp_path, broken(range(2, 6)))
    assert why == "all steps have ended"
    outage = [line for line in said if line.startswith("Slurm does not answer, trying again: ")]
    assert len(outage) == 4
    one = given(job("x", 0, 100), job("y", 100, 100, "x"), ids={})
    with pytest.raises(SlurmError, match="Unable to contact"):
        followed(one, tmp_path, broken(range(2, 10**6)))
    # Where it never answered nobody waits.
    slurm = broken(range(10**6))
    slurm.submit = lambda *_: slurm.queue()
    with pytest.raises(SlurmError, match="Unable to contact"):
        followed(given(job("x", 0, 100), ids={}), tmp_path, slurm)
    assert slurm.now_s == NOW


def test_a_plan_that_stays_is_reported_and_one_that_cannot_be_made_as_well(tmp_path):
    def broken(_):
        raise NimoError("no place has the nodes")

    for planner, message in (
        (None, f"x ended 3.3 min later than planned: all ended by {clock(NOW + 1210)}"),
        (broken, f"x ended 3.3 min later than planned: all ended by {clock(NOW + 1210)}; "
                 "not planned again: no place has the nodes"),
    ):  # fmt: skip
        one = given(
            job("x", 0, 1000), job("y", 1000, 10, "x"), states={"x": "COMPLETED"},
            ended_s={"x": NOW + 1200}, astray="x ended 3.3 min later than planned",
        )  # fmt: skip
        said = []
        plan(one, tmp_path, said=said, planner=planner).next(NOW + 1200)
        assert said == [message]
        assert one.astray == ""
        assert one.jobs[1].step.start_s == NOW + 1200


def test_an_outage_while_planning_again_leaves_it_to_be_done(tmp_path):
    calls = []

    def planner(submitted):
        calls.append(submitted.astray)
        if len(calls) == 1:
            raise SlurmError("squeue: error")

    one = given(job("x", 0, 1000), astray="y is FAILED")
    flow = plan(one, tmp_path, planner=planner)
    with pytest.raises(SlurmError):
        flow.next(NOW)
    assert flow.next(NOW) is None
    assert calls == ["y is FAILED", "y is FAILED"]


def test_a_record_cut_at_any_byte_is_refused_with_the_place(tmp_path):
    path = tmp_path / "w.plan.json"
    held_jobs.write(path, given(job("x", 0, 100), text="é"))
    assert state_file.load(path) is not None
    for data in cuts(path.read_bytes()):
        path.write_bytes(data)
        at = rf"w\.plan\.json: cut off at byte {len(data)}; remove it to submit anew"
        with pytest.raises(FormatError, match=at):
            state_file.load(path)


def test_names_tell_the_jobs_of_a_step_apart():
    one = given(job("x", 0, 1), mark="abc")
    assert one.new_name("x") == "w.x.abc"
    one.others = [replaced(one)]
    assert one.new_name("x") == "w.x.abc-2"


def replaced(one, name="x"):
    """The job of a step, whose place another takes."""
    before = next(each for each in one.jobs if each.name == name)
    return structs.replace(one.steps.pop(name), replaced=before)


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_jobs_that_leave_are_cancelled_and_those_that_began_stay(tmp_path, state):
    """It stays before what needs it."""
    slurm = FakeSlurm(outcome(), now_s=NOW)
    for name in "ax":
        slurm.submit([f"--job-name=w.{name}.abc"], "")
    slurm.jobs[2].state = state
    slurm.cancel = lambda *ids, waiting=False: [
        slurm.over.append(one) for one in ids if not waiting or slurm.jobs[one].state == "PENDING"
    ]
    one = given(job("a", 0, 9), job("x", 0, 9), job("y", 0, 9, "x"), mark="abc",
                ids={"a": 1, "x": 2})  # fmt: skip
    one.others = [replaced(one)]
    one.jobs = [one.jobs[0], replace(one.jobs[2]), replace(one.jobs[1], script="other")]
    astray = []
    followed(one, tmp_path, slurm, planner=lambda own: astray.append(own.astray))
    began = state == "RUNNING"
    assert ("x began meanwhile" in astray) == began
    assert [each.name for each in one.jobs] == (["a", "x", "y"] if began else ["a", "y", "x"])
    assert one.steps["x"].job_name == ("w.x.abc" if began else "w.x.abc-2")
    assert len(one.others) == (not began)
