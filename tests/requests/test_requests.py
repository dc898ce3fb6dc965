"""Every row of docs/requests.md on a real Slurm: what is decided, and what the job finds then."""

from __future__ import annotations

import getpass
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sacct_ingest.records import DecisionRow
from tests.end_to_end.site import Site
from tests.processes import wait_until
from tests.requests import rest
from tests.requests.conftest import REST_USER, SHAPES
from tests.requests.documented import Promise, count, promises

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
    def placed(self) -> dict[str, str]:
        """Variables inside the job, and as STARTED the tasks that srun started."""
        lines = self.output.read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)


@contextmanager
def reservation(site: Site) -> Iterator[str]:
    """Nodes kept for later; jobs of ten minutes are done by then."""
    options = ("StartTime=now+2hours", "Duration=60", "Nodes=n1,n2", f"Users={getpass.getuser()}")
    site.cluster.run("scontrol", "create", "reservation", "ReservationName=kept", *options)
    yield "kept"
    site.cluster.run("scontrol", "delete", "ReservationName=kept")


@pytest.fixture(scope="module")
def submitted(asking: Site) -> Iterator[dict[str, Submitted]]:
    """Submit every request of the table, each on an idle cluster; then let them run together."""
    site = asking
    with reservation(site) as name:
        begun = time.time()
        first = site.submit("--hold", "-N", "1")
        site.decision(since_s=begun)
        names = {"RESERVATION": name, "JOB": str(first)}
        since = time.time()
        held = [submit(site, row, names) for row in SBATCH]
        wait_until(lambda: len(site.made(since)) >= len(SBATCH), what="all decisions")
        made = site.made(since)
        jobs = {
            row.request: Submitted(job, decision, output)
            for row, (job, output), decision in zip(SBATCH, held, made, strict=True)
        }
        later = [jobs[row.request].job["JobId"] for row in SBATCH if waits(row)]
        runs = [s.job["JobId"] for s in jobs.values() if s.job["JobId"] not in later]
        site.cluster.run("scancel", *later)  # a singleton would wait for them
        site.cluster.run("scontrol", "release", ",".join([str(first), *runs]))
        site.cluster.wait(first, *map(int, runs))
        yield jobs
        site.empty_queue()


def submit(site: Site, row: Promise, names: dict[str, str]) -> tuple[dict[str, str], Path]:
    """Submit a request, held; give the job and its output file: of an array, that of its task 0."""
    request = row.request
    for name, value in names.items():
        request = request.replace(name, value)
    if row.chosen:
        site.settled()
    pattern, end = ("%A_%a.out", "_0") if "--array" in request else ("%A.out", "")
    job_id = site.submit("--hold", "-o", pattern, "--open-mode=truncate", *request.split())
    return site.cluster.job(job_id), site.cluster.layout.work / f"{job_id}{end}.out"


def fill(cell: str, n: int | None) -> str:
    """Put the chosen count into ``2n``; what does not depend on it stays."""
    return str(count(cell, n)) if cell.endswith("n") else cell


def waits(row: Promise) -> bool:
    return any(option in row.request for option in LATER)


@pytest.mark.parametrize("row", SBATCH, ids=lambda row: row.request or "nothing")
def test_decided_as_documented(submitted: dict[str, Submitted], row: Promise) -> None:
    job, decision = submitted[row.request].job, submitted[row.request].decision
    assert decision.reason == row.why
    assert decision.applied == row.chosen
    if row.nodes:
        assert plain(job["NumNodes"]) == fill(row.nodes, decision.nodes)
    if row.cpus:
        assert job["NumCPUs"] == fill(row.cpus, decision.nodes)


@pytest.mark.parametrize(
    "row", [row for row in SBATCH if not waits(row)], ids=lambda row: row.request or "nothing"
)
def test_the_job_is_given_the_truth(submitted: dict[str, Submitted], row: Promise) -> None:
    placed, decision = submitted[row.request].placed, submitted[row.request].decision
    nodes = placed["SLURM_JOB_NUM_NODES"]
    assert placed["SLURM_NNODES"] == nodes
    if row.chosen:
        assert nodes == str(decision.nodes)
    tasks = fill(row.tasks, decision.nodes)
    assert placed.get("SLURM_NTASKS", "") == placed.get("SLURM_NPROCS", "") == tasks
    assert placed["STARTED"] == (tasks or nodes)
    if "--ntasks-per-node" in row.request:
        assert placed["SLURM_NTASKS_PER_NODE"] == "2"


@pytest.mark.parametrize(
    "row",
    [row for row in SBATCH if row.request and rest.takes(row.request)],
    ids=lambda row: row.request,
)
def test_over_slurmrestd_it_is_the_same(site: Site, rest_socket: Path, row: Promise) -> None:
    site.empty_queue()
    site.settled()
    since = time.time()
    job_id = rest.request(site.cluster, rest_socket, SHAPES, row.request, name="shapes")
    decision = site.decision(since_s=since)
    assert (decision.user, decision.reason, decision.applied) == (REST_USER, row.why, row.chosen)
    if row.chosen:
        assert plain(site.cluster.job(job_id)["NumNodes"]) == str(decision.nodes)


def plain(nodes: str) -> str:
    """Both ends of a range are shown even where they are the same."""
    low, _, high = nodes.partition("-")
    return low if low == high else nodes
