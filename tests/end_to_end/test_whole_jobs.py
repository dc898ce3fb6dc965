"""When all of a job ends: of several components, of an array, of a chain, of a job run again."""

import json
import re
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


def advised(site, *words):
    """Give the advice on a job, as soon as nimod has the queue as it is."""
    site.settled()
    found = []

    def has_waits():
        found[:] = [json.loads(site.advise("--json", *words, check=False).stdout)]
        return all(row["wait_s"] is not None for row in found[0]["rows"])

    wait_until(has_waits, what="advice with waits")
    return found[0]


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
    advice = advised(enforcing, *words, coupled)
    (row,) = advice["rows"]
    assert row["nodes"] == 3
    assert RUN_S <= row["time_s"] <= RUN_S + 4
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
    (row,) = advised(enforcing, coupled)["rows"]
    said_s = time.time() + row["wait_s"] + row["time_s"]
    job = enforcing.submit(script=coupled)
    enforcing.cluster.wait(job, accounted=True)
    ended = enforcing.cluster.run("sacct", "-nXP", "-j", str(job), "-o", "End").stdout.split()
    ended_s = time.mktime(time.strptime(ended[0], "%Y-%m-%dT%H:%M:%S"))
    # Slurm starts such jobs by backfill alone, in each of its rounds.
    assert abs(ended_s - said_s) < RUN_S + 30


#: One task, or job, of the tests below.
PIECE = f"#!/bin/bash\n#SBATCH --job-name=piece -N1 --exclusive --time=5\nsleep {RUN_S}\n"


@pytest.fixture(scope="module")
def piece(site):
    """A job of a few seconds, with a history."""
    script = site.write_script("piece.sh", PIECE)
    ids = [site.submit(script=script) for _ in range(3)]
    site.cluster.wait(*ids, accounted=True)
    site.learn()
    return script


def times_of(site, job, field):
    """Give a time of each row of a job in the accounting, seconds since the epoch."""
    said = site.cluster.run("sacct", "-nXP", "-j", str(job), "-o", field).stdout.split()
    return [time.mktime(time.strptime(one, "%Y-%m-%dT%H:%M:%S")) for one in said]


def test_an_array_ends_when_it_was_said(enforcing, piece):
    """Six tasks, two at once."""
    advice = advised(enforcing, "--array=1-6%2", piece)
    found = re.search(r"All 6 tasks, 2 at once, end in about (\d+) s", advice["size_text"])
    assert found, advice["size_text"]
    began_s = time.time()
    array = enforcing.submit("--array=1-6%2", script=piece)
    enforcing.cluster.wait(array, accounted=True)
    took_s = max(times_of(enforcing, array, "End")) - began_s
    assert 3 * RUN_S <= int(found[1]) <= 3 * RUN_S + 6
    # Slurm takes some seconds between a task and the next.
    assert int(found[1]) - 3 <= took_s <= int(found[1]) + 30


@pytest.mark.parametrize("kind", ["afterok", "aftercorr"])
def test_a_chain_ends_when_it_was_said(enforcing, piece, kind):
    """A job behind another, and a task behind each of three that run one after the other."""
    site = enforcing
    tasks = ("--array=1-3%1",) if kind == "aftercorr" else ()
    before = site.submit(*tasks, script=piece)
    each = ("--array=1-3",) if kind == "aftercorr" else ()
    behind = site.submit(*each, f"--dependency={kind}:{before}", script=piece)
    site.settled()

    found = []

    def has_start():
        shown = site.nimod.run("wait", "--json", str(behind), check=False).stdout
        rows = json.loads(shown or '{"rows": []}')["rows"]
        found[:] = [one for one in rows if one["start_s"]]
        return bool(found)

    wait_until(has_start, what="a start behind another job")
    said_s = found[0]["start_s"]
    site.cluster.wait(before, behind, accounted=True)
    first_s = min(times_of(site, behind, "Start"))
    assert abs(first_s - said_s) < RUN_S + 30


def test_a_job_that_was_requeued_is_said_to_start_and_end_anew(enforcing, piece):
    site = enforcing
    job = site.submit(script=piece)
    wait_until(lambda: site.cluster.job(job)["JobState"] == "RUNNING", what="the job to run")
    site.cluster.run("scontrol", "requeue", str(job))
    wait_until(lambda: site.cluster.job(job)["JobState"] == "PENDING", what="the job to wait")
    rows = advised(site, "-d", f"afterany:{job}", piece)["rows"]
    (row,) = [one for one in rows if one["nodes"] == 1]
    said_s = time.time() + row["wait_s"]
    site.cluster.wait(job, accounted=True)
    ended_s = max(times_of(site, job, "End"))
    # Slurm waits two minutes before it starts a job that was requeued.
    assert abs(ended_s - said_s) < RUN_S + 60
