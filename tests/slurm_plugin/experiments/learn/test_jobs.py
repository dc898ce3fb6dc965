"""The command of a run as Slurm gets it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from slurm_plugin.experiments.learn.assignments import Assignment
from slurm_plugin.experiments.learn.description import parse
from slurm_plugin.experiments.learn.journal import Trial
from slurm_plugin.experiments.learn.workbench import SlurmJobs

TEXT = """\
application: blast
command: x
limit: "60"
budget: 1
assignments: [{nodes: [1, 2]}]
"""
TRIAL = Trial(
    key="k", attempt=0, job_name="run 1", nodes=1, limit_s=1, attributes={}, purpose="", why="",
    planned_s=0,
)  # fmt: skip


def jobs(counters: Path | None) -> SlurmJobs:
    return SlurmJobs(parse(TEXT, name="app.yaml"), counters=counters)


def assigned(*command: str) -> Assignment:
    return Assignment(1, (), command, {}, "k")


@pytest.mark.parametrize("status", [0, 3])
def test_the_node_s_counters_are_read_before_and_after_and_the_status_remains(tmp_path, status):
    own = jobs(tmp_path)
    wrapped = own.argv(assigned(f"--wrap=cat <<END\nhello\nEND\nexit {status}"), TRIAL)[-1]
    script = wrapped.removeprefix("--wrap=")
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("hello\n", status)
    assert {one.name for one in tmp_path.iterdir()} == {"run 1.before", "run 1.after"}
    assert "= diskstats" in (tmp_path / "run 1.after").read_text()


def test_where_the_counters_cannot_be_written_the_run_is_the_same(tmp_path):
    own = jobs(tmp_path / "not there")
    script = own.argv(assigned("--wrap=echo hello"), TRIAL)[-1].removeprefix("--wrap=")
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("hello\n", 0)
    assert own.network_share(TRIAL) is None


def test_a_job_script_and_a_share_as_given_are_left_as_they_are(tmp_path):
    assert jobs(tmp_path).argv(assigned("job.sh", "arg"), TRIAL)[-2:] == ["job.sh", "arg"]
    assert jobs(None).argv(assigned("--wrap=echo"), TRIAL)[-1] == "--wrap=echo"
    assert jobs(None).network_share(TRIAL) is None


def test_what_was_counted_becomes_the_network_s_share(tmp_path):
    head = "device a:/b mounted on /b with fstype nfs\n\tper-op statistics\n"
    end = "\n= diskstats\n= io.stat\n"
    (tmp_path / "run 1.before").write_text(head + end)
    reported = head + "GETATTR: 10 10 0 0 0 0 20 20\nREAD: 50 50 0 0 0 0 400 400" + end
    (tmp_path / "run 1.after").write_text(reported)
    assert jobs(tmp_path).network_share(TRIAL) == pytest.approx(120 / 420)
