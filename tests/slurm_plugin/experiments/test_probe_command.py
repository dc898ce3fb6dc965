import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sacct_ingest.errors import StoreError
from sacct_ingest.probes.probe_settings import Member, ProbeSettings
from sacct_ingest.probes.sensor import Sensor
from sacct_ingest.records import Probe, Resource
from sacct_ingest.store import Store
from slurm_plugin.cli.nimo import main
from slurm_plugin.experiments import probe_command as probe
from tests.processes import LONGEST_WAIT_S, free_ports, wait_until

KEY = b"0123456789abcdef"
PROGRAM = "import sys; from slurm_plugin.cli.nimo import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def store(tmp_path, monkeypatch):
    path, config = tmp_path / "nimo.db", tmp_path / "nimo.yaml"
    settings = {
        "store": f"sqlite:///{path}",
        "probes": {"spin_s": 0.05, "timeout_s": 2.0, "period_s": 1.0},
    }
    (tmp_path / "key").write_bytes(KEY + b"\n")
    settings["probes"]["key_file"] = str(tmp_path / "key")
    config.write_text(json.dumps(settings))
    monkeypatch.setenv("NIMO_CONFIG", str(config))
    return path


@pytest.fixture
def sensor():
    """Run a sensor alone in its clique; give it as --host takes it."""
    (port,) = free_ports(1)
    made = Sensor(
        [Member("alone", "127.0.0.1", port)],
        "alone",
        ProbeSettings(spin_s=0.05, timeout_s=LONGEST_WAIT_S),
        bind=("127.0.0.1", port),
        key=KEY,
    )
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        yield f"alone=127.0.0.1:{port}"
    finally:
        made.stop()
        thread.join()


def nimo(capsys, *arguments):
    assert main(["probe", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("resource", Resource)
def test_every_resource_is_printed_with_its_unit_and_explained_on_the_page(resource):
    assert re.fullmatch(r"\S+ .+", probe.amount(resource, 1.0))
    page = (Path(__file__).parents[3] / "docs" / "probes.md").read_text()
    assert f"\n| `{resource.value}` | " in page


def test_the_cost_is_reported_before_anything_is_measured(store, capsys):
    text = nimo(capsys, "--cost", "--host", "a", "--host", "b")
    assert "2 pairs every 1 s" in text
    assert "MB/h" in text
    assert json.loads(nimo(capsys, "--cost", "--json", "--host", "a", "--host", "b"))["pairs"] == 2
    assert not store.exists()


def test_without_hosts_this_one_is_measured_and_stored(store, tmp_path, capsys):
    reported = nimo(capsys, "--name", "here")
    assert "cpu       here  -   " in reported
    with Store.open(str(store)) as opened:
        (remaining,) = opened.probes.series(Resource.CPU, "here")
    assert 0 <= remaining.value <= 1
    assert json.loads(nimo(capsys, "--show", "--json"))[0]["source"] == "here"
    header, row = nimo(capsys, "--show", "-P").splitlines()
    cells = dict(zip(header.split("|"), row.split("|"), strict=True))
    assert (cells["resource"], cells["from"]) == ("cpu", "here")
    assert int(cells["at"]) == pytest.approx(remaining.at_s, abs=1)
    assert nimo(capsys, "--show") == reported


def test_sensors_measure_when_they_are_asked_to(store, sensor, capsys):
    result = json.loads(nimo(capsys, "--json", "--host", sensor))
    assert [each["source"] for each in result] == ["alone"]
    with Store.open(str(store)) as opened:
        newest = [p.at_s for p in opened.probes.latest() if p.source == "alone"]
    assert newest == [result[0]["at_s"]]


def test_a_sensor_that_is_away_is_named_and_the_others_are_retained(store, sensor, capsys, caplog):
    (port,) = free_ports(1)
    assert "alone" in nimo(capsys, "--host", sensor, "--host", f"gone=127.0.0.1:{port}")
    assert "sensor gone: Connection refused" in caplog.text
    caplog.clear()
    assert main(["probe", "--host", f"gone=127.0.0.1:{port}"]) == 69
    assert "no sensor answered: gone: Connection refused" in capsys.readouterr().err
    assert not caplog.text  # it is said once


def test_following_stores_what_comes_until_it_is_stopped(store, sensor):
    argv = [sys.executable, "-c", PROGRAM, "probe", "--follow", "--host", sensor]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as follower:
        try:
            wait_until(lambda: has_probes(store), what="a measurement in the store")
            follower.send_signal(signal.SIGTERM)
            assert follower.wait(timeout=LONGEST_WAIT_S) == 0
        finally:
            follower.kill()


def has_probes(path):
    if not path.exists():
        return False
    with Store.open(str(path)) as opened:
        return any(probe.source == "alone" for probe in opened.probes.latest())


def test_measurements_wait_while_the_store_is_away(monkeypatch):
    result = [Probe(resource=Resource.CPU, source="a", at_s=1.0, value=1.0)]
    with Store.open("sqlite://") as opened:

        def away(given):
            raise StoreError("store: database is locked")

        with monkeypatch.context() as patched:
            patched.setattr(opened.probes, "add", away)
            assert probe.store_measurements(opened, result) == result
        assert probe.store_measurements(opened, result) == []
        assert opened.probes.latest() == result


@pytest.mark.parametrize(
    ("arguments", "key", "reported"),
    [
        (["--follow"], KEY, "list them in probes.hosts"),
        (["--host", "a b"], KEY, "host 'a b': write NAME=HOST:PORT"),
        (["--serve", "--name", "x", "--host", "a"], KEY, "'x' is no host of the clique (a)"),
        (["--serve", "--name", "a", "--host", "a"], b"short", "5 bytes are no key"),
    ],
)
def test_mistakes_are_one_line_with_the_fix(store, arguments, key, reported, capsys):
    (store.parent / "key").write_bytes(key)
    assert main(["probe", *arguments]) != 0
    assert reported in capsys.readouterr().err


def test_only_this_machine_is_served_without_a_key(tmp_path, monkeypatch, capsys):
    (tmp_path / "none.yaml").write_text("{}")
    monkeypatch.setenv("NIMO_CONFIG", str(tmp_path / "none.yaml"))
    assert main(["probe", "--serve", "--name", "a", "--bind", "0.0.0.0:0"]) == 69
    assert "set probes.key_file" in capsys.readouterr().err
