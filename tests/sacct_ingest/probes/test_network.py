"""The network probes on links whose bandwidth and delay are known."""

import json
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from predictor.forecasts.transfer_time import transfer_time
from predictor.types import Verdict
from sacct_ingest.errors import ProbeError
from sacct_ingest.probes import network
from sacct_ingest.probes.network import bandwidth, measure_pair, send_message, serve_pair
from sacct_ingest.probes.probe_settings import Member, ProbeSettings
from sacct_ingest.probes.sensor import Sensor
from sacct_ingest.probes.wire import Channel
from sacct_ingest.records import Probe, Resource
from tests.processes import free_ports
from tests.sacct_ingest.probes import slow_link
from tests.sacct_ingest.probes.slow_link import ADDRESSES

KEY = "a key that only tests know"
MIB = 1 << 20
FAR = """
import sys
from sacct_ingest.probes.sensor import Sensor
from sacct_ingest.probes.probe_settings import Member, ProbeSettings
host, key = sys.argv[1:]
far = Sensor([Member("far", host)], "far", ProbeSettings(), bind=(host, 7733), key=key.encode())
far.run(ready=lambda: print("ready", flush=True))
"""
NEAR = """
import dataclasses, json, sys
from sacct_ingest.probes.network import measure_pair
from sacct_ingest.probes.probe_settings import Member, ProbeSettings
host, key, size = sys.argv[1:]
settings = ProbeSettings(message_bytes=int(size), timeout_s=60)
found = measure_pair("near", Member("far", host), settings, key=key.encode())
print(json.dumps([dataclasses.asdict(each) for each in found]))
"""


@contextmanager
def sensor_on(hosts):
    argv = hosts.command(hosts.far, sys.executable, "-c", FAR, ADDRESSES[1], KEY)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as far:
        try:
            assert far.stdout.readline() == "ready\n"
            yield
        finally:
            far.kill()


def measure(hosts, size_bytes):
    argv = hosts.command(hosts.near, sys.executable, "-c", NEAR, ADDRESSES[1], KEY, str(size_bytes))
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    assert [each["error"] for each in result] == ["", ""]
    return {each["resource"]: each["value"] for each in result}


@pytest.fixture(scope="module")
def namespaces():
    """Skip where this machine cannot be two."""
    if reason := slow_link.missing():
        pytest.skip(reason)


@pytest.mark.usefixtures("namespaces")
def test_bandwidth_is_what_the_link_was_limited_to():
    # 20 Mbit/s are 2.5 MB/s on the wire; TCP and IP take 4 % of it.
    with slow_link.limited(20) as hosts, sensor_on(hosts):
        # The better of two: a busy machine makes a link slower, never faster.
        large = max(measure(hosts, 2 * MIB)["bandwidth"] for _ in range(2))
        assert 1.9e6 < large < 2.6e6
        # 16 KiB of the 64 pass at once, so a small message sees a bit more.
        small = max(measure(hosts, 64 << 10)["bandwidth"] for _ in range(2))
        assert 1.2e6 < small < 4.8e6


@pytest.mark.usefixtures("namespaces")
def test_latency_is_what_the_link_was_delayed_by():
    try:
        with slow_link.delayed(0.02) as hosts, sensor_on(hosts):
            observed = [measure(hosts, 64 << 10) for _ in range(3)]
    except OSError as error:
        pytest.skip(str(error))
    assert 0.04 <= min(each["latency"] for each in observed) < 0.06
    # Slow start: 64 KiB take some round trips, so the probe sees far less than the link has.
    assert max(each["bandwidth"] for each in observed) < (64 << 10) / 0.04


def test_hosts_that_cannot_be_measured_are_measurements_that_failed():
    (port,) = free_ports(1)
    began = time.time()
    result = measure_pair("a", Member("b", "127.0.0.1", port), ProbeSettings(), key=b"")
    assert [each.resource for each in result] == [Resource.LATENCY, Resource.BANDWIDTH]
    for each in result:
        assert (each.value, each.error) == (None, "b: Connection refused")
        assert each.at_s >= began - 1


@pytest.mark.usefixtures("namespaces")
def test_a_host_that_never_answers_costs_no_more_than_the_time_out():
    with slow_link.limited(20) as hosts:
        _drop_all(hosts)
        argv = hosts.command(hosts.near, sys.executable, "-c",
                             NEAR.replace("=60", "=1"), ADDRESSES[1], KEY, "65536")  # fmt: skip
        result = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    assert [each["error"] for each in result] == ["far: timed out"] * 2
    assert result[0]["took_s"] >= 0.9


def _drop_all(hosts):
    """Take the far host's link down, with its address still known to the near one."""
    for argv in (
        ("ip", "neighbour", "replace", ADDRESSES[1], "lladdr", "02:00:00:00:00:01", "dev", "nimo0"),
        ("tc", "qdisc", "replace", "dev", "nimo0", "root", "tbf",
         "rate", "8bit", "burst", "1", "latency", "1ms"),
    ):  # fmt: skip
        subprocess.run(hosts.command(hosts.near, *argv), check=True, capture_output=True)


def test_the_acknowledgement_is_not_part_of_the_message():
    assert bandwidth(1000, 1.5, 0.5) == 1000
    assert bandwidth(1000, 1.0, 0.95) == 1000
    with pytest.raises(ProbeError, match="no speed"):
        bandwidth(1000, 0.0, 0.0)


def test_without_a_key_a_sensor_is_for_this_machine_only():
    with pytest.raises(ProbeError, match="key_file"):
        Sensor([Member("a", "0.0.0.0")], "a", ProbeSettings(), bind=("0.0.0.0", 0))


class Busy(Channel):
    """The other side on a host whose programs wait for a CPU."""

    def skip(self, length):
        time.sleep(1.0)
        super().skip(length)


@pytest.fixture
def connection():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
        with near, far:
            yield near, far


def test_a_program_that_waits_for_a_cpu_makes_no_link_slow(connection):
    near, far = connection
    try:
        near.setsockopt(socket.SOL_SOCKET, network.SO_TIMESTAMPING, network.TX_ACK)
    except OSError as error:
        pytest.skip(f"this kernel stamps nothing: {error}")
    with ThreadPoolExecutor() as other:
        served = other.submit(serve_pair, Busy(far, 60), size_bytes=64 << 10, echoes=0)
        sent = send_message(Channel(near, 60), 64 << 10, 1e-4)
        served.result()
    assert 0 < sent[0] < 0.9
    assert 0 < sent[1] < 0.9


@pytest.mark.parametrize("size", [64 << 10, 4 * MIB])
def test_where_the_kernel_does_not_say_it_is_timed_here(connection, size, monkeypatch):
    near, far = connection
    if size <= network.AT_ONCE_BYTES:
        monkeypatch.setattr(network, "SO_TIMESTAMPING", 0xFFFF)
    with ThreadPoolExecutor() as other:
        served = other.submit(serve_pair, Busy(far, 60), size_bytes=size, echoes=0)
        sent = send_message(Channel(near, 60), size, 0.125)
        served.result()
    assert sent[0] > 0.9
    assert sent[1] == 0.125


SEND = """
import dataclasses, json, sys
from pathlib import Path
from sacct_ingest.probes.probe_settings import Member, ProbeSettings
from sacct_ingest.probes.network import measure_transfer
host, key, file = sys.argv[1:]
for line in sys.stdin:
    found = measure_transfer("near", Member("far", host), Path(file), ProbeSettings(timeout_s=60),
                             key=key.encode())
    print(json.dumps([dataclasses.asdict(each) for each in found]), flush=True)
"""
SIZE = 1_000_000


class Sender:
    """A process on the near host that probes and sends whenever it is told to."""

    def __init__(self, hosts, file):
        argv = hosts.command(
            hosts.near, sys.executable, "-c", SEND, ADDRESSES[1], KEY, str(file)
        )  # fmt: skip
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def send(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        result = json.loads(self._process.stdout.readline())
        return [Probe(**each | {"resource": Resource(each["resource"])}) for each in result]

    def close(self):
        self._process.kill()
        self._process.communicate()


def test_transfers_of_a_changing_link_are_learnt(tmp_path):
    if reason := slow_link.missing():
        pytest.skip(reason)
    file = tmp_path / "file"
    file.write_bytes(bytes(SIZE))
    with slow_link.limited(20, burst_kb=32) as hosts:
        argv = hosts.command(hosts.far, sys.executable, "-c", FAR, ADDRESSES[1], KEY)
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as far:
            sender = Sender(hosts, file)
            try:
                assert far.stdout.readline() == "ready\n"
                series = learnt(hosts, sender)
            finally:
                sender.close()
                far.kill()
    transfers = [each for each in series if each.resource is Resource.TRANSFER]
    assert all(each.size_bytes == SIZE and each.value for each in transfers)
    last = transfers[-1]
    before = [each for each in series if each.at_s < last.at_s]
    made = transfer_time(before, SIZE, "near", "far", now_s=last.at_s)
    raw = transfer_time(
        [each for each in before if each.resource is not Resource.TRANSFER],
        SIZE, "near", "far", now_s=last.at_s,
    )  # fmt: skip
    assert (made.method, raw.method) == ("AdRM", "RBW")
    # 8 Mbit at 10 to 20 Mbit/s; a busy machine makes transfers slower, never faster than the link.
    assert made.time_s > 0.25
    # Half of a probe passes at once, so that it seems twice as fast as the link is.
    assert raw.time_s < made.time_s
    assert made.low_s < made.time_s < made.high_s
    assert (made.verdict, made.transfers) == (Verdict.DOUBTFUL, 5)


def learnt(hosts, sender):
    """Probe and send at each of some rates; give all measurements."""
    series = []
    for rate_mbit in (20, 10, 16, 12, 18, 15):
        slow_link.set_rate(hosts, rate_mbit, burst_kb=32)
        series += sender.send()
    return series
