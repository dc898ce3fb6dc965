"""The promise on a real slurmdbd: ingests killed, slurmdbd and its database gone meanwhile."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from sacct_ingest.store import Store
from tests.cluster import SlurmCluster
from tests.conftest import ClusterFactory
from tests.processes import wait_until

pytestmark = pytest.mark.cluster
#: What an undisturbed ingest of this small history takes, about.
TAKES_S = 1.5
CODE = "import sys; from slurm_plugin.cli.nimo import main; sys.exit(main())"
INGEST = (sys.executable, "-c", CODE, "ingest", "-v", "-S", "now-1hour")

Fault = Callable[[SlurmCluster, "subprocess.Popen[bytes]"], None]


@pytest.fixture(scope="module")
def cluster(slurm_cluster: ClusterFactory) -> Iterator[SlurmCluster]:
    """A cluster of our own, since its slurmdbd is stopped, with a few jobs of all kinds."""
    with slurm_cluster() as made:
        ended = [
            made.sbatch("-N2", "--wrap", "srun true"),
            made.sbatch("--array=1-3", "--wrap", "true"),
            made.sbatch("-J", "a|b\nc", "--wrap", "exit 3"),
        ]
        made.wait(*ended, accounted=True, timeout_s=120)
        yield made


def start(cluster: SlurmCluster, store: Path) -> "subprocess.Popen[bytes]":
    config = store.with_suffix(".yaml")
    config.write_text(f"store: sqlite:///{store}\ningest: {{share: 1.0, timeout_s: 5}}\n")
    return subprocess.Popen(
        [*INGEST, "--config", str(config)],
        env=cluster.env | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=store.parent,
        stdout=subprocess.DEVNULL,
        stderr=(store.parent / "log").open("ab"),
    )


def ingest(cluster: SlurmCluster, store: Path) -> None:
    """Run ingests until one succeeds: slurmdbd may still be on its way up."""
    wait_until(
        lambda: start(cluster, store).wait(timeout=60) == 0,
        timeout_s=90,
        what="an ingest to succeed",
    )


def contents(store: Path) -> list[object]:
    with Store.open(str(store), create=False) as result:
        return sorted(
            (run.job_id, run.submit_s, run.state, run.nodes, run.end_s, run.name)
            for run in result.runs.started()
        )


def killed(cluster: SlurmCluster, process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGKILL)


def slurmdbd_gone(cluster: SlurmCluster, process: "subprocess.Popen[bytes]") -> None:
    cluster.stop("slurmdbd")
    process.wait(timeout=90)
    cluster.start("slurmdbd")


def database_frozen(cluster: SlurmCluster, process: "subprocess.Popen[bytes]") -> None:
    cluster.processes.signal("mariadbd", signal.SIGSTOP)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    cluster.processes.signal("mariadbd", signal.SIGCONT)


@pytest.mark.parametrize(("seed", "fault"), [(1, killed), (2, slurmdbd_gone), (3, database_frozen)])
def test_what_a_real_slurmdbd_holds_comes_in_once(cluster, seed, fault, tmp_path):
    undisturbed, disturbed = tmp_path / "undisturbed.db", tmp_path / "disturbed.db"
    ingest(cluster, undisturbed)
    process = start(cluster, disturbed)
    time.sleep(Random(seed).uniform(0.2, TAKES_S))
    fault(cluster, process)
    process.wait(timeout=90)
    ingest(cluster, disturbed)
    result = contents(disturbed)
    assert result == contents(undisturbed)
    assert len(result) == 5
