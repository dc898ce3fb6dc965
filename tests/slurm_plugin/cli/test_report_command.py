import csv
import json
import re
import sqlite3
from pathlib import Path

import pytest
from msgspec.structs import replace

from predictor.table import decode
from sacct_ingest.records import JobRun
from sacct_ingest.store import Store
from slurm_plugin.cli.nimo import main
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.reports import sheets
from slurm_plugin.slurm.slurm_conf import PrivateDataRules
from slurm_plugin.text.table_columns import OutputColumn
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


def test_the_report_has_decisions_and_outcomes(store, capsys):
    text = report(store, capsys)
    assert text.startswith("2 decisions from ")
    assert "MAPE 20.0 %" in text
    assert "job arrays keep what they ask for" in text


def test_json(store, capsys):
    result = json.loads(report(store, capsys, "--json"))
    assert (result["decisions"], result["finished"]) == (2, 1)
    assert result["accuracy"]["mape"] == pytest.approx(0.2)
    assert result["confidence"] == 0.9
    assert result["unchanged"] == {"array": 1}


def test_parsable(store, capsys):
    lines = report(store, capsys, "-P").splitlines()
    assert lines[0].startswith("Application|Decisions|Changed|Finished|Compared|Mape|Bias|Inside50")
    assert lines[1:] == ["md|1|0|0|0||||||||", "wrf|1|1|1|1|0.2|1.25|0|0|0|0.8|1|1"]


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
def test_a_selection(options, labels, store, capsys):
    result = json.loads(report(store, capsys, "--json", *options))
    assert [row["application"] for row in result["applications"]] == labels


EVIL = "<script>alert(1)</script>"


@pytest.fixture
def evil_store(tmp_path: Path) -> str:
    """Store with a decision about a job that is named to do harm."""
    path = str(tmp_path / "evil.db")
    with Store.open(path) as opened:
        opened.decisions.add([decision(label=EVIL, user="=ada"), decision(decision_id="f" * 12)])
    return path


def test_a_page_is_one_file_that_harms_nobody(evil_store, tmp_path, capsys):
    page = tmp_path / "report.html"
    assert report(evil_store, capsys, "--html", str(page)) == ""
    text = page.read_text()
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert re.findall(r"(?:src|href)=\"(?!#)", text) == []
    assert "2 decisions from" in text


def test_every_table_is_a_file(evil_store, tmp_path, capsys):
    reported = report(evil_store, capsys, "--csv", str(tmp_path / "tables")).splitlines()
    assert {Path(line).stem for line in reported} >= {
        "applications",
        "reasons",
        "problems",
        "waste",
    }
    rows = list(csv.DictReader((tmp_path / "tables" / "applications.csv").open(newline="")))
    assert [(row["application"], row["decisions"]) for row in rows] == [(EVIL, "1"), ("wrf", "1")]


def test_no_cell_is_a_formula(tmp_path):
    fields = (OutputColumn("name", "name", str), OutputColumn("n", "n", lambda _: -1.5))
    one = sheets.Sheet(name="t", caption="", fields=fields, rows=["=cmd()", "@x", "ok"])
    (path,) = sheets.write_csv([one], tmp_path)
    assert path.read_text().split() == ["name,n", "'=cmd(),-1.5", "'@x,-1.5", "ok,-1.5"]


def test_pseudonyms_hide_all_names(evil_store, capsys):
    text = report(evil_store, capsys, "--json", "--anonymise", "-u", "ada")
    result = json.loads(text)
    assert [row["application"] for row in result["applications"]] == ["application-1"]
    assert result["selection"] == {"user": "user-1"}
    assert result["anonymous"]
    assert "ada" not in text
    assert "wrf" not in text


def test_another_table(evil_store, capsys):
    lines = report(evil_store, capsys, "-P", "--table", "reasons").splitlines()
    assert lines == [
        "Mode|Action|Applied|Decisions|Reason|Meaning",
        "enforce|set|1|2|cheapest|" + Reason.CHEAPEST.text,
    ]


def test_an_unknown_table_is_an_error_that_names_the_others(evil_store, capsys):
    assert main(["report", "--store", evil_store, "-P", "--table", "reason"]) == 1
    assert "there are stopped, applications, accuracy" in capsys.readouterr().err


def test_others_jobs_are_hidden_where_slurm_hides_them(store, capsys, monkeypatch):
    hidden = PrivateDataRules(only_user="bob", why="PrivateData hides others' jobs")
    monkeypatch.setattr("slurm_plugin.store_access.visibility_of", lambda _: hidden)
    assert main(["report", "--store", store, "--json"]) == 0
    reported = capsys.readouterr()
    assert [row["application"] for row in json.loads(reported.out)["applications"]] == ["md"]
    assert "only your own jobs are shown" in reported.err


def test_the_curves_tell_their_problems(use, capsys, tmp_path):
    copy = tmp_path / "copy.db"
    with sqlite3.connect(use.folder / "nimo.db") as source, sqlite3.connect(copy) as target:
        source.backup(target)
    with Store.open(str(copy)) as opened:
        recorded = (decode(row.payload) for row in opened.fits.all())
        table = next(one for one in recorded if one.problems and one.level == "line")
        opened.decisions.add([decision(key_level=table.level, key=table.key, label=table.label)])
    result = json.loads(report(str(copy), capsys, "--json"))
    reported = [(row["application"], row["problem"], row["observe"]) for row in result["problems"]]
    assert sorted(reported) == sorted((table.label, p.name, p.observe) for p in table.problems)
    assert table.problems[0].text in " ".join(report(str(copy), capsys).split())
