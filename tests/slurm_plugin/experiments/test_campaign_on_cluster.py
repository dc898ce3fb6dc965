"""Campaigns on a real Slurm that are ended and killed: what stays in the queue, and going on."""

import json
import signal
import subprocess

import pytest

from slurm_plugin.experiments.held_jobs import HeldJobs
from tests.cluster.nimod import Nimod, hooks_for
from tests.conftest import scratch_directory
from tests.processes import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.long]

#: Runs for as long as the file is there.
JOB = """\
#!/bin/sh
while test -e {wait}; do sleep 0.2; done
"""
DESCRIPTION = """\
application: waits
command: 'sh job.sh {share}'
limit: "5"
budget: 50
assignments: [{variables: {share: [1, 2, 3]}, cpus: [1, 2]}]
learning: {target: 10000, fewest: 3, in_a_row: 1, error: cross-validation}
"""
SCALE = ["scale", "-N", "1,2,4", "--time", "5", "--runs", "4", "job.sh"]
LEARN = ["lab", "learn", "app.yaml"]
PLAN = ["lab", "plan", "--submit", "--follow", "--fixed", "flow.yaml"]
GO_ON = {
    "scale": ["scale", "--resume", "job.scale"],
    "learn": LEARN,
    "plan": ["lab", "plan", "--follow", "flow.yaml"],
}
#: Journals, and where they have the jobs.
JOURNALS = {
    "scale": ("job.scale/study.json", lambda made: made["runs"]),
    "learn": ("app.learn.json", lambda made: made["trials"]),
    "plan": ("flow.plan.json", lambda made: [*made["steps"].values()]),
}
WORKFLOW = """\
storages: {here: {path: /tmp}}
places: {batch: {storage: here}}
tasks:
  first: {command: "sh job.sh", run_time: 60}
  second: {command: "sh job.sh", run_time: 60, after: [first]}
"""


@pytest.fixture(scope="module")
def nimo(slurm_cluster):
    with (
        scratch_directory("nimo-campaign-") as directory,
        slurm_cluster(nodes=4, lua=hooks_for(directory)) as cluster,
    ):
        yield Nimod(directory, cluster)


def start(cluster, command):
    return subprocess.Popen(
        [cluster.bin / "nimo", *command],
        cwd=cluster.layout.work,
        env=cluster.env,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def queue(cluster, *states):
    """Jobs in the queue in these states."""
    chosen = ["-t", ",".join(states)] if states else []
    return cluster.run("squeue", "-h", "-o", "%A", *chosen).stdout.split()


def killed(cluster, command, how):
    """Start a campaign, and end it once a job of it runs; give how that ended."""
    process = start(cluster, command)
    try:
        wait_until(lambda: queue(cluster, "RUNNING"), what="a job that runs")
    finally:
        process.send_signal(how)
        _, said = process.communicate(timeout=60)
    return process.returncode, said


@pytest.mark.parametrize(("kind", "command"), [("scale", SCALE), ("learn", LEARN), ("plan", PLAN)])
def test_an_ended_campaign_leaves_no_job_and_a_killed_one_loses_none(nimo, kind, command):
    cluster, work = nimo.cluster, nimo.cluster.layout.work
    wait = work / "wait"
    wait.touch()
    (work / "job.sh").write_text(JOB.format(wait=wait))
    (work / "app.yaml").write_text(DESCRIPTION)
    (work / "flow.yaml").write_text(WORKFLOW)
    goes_on = GO_ON[kind]

    status, said = killed(cluster, command, signal.SIGTERM)
    assert status == 130
    assert "cancelled (" in said and f"'nimo {' '.join(goes_on)}' goes on\n" in said
    wait_until(lambda: not queue(cluster), what="an empty queue")

    # Told to leave them it does; the next takes them over, and is killed.
    status, said = killed(cluster, [*goes_on, "--leave"], signal.SIGTERM)
    assert status == 130 and "cancelled" not in said
    left = queue(cluster)
    assert left
    status, _ = killed(cluster, goes_on, signal.SIGKILL)
    assert status == -signal.SIGKILL
    assert queue(cluster) == left

    wait.unlink()
    ended = json.loads(nimo.run(*goes_on, "--json").stdout)["ended"]
    assert "budget" not in ended
    assert queue(cluster) == []
    fields = ("JobID", "State", "JobName", "Comment")
    jobs = {one["JobID"]: one for one in cluster.sacct("-X", "-S", "now-1hour", fields=fields)}
    assert {jobs[one]["State"] for one in left} == {"COMPLETED"}
    path, runs_of = JOURNALS[kind]
    runs = [one["job_id"] for one in runs_of(json.loads((work / path).read_text()))]
    assert len(runs) == len(set(runs))
    assert {str(one) for one in runs} >= set(left)


def test_what_has_begun_or_ended_is_not_cancelled_as_waiting(nimo, monkeypatch):
    cluster = nimo.cluster
    for name, value in cluster.env.items():
        monkeypatch.setenv(name, value)
    waits, runs, ended = (
        cluster.sbatch("-t1", *hold, f"--wrap=sleep {seconds}")
        for hold, seconds in ((["--hold"], 1), ([], 50), ([], 0))
    )
    wait_until(
        lambda: queue(cluster, "RUNNING") == [str(runs)] and str(ended) not in queue(cluster),
        what="one job that runs and one that has ended",
    )
    jobs = HeldJobs()
    jobs.cancel(ended, waiting=True)
    jobs.cancel(runs, waits, waiting=True)
    assert queue(cluster) == [str(runs)]
    jobs.cancel(runs, ended)
    wait_until(lambda: not queue(cluster), what="an empty queue")
