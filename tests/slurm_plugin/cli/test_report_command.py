import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from sacct_ingest.records import JobRun
from sacct_ingest.store import Store
from slurm_plugin.cli.nimo import main
from tests.slurm_plugin.reports.rows import decision


@pytest.fixture
def store(tmp_path: Path, one_run: JobRun) -> str:
    """Store with two decisions, one of which has an outcome."""
    path = str(tmp_path / "nimo.db")
    note = "NIMO1:0123456789ab:n=4,req=1-8,t=1,lo=1,hi=1,v=reliable,m=enforce,r=cheapest"
    run = replace(one_run, admin_comment=note, nodes=4, elapsed_s=1250.0, user="ada", name="wrf")
    other = decision(
        decision_id="ba9876543210", user="bob", uid=7, label="md", partition="long",
        action="keep", reason="array", applied=False, at_s=1_700_000_000.0,
    )  # fmt: skip
    with Store.open(path) as opened:
        opened.runs.add([run])
        opened.decisions.add([decision(cluster=run.cluster), other])
        assert opened.decisions.join_outcomes() == 1
    return path


def report(store: str, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["report", "--store", store, *options]) == 0
    return capsys.readouterr().out


def test_the_report_has_decisions_and_outcomes(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = report(store, capsys)
    assert text.startswith("2 decisions from ")
    assert "MAPE 20.0 %" in text
    assert "job arrays keep what they ask for" in text


def test_json(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(report(store, capsys, "--json"))
    assert (found["decisions"], found["finished"]) == (2, 1)
    assert found["accuracy"]["mape"] == pytest.approx(0.2)
    assert found["confidence"] == 0.9
    assert found["unchanged"] == {"array": 1}


def test_parsable(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = report(store, capsys, "-P").splitlines()
    assert lines[1:] == ["md|1|0|0|0|||", "wrf|1|1|1|1|0.200|1.250|0.000"]


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        (["-u", "bob"], ["md"]),
        (["-p", "batch"], ["wrf"]),
        (["--app", "md"], ["md"]),
        (["-S", "2024-01-01"], ["wrf"]),
        (["-u", "nobody-here"], []),
    ],
)
def test_a_selection(
    options: list[str], labels: list[str], store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(report(store, capsys, "--json", *options))
    assert [row["application"] for row in found["applications"]] == labels
