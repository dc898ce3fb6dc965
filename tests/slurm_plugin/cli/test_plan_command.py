"""``nimo plan`` without a Slurm: plans for idle clusters, and mistakes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sacct_ingest.store import Store
from slurm_plugin.cli.nimo import main

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


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "nimo.yaml").write_text(f"store: sqlite:///{tmp_path / 'none.db'}\n")
    monkeypatch.setenv("NIMO_CONFIG", str(tmp_path / "nimo.yaml"))
    (tmp_path / "flow.yaml").write_text(FLOW)
    return tmp_path / "flow.yaml"


def test_prints_the_plan_and_how_it_would_be_submitted(
    flow: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--empty", str(flow)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("fastest: 00:02:0")
    assert "no plan is better" in text
    assert "critical path: sort -> count" in text
    assert "--dependency=afterok:<sort>" in text.replace("'", "")
    assert "sort /home/ana/raw > /home/ana/out" in text
    assert not flow.with_suffix(".plan.json").exists()


def test_a_later_deadline_takes_fewer_node_hours(
    flow: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node_hours = []
    for deadline in ("now+3minutes", "now+6minutes", "now+1hour"):
        assert main(["plan", "--empty", "--json", "--deadline", deadline, str(flow)]) == 0
        first = json.loads(capsys.readouterr().out)["plans"][0]
        assert first["chance"] >= 0.95
        node_hours.append(first["node_hours"])
    assert node_hours == sorted(node_hours, reverse=True)
    assert len(set(node_hours)) == 3


@pytest.mark.parametrize(
    ("deadline", "label", "told"),
    [
        ("now+6000", "as early as possible", "MISSED"),
        ("now+12500", "not surely in time", "NOT SURE"),
    ],
)
def test_a_deadline_that_cannot_be_kept_is_status_4(
    flow: Path, deadline: str, label: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Times beside which those of the command itself are nothing: 12,000 s in all.
    flow.write_text(re.sub(r"(\d+0)(?=[,}])", r"\g<1>00", FLOW))
    assert main(["plan", "--empty", "--deadline", deadline, str(flow)]) == 4
    text = capsys.readouterr().out
    assert text.startswith(label)
    assert told in text


def test_says_why_all_ends_later_than_its_last_step(
    flow: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noted = "half of the cases end by"
    assert main(["plan", "--empty", str(flow)]) == 0
    assert noted not in capsys.readouterr().out
    tasks = "".join(f"  t{i}: {{command: x, run_time: 1000}}\n" for i in range(8))
    flow.write_text(f"{FLOW.partition('tasks:')[0]}tasks:\n{tasks}")
    assert main(["plan", "--empty", str(flow)]) == 0
    assert noted in capsys.readouterr().out


def test_a_task_that_nothing_is_known_of_is_named(
    flow: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(f"sqlite:///{flow.parent / 'none.db'}", create=True):
        pass
    flow.write_text(FLOW.replace("run_time: 20", "nodes: 1"))
    assert main(["plan", "--empty", str(flow)]) == 3
    error = capsys.readouterr().err
    assert error.startswith("nimo: tasks.count: nothing is known about 'flow/count'")
    assert error.endswith("or give its run_time, or samples\n")


@pytest.mark.parametrize(
    ("arguments", "old", "new", "status", "told"),
    [
        ([], "run_time: 20", "nodes: 1", 74, "none.db"),
        (["--submit", "--dry-run"], "", "", 78, "give one of them"),
        (["--follow"], "", "", 1, "this workflow was not submitted"),
        (["--confidence", "95"], "", "", 78, "a share between 0 and 1"),
        ([], "nodes: 1-8", "partition: batch", 78, "say how many nodes it has"),
        ([], "run_time: 20", "run_time: 20, nodes: 9", 3, "count: no"),
    ],
)
def test_mistakes_are_one_line(
    flow: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    old: str,
    new: str,
    status: int,
    told: str,
) -> None:
    flow.write_text(FLOW.replace(old, new) if old else FLOW)
    assert main(["plan", "--empty", *arguments, str(flow)]) == status
    error = capsys.readouterr().err
    assert error.startswith("nimo: ")
    assert error.count("\n") == 1
    assert told in error
