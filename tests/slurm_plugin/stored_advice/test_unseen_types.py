"""Run times on types of nodes on which an application never ran, by benchmarks of the nodes."""

import json

import pytest

from sacct_ingest.records import NodeProfile
from tests.slurm_plugin.stored_advice.walk import Ran, advised, fitted

#: Pieces of work in a second.
SPEED = {"old": 500.0, "new": 1000.0, "odd": 0.0}
SIZES = (10, 20, 40, 80, 160, 320)


def task(size):
    """A task of one CPU that is always busy: a fixed part, and work in proportion to its input."""
    line = f"sbatch -N 1 -n 1 -c 1 app.sh --input={size}"
    return Ran(seconds=truth_s(size), line=line, cpus=1, busy=1.0)


def truth_s(size):
    return 30 + 4 * size


def profiles():
    return [
        NodeProfile(
            cluster="c",
            node="c1" if kind == "old" else f"{kind}1",
            node_type=kind,
            at_s=1.7e9,
            cpu_events_per_s=speed or None,
        )
        for kind, speed in SPEED.items()
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("types")
    fitted(made, [task(size) for size in (*SIZES, *SIZES)], profiles=profiles())
    return made


def by_type(folder, size):
    said = advised(folder, "--json", "-N", "1", "-n", "1", "-c", "1", "app.sh", f"--input={size}")
    return {one["node_type"]: one for one in json.loads(said)["partitions"]}


@pytest.mark.parametrize("size", [100, 640])
def test_a_new_size_on_a_type_that_never_ran_goes_by_both(folder, size):
    row = by_type(folder, size)["new"]
    assert row["time_s"] == pytest.approx(truth_s(size) / 2, rel=0.2)
    assert row["low_s"] < truth_s(size) / 2 < row["high_s"]


def test_how_sure_a_type_is_goes_by_what_is_known_of_it(folder):
    rows = by_type(folder, 100)
    assert [rows[kind]["verdict"] for kind in SPEED] == ["reliable", "doubtful", "refused"]
    assert (
        rows["new"]["high_s"] / rows["new"]["low_s"] > rows["old"]["high_s"] / rows["old"]["low_s"]
    )
    assert rows["odd"]["time_s"] is None
