import csv
import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from predictor.stored_table import decode
from sacct_ingest.store import Store
from slurm_plugin.cli import advise
from slurm_plugin.cli.nimo import main
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.reports import sheets
from slurm_plugin.slurm.slurm_conf import PrivateDataRules
from slurm_plugin.text.table_columns import Column, Table
from tests.slurm_plugin.reports.rows import decision


@pytest.fixture
def store(tmp_path, one_run):
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


def report(store, capsys, *options):
    assert main(["report", "--store", store, *options]) == 0
    return capsys.readouterr().out


def test_the_report_has_decisions_and_outcomes(store, capsys):
    text = report(store, capsys)
    assert text.startswith("2 decisions, ")
    assert "20.0 % off on average (MAPE)" in text
    assert "job arrays keep what they ask for" in text


def test_json(store, capsys):
    result = json.loads(report(store, capsys, "--json"))
    assert (result["decisions"], result["finished"]) == (2, 1)
    assert result["accuracy"]["mape"] == pytest.approx(0.2)
    assert result["confidence"] == 0.9
    assert result["unchanged"] == {"array": 1}


def test_parsable(store, capsys):
    lines = report(store, capsys, "-P").splitlines()
    assert lines[0].startswith(
        "application|decisions|changed|finished|compared|MAPE|actual/predicted|in 50 %"
    )
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
def evil_store(tmp_path):
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
    assert "2 decisions, " in text


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
    columns = (Column("name", "name", str), Column("n", "n", lambda _: -1.5))
    one = Table(columns, ["=cmd()", "@x", "ok"], "t")
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
        "mode|action|applied|decisions|reason|meaning",
        "enforce|set|1|2|cheapest|" + Reason.CHEAPEST.text,
    ]


def test_another_table_as_json(evil_store, capsys):
    (row,) = json.loads(report(evil_store, capsys, "--json", "--table", "reasons"))
    meaning = Reason.CHEAPEST.text
    assert row == {"mode": "enforce", "action": "set", "applied": True, "decisions": 2,
                   "reason": "cheapest", "meaning": meaning}  # fmt: skip


def test_an_unknown_table_is_an_error_that_names_the_others(evil_store, capsys):
    assert main(["report", "--store", evil_store, "-P", "--table", "reason"]) == 1
    assert "there are stopped, applications, accuracy" in capsys.readouterr().err


def test_others_jobs_are_hidden_where_slurm_hides_them(store, capsys, monkeypatch):
    hidden = PrivateDataRules(only_user="bob", why="PrivateData hides others' jobs")
    monkeypatch.setattr("slurm_plugin.store_access.visibility_for", lambda *_: hidden)
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
    assert [one[:2] for one in reported] == [(table.label, p.name) for p in table.problems]
    # One run alone would help most.
    runs = [p.observe for p in table.problems if p.observe]
    assert [one[2] for one in reported if one[2]] == runs[:1]
    assert table.problems[0].text in " ".join(report(str(copy), capsys).split())


@pytest.mark.parametrize(
    "words", [["wrf-d02", "--plot"], ["--plot", "wrf-d02"], ["--plot", "--all", "wrf-d02"]]
)
def test_predict_draws_on_the_terminal(words, use, capsys):
    assert main(["predict", *words]) == 0
    out = capsys.readouterr().out
    assert "verdict: " in out
    assert "● observed" in out


def test_predict_draws_into_a_file(use, tmp_path, capsys):
    file = tmp_path / "wrf.svg"
    assert main(["predict", "wrf-d02", "--json", "--plot", str(file)]) == 0
    assert capsys.readouterr().out.startswith("[{")
    assert "ada/wrf-d02" in file.read_text()


def test_another_suffix_is_refused(use, tmp_path, capsys):
    assert main(["predict", "wrf-d02", "--plot", str(tmp_path / "wrf.gif")]) == 73
    assert ".svg, .png, .pdf" in capsys.readouterr().err


def test_a_file_holds_one_curve(use, tmp_path, capsys):
    assert main(["predict", "melt", "--plot", str(tmp_path / "melt.svg")]) == 73
    reported = capsys.readouterr().err
    assert "choose one by its key: " in reported
    assert "ravi/lammps/melt (tag)" in reported
    assert main(["predict", "lammps/melt", "--plot", str(tmp_path / "melt.svg")]) == 0


def test_an_encoding_without_the_signs_is_reported(use):
    code = "import sys; from slurm_plugin.cli.nimo import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "predict", "wrf-d02", "--plot"],
        capture_output=True,
        encoding="latin-1",
        check=False,
        env=os.environ | {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
    )
    assert done.returncode == 73
    assert "--plot=curve.svg writes a file" in done.stderr


def test_advise_draws_and_recommends(use, tmp_path, capsys):
    words = ["--user", "ada", "--store", str(use.store)]
    assert advise.main([*words, "--plot", "wrf.sh", "d02"]) == 0
    out = capsys.readouterr().out
    assert out.index("#SBATCH --nodes=") < out.index("◆ recommended: ")
    file = tmp_path / "wrf.png"
    assert advise.main([*words, "--plot", str(file), "wrf.sh", "d02"]) == 0
    assert "recommended" not in capsys.readouterr().out
    assert file.read_bytes().startswith(b"\x89PNG")


def test_an_unknown_job_has_nothing_to_draw(use, tmp_path, capsys):
    script = tmp_path / "new.sh"
    script.write_text("#!/bin/sh\nsrun ./never-seen\n")
    assert advise.main(["--store", str(use.store), "--plot", str(script)]) == 3
    assert "nothing to draw yet" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--json", "-P"])
def test_lines_for_scripts_and_a_drawing_do_not_mix(option):
    with pytest.raises(SystemExit) as ended:
        advise.main([option, "--plot", "job.sh"])
    assert ended.value.code == 2


def test_a_list_is_not_drawn(use, capsys):
    assert main(["predict", "--plot"]) == 73
    assert "which application?" in capsys.readouterr().err
