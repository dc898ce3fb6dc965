"""Energy, cost and CO2e: from the sensors' joules to advice, lists, reports and decisions."""

import json
import time
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from sqlalchemy import create_engine, text

from predictor.facts import NodePower
from predictor.table import at
from sacct_ingest.errors import ConfigError
from sacct_ingest.runs.usage import node_watts
from sacct_ingest.store import Store
from slurm_plugin.cli import advise
from slurm_plugin.cli.nimo import main
from slurm_plugin.config.loader import parse
from slurm_plugin.config.setting_types import Objective
from slurm_plugin.config.settings import Energy, JobNames
from slurm_plugin.decision.policy import every_option
from slurm_plugin.decision.situation import Situation
from slurm_plugin.evaluation.costs import (
    check_series,
    grams_between,
    later_begin,
    predicted_amounts,
    source_text,
)
from slurm_plugin.protocol.reasons import Reason
from tests.sacct_ingest.records import SUBMIT_S, decision, run, step, to_first_schema
from tests.slurm_plugin.decision.choosing import RULES, choose, timed
from tests.slurm_plugin.made import NOW, partition, table

PRICED = Energy(node_watts=500.0, pue=1.5, node_hour=2.0, core_hour=0.5, currency="EUR", co2=100.0)
HOUR_S = 3600


def test_steps_that_run_at_once_measure_the_same():
    whole, batch = step(energy_j=60_000), step(step="batch", nodes=1, energy_j=30_000)
    assert node_watts(2, 100.0, (whole, batch)) == 300.0
    assert node_watts(2, 100.0, (batch, step(energy_j=None))) == 300.0  # half of its node time
    assert node_watts(4, 100.0, (batch,)) is None
    assert node_watts(2, 100.0, (step(energy_j=None),)) is None


def runs_on(nodes, first, *, watts, cpus=8, **fields):
    """Three runs of 1,000 s nodes each, whose first step measured all of it."""
    for number in range(3):
        begin_s, elapsed_s = SUBMIT_S + 10_000 * (first + number), 1000.0 / nodes
        times = {"start_s": begin_s, "end_s": begin_s + int(elapsed_s), "elapsed_s": elapsed_s}
        measured = step(nodes=nodes, **times, energy_j=round(watts * 1000))
        shape = {"nodes": nodes, "cpus": cpus * nodes, "tasks": nodes, "steps": (measured,)}
        yield run(job_id=100 * nodes + first + number, submit_s=begin_s, **times, **shape, **fields)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A store where wrf's runs had whole nodes of 300 W, and those of little half ones."""
    config, series = tmp_path / "nimo.yaml", tmp_path / "co2.csv"
    hours = ((time.time() + i * HOUR_S, 120 if i < 1 else 100) for i in range(-25, 25))
    series.write_text("time,g\n" + "".join(f"{at_s},{grams}\n" for at_s, grams in hours))
    url = f"sqlite:///{tmp_path / 'nimo.db'}"
    config.write_text(
        f"store: {url}\nmode: enforce\nenergy: {{node_hour: 2, currency: EUR, co2: {series}}}\n"
    )
    monkeypatch.setenv("NIMO_CONFIG", str(config))
    with Store.open(url) as store:
        for first, nodes in enumerate((1, 2, 4)):
            wrf = runs_on(nodes, 3 * first, watts=300.0, comment="nimo:app=wrf")
            little = runs_on(
                nodes, 30 + 3 * first, watts=300.0, cpus=4, name="cut", comment="nimo:app=little"
            )
            store.runs.add([*wrf, *little])
        key = {"submit_s": SUBMIT_S + 60_000, "job_id": 406}
        store.decisions.add([decision(at_s=key["submit_s"] + 0.5, tag="ada/wrf", label="ada/wrf")])
        store.decisions.join_outcomes()
    assert main(["fit", "--workers", "1"]) == 0
    return series


def advised(capsys, app):
    words = ["--json", "--user=ada", "-N1-4", f"--comment=nimo:app={app}", "--wrap", "x"]
    assert advise.main(words) == 0
    return json.loads(capsys.readouterr().out)


def test_advice_and_the_curve_have_measured_energy_of_whole_nodes_only(site, capsys):
    capsys.readouterr()
    whole, shared = advised(capsys, "wrf"), advised(capsys, "little")
    for row in whole["rows"]:
        node_s = row["nodes"] * row["time_s"]
        assert row["kwh"] == pytest.approx(300 * node_s / 3.6e6)
        assert row["kwh_low"] < row["kwh"] < row["kwh_high"]
        assert row["cost"] == pytest.approx(2 * node_s / 3600)
        assert 100 * row["kwh"] <= row["co2_g"] <= 120 * row["kwh"]
    assert whole["energy_text"].startswith("kWh as measured: 300 W a node (300; 9 runs, 6 ")
    assert whole["begin_text"].endswith(" it emits 17 % less CO2e.")
    assert whole["begin_directive"].startswith("#SBATCH --begin=20")
    assert (
        {row["kwh"] for row in shared["rows"]} == {None} != {row["cost"] for row in shared["rows"]}
    )
    assert main(["predict", "wrf", "-P", "-o", "nodes,kwh,cost,co2_g"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "nodes|kWh|EUR|g CO2e"
    assert [float(word) for word in lines[1].split("|")[:3]] == pytest.approx(
        [1, 1 / 12, 5 / 9], 0.1
    )
    assert main(["report", "-P", "--table", "energy"]) == 0
    row = capsys.readouterr().out.splitlines()[1].split("|")
    # One decision's run: 4 nodes for 250 s.
    assert row[1:5] == ["ada/wrf", "1", "0.0833333", "1"]
    assert float(row[6]) == pytest.approx(2 * 4 * 250 / 3600, rel=1e-4)
    site.write_text("1,2\nx,3\n")
    broken = advised(capsys, "wrf")
    assert "line 2: 'x,3': write TIME,GRAMS" in broken["energy_text"]
    assert broken["rows"][0]["co2_g"] is None is not broken["rows"][0]["kwh"]
    assert main(["config", "--check"]) == 78


def test_a_migrated_store_has_the_same_power(site, tmp_path):
    url, watts = f"sqlite:///{tmp_path / 'nimo.db'}", "SELECT node_watts FROM runs ORDER BY id"
    engine = create_engine(url)
    with engine.begin() as connection:
        before = connection.execute(text(watts)).all()
        to_first_schema(connection)
    Store.open(url).close()
    with engine.connect() as connection:
        assert connection.execute(text(watts)).all() == before == [(300.0,)] * 18


def test_amounts_by_hand():
    one = at(table(), 4)  # 1,000 s
    made = predicted_amounts(PRICED, table(), one, grams=100.0, each=(8, 0))
    assert made.kwh == pytest.approx(500 * 4 * 1000 * 1.5 / 3.6e6)
    assert (made.kwh_low, made.co2_g) == (None, pytest.approx(100 * made.kwh))
    assert made.cost == pytest.approx((2 + 8 * 0.5) * 4 * 1000 / 3600)
    assert source_text(PRICED, table()) == "kWh by nameplate: 500 W a node, PUE 1.5"
    measured = table(power=NodePower(200.0, 180.0, 220.0, 9, 6, 5))
    own = predicted_amounts(PRICED, measured, one, grams=None, each=(8, 0))
    assert own.kwh == pytest.approx(made.kwh * 200 / 500)
    # Run times are 10 % off on either side, power 10 % above.
    assert own.kwh_high / own.kwh == pytest.approx(1.1**2**0.5)
    assert own.co2_g is None
    for shared in ({"whole": False}, {"learned": table(shares_nodes=True)}):
        learned = shared.pop("learned", measured)
        assert predicted_amounts(PRICED, learned, one, grams=1.0, **shared).kwh is None
    assert predicted_amounts(PRICED, table(), one, grams=1.0).cost is None  # CPUs are unknown


def test_a_series_says_when_a_run_emits_less(tmp_path):
    series = tmp_path / "co2.csv"
    noon = datetime(2026, 10, 1, 12, tzinfo=UTC).timestamp()
    rows = [f"2026-10-01T{hour:02}:00:00,{200 if hour < 22 else 100}\n" for hour in range(24)]
    series.write_text("".join(rows))
    energy = Energy(co2=str(series))
    assert grams_between(energy, noon, noon + HOUR_S) == 200
    assert grams_between(energy, noon + 9.5 * HOUR_S, noon + 10.5 * HOUR_S) == 150
    # After its end the same time of its last day holds; before its begin nothing.
    assert grams_between(energy, noon + 58 * HOUR_S, noon + 59 * HOUR_S) == 100
    assert grams_between(energy, noon - 24 * HOUR_S, noon) is None
    assert later_begin(energy, noon, HOUR_S, noon + 1e9) == (noon + 10 * HOUR_S, 0.5)
    assert later_begin(energy, noon, HOUR_S, noon + 9 * HOUR_S) is None
    assert later_begin(energy, noon + 10 * HOUR_S, HOUR_S, noon + 1e9) is None
    for bad in ("2026-10-01,1\n2026-09-01,1\n", "1,2\n2,-3\n", "1,2\n2\n", "t,g\n1,2\n"):
        series.write_text(bad)
        with pytest.raises(ConfigError, match=r"co2\.csv: (line 2|give at least two)"):
            check_series(energy)
    with pytest.raises(ConfigError, match=r"f: energy\.co2: 'x\.csv': .* full path"):
        parse("energy: {co2: x.csv}", name="f")


def test_an_objective_changes_what_a_count_costs_within_the_guard():
    request = timed(asked=8)
    fast, least = choose(request), choose(replace(request, objective=Objective.ENERGY))
    assert (least.reason, least.action) == (Reason.LEAST_NODE_TIME, fast.action)
    options = every_option(Situation(request, table(), partition().supply, RULES, NOW), least)
    within = [one for one in options if one.in_guard]
    assert least.chosen.nodes == min(one.nodes for one in within) < fast.chosen.nodes


def test_rules_and_comments_choose_the_objective():
    config = parse(
        "rules: [{partition: long, objective: cost}]\npolicy: {objective: energy}", name="f"
    )
    assert config.for_job(JobNames("long")).objective is Objective.COST
    assert config.for_job(JobNames("batch")).objective is Objective.ENERGY
