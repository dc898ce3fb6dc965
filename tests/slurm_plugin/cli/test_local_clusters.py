"""One home on two real clusters: each answers from its own jobs, wherever its slurm.conf is."""

import subprocess
import sys

import pytest

from sacct_ingest.store import Store
from tests.processes import LONGEST_WAIT_S

pytestmark = [pytest.mark.cluster, pytest.mark.releases]
COMMAND = "import sys; from slurm_plugin.cli import NAME; sys.exit(NAME.main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def clusters(slurm_cluster):
    """Two clusters with one accounting: the first has run an application, the second nothing."""
    with (
        slurm_cluster(nodes=2, name="pine") as first,
        slurm_cluster(nodes=2, name="elm", beside=first) as second,
    ):
        script = first.layout.work / "app.sh"
        script.write_text("#!/bin/sh\n#SBATCH -J app\ntrue\n")
        first.wait(*(first.sbatch("-N1", script) for _ in range(3)), accounted=True)
        yield first, second, script


def asked(cluster, home, *words):
    """Run nimo-advise or nimo; Slurm's commands alone know where their slurm.conf is."""
    env = {name: value for name, value in cluster.env.items() if not name.startswith("SLURM")}
    env |= {"XDG_DATA_HOME": str(home), "NIMO_CONFIG": "", "OPENBLAS_NUM_THREADS": "1"}
    program, *rest = words
    return subprocess.run(
        [sys.executable, "-c", COMMAND.replace("NAME", program), *map(str, rest)],
        env=env, capture_output=True, text=True, timeout=LONGEST_WAIT_S, check=False,
    )  # fmt: skip


def counts(home):
    """Runs in each file of a home."""
    found = {}
    for path in (home / "nimo").glob("local*.db"):
        with Store.open(f"sqlite:///{path}?journal=DELETE") as store:
            found[path.name] = store.runs.count()
    return found


@pytest.mark.parametrize("order", ["first", "second"])
def test_a_cluster_answers_from_its_own_jobs(clusters, tmp_path, order):
    first, second, script = clusters
    expected = {first: ("local-pine.db", 3), second: ("local-elm.db", 0)}
    for cluster in (first, second) if order == "first" else (second, first):
        asked(cluster, tmp_path, "advise", "--local", "-N1-2", script)
        name, runs = expected[cluster]
        assert counts(tmp_path)[name] == runs
        assert f"{name}: {runs} jobs of yours" in asked(cluster, tmp_path, "nimo", "local").stdout
    assert counts(tmp_path) == dict(expected.values())


def test_a_job_for_another_cluster_is_advised_on_by_its_runs_there(clusters, tmp_path):
    _, second, script = clusters
    asked(second, tmp_path, "advise", "--local", "-Mpine", "-N1-2", script)
    assert counts(tmp_path) == {"local-pine.db": 3}
