"""Every row of docs/requests.md on a real Slurm: what is decided, and what the job finds then."""

from __future__ import annotations

import getpass
import grp
import pwd
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sacct_ingest.records import DecisionRow
from tests.processes import wait_until
from tests.requests import rest
from tests.requests.conftest import REST_USER, SHAPES
from tests.requests.documented import count, promises

pytestmark = pytest.mark.releases

SBATCH = promises("sbatch")
#: What keeps a job from running while the tests do; one without nodes never does.
LATER = ("--begin", "--reservation", "-N 0")


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job as Slurm has it while held, the decision on it, and what it finds when it runs."""

    job: dict[str, str]
    decision: DecisionRow
    output: Path

    @property
    def placed(self):
        """Variables inside the job, and as STARTED the tasks that srun started."""
        text = self.output.read_text()
        assert all("=" in line for line in text.splitlines()), text
        return dict(line.split("=", 1) for line in text.splitlines())


@pytest.fixture(scope="module")
def reservation(site):
    """Nodes kept for later; jobs of ten minutes are done by then."""
    options = ("StartTime=now+2hours", "Duration=60", "Nodes=n1,n2", who(site))
    site.cluster.run("scontrol", "create", "reservation", "ReservationName=kept", *options)
    yield "kept"
    site.cluster.run("scontrol", "delete", "ReservationName=kept")


def who(site):
    """Give the users of a reservation; newer releases want an association of each, or a group."""
    users = (getpass.getuser(), REST_USER)
    if site.cluster.settings.version < (25, 5):
        return f"Users={','.join(users)}"
    groups = (grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name for user in users)
    return f"Groups={','.join(groups)}"


@pytest.fixture(scope="module")
def submitted(asking, reservation):
    """Submit every request of the table by sbatch, whose hooks may ask ahead."""

    def ask(request, output):
        options = ("--hold", "-o", output, "--open-mode=truncate")
        return asking.submit(*options, *request.split())

    yield from submit_all(asking, SBATCH, ask, reservation)


@pytest.fixture(scope="module")
def sent(site, rest_socket, reservation):
    """Submit every request of the table over REST, as another user."""

    def ask(request, output):
        fields = {"name": "shapes", "hold": True, "standard_output": output}
        return rest.request(site.cluster, rest_socket, SHAPES, request, **fields)

    rows = [row for row in SBATCH if rest.takes(site.cluster, row.request)]
    yield from submit_all(site, rows, ask, reservation)


def submit_all(site, rows, ask, reservation):
    """Submit every request, each on an idle cluster; then let them run together.

    They run without nimod: who waits longer than planned would get its range back from it.
    """
    begun = time.time()
    first = site.submit("--hold", "-N", "1")
    site.decision(since_s=begun)
    names = {"RESERVATION": reservation, "JOB": str(first)}
    since = time.time()
    held = [submit(site, row, names, ask) for row in rows]
    wait_until(lambda: len(site.made(since)) >= len(rows), what="all decisions")
    made = site.made(since)
    jobs = {
        row.request: Submitted(job, decision, output)
        for row, (job, output), decision in zip(rows, held, made, strict=True)
    }
    later = [jobs[row.request].job["JobId"] for row in rows if waits(row)]
    runs = [s.job["JobId"] for s in jobs.values() if s.job["JobId"] not in later]
    site.cluster.run("scancel", *later)  # a singleton would wait for them
    site.nimod.stop()
    site.cluster.run("scontrol", "release", ",".join([str(first), *runs]))
    site.cluster.wait(first, *map(int, runs))
    site.start_nimod()
    yield jobs
    site.empty_queue()


def submit(site, row, names, ask):
    """Submit a request, held; give the job and its output file: of an array, that of its task 0."""
    request = row.request
    for name, value in names.items():
        request = request.replace(name, value)
    if row.chosen:
        site.settled()
    pattern, end = ("%A_%a.out", "_0") if "--array" in request else ("%A.out", "")
    job_id = ask(request, pattern)
    return site.cluster.job(job_id), site.cluster.layout.work / f"{job_id}{end}.out"


def fill(cell, n):
    """Put the chosen count into ``2n``; what does not depend on it stays."""
    return str(count(cell, n)) if cell.endswith("n") else cell


def waits(row):
    return any(option in row.request for option in LATER)


EACH = pytest.mark.parametrize("row", SBATCH, ids=lambda row: row.request or "nothing")
EACH_RUN = pytest.mark.parametrize(
    "row", [row for row in SBATCH if not waits(row)], ids=lambda row: row.request or "nothing"
)


@EACH
def test_decided_as_documented(submitted, row):
    decided(submitted[row.request], row)


@EACH
def test_over_slurmrestd_it_is_the_same(sent, row):
    """Of a job that NIMO leaves alone slurmrestd counts the CPUs itself, or not before it runs."""
    one = over_rest(sent, row)
    decided(one, row if row.chosen else replace(row, cpus=""))
    assert one.decision.user == REST_USER


def over_rest(sent, row):
    if row.request not in sent:
        pytest.skip("slurmrestd of this release has no field for it")
    return sent[row.request]


def decided(one, row):
    """Check a decision, and the job as slurmctld has it."""
    job, decision = one.job, one.decision
    assert decision.reason == row.why
    assert decision.applied == row.chosen
    if row.nodes:
        assert plain(job["NumNodes"]) == fill(row.nodes, decision.nodes)
    if row.cpus:
        assert job["NumCPUs"] == fill(row.cpus, decision.nodes)


@EACH_RUN
def test_the_job_is_given_the_truth(submitted, row):
    placed, decision = submitted[row.request].placed, submitted[row.request].decision
    nodes = ran_on_its_nodes(submitted[row.request], row)
    tasks = fill(row.tasks, decision.nodes)
    assert placed.get("SLURM_NTASKS", "") == placed.get("SLURM_NPROCS", "") == tasks
    assert placed["STARTED"] == (tasks or nodes)
    if "--ntasks-per-node" in row.request:
        assert placed["SLURM_NTASKS_PER_NODE"] == "2"


@EACH_RUN
def test_a_job_of_slurmrestd_runs_on_the_nodes_that_it_is_given(sent, row):
    """Steps know the tasks on each node from variables of sbatch, which slurmrestd does not set."""
    one = over_rest(sent, row)
    nodes = ran_on_its_nodes(one, row)
    if row.chosen and "--ntasks-per-node" not in row.request:
        assert one.placed["STARTED"] == nodes


def ran_on_its_nodes(one, row):
    """Check the nodes that a job had, and give their number."""
    nodes = one.placed["SLURM_JOB_NUM_NODES"]
    assert one.placed["SLURM_NNODES"] == nodes
    if row.chosen:
        assert nodes == str(one.decision.nodes)
    return nodes


def plain(nodes):
    """Both ends of a range are shown even where they are the same."""
    low, _, high = nodes.partition("-")
    return low if low == high else nodes
