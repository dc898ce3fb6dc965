"""A workflow planned, submitted and followed on a real Slurm with two partitions."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import SlurmCluster
from tests.conftest import ClusterFactory

NIMO = Path(sysconfig.get_path("scripts")) / "nimo"
PARTITIONS = ("PartitionName=slow Nodes=n1,n2", "PartitionName=fast Nodes=n3,n4")
pytestmark = pytest.mark.cluster
#: Work takes half as long on the fast nodes.
WORK = """\
#!/bin/sh
[ "$SLURM_JOB_PARTITION" = fast ] && sleep $(($1 / 2)) || sleep $1
"""
WORKFLOW = """
name: brain
storages:
  home: {{path: {work}/home}}
  scratch: {{path: {work}/scratch}}
links:
  - {{from: home, to: scratch, bandwidth: 100M, latency: 1ms, remote: false}}
places:
  slow: {{storage: home}}
  fast: {{storage: scratch, speed: 2}}
files:
  raw: {{at: home, size: 64M}}
  left: {{size: 1M}}
  right: {{size: 1M}}
  both: {{size: 1M}}
  report: {{size: 1M, deliver: home}}
tasks:
  split:
    command: '{work}/work 4; cp {{raw}} {{left}}'
    reads: [raw]
    writes: [left]
    run_time: {{1: 4s}}
  turn:
    command: '{work}/work 4; rev {{raw}} > {{right}}'
    reads: [raw]
    writes: [right]
    run_time: {{1: 4s}}
  join:
    command: 'srun -l {work}/work 4; cat {{left}} {{right}} > {{both}}'
    reads: [left, right]
    writes: [both]
    run_time: {{1: 8s, 2: 4s}}
  check:
    command: '{check}'
    reads: [both]
    run_time: {{1: 2s}}
  tell:
    command: 'wc -c < {{both}} > {{report}}'
    reads: [both]
    writes: [report]
    after: [check]
    run_time: {{1: 2s}}
"""


@pytest.fixture(scope="module")
def cluster(slurm_cluster: ClusterFactory) -> Iterator[SlurmCluster]:
    with slurm_cluster(nodes=4, conf=PARTITIONS) as cluster:
        work = cluster.layout.work
        (work / "work").write_text(WORK)
        (work / "work").chmod(0o755)
        yield cluster


def workflow(cluster: SlurmCluster, name: str, check: str) -> Path:
    """A folder of its own with the workflow and what it reads."""
    folder = cluster.layout.work / name
    (folder / "home").mkdir(parents=True)
    (folder / "home" / "raw").write_text("abc\n")
    text = WORKFLOW.format(work=folder, check=check).replace(f"{folder}/work", f"{folder}/../work")
    (folder / "brain.yaml").write_text(text)
    (folder / "nimo.yaml").write_text("mode: observe\n")
    return folder / "brain.yaml"


def nimo(
    cluster: SlurmCluster, file: Path, *argv: str, check: bool = True
) -> subprocess.CompletedProcess[str]:
    config = {"NIMO_CONFIG": str(file.parent / "nimo.yaml")}
    line = [NIMO, "plan", *argv, file]
    return cluster.run(*line, check=check, env=config, cwd=file.parent, timeout_s=180)


def test_submitted_and_followed_within_its_deadline(cluster: SlurmCluster) -> None:
    file = workflow(cluster, "good", "test -s {both}")
    planned = json.loads(nimo(cluster, file, "--json", "--deadline=now+10minutes").stdout)
    steps = {step["name"]: step for step in planned["plans"][0]["steps"]}
    assert not cluster.run("squeue", "-h").stdout
    assert planned["plans"][0]["chance"] == 1.0
    # The fast nodes are worth the copy of what is read, and that of the result.
    assert {"raw to scratch", "report to home"} <= steps.keys()
    assert steps["join"]["place"] == "fast"

    options = ("--interval", "0.5", "--deadline=now+10minutes")
    done = nimo(cluster, file, "--submit", "--follow", "--hard", *options)
    assert "raw to scratch: COMPLETED" in done.stdout
    assert (file.parent / "scratch" / "raw").read_text() == "abc\n"
    assert (file.parent / "home" / "report").read_text().strip() == "8"

    record = json.loads(file.with_suffix(".plan.json").read_text())
    assert set(record["states"].values()) == {"COMPLETED"}
    assert max(record["ended_s"].values()) <= record["deadline_s"]
    cluster.wait(*map(int, record["ids"].values()), accounted=True)
    rows = cluster.sacct("-X", fields=("JobID", "JobName", "Comment", "Start", "End"))
    own = {row["JobName"]: row for row in rows if row["JobID"] in record["ids"].values()}
    assert own["brain.split"]["Comment"] == "nimo:app=brain,problem=split"
    assert own["brain.join"]["Start"] >= max(own[f"brain.{t}"]["End"] for t in ("split", "turn"))
    # Followed once more, it says what became of it.
    assert "7 COMPLETED" in nimo(cluster, file, "--follow").stdout


def test_a_failing_task_takes_along_what_needs_it(cluster: SlurmCluster) -> None:
    file = workflow(cluster, "bad", "exit 3")
    done = nimo(cluster, file, "--submit", "--follow", "--interval", "0.5", check=False)
    assert done.returncode == 1
    assert "check: FAILED" in done.stdout
    assert "tell" in next(line for line in done.stdout.splitlines() if "is FAILED" in line)
    assert not (file.parent / "home" / "report").exists()
    assert not cluster.run("squeue", "-h").stdout
