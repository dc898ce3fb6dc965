"""The page of an application: its curve, its table, its runs, in its own unit."""

import re
from dataclasses import replace
from urllib.parse import quote

from predictor.facts import ResourceUse
from predictor.job_table import within_cluster
from predictor.prediction_table import Part
from predictor.problems import Problem
from predictor.refit import row_of
from predictor.types import Verdict
from sacct_ingest.runs.layout import Layout, Unit
from sacct_ingest.store import Store
from slurm_plugin.config.settings import Energy
from slurm_plugin.protocol.status_messages import PartitionWait
from slurm_plugin.web.application_page import facts
from tests.sacct_ingest.records import run
from tests.slurm_plugin.made import table
from tests.slurm_plugin.web.conftest import own, put_waits
from tests.slurm_plugin.web.pages import ADDRESSES, APPLICATION, Tags, listed


def test_users_see_their_own_applications(ask):
    visibility = own("ada")
    assert listed(ask("/applications?group=all", "ada", visibility).text) == ["ada/wrf", "ada/wrf"]
    assert ask(f"{APPLICATION}a1", "ada", visibility).status_code == 200
    for hidden in (f"{APPLICATION}b1", "/application?level=tag&key=bob/ocean/d01", "/replay"):
        got = ask(hidden, "ada", visibility)
        assert got.status_code == 404
        assert "bob" not in got.text
    for address in ADDRESSES:
        assert "bob/" not in ask(address, "ada", visibility).text


def test_an_application_has_its_curve_its_table_and_what_is_wrong(ask):
    text = ask(f"{APPLICATION}b2").text
    assert "<svg" in text
    assert "Observed run times: 1 nodes" in text
    assert "all runs lie in the linear part" in text
    rows = re.findall(r'<th scope="row"><bdi>(\d+)</bdi></th>', text)
    assert [int(n) for n in rows] == [1, 2, 4, 8, 16, 32]
    every = re.findall(
        r'<th scope="row"><bdi>(\d+)</bdi></th>', ask(f"{APPLICATION}b2&counts=all").text
    )
    assert len(every) == 32


def test_an_application_shows_its_runs_and_no_count_that_the_cluster_lacks(ask, store_path):
    problem = Problem("linear_section", "all runs lie in the linear part", 32)
    with Store.open(str(store_path)) as store:
        store.runs.add([run(job_id=5, nodes=4, elapsed_s=1000.0)])
        (key,) = {row.line for row in store.runs.newest(9)}
        fields = {"label": "ada/big", "runs": 30, "problems": (problem,), "owner": "ada"}
        made = table(level="line", key=key, **fields)
        store.fits.replace([row_of(made)])
    wait = {"limit_s": 3600.0, "wait_s": 0.0, "low_s": 0.0, "high_s": 0.0}
    put_waits(store_path, PartitionWait(partition="p", nodes=16, **wait))
    text = ask(f"{APPLICATION}{key}&counts=all").text
    assert "the last run" in text
    rows = re.findall(r'<th scope="row"><bdi>(\d+)</bdi></th>', text)
    assert [int(n) for n in rows] == list(range(1, 17))
    assert "would help most" not in text
    assert "Ask for: --nodes=" in Tags(text).text


def test_an_application_counts_in_its_own_unit(ask, store_path):
    with Store.open(str(store_path)) as store:
        store.runs.add([run(job_id=i, nodes=1, cpus=n) for i, n in enumerate((4, 4, 8), 60)])
        (key,) = {row.line for row in store.runs.newest(9)}
        of_cpus = table(level="line", key=key, label="x/y", unit=Unit.CPUS, mem_node_bytes=2**30)
        part = Part(f"{key}#part=1", Layout(cpus=4))
        of_part = replace(of_cpus, key=part.key, unit=Unit.NODES)
        store.fits.replace([row_of(replace(of_cpus, parts=(part,))), row_of(of_part)])
    assert "the last 2 runs" in ask(f"{APPLICATION}{quote(part.key)}").text
    shown = Tags(ask(f"{APPLICATION}{key}").text).text
    for words in ("Run time over CPUs", "All CPU counts", "Largest memory observed of a job"):
        assert words in shown
    assert "○ the last 3 runs" in shown
    assert "reliable, 2 runs" in shown
    assert "node counts" not in shown
    assert "Run time over nodes" not in shown


def test_an_application_has_a_curve_for_each_node_type(ask):
    text = ask("/application?level=tag&key=bob/ocean/d01").text
    assert text.count("<svg") == 2
    assert "nodes of the type ice<lake>" in Tags(text).text


def test_a_history_without_observations_has_words_instead_of_a_curve(ask, store_path):
    with Store.open(str(store_path)) as store:
        refused = table(level="line", key="r", label="x/y", observed=(), verdict=Verdict.REFUSED)
        store.fits.replace([row_of(refused)])
    text = ask(f"{APPLICATION}r").text
    assert "There is nothing to draw" in text
    assert "<svg" not in text


def test_runs_on_counts_that_nimo_tried_are_dots_beside_a_curve(ask, store_path):
    one_count = table(level="name", key="ada/sim", observed=[8], knee=44, owner="ada")
    for counts, title in (((8, 8), "Run times on 8 nodes"), ((8, 4, 6), "Run time over nodes")):
        runs = [run(job_id=i, name="sim", nodes=n) for i, n in enumerate(counts, 50)]
        with Store.open(str(store_path)) as store:
            store.runs.add(runs)
            store.fits.replace([row_of(within_cluster(one_count, 32))])
        text = Tags(ask("/application?level=name&key=ada/sim").text).text
        assert title in text
        assert "knee" not in text


def test_an_application_speaks_the_unit_of_its_curve():
    use = ResourceUse(Unit.GPUS, 0.6, 0.5, 0.7, runs=12, predictions=9, inside=8)
    shown = dict(
        facts(replace(table(), unit=Unit.CPUS, mem_node_bytes=2**30, uses=(use,)), None, Energy())
    )
    assert shown["Largest memory observed of a job"] == "1.0 GiB"
    assert shown["Use of GPUs"] == (
        "at most 60 % of their GPUs (nine in ten use 50 % to 70 %; 8 of 9 runs were inside the "
        "range of those before them)"
    )
    assert "Largest memory observed on a node" in dict(
        facts(replace(table(), mem_node_bytes=1), None, Energy())
    )
