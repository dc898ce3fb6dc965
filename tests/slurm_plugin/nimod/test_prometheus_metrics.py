"""Metrics: what is exported, and that rules, dashboard and page name nothing else."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from predictor.stored_table import encode
from sacct_ingest.records import KeyLevel, StandingRow
from sacct_ingest.store import FitRow, Store
from sacct_ingest.store.ingests import REFITTED
from slurm_plugin.cli.commands.metrics import serve
from slurm_plugin.cli.nimo import main
from slurm_plugin.nimod.prometheus_metrics import METRICS, of_nimod
from slurm_plugin.nimod.request_handler import BOUNDS_S, AnswerCounts
from slurm_plugin.protocol.status_messages import Status
from tests.processes import LONGEST_WAIT_S, free_ports, wait_until
from tests.sacct_ingest.records import run as made_run
from tests.slurm_plugin.made import table
from tests.slurm_plugin.reports.rows import decision

ROOT = Path(__file__).parents[3]
RULES = ROOT / "etc" / "prometheus" / "nimo.rules.yml"
DASHBOARD = ROOT / "etc" / "grafana" / "nimo.json"
PROMETHEUS, PROMTOOL = map(shutil.which, ("prometheus", "promtool"))
NAMES = {one.name for one in METRICS}
_SERIES = NAMES | {f"nimo_answer_seconds_{end}" for end in ("bucket", "sum", "count")}


@pytest.fixture
def config(tmp_path):
    """Settings with a store in which one run was predicted, and no nimod."""
    fill(f"sqlite:///{tmp_path}/nimo.db")
    path = tmp_path / "nimo.yaml"
    path.write_text(f"store: sqlite:///{tmp_path}/nimo.db\nsocket: {tmp_path}/none.sock\n")
    return path


def fill(url):
    now_s = int(time.time())
    note = "NIMO1:0123456789ab:n=4,req=1-8,t=1,lo=1,hi=1,v=reliable,m=enforce,r=cheapest"
    run = made_run(
        submit_s=now_s, end_s=now_s + 1250, elapsed_s=1250.0, nodes=4, admin_comment=note
    )
    with Store.open(url) as store:
        store.runs.add([run])
        store.decisions.add([decision(at_s=float(now_s), deadline_s=now_s + 9e9)])
        assert store.decisions.join_outcomes() == 1
        for name in ("sacct:pine again", "sacct:pine since 7", "standings"):
            store.watermarks.set(name, now_s)
        store.watermarks.set("sacct:pine", 1_790_000_000)
        store.watermarks.set(REFITTED, 1_790_000_123)
        store.fits.replace(
            [FitRow(level=KeyLevel.LINE, key="k", label="wrf", verdict="reliable", model="m",
                    fitted_s=1_790_000_123.0, payload=encode(table()))]
        )  # fmt: skip
        store.standings.put(
            [StandingRow(level=KeyLevel.LINE, key="k", label="wrf", off=True, ratio=2.0, runs=6,
                         low=0.7, high=1.5, since_s=1.0, judged_s=1.0)]
        )  # fmt: skip


def samples(text):
    return {
        (one.name, *one.labels.values()): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def test_the_store_and_the_accuracy(config, capsys):
    assert main(["metrics", "--config", str(config)]) == 0
    result = samples(capsys.readouterr().out)
    assert result["nimo_up",] == 0
    assert result["nimo_store_up",] == 1
    assert result["nimo_store_size_bytes",] > 4096
    sources = {key[1] for key in result if key[0] == "nimo_ingest_timestamp_seconds"}
    assert sources == {"sacct:pine"}
    assert result["nimo_ingest_timestamp_seconds", "sacct:pine"] == 1_790_000_000
    assert result["nimo_fit_timestamp_seconds",] == 1_790_000_123
    assert result["nimo_applications", "reliable"] == 1
    assert result["nimo_applications_switched_off",] == 1
    assert result["nimo_prediction_error_ratio",] == pytest.approx(0.2)
    assert result["nimo_interval_coverage_ratio", "0.9"] == 0
    assert result["nimo_deadline_jobs", "met"] == 1


def test_older_decisions_do_not_count(config, capsys):
    assert main(["metrics", "--config", str(config), "--days", "-1"]) == 0
    assert samples(capsys.readouterr().out)["nimo_compared_runs",] == 0


def test_a_running_nimod():
    tally = AnswerCounts(began_s=1_790_000_000.0)
    for mode in ("observe", "observe", "enforce"):
        tally.decided(decision(mode=mode, applied=mode == "enforce"))
    for took_s in (0.0001, BOUNDS_S[0], 0.003, 7.0):
        tally.took(took_s)
    status = Status(release="1.2", answered=5, failed=2, snapshot_age_s=3.0, counts=tally)
    result = {
        (one.name, *one.labels.values()): one.value
        for family in of_nimod(lambda: status)
        for one in family.samples
    }
    assert result["nimo_up",] == 1
    assert result["nimo_build_info", "1.2"] == 1
    assert result["nimo_requests_total", "failed"] == 2
    assert result["nimo_decisions_total", "observe", "set", "cheapest", "false"] == 2
    assert result["nimo_answer_seconds_bucket", "0.00025"] == 2
    assert result["nimo_answer_seconds_bucket", "0.005"] == 3
    assert result["nimo_answer_seconds_bucket", "+Inf"] == 4
    assert result["nimo_answer_seconds_sum",] == pytest.approx(7.00335)
    assert {name for name, *_ in result} <= _SERIES


def test_a_file_for_the_textfile_collector(config, tmp_path, capsys):
    file = tmp_path / "nimo.prom"
    assert main(["metrics", "--config", str(config), "--textfile", str(file)]) == 0
    assert main(["metrics", "--config", str(config)]) == 0
    assert samples(file.read_text()) == samples(capsys.readouterr().out)
    assert [path.name for path in tmp_path.glob("nimo.prom*")] == ["nimo.prom"]


def test_without_a_store_there_is_no_more_than_that(tmp_path, capsys):
    assert main(["metrics", "--store", str(tmp_path / "none.db")]) == 0
    assert samples(capsys.readouterr().out)["nimo_store_up",] == 0


def test_it_is_served_on_the_loopback_as_it_is_printed(config, capsys):
    assert main(["metrics", "--config", str(config)]) == 0
    printed = samples(capsys.readouterr().out)
    with endpoint(config) as address, urlopen(address, timeout=LONGEST_WAIT_S) as answer:
        assert samples(answer.read().decode()) == printed


@contextmanager
def endpoint(config):
    """Address of ``nimo metrics --listen``."""
    code = "import sys; from slurm_plugin.cli.nimo import main; sys.exit(main(sys.argv[1:]))"
    argv = [sys.executable, "-c", code, "metrics", "--config", str(config), "--listen", "0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().strip()
        try:
            assert address.startswith("http://127.0.0.1:")
            yield address
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=LONGEST_WAIT_S) == 0


def test_a_connection_on_which_nothing_comes_is_closed(capsys):
    server, thread = serve(CollectorRegistry(), "127.0.0.1", 0, idle_s=0.05)
    try:
        with socket.create_connection(server.server_address[:2], timeout=LONGEST_WAIT_S) as silent:
            assert silent.recv(1) == b""
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert capsys.readouterr().err == ""


def _queries():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return "\n".join(target["expr"] for panel in panels for target in panel["targets"])


PROMETHEUS_YML = """\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - {{job_name: nimo, static_configs: [{{targets: [{target}]}}]}}
"""


@pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed")
def test_a_prometheus_answers_the_dashboard_and_evaluates_the_rules(nimod):
    fill(nimod.url)
    nimod.start()
    nimod.see_cluster()
    asked_for = _queries().replace("$cluster", ".*")
    queries = re.sub(r"\$__(rate_interval|range)", "1m", asked_for).splitlines()
    (port,), folder = free_ports(1), nimod.folder / "prometheus"
    folder.mkdir()
    with endpoint(nimod.folder / "nimo.yaml") as address:
        target = address.removeprefix("http://").removesuffix("/metrics")
        yml = folder / "prometheus.yml"
        yml.write_text(PROMETHEUS_YML.format(rules=RULES, target=target))
        argv = [str(PROMETHEUS), f"--config.file={yml}", f"--storage.tsdb.path={folder}/data"]
        argv.append(f"--web.listen-address=127.0.0.1:{port}")

        def asked(path, **fields):
            with (
                suppress(URLError),
                urlopen(
                    f"http://127.0.0.1:{port}/api/v1/{path}?{urlencode(fields)}",
                    timeout=LONGEST_WAIT_S,
                ) as answer,
            ):
                return json.load(answer)["data"]

        def rules():
            groups = (asked("rules") or {"groups": []})["groups"]
            return [rule for group in groups for rule in group["rules"]]

        def without_data():
            nimod.decide()
            return [one for one in queries if not (asked("query", query=one) or {}).get("result")]

        with (folder / "log").open("wb") as log, subprocess.Popen(argv, stderr=log) as process:
            try:
                wait_until(lambda: not without_data(), what="data for every panel")
                wait_until(lambda: {one["health"] for one in rules()} == {"ok"}, what="rules")
                assert len(rules()) == RULES.read_text().count("alert:")
            finally:
                process.kill()


def test_each_panel_says_what_it_shows_and_can_be_of_one_cluster():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert all(panel["description"] for panel in panels)
    assert panels[0]["title"] == "Time saved by other counts"
    assert _queries().count('cluster=~"$cluster"') == len(re.findall(r"\bnimo_\w+", _queries()))


@pytest.mark.parametrize("read", [_queries, RULES.read_text], ids=["dashboard", "rules"])
def test_queries_name_what_there_is(read):
    named = set(re.findall(r"\bnimo_\w+", read()))
    assert named
    assert named <= _SERIES


def test_names_follow_the_conventions():
    assert len(NAMES) == len(METRICS)
    for one in METRICS:
        assert one.name.endswith("_total") is (one.kind == "counter")
        assert not {"user", "application", "account"} & set(one.labels)


@pytest.mark.skipif(PROMTOOL is None, reason="promtool (Debian: prometheus) is not installed")
def test_promtool_accepts_the_rules(config, capsys):
    def accepted(*words, **given):
        argv = [str(PROMTOOL), *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, **given)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "SUCCESS: 11 rules found" in accepted("check", "rules", RULES)
    accepted("test", "rules", Path(__file__).with_name("nimo.rules.test.yml"))
    assert main(["metrics", "--config", str(config)]) == 0
    accepted("check", "metrics", input=capsys.readouterr().out)
