"""nimo lab forecast, nimo lab transfer and nimo lab probe --transfer."""

import json
import threading
import time

import pytest

from sacct_ingest.probes.network import PROBES
from sacct_ingest.probes.probe_settings import Member, ProbeSettings
from sacct_ingest.probes.sensor import Sensor
from sacct_ingest.records import Probe, Resource
from sacct_ingest.store import Store
from slurm_plugin.cli.nimo import main
from tests.processes import free_ports

MB = 1_000_000


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Give an empty store's file, which the commands find in their configuration."""
    path, config = tmp_path / "nimo.db", tmp_path / "nimo.yaml"
    config.write_text(json.dumps({"store": f"sqlite:///{path}"}))
    monkeypatch.setenv("NIMO_CONFIG", str(config))
    with Store.open(f"sqlite:///{path}", create=True):
        return path


def nimo(capsys, *arguments):
    assert main(arguments) == 0
    return capsys.readouterr().out


def probe(age_s, value, resource=Resource.BANDWIDTH):
    return Probe(
        resource=resource,
        source="n1",
        target="" if resource is Resource.CPU else "n2",
        at_s=time.time() - age_s,
        value=value,
        error="" if value else "timed out",
    )


def remaining(store, *result):
    with Store.open(f"sqlite:///{store}") as opened:
        opened.probes.add(result)


def test_each_series_is_forecast(store, capsys):
    remaining(store, *(probe(300 * n, 5.0 * MB) for n in range(1, 21)), probe(10, None))
    remaining(store, *(probe(300 * n, 0.9 + n % 2 / 10, Resource.CPU) for n in range(1, 21)))
    bandwidth, cpu = json.loads(nimo(capsys, "forecast", "--json"))
    assert (bandwidth["value"], bandwidth["nmae"]) == (5.0 * MB, 0.0)
    assert (bandwidth["measured"], bandwidth["failed"]) == (20, 1)
    assert 0.9 <= cpu["value"] <= cpu["high"] <= 1.0
    assert nimo(capsys, "forecast", "n1", "n2").splitlines()[1].startswith("bandwidth  n1")
    heads, line = nimo(capsys, "forecast", "--resource", "cpu", "-P").splitlines()
    assert dict(zip(heads.split("|"), line.split("|"), strict=True))["n"] == "20"


def test_one_measurement_has_no_interval_yet(store, capsys):
    remaining(store, probe(10, 5.0 * MB))
    assert json.loads(nimo(capsys, "forecast", "--json"))[0]["high"] is None
    assert "too few values" in nimo(capsys, "forecast")
    assert main(["forecast", "n3"]) == 3
    assert "no such measurement" in capsys.readouterr().err


def test_a_transfer_is_predicted_from_those_recorded(store, capsys):
    assert main(["transfer", "16M", "n1", "n2"]) == 3
    assert "nothing was measured from n1 to n2" in capsys.readouterr().err
    remaining(store, *(probe(300 * n, 5.0 * MB) for n in range(31)))
    doubtful = json.loads(nimo(capsys, "transfer", "16M", "n1", "n2", "--json"))
    assert (doubtful["method"], doubtful["verdict"]) == ("RBW", "doubtful")
    for number in range(1, 31):
        begun_s = int(time.time() - 300 * number + 5)
        begun = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(begun_s))
        reported = nimo(capsys, "transfer", "16M", "n1", "n2", "--took", "8", "--at", begun)
        assert reported == ""
    made = json.loads(nimo(capsys, "transfer", "32M", "n1", "n2", "--json"))
    assert made["time_s"] == pytest.approx(16.0)
    assert (made["method"], made["verdict"], made["transfers"]) == ("AdRM", "reliable", 30)
    text = nimo(capsys, "transfer", "32M", "n1", "n2")
    assert text.startswith("33.55 MB from n1 to n2: 16 s (90 %: 16 s), reliable\n")
    assert "AdRM from 30 past transfers" in text
    heads, line = nimo(capsys, "transfer", "32M", "n1", "n2", "-P").splitlines()
    cells = dict(zip(heads.split("|"), line.split("|"), strict=True))
    assert (cells["bytes"], cells["time"]) == ("33554432", "16")


@pytest.mark.parametrize(
    "arguments",
    [["0", "a", "b"], ["much", "a", "b"], ["1M", "a", "b", "--took", "-3"], ["1M", "a"]],
)
def test_mistakes_are_usage_errors(arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["transfer", *arguments])
    assert stopped.value.code == 2


@pytest.fixture
def host():
    """Run a sensor; give it as --host takes it."""
    (port,) = free_ports(1)
    members = [Member("there", "127.0.0.1", port)]
    made = Sensor(members, "there", ProbeSettings(spin_s=0.01), bind=("127.0.0.1", port))
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        yield f"there=127.0.0.1:{port}"
    finally:
        made.stop()
        thread.join()


def test_a_file_is_really_sent_and_stored_with_its_probes(store, host, tmp_path, capsys):
    file = tmp_path / "input"
    file.write_bytes(bytes(3 * MB))
    arguments = ("probe", "--name", "here", "--transfer", str(file))
    reported = nimo(capsys, *arguments, "there", "--host", host)
    assert "transfer   here   there" in reported
    with Store.open(f"sqlite:///{store}") as opened:
        (moved,) = opened.probes.series(Resource.TRANSFER, "here", "there")
        probes = opened.probes.series(Resource.BANDWIDTH, "here", "there")
        loads = [opened.probes.series(Resource.CPU, end) for end in ("here", "there")]
    # Both ends are this host; the sensor also measures itself.
    assert [each[0].value for each in loads] == [pytest.approx(loads[0][0].value, abs=0.2)] * 2
    assert all(0 < each.value <= 1 for load in loads for each in load)
    assert (moved.size_bytes, moved.error) == (3 * MB, "")
    assert moved.value == pytest.approx(3 * MB / moved.took_s)
    assert [each.size_bytes for each in probes] == [65536] * PROBES
    assert all(each.at_s <= moved.at_s for each in probes)
    made = json.loads(nimo(capsys, "transfer", "3M", "here", "there", "--json"))
    assert (made["method"], made["cpu_share"]) == ("AdRM", min(load[-1].value for load in loads))
    assert "at the busier end gets" in nimo(capsys, "transfer", "3M", "here", "there")


def test_what_cannot_be_sent_is_said(store, host, tmp_path, capsys):
    (tmp_path / "empty").touch()
    for file, why in (("missing", "No such file"), ("empty", "0 bytes; a transfer is of 1 to")):
        assert main(["probe", "--transfer", str(tmp_path / file), host]) == 69
        assert why in capsys.readouterr().err
    (tmp_path / "file").write_bytes(b"x")
    (port,) = free_ports(1)
    assert main(["probe", "--transfer", str(tmp_path / "file"), f"gone=127.0.0.1:{port}"]) == 1
    assert "failed: gone: Connection refused" in capsys.readouterr().out
    with Store.open(f"sqlite:///{store}") as opened:
        assert any(each.target == "gone" and each.value is None for each in opened.probes.latest())
