"""Plans as jobs, submitted over clusters and followed; Slurm is played by a dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sacct_ingest.errors import SlurmError
from slurm_plugin.plan import record
from slurm_plugin.plan.chain import Job, jobs
from slurm_plugin.plan.follow import failed, follow
from slurm_plugin.plan.plans import plans
from slurm_plugin.plan.submit import submit_ready, waits_elsewhere
from tests.slurm_plugin.plan.made import NOW, problem

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


class Slurm:
    """Takes jobs and says of each what it was told to say."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = []
        self.shown: dict[str, str] = {}
        self.accounted: dict[str, str] = {}
        self.broken = 0

    def sbatch(self, argv: Sequence[str], script: str) -> str:
        self.lines.append(list(argv))
        return str(len(self.lines))

    def ask(self, argv: Sequence[str]) -> str:
        if argv[0] == "scancel":
            self.lines.append(list(argv))
            return ""
        if self.broken:
            self.broken -= 1
            raise SlurmError("slurm_load_jobs error: Unable to contact slurm controller")
        told = self.shown if argv[0] == "squeue" else self.accounted
        return "".join(f"{job}|{rest}\n" for job, rest in told.items())


@pytest.fixture
def chain() -> list[Job]:
    made = problem(TWO_CLUSTERS)
    return jobs(made.workflow, plans(made)[0].schedule, deadline_s=NOW + 3600, hard=True)


def submitted(chain: list[Job]) -> record.Submitted:
    return record.Submitted(
        workflow="flow", deadline_s=NOW + 3600, submitted_s=NOW, jobs=list(chain)
    )


def test_scripts_have_the_paths_of_where_they_run(chain: list[Job]) -> None:
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


def test_deadlines_leave_time_for_what_follows(chain: list[Job]) -> None:
    latest = [job.latest_s for job in chain]
    assert latest == sorted(latest, key=lambda at: at or 0.0)
    assert latest[-1] == NOW + 3600
    first = chain[0].latest_s
    assert first is not None
    assert first < NOW + 3600 - 40


def test_what_needs_another_cluster_is_submitted_when_that_has_completed(
    chain: list[Job], tmp_path: Path
) -> None:
    slurm, given, kept = Slurm(), submitted(chain), tmp_path / "flow.plan.json"
    assert waits_elsewhere(chain) == ["mid to far", "second", "out to near"]
    assert [job.name for job in submit_ready(given, kept, slurm.sbatch)] == ["first"]
    slurm.shown = {"1": f"COMPLETED|{NOW:.0f}|{NOW + 400:.0f}"}
    rounds = iter(
        [
            {"2": "RUNNING|1|N/A"},
            {"2": "COMPLETED|1|2", "3": "COMPLETED|3|4"},
            {"4": "COMPLETED|5|6"},
        ]
    )
    lines = list(
        follow(
            given,
            kept,
            interval_s=1.0,
            ask=slurm.ask,
            submit=slurm.sbatch,
            sleep=lambda _: slurm.shown.update(next(rounds)),
        )
    )
    assert "first: COMPLETED, 300 s later than planned" in lines[0]
    assert lines[1].startswith("behind the plan: ")
    assert lines[1].endswith("keeps the deadline " + lines[1].rpartition(" ")[2])
    assert not any("--dependency" in word for word in slurm.lines[1])
    assert "--dependency=afterok:2" in slurm.lines[2]
    assert [argv[0] for argv in slurm.lines] == ["sbatch"] * 4
    loaded = record.load(kept)
    assert loaded is not None
    assert set(loaded.states.values()) == {"COMPLETED"}


def test_a_failure_cancels_what_needs_it_and_outages_are_sat_out(
    chain: list[Job], tmp_path: Path
) -> None:
    given, kept, slurm = submitted(chain), tmp_path / "flow.plan.json", Slurm()
    given.ids = {"first": "6", "mid to far": "7", "second": "8"}
    given.states = {"first": "COMPLETED"}
    slurm.broken = 1
    slurm.shown = {"8": "PENDING|N/A|N/A"}
    slurm.accounted = {"7": "CANCELLED by 0|1|2"}
    lines = list(
        follow(given, kept, interval_s=1, ask=slurm.ask, submit=slurm.sbatch, sleep=lambda _: None)
    )
    assert lines[0].startswith("Slurm does not answer, trying again")
    assert lines[1].startswith("mid to far: CANCELLED")
    assert lines[2] == "second, out to near: cancelled, for mid to far is CANCELLED (job 7)"
    assert slurm.lines == [["scancel", "--clusters=big", "8"]]
    assert failed(given) == ["mid to far", "second", "out to near"]


def test_a_refused_job_keeps_those_before_it(chain: list[Job], tmp_path: Path) -> None:
    given, kept = submitted(chain), tmp_path / "flow.plan.json"
    given.ids, given.states = {"first": "4"}, {"first": "COMPLETED"}

    def refuse(argv: Sequence[str], script: str) -> str:
        if "--exclusive" in argv:
            raise SlurmError("sbatch: error: Batch job submission failed")
        return "5"

    with pytest.raises(SlurmError):
        submit_ready(given, kept, refuse)
    loaded = record.load(kept)
    assert loaded is not None
    assert loaded.ids == {"first": "4", "mid to far": "5"}
