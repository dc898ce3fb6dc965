"""``nimo lab learn`` on a real cluster: a program that is slower the less of a CPU it is given."""

import json
import os
import signal
import subprocess
import time

import pytest

from sacct_ingest.records import NodeProfile
from sacct_ingest.store import Store
from tests.cluster.nimod import Nimod, hooks_for
from tests.conftest import need_in_jobs, scratch_directory
from tests.processes import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.long]

# Reads its input and computes for each block; what it has used of the CPU says when a block is
# done, so that it has the same work to do however slow the machine is.
PROGRAM = """\
import sys, time
with open(sys.argv[1], "rb") as file:
    while file.read(1 << 20):
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass
"""
DESCRIPTION = """\
application: counter
command: cpulimit -q -f -l {share} -- python3 -S -E count.py {input}
limit: "2"
budget: 2.0
inputs:
  - {name: small, path: small}
  - {name: large, path: large}
assignments:
  - {nodelist: n9, variables: {share: [10]}, inputs: [large]}
  - {variables: {share: [10, 20, 30, 40, 50]}, inputs: [small, large]}
learning: {target: 10000, fewest: 4, in_a_row: 1, error: cross-validation}
"""
OPTIONS = """\
application: options
command: sleep 1
limit: "1"
budget: 1.0
profile: [cpu_events_per_s]
assignments:
  - {nodelist: n1, memory: [100M, 200M], cpu_freq: [1000000, 2000000]}
  - {nodelist: n2, memory: [100M, 200M], cpu_freq: [1000000, 2000000]}
learning: {target: 10000, fewest: 3, in_a_row: 1, error: cross-validation}
"""
EVENTS_PER_S = {"n1": 1000.0, "n2": 3000.0}
BLOCKS = {"small": 2, "large": 6}


@pytest.fixture(scope="module")
def nimo(slurm_cluster):
    """A site with a store; the program is where its jobs find it."""
    with (
        scratch_directory("nimo-learn-") as directory,
        slurm_cluster(nodes=6, lua=hooks_for(directory)) as cluster,
    ):
        need_in_jobs(cluster, "cpulimit", "python3")
        work = cluster.layout.work
        (work / "count.py").write_text(PROGRAM)
        for name, blocks in BLOCKS.items():
            with (work / name).open("wb") as file:
                file.truncate(blocks << 20)
        (work / "app.yaml").write_text(DESCRIPTION)
        yield Nimod(directory, cluster)


def write(nimo, name, text):
    (nimo.cluster.layout.work / name).write_text(text)


def state(cluster, name="app"):
    path = cluster.layout.work / f"{name}.learn.json"
    return json.loads(path.read_text())["trials"] if path.exists() else []


def killed_while_running(nimo):
    """Start learning and kill it when its second job runs."""
    cluster = nimo.cluster

    def stages():
        return {one["stage"] for one in state(cluster)}

    process = subprocess.Popen(
        [cluster.bin / "nimo", "learn", "app.yaml"],
        cwd=cluster.layout.work,
        env=cluster.env,
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: "done" in stages(), what="a first run")
        wait_until(lambda: "submitted" in stages(), what="a second job")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def jobs(cluster):
    fields = ("JobID", "JobName", "State", "Comment", "Timelimit")
    return cluster.sacct("-X", "-S", "now-1hour", fields=fields)


def test_an_application_is_learned_in_few_runs(nimo):
    cluster = nimo.cluster
    shown = json.loads(nimo.run("learn", "app.yaml", "--dry-run", "--json").stdout)
    assert shown["candidates"] == 10
    assert any(one.startswith("--comment=nimo:off,app=counter,size=") for one in shown["argv"])
    assert jobs(cluster) == []

    killed_while_running(nimo)
    result = json.loads(nimo.run("learn", "app.yaml", "--json").stdout)

    trials = state(cluster)
    assert trials[0]["stage"] == "failed"  # there is no n9: another assignment stood in for it
    assert all(one["stage"] == "done" for one in trials[1:])
    names = [one["JobName"] for one in jobs(cluster)]
    assert len(names) == len(set(names)) == len(trials) - 1, "a run was repeated, or lost"
    assert result["ended"] == "good enough"
    # How fast a busy machine is, and so what four runs of it show, nobody knows.
    assert result["effects"].keys() == {"share", "input_bytes"}
    assert len(result["expected"]) == shown["candidates"]
    assert all(one["time_s"] > 0 for one in result["expected"])
    # Run once more, nothing is left to do.
    again = json.loads(nimo.run("learn", "app.yaml", "--json").stdout)
    assert again == result
    assert len(state(cluster)) == len(trials)


def test_memory_frequency_and_profiles_reach_slurm_and_the_model(nimo):
    cluster = nimo.cluster
    profiles = [
        NodeProfile(cluster="nimo", node=n, node_type=n, at_s=time.time(), cpu_events_per_s=speed)
        for n, speed in EVENTS_PER_S.items()
    ]
    with Store.open(nimo.store) as store:
        store.profiles.add(profiles)
    write(nimo, "options.yaml", OPTIONS)
    result = json.loads(nimo.run("learn", "options.yaml", "--json").stdout)
    assert result["effects"].keys() == {"memory", "cpu_freq", "cpu_events_per_s"}
    for trial in state(cluster, "options"):
        job, reported = cluster.job(trial["job_id"]), trial["attributes"]
        assert job["MinMemoryNode"] == f"{reported['memory'] / 2**20:.0f}M"
        assert EVENTS_PER_S[job["NodeList"]] == reported["cpu_events_per_s"]
        assert job["CPU_max_freq"] == f"{reported['cpu_freq']:.0f}"


def test_what_no_node_can_run_is_left_out_and_not_proposed(nimo):
    """Slurm takes such a job where it is on hold, and lets it wait for ever."""
    write(nimo, "large.yaml", OPTIONS.partition("profile")[0] + """\
assignments: [{memory: [100M, 200M, 900G], cpus: [1, 2]}]
learning: {target: 1, fewest: 6, in_a_row: 1, error: cross-validation}
""")  # fmt: skip
    result = json.loads(nimo.run("learn", "large.yaml", "--json").stdout)
    failed = [one for one in state(nimo.cluster, "large") if one["stage"] == "failed"]
    assert failed and all(one["reason"] == "BadConstraints" for one in failed)
    assert {one["attributes"]["memory"] for one in failed} == {900 * 2.0**30}
    assert max(one["attributes"]["memory"] for one in result["expected"]) == 200 * 2.0**20
