"""The other ways in that docs/requests.md names: each a test of its own."""

import time

import pytest

from tests.processes import wait_until
from tests.requests import rest
from tests.requests.conftest import REST_USER, SHAPES
from tests.requests.documented import ways

pytestmark = pytest.mark.releases

RANGE = ("-N", "1-8", "-t", "10")
TESTS = {}


@pytest.fixture
def idle(site):
    site.empty_queue()
    yield site
    site.empty_queue()


def way(name):
    """Say which row of the table a test is about."""

    def note(test):
        TESTS[name] = test
        return test

    return note


def test_every_way_of_the_page_has_its_test():
    assert set(TESTS) == set(ways())


@way("sbatch < job.sh")
def test_sbatch_from_standard_input(idle):
    since = time.time()
    job_id = idle.cluster.sbatch("--hold", *RANGE, script=SHAPES)
    decision = idle.decision(since_s=since)
    assert decision.applied
    assert idle.node_count(job_id) == decision.nodes


@way("sbatch --wrap")
def test_sbatch_wrap(idle):
    since = time.time()
    job_id = idle.cluster.sbatch("-J", "shapes", "--hold", *RANGE, "--wrap=srun hostname")
    decision = idle.decision(since_s=since)
    assert decision.applied
    assert idle.node_count(job_id) == decision.nodes


@pytest.mark.parametrize("listed", ["on the command line", "in the script"])
def test_listed_node_counts_are_left_to_slurm(idle, listed):
    if idle.cluster.settings.version < (23, 2):
        pytest.skip("this Slurm knows no lists of node counts")
    since = time.time()
    option = ("-N", "2,4,8")
    words, directive = (option, "") if "line" in listed else ((), f"#SBATCH {' '.join(option)}\n")
    script = idle.write_script("listed.sh", f"#!/bin/sh\n{directive}srun hostname\n")
    job_id = idle.cluster.sbatch("--hold", "-J", "shapes", "-t", "10", *words, str(script))
    decision = idle.decision(since_s=since)
    assert (decision.reason, decision.applied) == ("node_sizes", False)
    assert idle.cluster.job(job_id)["NumNodes"] == "2,4,8"


@way("sbatch inside a job")
def test_sbatch_inside_a_job(idle):
    since = time.time()
    inner = "sbatch --parsable --ntasks-per-node=2 -N 1-8 -o inner.out shapes.sh > inner.id"
    outer = idle.cluster.sbatch("-J", "outer", "-N", "3", "-n", "3", f"--wrap={inner}")
    idle.cluster.wait(outer)
    job_id = int((idle.cluster.layout.work / "inner.id").read_text())
    idle.cluster.wait(job_id)
    decision = idle.decision(since_s=since, name="shapes")
    lines = (idle.cluster.layout.work / "inner.out").read_text().splitlines()
    assert decision.applied
    assert f"SLURM_NNODES={decision.nodes}" in lines
    assert {f"SLURM_NTASKS={2 * decision.nodes}", f"STARTED={2 * decision.nodes}"} <= {*lines}


@way("sbatch --test-only")
def test_sbatch_test_only(idle):
    since = time.time()
    done = idle.cluster.run("sbatch", "--test-only", *RANGE, idle.script)
    decision = idle.decision(since_s=since)
    assert f"using {decision.nodes} processors" in done.stderr


@way("salloc")
def test_salloc(idle):
    since = time.time()
    inside = "echo $SLURM_NNODES ${SLURM_NTASKS:-none} $(srun hostname | wc -l)"
    done = idle.cluster.run("salloc", "-J", "shapes", *RANGE, "sh", "-c", inside)
    decision = idle.decision(since_s=since)
    assert decision.applied
    assert done.stdout.split() == [str(decision.nodes), "none", str(decision.nodes)]


@way("srun")
def test_srun(idle):
    since = time.time()
    inside = 'echo "$SLURM_NNODES $SLURM_NTASKS"'
    done = idle.cluster.run("srun", "-J", "shapes", *RANGE, "sh", "-c", inside)
    decision = idle.decision(since_s=since)
    assert decision.applied
    assert done.stdout.splitlines() == [f"{decision.nodes} {decision.nodes}"] * decision.nodes


@way("sbatch :  (heterogeneous)")
def test_het_jobs(idle):
    since = time.time()
    job_id = idle.cluster.sbatch(*RANGE, "--hold", ":", "-N", "1-3", idle.script)
    assert {d.reason for d in idle.made(since)} == {"het"}
    shown = idle.cluster.run("scontrol", "show", "job", str(job_id)).stdout
    assert "NumNodes=1-8" in shown
    assert "NumNodes=1-3" in shown


@way("scontrol update")
def test_scontrol_update(idle):
    job, _ = idle.decided(*RANGE, "--hold")
    since = time.time()
    changes = ("numnodes=2-3", "timelimit=4", "comment=nimo{deadline=,own=1} x")
    for change in changes:
        idle.cluster.run("scontrol", "update", f"jobid={job['JobId']}", change)
    changed = idle.cluster.job(int(job["JobId"]))
    assert (changed["NumNodes"], changed["TimeLimit"]) == ("2-3", "00:04:00")
    assert changed["Comment"] == changes[2].partition("=")[2]
    assert idle.made(since) == []


@way("scontrol requeue")
def test_requeue(idle):
    since = time.time()
    job_id = idle.submit(*RANGE, "--requeue", script=idle.write_script("long.sh", LONG))
    decision = idle.decision(since_s=since)
    assert decision.applied
    wait_until(lambda: idle.cluster.job(job_id)["JobState"] == "RUNNING", what="the job")
    idle.cluster.run("scontrol", "requeuehold", str(job_id))
    wait_until(lambda: idle.cluster.job(job_id)["JobState"] == "PENDING", what="requeueing")
    assert idle.node_count(job_id) == decision.nodes
    assert len(idle.made(since)) == 1


LONG = "#!/bin/sh\n#SBATCH --job-name=shapes\nexec sleep 600\n"


@way("scrontab")
def test_scrontab(idle):
    if idle.cluster.lacking("scrontab"):
        pytest.skip("this Slurm is without scrontab, as Debian's 22.05 is")
    since = time.time()
    minute = (time.localtime().tm_min - 2) % 60  # in nearly an hour
    entry = f"#SCRON -J shapes -N 1-8 -t 10\n{minute} * * * * srun hostname\n"
    idle.cluster.run("scrontab", idle.write_script("crontab", entry))
    try:
        decision = idle.decision(since_s=since)
        listed = idle.cluster.run("squeue", "-h", "-n", "shapes", "-o", "%A").stdout
        job = idle.cluster.job(int(listed))
        assert decision.applied, decision.reason
        assert job["CronJob"] == "Yes"
        assert idle.node_count(int(listed)) == decision.nodes
    finally:
        idle.cluster.run("scrontab", "-r")


@way("slurmrestd")
def test_slurmrestd(idle, rest_socket):
    since = time.time()
    answer = rest.submit(
        idle.cluster,
        rest_socket,
        SHAPES,
        nodes=(1, 8),
        name="shapes",
        partition="batch",
        current_working_directory=str(idle.cluster.layout.work),
        standard_output="rest.out",
    )
    assert not answer["errors"], answer
    decision = idle.decision(since_s=since)
    assert (decision.user, decision.reason, decision.applied) == (REST_USER, "cheapest", True)
    idle.cluster.wait(answer["job_id"])
    lines = (idle.cluster.layout.work / "rest.out").read_text().splitlines()
    assert {f"SLURM_NNODES={decision.nodes}", f"STARTED={decision.nodes}"} <= {*lines}
