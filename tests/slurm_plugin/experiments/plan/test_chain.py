"""Plans as jobs, submitted over clusters and followed; Slurm is played by a dictionary."""

from collections.abc import Sequence

import pytest

from slurm_plugin.experiments.plan import state_file
from slurm_plugin.experiments.plan.chain import PlannedJob, jobs
from slurm_plugin.experiments.plan.monitor import PlanMonitor, failed
from slurm_plugin.experiments.plan.plans import plans
from slurm_plugin.experiments.plan.submit import submit_ready, waits_elsewhere
from slurm_plugin.slurm.commands import SubmissionRefused
from tests.slurm_plugin.experiments.plan.made import NOW, Slurm, problem

TWO_CLUSTERS = """
name: flow
storages: {near: {path: /near}, far: {path: /far data}}
links:
  - {from: near, to: far, bandwidth: 100M, remote: false, copy: "rsync {source} host:{target}"}
places: {here: {storage: near}, there: {storage: far, cluster: big, partition: batch, speed: 10}}
files: {raw: {at: near, size: 1G}, mid: {size: 1M}, out: {size: 1M, deliver: near}}
tasks:
  first: {command: "a {raw} > {mid}; b ${raw}", reads: [raw], writes: [mid], places: [here],
          run_time: 100}
  second: {command: "c {mid} > {out}", reads: [mid], writes: [out], places: [there],
           run_time: {1: 1000, 2: 500}, application: conv/big, sbatch: [--exclusive]}
"""


@pytest.fixture
def chain() -> list[PlannedJob]:
    made = problem(TWO_CLUSTERS)
    schedule = plans(made)[0].schedule
    return jobs(made.workflow, schedule, rooms={}, deadline_s=NOW + 3600, hard=True)


def submitted(chain: list[PlannedJob]) -> state_file.Submitted:
    return state_file.Submitted(
        workflow="flow", deadline_s=NOW + 3600, submitted_s=NOW, jobs=list(chain)
    )


def test_scripts_have_the_paths_of_where_they_run(chain):
    first, copied, second, back = chain
    assert first.script.endswith("a /near/raw > /near/mid; b ${raw}\n")
    assert "rsync /near/mid host:'/far data/mid.part'\n" in copied.script
    assert second.script.endswith("c '/far data/mid' > '/far data/out'\n")
    assert {"--clusters=big", "--partition=batch", "--nodes=2", "--exclusive"} <= {*second.options}
    assert "--comment=nimo:app=conv,problem=big" in second.options
    assert "--comment=nimo:off" in back.options
    assert "--clusters=big" not in back.options
    assert f"--deadline=uts{int(NOW) + 3600}" in back.options
    # A minute and twice what one of a hundred runs takes more than the median.
    assert "--time=4" in first.options


def option(job: PlannedJob, name: str) -> str:
    return next(word.partition("=")[2] for word in job.options if word.startswith(f"--{name}="))


def test_what_needs_another_cluster_is_submitted_when_that_has_completed(chain, tmp_path):
    slurm, given, remaining = Slurm(), submitted(chain), tmp_path / "flow.plan.json"
    assert waits_elsewhere(chain) == ["mid to far", "second", "out to near"]
    assert [job.name for job in submit_ready(given, remaining, slurm.sbatch)] == ["first"]
    slurm.shown = {"1": f"COMPLETED|{NOW:.0f}|{NOW + 400:.0f}"}
    rounds = iter(
        [
            {"2": "RUNNING|1|N/A"},
            {"2": "COMPLETED|1|2", "3": "COMPLETED|3|4"},
            {"4": "COMPLETED|5|6"},
        ]
    )
    follower = PlanMonitor(
        submitted=given,
        path=remaining,
        ask=slurm.ask,
        submit=slurm.sbatch,
        clock=lambda: NOW + 400,
        sleep=lambda _: slurm.shown.update(next(rounds)),
    )
    lines = list(follower.lines(1.0))
    assert "first: COMPLETED, 300 s later than planned" in lines[0]
    assert lines[1].startswith("first ended 300 s later than planned: all ended by ")
    assert lines[1].endswith("meets the deadline " + lines[1].rpartition(" ")[2])
    assert not any("--dependency" in word for word in slurm.lines[1])
    assert "--dependency=afterok:2" in slurm.lines[2]
    assert [argv[0] for argv in slurm.lines] == ["sbatch"] * 4
    loaded = state_file.load(remaining)
    assert set(loaded.states.values()) == {"COMPLETED"}


def test_a_failure_cancels_what_needs_it_and_outages_are_sat_out(chain, tmp_path):
    given, remaining, slurm = submitted(chain), tmp_path / "flow.plan.json", Slurm()
    given.ids = {"first": "6", "mid to far": "7", "second": "8"}
    given.states = {"first": "COMPLETED"}
    slurm.broken = 1
    slurm.shown = {"8": "PENDING|N/A|N/A"}
    slurm.accounted = {"7": "CANCELLED by 0|1|2"}
    follower = PlanMonitor(
        submitted=given,
        path=remaining,
        ask=slurm.ask,
        submit=slurm.sbatch,
        clock=lambda: NOW,
        sleep=lambda _: None,
    )
    lines = list(follower.lines(1.0))
    assert lines[0].startswith("Slurm does not answer, trying again")
    assert lines[1].startswith("mid to far: CANCELLED")
    assert lines[2] == "second, out to near: cancelled, for mid to far is CANCELLED (job 7)"
    assert slurm.lines == [["scancel", "--clusters=big", "8"]]
    assert failed(given) == ["mid to far", "second", "out to near"]


def test_a_refused_job_keeps_those_before_it(chain, tmp_path):
    given, remaining = submitted(chain), tmp_path / "flow.plan.json"
    given.ids, given.states = {"first": "4"}, {"first": "COMPLETED"}

    def refuse(argv: Sequence[str], script: str) -> str:
        if "--exclusive" in argv:
            raise SubmissionRefused("sbatch: error: Batch job submission failed")
        return "5"

    with pytest.raises(SubmissionRefused):
        submit_ready(given, remaining, refuse)
    loaded = state_file.load(remaining)
    assert loaded.ids == {"first": "4", "mid to far": "5"}
    assert failed(loaded) == ["second"]


def test_what_may_have_been_submitted_is_looked_for_by_its_name(chain, tmp_path):
    given, remaining, slurm = submitted(chain), tmp_path / "flow.plan.json", Slurm()

    def killed(argv: Sequence[str], script: str) -> str:
        slurm.sbatch(argv, script)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        submit_ready(given, remaining, killed, slurm.ask)
    loaded = state_file.load(remaining)
    assert (loaded.ids, loaded.trying) == ({}, ["first"])
    assert [job.name for job in submit_ready(loaded, remaining, slurm.sbatch, slurm.ask)] == [
        "first"
    ]
    assert loaded.ids == {"first": "1"}
    assert len(slurm.lines) == 1
    # What never came to Slurm is submitted, under the same name.
    given.trying, given.tried = ["first"], {"first": 1}
    slurm.names.clear()
    submit_ready(given, remaining, slurm.sbatch, slurm.ask)
    assert given.ids == {"first": "2"}
    assert slurm.lines[0][2] == slurm.lines[1][2] == f"--job-name=flow.first.{given.mark}"
