"""The plugin of Open OnDemand: Ruby's own tests, with what the commands answer here."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest

from predictor.facts import Ending, ResourceUse
from sacct_ingest.errors import NoHistory
from sacct_ingest.records import CURVE_LEVELS
from sacct_ingest.runs.layout import Unit
from sacct_ingest.scripts.job_script import parse_script
from sacct_ingest.store import Store
from sacct_ingest.text.slurm_text import parse_time_limit
from slurm_plugin.config.settings import Config
from slurm_plugin.protocol.advice_messages import Advice, Row, UsualRequest
from slurm_plugin.protocol.status_messages import WaitRow, Waits
from slurm_plugin.reports.advice_answer import lines_to_paste
from slurm_plugin.store_access import load_tables
from slurm_plugin.stored_advice.advise import advise_named
from slurm_plugin.text.streams import json_text
from tests.slurm_plugin import random_stores
from tests.slurm_plugin.cli.conftest import learned
from tests.slurm_plugin.made import NOW, table

__all__ = ["learned"]
PLUGIN = Path(__file__).parents[2] / "packages" / "ondemand"
RUBY = shutil.which("ruby")
NIMO = """\
#!/bin/sh
case "$*" in
  "predict --json") cat {0}/tables ;;
  "wait --json") cat {0}/waits ;;
  *) exit 3 ;;
esac
"""
#: Answers each line of its input with the advice of that name.
ADVISE = """\
#!{1}
import json, sys, time

answers = json.load(open("{0}/advice.json"))
for line in sys.stdin:
    asked = json.loads(line)
    if asked["application"] == "slow":
        time.sleep(60)
    if asked["application"] == "broken":
        print("[{{")
    print(json.dumps({{"id": asked["id"], "advice": answers.get(asked["application"])}}))
"""
#: Seconds per hour.
HOUR_S = 3600


def minitest():
    return (
        RUBY is not None
        and not subprocess.run(
            [RUBY, "-e", "require 'minitest'"], capture_output=True, check=False
        ).returncode
    )


def advice(**values):
    """Advice on 4 nodes for a job of 48 CPUs on each node."""
    row = Row(
        nodes=4, time_s=1000.0, low_s=900.0, high_s=1100.0, speedup=1.0, efficiency=1.0,
        node_hours=1.1,
    )  # fmt: skip
    usual = UsualRequest(options="--nodes=4", nodes=4, cpus=192, limit_s=7300.0)
    return replace(
        Advice(verdict="reliable", runs=10, nodes=4, asked=4, rows=[row], usual=usual), **values
    )


def of_stores(*configs):
    """Advice on the usual job of each application of stores, and what a form has to show."""
    answers, cases = {}, []
    for number, config in enumerate(configs):
        with Store.open(config.store_url) as store:
            tables = [one for one in load_tables(store) if one.level in CURVE_LEVELS]
        for ran in tables:
            try:
                said = advise_named(ran.key, config, user=ran.owner, now_s=NOW)
            except NoHistory:
                continue
            name = f"{number}/{ran.key}"
            answers[name] = json.loads(json_text(said))
            cases.append({"name": name, **shown(said)})
    return answers, cases


def shown(said):
    """Hours, cores and nodes of the lines, or else of the usual job's options."""
    if said.nodes is None:
        return {"hours": None, "cores": None, "nodes": None}
    lines = "\n".join(["#!/bin/sh", f"#SBATCH {said.usual.options}", *lines_to_paste(said)])
    options = parse_script(lines).options
    hours = None
    if "time" in options:
        hours = ceil(parse_time_limit(options["time"]) / HOUR_S)
    nodes = options.get("nodes", "")
    return {
        "hours": hours,
        "cores": said.nodes if said.unit is Unit.CPUS else said.usual.cpus,
        "nodes": int(nodes) if nodes.isdigit() else None,
    }


@pytest.mark.skipif(not minitest(), reason="Ruby with minitest (ruby-minitest) is not installed")
def test_the_plugin(tmp_path, of_all_workers, learned):
    stores = [random_stores.filled(of_all_workers, seed) for seed in random_stores.SEEDS]
    urls = [f"sqlite:///{path}" for path in (*stores, learned.store)]
    answers, cases = of_stores(*(Config(cluster="pine", store=url) for url in urls))
    assert sum(case["nodes"] is not None for case in cases) > 20
    (tmp_path / "cases").write_text(json.dumps(cases))
    made = table(
        label="<b>solve",
        key="ann/solve",
        endings=(Ending("COMPLETED", 17), Ending("TIMEOUT", 3)),
        uses=(ResourceUse(Unit.CPUS, 0.62, 0.5, 0.7, 9, 6, 6),),
    )
    of_names = {
        "solve": advice(),
        "ann/solve": advice(),
        "doubtful": advice(verdict="doubtful"),
        "session": advice(nodes=None),
    }
    answers |= {name: json.loads(json_text(one)) for name, one in of_names.items()}
    (tmp_path / "advice.json").write_text(json.dumps(answers))
    (tmp_path / "tables").write_text(json_text([made]))
    at = {"start_s": 1_790_416_800.0, "low_s": 1_790_415_000.0, "high_s": 1_790_424_000.0}
    rows = [WaitRow(job_id=4711, name="jupyter", **at), WaitRow(job_id=4712)]
    (tmp_path / "waits").write_text(json_text(Waits(rows=rows)))
    command = tmp_path / "nimo"
    for name, text in (("nimo", NIMO), ("nimo-advise", ADVISE)):
        program = tmp_path / name
        program.write_text(text.format(tmp_path, sys.executable))
        program.chmod(0o755)
    cases_file = str(tmp_path / "cases")
    done = subprocess.run(
        [str(RUBY), PLUGIN / "test" / "nimo_test.rb"],
        env={**os.environ, "NIMO_COMMAND": str(command), "NIMO_CASES": cases_file},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 skips" in done.stdout
