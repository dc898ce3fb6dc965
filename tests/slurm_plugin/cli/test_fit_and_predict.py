import json
from collections import Counter

import msgspec
import pytest

from predictor.types import PredictionTable, Verdict
from sacct_ingest.store import Store
from slurm_plugin.cli.nimo import main
from slurm_plugin.demo.history import applications
from slurm_plugin.web.data import Catalogue, CatalogueQuery, entry_of

WRF = next(a for a in applications("ada") if a.name == "wrf-d02")


def test_fit_tells_what_it_left(use, capsys):
    assert main(["fit", "--workers", "1", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    # wrf, membrane, motorbike, melt (twice: tag and line), ocean, vasp have three node counts.
    assert done["curves"] == 7
    assert done["reliable"] + done["doubtful"] + done["refused"] == 7
    assert done["histories"] > 0


def test_fit_counts_applications_as_the_list_and_the_first_page_do(use, capsys):
    assert main(["fit", "--workers", "1"]) == 0
    said, curves, _ = capsys.readouterr().out.split("; ")
    # One application is recognised by its tag and by its command line: it has two of the curves.
    assert curves.startswith("7 scaling curves (6 by command line, 1 by tag), ")
    assert main(["predict", "-P"]) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    listed = Counter(row.split("|")[4] for row in rows)
    with Store.open(f"sqlite:///{use.store}") as store:
        entries = [entry_of(row, off=False) for row in store.fits.all()]
    page = Catalogue(entries).select(CatalogueQuery(), lambda _: True)
    for verdicts in (listed, Counter(entry.verdict for entry in page)):
        each = ", ".join(f"{verdicts[word]} {word}" for word in Verdict)
        assert said == f"{verdicts.total()} applications: {each}"


@pytest.mark.parametrize("command", [["fit"], ["predict"], ["report"]])
def test_a_missing_store_names_the_fix(command, tmp_path, capsys):
    assert main([*command, "--store", str(tmp_path / "none.db")]) == 74
    out, err = capsys.readouterr()
    assert out == ""
    assert "'nimo ingest' makes one" in err


def test_the_list_has_every_curve(use, capsys):
    assert main(["predict"]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split()[0] for line in lines[1:]]
    assert {"ada/wrf-d02", "ada/membrane", "ravi/lammps/melt", "sofia/ocean"} <= set(listed)
    assert lines[-1].split()[-1] == "history"  # the reliable curves come first
    assert main(["predict", "-P"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header == "Application|By|Runs|NodesObserved|Verdict|Model|Key|Details"
    assert len(rows) == len(listed)
    assert {row.count("|") for row in rows} == {header.count("|")}


def test_one_application_is_near_its_truth(use, capsys):
    assert main(["predict", "wrf-d02", "--json"]) == 0
    (recorded,) = msgspec.json.decode(capsys.readouterr().out, type=list[PredictionTable])
    assert recorded.verdict is Verdict.RELIABLE
    for nodes, predicted_s in zip(recorded.nodes, recorded.median_s, strict=True):
        if nodes <= 16:
            assert predicted_s == pytest.approx(WRF.time_s(nodes), rel=0.05)


def test_one_application_as_text_and_parsable(use, capsys):
    assert main(["predict", "ada/wrf-d02"]) == 0
    assert "verdict: reliable" in capsys.readouterr().out
    assert main(["predict", "wrf-d02", "-P"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header == "Nodes|MedianS|LowS|HighS|Verdict|Kwh|Cost|Co2G|Observed"
    assert len(rows) > 16


def test_two_tables_of_the_same_runs_are_one_curve(use, capsys):
    assert main(["predict", "melt"]) == 0
    assert capsys.readouterr().out.count("verdict:") == 1
    assert main(["predict", "melt", "--all"]) == 0
    assert capsys.readouterr().out.count("verdict:") == 2


def test_the_start_of_a_key_will_do(use, capsys):
    main(["predict", "wrf-d02", "--json"])
    (recorded,) = json.loads(capsys.readouterr().out)
    assert main(["predict", recorded["key"][:8], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [recorded]


def test_a_history_is_given_where_there_is_nothing_better(use, capsys):
    assert main(["predict", "blast"]) == 0
    assert "model: history" in capsys.readouterr().out


def test_an_unknown_name_proposes_one_that_looks_alike(use, capsys):
    assert main(["predict", "wrf-do2"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("nimo: there is no history of 'wrf-do2'; did you mean ")
    assert "wrf-d02" in err
