"""``nimo lab plan`` without a Slurm: plans for idle clusters, and mistakes."""

import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial

import pytest

from predictor.stored_table import encode
from sacct_ingest.records import KeyLevel, Probe, Resource
from sacct_ingest.store import FitRow, Store
from slurm_plugin.cli import exit_status
from slurm_plugin.cli.nimo import main
from tests.sacct_ingest.records import scaling_runs
from tests.slurm_plugin.made import AMDAHL, table

FLOW = """
name: flow
storages: {home: {path: /home/ana}}
places: {batch: {storage: home, nodes: 1-8}}
files: {raw: {at: home, size: 1G}, out: {size: 1M}}
tasks:
  sort: {command: "sort {raw} > {out}", reads: [raw], writes: [out],
         run_time: {1: 400, 2: 220, 4: 130, 8: 100}}
  count: {command: "wc {out}", reads: [out], run_time: 20}
"""


#: The table's run time on two nodes; what is moved first; nobody says how fast.
RECORDED = """
name: known
storages: {home: {path: /home/ana, host: n1}, far: {path: /far, host: n5}}
links: [{from: home, to: far, remote: false}]
places: {batch: {storage: far, nodes: 2, speed: 1}}
files: {raw: {at: home, size: 1G}}
tasks: {sort: {command: "sort {raw}", reads: [raw], nodes: 2, application: solve}}
"""
MB = 1e6
#: One task, whose run times are those of its application.
STORED = """
name: flow
storages: {home: {path: /home/ana}}
places: {batch: {storage: home, nodes: 1-8}}
tasks: {sort: {command: sort, nodes: 1-8, application: solve}}
"""
#: What a plan needs only for samples, new applications, or jobs that ended.
UNUSED = {
    "predictor.occupancy.application_model",
    "sacct_ingest.ingest.ended_jobs",
    "sacct_ingest.sources.sacct",
    "scipy",
    "slurm_plugin.cli.sbatch_request",
    "slurm_plugin.decision.messages",
    "slurm_plugin.experiments.plan.first_runs",
}


def fitted():
    return FitRow(
        level=KeyLevel.TAG, key="ada/solve", label="solve", verdict="reliable", model="amdahl",
        fitted_s=1.0, payload=encode(replace(table(AMDAHL), level="tag", key="ada/solve")),
    )  # fmt: skip


@pytest.fixture
def flow(tmp_path, monkeypatch):
    (tmp_path / "nimo.yaml").write_text(f"store: sqlite:///{tmp_path / 'none.db'}\n")
    monkeypatch.setenv("NIMO_CONFIG", str(tmp_path / "nimo.yaml"))
    (tmp_path / "flow.yaml").write_text(FLOW)
    return tmp_path / "flow.yaml"


def test_prints_the_plan_and_how_it_would_be_submitted(flow, capsys):
    assert main(["plan", "--empty", str(flow)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("fastest: 2 min from now")
    assert "no plan is better" in text
    assert "critical path: sort -> count" in text
    assert "--dependency=afterok:<sort>" in text.replace("'", "")
    assert "sort /home/ana/raw > /home/ana/out" in text
    assert not flow.with_suffix(".plan.json").exists()


@pytest.mark.parametrize(
    ("text", "unused"),
    [(FLOW, UNUSED | {"sqlalchemy"}), (STORED, UNUSED)],
    ids=["by its file", "by the store"],
)
def test_a_plan_that_is_shown_loads_nothing_that_it_does_not_use(flow, tmp_path, text, unused):
    """No fits, no accounting, and no guesses for what never ran."""
    with Store.open(f"sqlite:///{tmp_path / 'none.db'}") as store:
        store.fits.replace([fitted()])
    flow.write_text(text)
    code = (
        "import sys; from slurm_plugin.cli.nimo import main; main(sys.argv[1:]); "
        "print(*sys.modules, file=sys.stderr)"
    )
    words = ["lab", "plan", "--empty", "--json", str(flow)]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["plans"]
    assert "slurm_plugin.experiments.plan.plans" in done.stderr.split()
    assert unused & set(done.stderr.split()) == set()


def test_a_later_deadline_takes_fewer_node_hours(flow, capsys):
    node_hours = []
    for deadline in ("now+3minutes", "now+6minutes", "now+1hour"):
        assert main(["plan", "--empty", "--json", "--deadline", deadline, str(flow)]) == 0
        first = json.loads(capsys.readouterr().out)["plans"][0]
        assert first["chance"] >= 0.95
        node_hours.append(first["node_hours"])
    assert node_hours == sorted(node_hours, reverse=True)
    assert len(set(node_hours)) == 3


@pytest.mark.parametrize(
    ("deadline", "label", "reported"),
    [
        ("now+6000", "as early as possible", "MISSED"),
        ("now+12500", "not surely in time", "NOT SURE"),
    ],
)
def test_a_deadline_that_cannot_be_met_is_status_4(flow, deadline, label, reported, capsys):
    # Times beside which those of the command itself are nothing: 12,000 s in all.
    flow.write_text(re.sub(r"(\d+0)(?=[,}])", r"\g<1>00", FLOW))
    assert main(["plan", "--empty", "--deadline", deadline, str(flow)]) == 4
    text = capsys.readouterr().out
    assert text.startswith(label)
    assert reported in text
    assert exit_status.statuses("plan")[4] == "no plan meets the deadline"


def test_says_why_all_ends_later_than_its_last_step(flow, capsys):
    noted = "half of the cases end by"
    assert main(["plan", "--empty", str(flow)]) == 0
    assert noted not in capsys.readouterr().out
    tasks = "".join(f"  t{i}: {{command: x, run_time: 1000}}\n" for i in range(8))
    flow.write_text(f"{FLOW.partition('tasks:')[0]}tasks:\n{tasks}")
    assert main(["plan", "--empty", str(flow)]) == 0
    assert noted in capsys.readouterr().out


def test_run_times_are_the_tables_and_copies_what_was_measured(flow, capsys):
    now_s, recorded = time.time(), table(level="tag", key="solve", label="solve")
    probe = partial(Probe, source="n1", target="n5")
    series = [probe(resource=Resource.BANDWIDTH, at_s=now_s - 60, value=160 * MB)]
    for hour in range(1, 13):
        # Half of what the probe saw; the one of now saw less than all before.
        value, at_s = (180 + 10 * hour) * MB, now_s - 3600 * hour
        series += [
            probe(resource=Resource.BANDWIDTH, at_s=at_s, value=value),
            probe(resource=Resource.TRANSFER, at_s=at_s + 1, value=value / 2, size_bytes=2**30),
        ]
    fitted = FitRow(
        level=KeyLevel.TAG, key="solve", label="solve", verdict="reliable", model="amdahl",
        fitted_s=1.0, payload=encode(recorded),
    )  # fmt: skip
    with Store.open(f"sqlite:///{flow.parent / 'none.db'}", create=True) as store:
        store.probes.add(series)
        store.fits.replace([fitted])
    flow.write_text(RECORDED)
    assert main(["plan", "--empty", "--json", str(flow)]) == 0
    steps = json.loads(capsys.readouterr().out)["plans"][0]["steps"]
    takes = {step["name"]: step["end_s"] - step["start_s"] for step in steps}
    assert takes["sort"] == pytest.approx(AMDAHL(2))
    assert takes["raw to far"] == pytest.approx(2**30 / (80 * MB), rel=0.01)


def test_a_task_without_any_history_is_named(flow, capsys):
    with Store.open(f"sqlite:///{flow.parent / 'none.db'}", create=True):
        pass
    flow.write_text(FLOW.replace("run_time: 20", "nodes: 1"))
    assert main(["plan", "--empty", str(flow)]) == 3
    error = capsys.readouterr().err
    assert error.startswith("nimo: tasks.count: there is no history of 'flow/count'")
    assert error.endswith("or a --time in sbatch within which it is guessed\n")


@pytest.mark.parametrize(
    ("arguments", "old", "new", "status", "reported"),
    [
        ([], "run_time: 20", "nodes: 1", 74, "tasks.count: its run time is not known: no store"),
        (["--submit", "--dry-run"], "", "", 78, "give one of them"),
        (["--follow"], "", "", 1, "this workflow was not submitted"),
        (["--confidence", "95"], "", "", 78, "a share between 0 and 1"),
        ([], "nodes: 1-8", "partition: batch", 78, "say how many nodes it has"),
        ([], "run_time: 20", "run_time: 20, nodes: 9", 3, "count: its run time is unknown"),
    ],
)
def test_mistakes_are_one_line(flow, capsys, arguments, old, new, status, reported):
    flow.write_text(FLOW.replace(old, new) if old else FLOW)
    assert main(["plan", "--empty", *arguments, str(flow)]) == status
    error = capsys.readouterr().err
    assert error.startswith("nimo: ")
    assert error.count("\n") == 1
    assert reported in error


def test_ingested_runs_of_an_application_are_samples(tmp_path, monkeypatch, capsys):
    """``samples: history``: occupancies of the runs that users made; other counts are no choice."""
    url = f"sqlite:///{tmp_path / 'nimo.db'}"
    (tmp_path / "nimo.yaml").write_text(f"store: {url}\n")
    monkeypatch.setenv("NIMO_CONFIG", str(tmp_path / "nimo.yaml"))
    with Store.open(url) as store:
        store.runs.add(scaling_runs())
        store.fits.replace([fitted()])
    text = RECORDED.replace("nodes: 2, speed: 1", "nodes: 1-64, speed: 1").replace(
        "nodes: 2, application: solve", "nodes: 1-64, application: solve, samples: history"
    ).replace("remote: false", "remote: false, bandwidth: 100M")  # fmt: skip
    (tmp_path / "flow.yaml").write_text(text)
    assert main(["plan", "--empty", "--json", str(tmp_path / "flow.yaml")]) == 0
    plan = json.loads(capsys.readouterr().out)["plans"][0]
    (sort,) = (one for one in plan["steps"] if one["name"] == "sort")
    assert 8 < sort["nodes"] <= 22  # half of the range beyond it, and no more
    assert "is outside what was run, from 1 to 8" in plan["doubts"]["sort"]
    assert sort["end_s"] - sort["start_s"] == pytest.approx(20 + 400.0 / sort["nodes"], rel=0.15)
