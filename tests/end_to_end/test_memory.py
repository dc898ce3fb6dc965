"""A program that needs memory: a history over sizes, a tag that lowers it, and too little.

Accounting enforces memory (``OverMemoryKill``), and counts such a job as failed.  Or control groups
do, and such a job is OUT_OF_MEMORY.
"""

import pytest

from sacct_ingest.records import JobState
from tests.cluster import cgroups
from tests.end_to_end.site import site_on
from tests.processes import wait_until

ASKED_MIB, NEED_MIB = 1000, 100
#: Holds so many MiB for five seconds; how many is in a file.
PROGRAM = """\
#!/bin/sh
env | grep '^SLURM_MEM_PER' > $SLURM_JOB_NAME.$SLURM_JOB_ID
need=$(cat need)
(head -c ${need}M /dev/zero; sleep 5) | tail -c ${need}M > /dev/null
"""
#: Nodes would be shared; memory is counted.
SHARED = "SelectTypeParameters=CR_Core_Memory"
#: Who enforces memory: options of the cluster, and the state of a job that had too little.
ENFORCED = {
    "accounting": ({"conf": [SHARED, "JobAcctGatherParams=OverMemoryKill"]}, "FAILED"),
    "cgroups": ({"conf": [SHARED], "memory_cgroups": True}, "OUT_OF_MEMORY"),
}
HISTORY = (1, 2, 4, 8)


@pytest.fixture(scope="module", params=ENFORCED)
def enforced(request):
    if request.param == "cgroups" and (reason := cgroups.lacking()):
        pytest.skip(reason)
    return request.param


@pytest.fixture(scope="module")
def hungry(slurm_cluster, enforced):
    """A site with a history of the program on four sizes; nimod enforces."""
    options_of_cluster, _ = ENFORCED[enforced]
    with site_on(slurm_cluster, nodes=4, cpus=8, **options_of_cluster) as site:
        site.set_number("need", NEED_MIB)
        site.script = site.write_script("hungry.sh", PROGRAM)
        site.run_and_learn(((options(n), site.script) for n in HISTORY), repeats=2)
        yield site


def options(cpus=1):
    return ("-Jhungry", "-N1", f"-c{cpus}", f"--mem={ASKED_MIB}", "-t5")


def tagged(site):
    """Submit with the tag; its id, the memory that it was given, and what its environment says."""
    site.settled()
    job, decision = site.decided(*options(), "--comment=nimo:mem=auto")
    job_id = int(job["JobId"])
    site.cluster.wait(job_id, accounted=True)
    result = (site.cluster.layout.work / f"hungry.{job_id}").read_text()
    name, _, value = result.strip().partition("=")
    assert name == "SLURM_MEM_PER_NODE"
    return job_id, decision.given_mem_mib, int(value)


def run_of(site, job_id):
    """Give the run of a decision, as it was ingested."""
    (run,) = [run for _, run in site.decisions() if run is not None and run.job_id == job_id]
    return run


@pytest.mark.long
def test_memory_goes_down_and_up_again(hungry, enforced):
    site, (_, state) = hungry, ENFORCED[enforced]
    _, given, has = tagged(site)
    assert (given, has) == (750, 750)
    # From one step to the next it takes a fit that has seen a run complete.
    site.learn()
    site.run_nimod("enforce")
    _, given, has = tagged(site)
    assert (given, has) == (563, 563)
    # The problem has grown: the job ends for lack of memory ...
    site.set_number("need", 700)
    job_id, given, has = tagged(site)
    assert has == given == 563
    assert site.cluster.job(job_id)["JobState"] == state
    reported = site.nimod.run("ingest").stdout
    assert "keeps its memory, as a run ended for lack of it" in reported
    assert (run_of(site, job_id).state, "runs again" in reported) == (JobState[state], False)
    assert site.cluster.job(job_id)["JobState"] == state
    # ... and runs again with what it asked for, once the site wants it.
    site.read_settings("enforce", memory={"requeue": True})
    reported = site.nimod.run("ingest").stdout
    assert f"job {job_id}: runs again with --mem={ASKED_MIB}M" in reported
    again = site.cluster.job(job_id)
    assert (again["MinMemoryNode"], again["JobState"]) == (f"{ASKED_MIB}M", "PENDING")
    # Other jobs keep theirs at once, without another fit.
    wait_until(lambda: tagged(site)[1] is None, what="jobs to keep their memory")
    site.cluster.wait(job_id, accounted=True)
    assert site.cluster.job(job_id)["JobState"] == "COMPLETED"
    # A fit knows that the run had too little; it takes five that complete until the next step.
    site.learn()
    with_runs = [run for _, run in site.decisions() if run is not None]
    assert JobState.COMPLETED in {run.state for run in with_runs}
    site.run_nimod("enforce")
    ended = [(run.state, run.req_mem_bytes, run.mem_bytes) for _, run in site.decisions() if run]
    assert tagged(site)[1:] == (None, ASKED_MIB), ended


def test_without_a_tag_a_job_keeps_its_memory(hungry):
    site = hungry
    site.settled()
    job, decision = site.decided(*options(), "--hold")
    assert (job["MinMemoryNode"], decision.given_mem_mib) == (f"{ASKED_MIB}M", None)
    site.empty_queue()
