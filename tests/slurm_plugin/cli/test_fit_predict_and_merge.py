import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from itertools import permutations

import msgspec
import pytest
from msgspec.structs import replace as replaced

from predictor import models
from predictor.models.adept import Adept
from predictor.prediction_table import PredictionTable
from predictor.refit import row_of
from predictor.types import Curve, Verdict
from sacct_ingest.store import Store
from slurm_plugin.cli.commands import predict
from slurm_plugin.cli.nimo import main
from slurm_plugin.demo.history import applications
from slurm_plugin.web.data import Catalogue, CatalogueQuery, entry_of
from tests.predictor.node_types.test_sums import add, all_sums, profiles, runs, same, true_s
from tests.sacct_ingest.records import scaling_runs
from tests.slurm_plugin.made import table

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
    assert header == "application|by|runs|nodes|verdict|model|key|differs by"
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
    titles = "nodes|run time|at least|at most|verdict|kWh|cost|g CO2e|observed|runs there took"
    assert header == titles
    # No nimod says how large the cluster is; its runs do.
    assert rows[-1].split("|")[0] == "32"


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
    assert "verdict: doubtful" in capsys.readouterr().out
    assert main(["predict", "blast", "--all"]) == 0
    assert "model: history" in capsys.readouterr().out


def test_several_applications_of_a_name_are_listed_to_choose_from(tmp_path, capsys):
    path = str(tmp_path / "nimo.db")
    with Store.open(path) as store:
        named = {"level": "line", "label": "ada/wrf"}
        keys = [f"{i}abcdef0" for i in range(30)]
        made = [table(key=key, command=f"wrf.sh {key}", runs=9, **named) for key in keys]
        store.fits.replace(map(row_of, made))
    assert main(["predict", "wrf", "--store", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 23
    assert lines[0] == "30 applications have this name; name one by its key, or --all."
    assert main(["predict", lines[3].split()[0], "--store", path]) == 0
    assert "verdict: reliable" in capsys.readouterr().out
    assert main(["predict", "wrf", "--store", path, "--all"]) == 0
    assert capsys.readouterr().out.count("verdict: reliable") == 30


def test_an_unknown_name_proposes_one_that_looks_alike(use, capsys):
    assert main(["predict", "wrf-do2"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("nimo: there is no history of 'wrf-do2'; did you mean ")
    assert "wrf-d02" in err


def test_users_are_proposed_a_name_by_nimod(nimod, use, monkeypatch, capsys):
    monkeypatch.setattr(predict, "may_read_store", lambda _: False)
    assert main(["predict", "wrf-do2"]) == 3
    assert "; did you mean " in (err := capsys.readouterr().err)
    assert "wrf-d02" in err


_BY_TAG = ("tag", "nodes")


def test_a_curve_is_drawn_by_adept_where_that_is_asked_for(use, capsys):
    assert main(["predict", "wrf-d02", "--model", "adept", "--json"]) == 0
    (drawn,) = msgspec.json.decode(capsys.readouterr().out, type=list[PredictionTable])
    assert main(["predict", "wrf-d02", "--json"]) == 0
    (believed,) = msgspec.json.decode(capsys.readouterr().out, type=list[PredictionTable])
    assert (drawn.model, believed.model) == ("adept", "averaged")
    assert (drawn.key, drawn.runs, drawn.observed) == (
        believed.key, believed.runs, believed.observed
    )  # fmt: skip
    expected = Adept().fit(Curve(believed.observed)).predict(drawn.nodes, drawn.confidence)
    assert drawn.median_s == pytest.approx([one.time_s for one in expected], rel=0.01)
    for nodes, predicted_s in zip(drawn.nodes, drawn.median_s, strict=True):
        if nodes <= 16:
            assert predicted_s == pytest.approx(WRF.time_s(nodes), rel=0.2)
    assert main(["predict", "wrf-d02", "--model", "adept", "--all"]) == 0
    assert "model: adept" in capsys.readouterr().out


def test_a_model_that_is_none_is_named_with_those_there_are(use, capsys):
    assert main(["predict", "wrf-d02", "--model", "adapt"]) != 0
    refused = capsys.readouterr().err
    assert "no model is called adapt; there are: " in refused
    assert all(name in refused for name in ("adept", "averaged"))
    assert main(["predict", "--model", "adept"]) != 0
    assert "--model adept: which application?" in capsys.readouterr().err


def test_the_model_of_the_configuration_is_believed(tmp_path, capsys):
    store, config = f"sqlite:///{tmp_path}/nimo.db", tmp_path / "nimo.yaml"
    config.write_text(json.dumps({"store": store, "fit": {"model": "adept"}}))
    with Store.open(store, create=True) as opened:
        opened.runs.add(runs()[:4])
    assert main(["fit", "--config", str(config)]) == 0
    capsys.readouterr()
    assert main(["predict", "wrf", "--json", "--config", str(config)]) == 0
    (drawn,) = msgspec.json.decode(capsys.readouterr().out, type=list[PredictionTable])
    assert drawn.model == "adept"


@pytest.fixture
def two_clusters(tmp_path, capsys):
    """A store with runs on two types of nodes of pine; those of oak were measured alone."""
    path = str(tmp_path / "nimo.db")
    with Store.open(path, create=True) as store:
        store.runs.add(runs())
        store.profiles.add(profiles())
        oak = {"huge": 5000.0, "tiny": 500.0}
        store.profiles.add([replace(one, cluster="oak") for one in profiles(oak)])
    assert main(["fit", "--store", path]) == 0
    capsys.readouterr()
    return path


def test_an_application_is_predicted_on_a_type_and_on_a_cluster_where_it_never_ran(
    two_clusters, capsys
):
    def predicted(on):
        assert main(["predict", "wrf", "--on", on, "--json", "--store", two_clusters]) == 0
        return {one["node_type"]: one for one in json.loads(capsys.readouterr().out)}

    on_oak = predicted("oak")
    assert list(on_oak) == ["huge", "tiny"]
    for node_type, speed in (("huge", 5000.0), ("tiny", 500.0)):
        table = on_oak[node_type]
        truth = {n: true_s(n, speed) for n in table["nodes"]}
        predictions = dict(zip(table["nodes"], table["median_s"], strict=True))
        assert predictions == {n: pytest.approx(truth[n], rel=0.25) for n in truth}
        assert (table["runs"], table["verdict"]) == (0, "doubtful")
    assert predicted("huge") == {"huge": on_oak["huge"]}
    assert predicted("new")["new"]["runs"] == 4


def test_the_prediction_on_another_cluster_as_text(two_clusters, capsys):
    assert main(["predict", "wrf", "--on", "oak", "--store", two_clusters]) == 0
    text = capsys.readouterr().out
    assert "nodes of the type huge" in text
    assert "nodes of the type tiny" in text
    assert "verdict: doubtful" in text
    assert main(["predict", "wrf", "--on", "huge", "-P", "--store", two_clusters]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 4


def test_where_nothing_was_measured_it_says_what_was(two_clusters, capsys):
    assert main(["predict", "wrf", "--on", "elm", "--store", two_clusters]) == 3
    reported = capsys.readouterr().err
    assert "no nodes of a type or a cluster 'elm' were measured" in reported
    assert "types are huge, new, old, tiny, measured clusters oak, pine" in reported
    assert main(["predict", "--on", "oak", "--store", two_clusters]) != 0
    assert "--on oak: which application?" in capsys.readouterr().err
    with Store.open(two_clusters) as store:
        elm = [replace(one, cluster="elm", node_type="odd") for one in profiles()[:1]]
        store.profiles.add(elm)
    assert main(["predict", "wrf", "--on", "elm", "--store", two_clusters]) == 3
    assert "wrf has no prediction for nodes of the type odd yet;" in capsys.readouterr().err


@pytest.fixture
def clusters(tmp_path):
    """Three stores: two saw some runs in common, and the third one of them another way."""
    paths = [tmp_path / f"{name}.db" for name in ("oak", "pine", "elm")]
    faster = {"old": 1100.0, "new": 2500.0}
    for path, observed, speed in zip(
        paths, (runs()[:5], runs()[3:], runs()[2:4]), (None, None, faster), strict=True
    ):
        with Store.open(str(path)) as store:
            store.profiles.add(profiles(speed) if speed else profiles())
            store.runs.add(observed)
            add(store)
    yield paths


def merge(store, *argv, capsys):
    capsys.readouterr()
    assert main(["merge", "--store", str(store), "--json", *map(str, argv)]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.database
def test_order_and_repetition_do_not_matter_in_any_database(
    clusters, tmp_path, postgresql_url, mariadb_url, capsys
):
    urls = [*(str(tmp_path / f"into{i}.db") for i in range(4)), postgresql_url, mariadb_url]
    for url, order in zip(urls, permutations(clusters), strict=True):
        Store.open(url).close()
        merge(url, *order, capsys=capsys)
        again = merge(url, *clusters, *order, capsys=capsys)
        assert [one["new"] for one in again["merged"]] == [0] * 6
    with ExitStack() as opened:
        first, *others = [opened.enter_context(Store.open(url)) for url in urls]
        by_tag = [sums for key, sums in all_sums(first).items() if (key[0], key[3]) == _BY_TAG]
        assert sum(sums.count for sums in by_tag) == len(runs())
        assert all(same(first, other) for other in others)


def test_a_run_of_ones_own_stays_as_it_is_stored_here(clusters, capsys):
    oak, _, elm = clusters
    before = merge(oak, elm, capsys=capsys)
    assert before["merged"][0]["new"] == 0
    with Store.open(str(oak)) as store:
        sums = all_sums(store)
        assert sums["tag", "ann/wrf", "old", "cpu"].hh[0][2] == pytest.approx(
            sums["tag", "ann/wrf", "old", "cpu"].hh[0][0] / 1000
        )


def test_a_file_says_the_same_and_its_bad_lines_are_left_out(clusters, tmp_path, capsys):
    oak, pine, _ = clusters
    file, other = tmp_path / "pine.sums", tmp_path / "other.db"
    assert merge(pine, "--export", file, capsys=capsys)["exported"] == 5
    lines = file.read_text().splitlines(keepends=True)
    bad = lines[1].replace('"nodes":', '"nodes":-')
    file.write_text("".join([lines[0], bad, "{\n", *lines[1:]]))
    (done,) = merge(oak, file, capsys=capsys)["merged"]
    assert (done["new"], done["refused"]) == (3, 2)
    assert done["first_refused"].startswith(f"{file}: line 2: nodes is -")
    Store.open(str(other)).close()
    merge(other, oak, capsys=capsys)
    with Store.open(str(oak)) as one, Store.open(str(other)) as two:
        assert same(one, two)
    assert main(["merge", "--store", str(oak), str(tmp_path / "none.db")]) == 74


MODEL = '''\
"""Constant work: the node time of the first observation, on any count (no paper)."""

from dataclasses import dataclass

from predictor.models.base import register
from predictor.types import Prediction


@dataclass(frozen=True)
class ConstantWorkFit:
    node_s: float
    model: str = "constant_work"
    problems: tuple = ()

    def predict(self, nodes, level=0.9):
        times = [(n, self.node_s / n) for n in nodes]
        return [Prediction(n, t, t / 1.05, t * 1.05, level, 0.01) for n, t in times]


@register("constant_work")
@dataclass(frozen=True)
class ConstantWork:
    min_points: int = 1

    def fit(self, curve):
        return ConstantWorkFit(curve.points[0].nodes * curve.points[0].time_s)
'''


@pytest.fixture
def added(tmp_path, monkeypatch):
    """A store of an application, a new file beside the models and its name in the settings."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "constant_work.py").write_text(MODEL)
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(tmp_path / "models")])
    url = f"sqlite:///{tmp_path / 'nimo.db'}"
    with Store.open(url) as store:
        for number in range(5):
            slower = 1 + number / 100
            store.runs.add(
                replaced(run, job_id=10 * number + run.nodes, elapsed_s=400.0 * slower / run.nodes)
                for run in scaling_runs()
            )
    (tmp_path / "nimo.yaml").write_text(f"store: {url}\nfit: {{model: constant_work}}\n")
    monkeypatch.setenv("NIMO_CONFIG", str(tmp_path / "nimo.yaml"))


def test_an_added_model_predicts(added, capsys):
    assert main(["fit", "--workers", "1"]) == 0
    capsys.readouterr()
    assert main(["predict", "solve", "--json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)
    assert table["model"] == "constant_work"
    times = dict(zip(table["nodes"], table["median_s"], strict=True))
    assert times[4] == pytest.approx(2 * times[8], rel=0.05)
    assert table["tails"]


def test_runs_that_nimo_learn_made_are_listed_as_their_application_alone(tmp_path, capsys):
    path = f"sqlite:///{tmp_path / 'nimo.db'}"
    with Store.open(path) as store:
        store.runs.add(
            replaced(
                one,
                name=f"nimo-learn-solve-{one.nodes:012x}-0",
                comment="nimo:off,app=solve",
                submit_line=f"sbatch --wrap solve{one.nodes}",
            )
            for one in scaling_runs()
        )
    assert main(["fit", "--workers", "1", "--store", path]) == 0
    capsys.readouterr()
    for options in ([], ["--all"]):
        assert main(["predict", "-P", "-n", "-o", "application", "--store", path, *options]) == 0
        assert set(capsys.readouterr().out.split()) == {"ada/solve"} | (set(options) and {"ada"})
