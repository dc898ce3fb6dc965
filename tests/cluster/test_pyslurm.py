"""PySlurm on a real cluster, where a root directory has the release that it can be compiled for."""

import json
import os

import pytest

from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store
from tests.cluster.nimod import Nimod, run_in_root
from tests.cluster.releases import ReleaseError
from tests.conftest import scratch_directory
from tests.processes import wait_until

#: Compiled for 25.11, through header files that know the changes up to this one.
RELEASE = (26, 5)


@pytest.fixture(scope="module")
def cluster(slurm):
    """A cluster whose root directory has a Python with PySlurm."""
    root = slurm.root
    if root is None or slurm.settings.version != RELEASE:
        pytest.skip("PySlurm is tested with --slurm 26.05")
    if not root.has_python and os.environ.get("NIMO_PYSLURM") != "make":
        pytest.skip("no PySlurm yet; NIMO_PYSLURM=make, as of make test-releases, makes it")
    try:
        root.make_python()
    except ReleaseError as error:
        pytest.skip(str(error))
    return slurm


def test_it_sees_nodes_partitions_and_jobs(cluster):
    job_id = cluster.sbatch("--hold", "-N", "2", "--wrap=true")
    script = (
        "import json, pyslurm; print(json.dumps([sorted(pyslurm.Nodes.load()),"
        " sorted(pyslurm.Partitions.load()), sorted(pyslurm.Jobs.load())]))"
    )
    nodes, partitions, jobs = json.loads(run_in_root(cluster, "-c", script).stdout)
    cluster.run("scancel", str(job_id))
    assert nodes == cluster.settings.node_names()
    assert partitions == ["batch", "small"]
    assert job_id in jobs


def test_histories_are_those_of_sacct(cluster):
    jobs = [cluster.sbatch("-N", str(n), "-t", "5", "--wrap=srun sleep 2") for n in (1, 2, 4)]
    cluster.wait(*jobs, accounted=True)
    with scratch_directory("nimo-pyslurm-") as directory:
        ours = Nimod(directory, cluster)
        ours.run("ingest", "-S", "now-1hour")
        theirs = directory / "theirs"
        theirs.mkdir()
        store = f"sqlite:///{theirs / 'nimo.db'}"
        config = theirs / "nimo.yaml"
        config.write_text(f"store: {store}\n")
        program = "import sys; from slurm_plugin.cli.nimo import main; sys.exit(main())"
        argv = ("-c", program, "ingest", "--source", "pyslurm", "-S", "now-1hour")
        run_in_root(cluster, *argv, "--config", config)
        assert runs(store, jobs) == runs(ours.store, jobs)
        assert len(runs(store, jobs)) == len(jobs)


def runs(url, jobs):
    """What both sources must say of these jobs."""
    with Store.open(url) as store:
        result = [
            run
            for _, made in store.runs.by_key(KeyLevel.NAME)
            for run in made
            if run.job_id in jobs
        ]
    return sorted((r.job_id, r.state, r.nodes, r.elapsed_s, r.user, r.name) for r in result)


def test_the_cluster_looks_as_the_commands_see_it(cluster):
    busy = cluster.sbatch("-N", "2", "-n", "4", "-t", "10", "--wrap=sleep 60")
    queued = cluster.sbatch("-N", "8", "--exclusive", "--array=1-9:2%2", "--wrap=true")
    wait_until(lambda: cluster.job(busy)["JobState"] == "RUNNING", what="the job")
    try:
        reported = json.loads(run_in_root(cluster, "-c", LOOK).stdout)
    finally:
        cluster.run("scancel", str(busy), str(queued))
        cluster.wait(busy, queued)
    assert reported["differences"] == []
    assert reported["source"] == "pyslurm"
    assert reported["jobs"] == 2


#: Looks at the cluster as nimod does, and beside it through Slurm's commands until both agree:
#: between two questions the scheduler may have planned anew.
LOOK = """
import json, os, time
from slurm_plugin.slurm import commands, sources
from slurm_plugin.slurm.slurm_conf import CONFIG, read_settings
from slurm_plugin.slurm.poller import ClusterPoller
run = lambda argv: commands.run(argv, timeout_s=20)
release = read_settings(run(CONFIG)).release
module = sources.load_pyslurm(release)
def plain(job):
    return [job.state, job.jobs, job.partitions, job.nodes, job.start_s, job.end_s,
            job.node_names, job.tres.get("cpu"),
            # PySlurm does not know the memory of exclusive jobs before they run.
            job.tres.get("mem", 0.0) if job.node_names else 0.0]
for _ in range(20):
    seen, told = sources.ask_pyslurm(module, run), sources.ask_text(run)
    pairs = [(sorted(map(str, seen.nodes)), sorted(map(str, told.nodes))),
             (sorted(map(str, map(plain, seen.jobs))), sorted(map(str, map(plain, told.jobs))))]
    differences = [(a, b) for x, y in pairs for a, b in zip(x, y) if a != b]
    if not differences:
        break
    time.sleep(0.5)
poller = ClusterPoller(time.time)
poller.look()
print(json.dumps({"differences": differences, "source": poller.source, "jobs": len(seen.jobs)}))
"""
