"""When all of a job ends: of several components, of an array, of a chain, of a job run again."""

import json
import time

import pytest

from tests.processes import wait_until

#: Seconds that a script of these tests takes.
RUN_S = 6
#: Two components, which Slurm starts at once.
COUPLED = f"""\
#!/bin/bash
#SBATCH --job-name=coupled -N1 --time=10
#SBATCH hetjob
#SBATCH -N2 --time=10
srun --het-group=0,1 sleep {RUN_S}
"""


@pytest.fixture(scope="module")
def coupled(site):
    """A heterogeneous job with a history."""
    script = site.write_script("coupled.sh", COUPLED)
    ids = [site.submit(script=script) for _ in range(3)]
    site.cluster.wait(*ids, accounted=True)
    site.learn()
    return script


def busy(site):
    """Take all nodes; nimod knows it."""
    job = site.cluster.sbatch("-N8", "--exclusive", "-t", "60", "--wrap=sleep 600")
    wait_until(lambda: site.cluster.job(job)["JobState"] == "RUNNING", what="the nodes to be taken")
    site.settled()
    return job


@pytest.mark.parametrize(
    "words", [(), ("-N1", "-t", "10", ":", "-N2", "-t", "10")], ids=["script", "command line"]
)
def test_a_heterogeneous_job_is_advised_by_its_own_runs(enforcing, coupled, words):
    enforcing.settled()
    advice = json.loads(enforcing.advise("--json", *words, coupled, check=False).stdout)
    (row,) = advice["rows"]
    assert row["nodes"] == 3
    assert RUN_S <= row["time_s"] <= RUN_S + 4
    assert row["wait_s"] is not None
    assert (advice["directive"], advice["time_directive"][:14]) == ("", "#SBATCH --time")


def test_a_heterogeneous_job_that_waits_is_one_job(enforcing, coupled):
    busy(enforcing)
    job = enforcing.submit(script=coupled)
    enforcing.settled()
    rows = json.loads(enforcing.nimod.run("wait", "--json").stdout)["rows"]
    assert [(row["job_id"], row["nodes"]) for row in rows] == [(job, 3)]
    said = " ".join(enforcing.nimod.run("why", str(job)).stdout.split())
    assert f"Job {job} (coupled) waits: it is the next for 3 nodes" in said
    assert f"Job {job + 1}" not in said
    assert "On 3 nodes, as asked, the predicted run time was" in said
    assert "Nothing was changed." in said
    every = enforcing.nimod.run("why").stdout
    assert every.count("(coupled) waits") == 1


def test_its_end_is_the_one_that_was_said(enforcing, coupled):
    enforcing.settled()
    advice = json.loads(enforcing.advise("--json", coupled, check=False).stdout)
    (row,) = advice["rows"]
    said_s = time.time() + row["wait_s"] + row["time_s"]
    job = enforcing.submit(script=coupled)
    enforcing.cluster.wait(job, accounted=True)
    ended = enforcing.cluster.run("sacct", "-nXP", "-j", str(job), "-o", "End").stdout.split()
    ended_s = time.mktime(time.strptime(ended[0], "%Y-%m-%dT%H:%M:%S"))
    # Slurm starts such jobs by backfill alone, in each of its rounds.
    assert abs(ended_s - said_s) < RUN_S + 30
