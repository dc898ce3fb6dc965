"""The lever on places, on a real Slurm: the faster one first, and no start is lost by it."""

import time

import pytest

from sacct_ingest.records import NodeProfile
from sacct_ingest.store import Store
from slurm_plugin.nimod import client
from tests.end_to_end.site import BEGAN, SLEEP_UNTIL, site_on
from tests.processes import LONGEST_WAIT_S, wait_until

#: The nodes of ``fast`` do a piece of work in a third of the time.
EVENTS_PER_S = {"slow": 1000.0, "fast": 3000.0}
NODES = {"slow": range(1, 5), "fast": range(5, 9)}
PARTITIONS = (
    "PartitionName=slow Nodes=n[1-4] MaxTime=60 State=UP",
    "PartitionName=fast Nodes=n[5-8] MaxTime=60 State=UP",
)
PROGRAM = f"""\
#!/bin/bash
#SBATCH --job-name=pieces
#SBATCH --time=5
{BEGAN}
srun sh -c '
  {SLEEP_UNTIL}
  case $SLURMD_NODENAME in n[1-4]) pace_ms=1800 ;; *) pace_ms=600 ;; esac
  sleep_until $((1000 + (12 - SLURM_PROCID + SLURM_NTASKS - 1) / SLURM_NTASKS * pace_ms))'
"""
AUTO = "--comment=nimo:place=auto"


@pytest.fixture(scope="module")
def two_types(slurm_cluster):
    """A site with a slow and a fast partition, and a history of the program on both."""
    with site_on(slurm_cluster, conf=PARTITIONS) as site:
        for name, numbers in NODES.items():
            nodes = f"nodename=n[{numbers[0]}-{numbers[-1]}]"
            features = (f"availablefeatures={name}", f"activefeatures={name}")
            site.cluster.run("scontrol", "update", nodes, *features)
        site.script = site.write_script("pieces.sh", PROGRAM)
        runs = [("-p", name, "-N", str(n)) for name in NODES for n in (1, 1, 2, 2, 4, 4)]
        ids = [site.submit(*argv) for argv in runs]
        site.run_nimod("observe", cluster="nimo")
        site.cluster.wait(*ids, accounted=True)
        profiles = [
            NodeProfile(
                cluster="nimo", node=f"n{i}", node_type=kind, at_s=time.time(),
                cpu_events_per_s=EVENTS_PER_S[kind],
            )
            for kind, numbers in NODES.items() for i in numbers
        ]  # fmt: skip
        with Store.open(site.nimod.store) as store:
            store.profiles.add(profiles)
        site.learn()
        site.run_nimod("enforce", cluster="nimo")
        client.status(site.nimod.socket, reload=True, timeout_s=LONGEST_WAIT_S)
        yield site


@pytest.fixture
def idle(two_types):
    two_types.empty_queue()
    two_types.settled()
    yield two_types
    two_types.empty_queue()


def started(site, job_id):
    """Wait until a job runs, and give it as Slurm shows it."""

    def runs():
        return site.cluster.job(job_id)["JobState"] == "RUNNING"

    wait_until(runs, what=f"job {job_id} to start")
    return site.cluster.job(job_id)


def occupied(site, *argv):
    """Fill nodes for as long as a test takes."""
    script = site.write_script("long.sh", "#!/bin/sh\nsleep 600\n")
    job_id = site.submit(*argv, "--exclusive", "--comment=nimo:off", script=script)
    started(site, job_id)
    return job_id


def ran(site, *argv):
    """Submit a job and wait until it has started; give it as Slurm shows it, and the decision."""
    since = time.time()
    job_id = site.submit(*argv, "-N2", "--exclusive")
    decision = site.decision(since_s=since)
    return started(site, job_id), decision


def test_the_faster_partition_is_tried_first(idle):
    job, decision = ran(idle, "-p", "slow,fast", AUTO)
    assert (job["Partition"], job["NodeList"]) == ("fast", "n[5-6]"), decision.message
    assert (decision.given_place, decision.asked_place) == ("fast", "slow,fast")
    assert "this job tries fast first of slow,fast" in decision.message
    assert ",pl=fast" in job["AdminComment"]
    told = idle.cluster.run("nimo", "why", job["JobId"]).stdout
    assert "fast as the first of slow,fast" in " ".join(told.split())


def test_the_faster_nodes_of_a_constraint_are_preferred(idle):
    job, decision = ran(idle, "-p", "batch", "-C", "slow|fast", AUTO)
    assert (job["NodeList"], decision.given_place) == ("n[5-6]", "fast"), decision.message


@pytest.mark.parametrize("comment", ["--comment=mine", "--comment=nimo:place=off"])
def test_a_job_that_does_not_ask_for_it_starts_where_its_user_says(idle, comment):
    job, decision = ran(idle, "-p", "slow,fast", comment)
    assert (job["Partition"], decision.given_place) == ("slow", "")


def test_a_job_starts_at_once_where_only_the_slower_place_is_free(idle):
    busy = occupied(idle, "-p", "fast", "-N4")
    job, _ = ran(idle, "-p", "slow,fast", AUTO)
    assert job["Partition"] == "slow"
    job, _ = ran(idle, "-p", "batch", "-C", "slow|fast", AUTO)
    assert job["NodeList"] == "n[3-4]"
    assert idle.cluster.job(busy)["JobState"] == "RUNNING"


def test_its_user_takes_the_order_back(idle):
    occupied(idle, "-p", "batch", "-N8")
    job_id = idle.submit("-p", "slow,fast", "-N2", "--exclusive", AUTO)
    assert idle.cluster.job(job_id)["Partition"] == "fast,slow"
    idle.cluster.run("scontrol", "update", f"jobid={job_id}", "partition=slow,fast")
    assert idle.cluster.job(job_id)["Partition"] == "slow,fast"
