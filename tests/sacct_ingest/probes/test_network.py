"""The network probes on links whose bandwidth and delay are known."""

import json
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from predictor.forecasts.transfer_time import transfer_time
from predictor.types import Verdict
from sacct_ingest.errors import ProbeError
from sacct_ingest.probes import network
from sacct_ingest.probes.network import bandwidth, measure_pair, send_message, serve_pair
from sacct_ingest.probes.probe_settings import Member, ProbeSettings
from sacct_ingest.probes.sensor import Sensor
from sacct_ingest.probes.wire import Channel
from sacct_ingest.records import Probe, Resource
from tests.processes import LONGEST_WAIT_S, free_ports
from tests.sacct_ingest.probes import slow_link
from tests.sacct_ingest.probes.slow_link import ADDRESSES

KEY = "a key that only tests know"
MIB = 1 << 20
BUSY_S = 1.0  #: that a program waits for a CPU
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
newest = (2, 0)  # the far one, alone, has a token of its own
found = measure_pair("near", Member("far", host), settings, key=key.encode(), generation=newest)
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
def test_no_bandwidth_is_seen_that_the_link_has_not():
    """A busy machine makes a link slower, never faster."""
    # 20 Mbit/s are 2.5 MB/s on the wire; TCP and IP take 4 % of it.
    with slow_link.limited(20) as hosts, sensor_on(hosts):
        assert measure(hosts, 2 * MIB)["bandwidth"] < 2.6e6
        # 16 KiB of the 64 pass at once, so a small message sees a bit more.
        assert measure(hosts, 64 << 10)["bandwidth"] < 4.8e6


@pytest.mark.usefixtures("namespaces")
def test_no_latency_is_seen_below_what_the_link_was_delayed_by():
    """A busy machine carries a packet later than that, never earlier."""
    try:
        with slow_link.delayed(0.02) as hosts, sensor_on(hosts):
            observed = measure(hosts, 64 << 10)
    except OSError as error:
        pytest.skip(str(error))
    assert observed["latency"] >= 0.04
    # Slow start: 64 KiB take some round trips, so the probe sees far less than the link has.
    assert observed["bandwidth"] < (64 << 10) / 0.04


class Link:
    """A link on a clock of its own: each direction takes so long, and each byte."""

    def __init__(self, one_way_s, bytes_per_s):
        self.now_s, self._one_way_s, self._bytes_per_s = 1000.0, one_way_s, bytes_per_s
        self.link, self.channel = None, self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Nothing is open."""

    def send(self, data):
        self.now_s += self._one_way_s() + len(data) / self._bytes_per_s

    def receive(self, length):
        self.now_s += self._one_way_s()
        return bytes(length)


class Unstamped:
    """A stopwatch on a kernel that stamps nothing."""

    def __init__(self, *_):
        """It has nothing to time."""

    def stop(self):
        return None


@pytest.fixture
def on_link(monkeypatch):
    """Measure a pair of hosts that such a link joins; its clock is the only one."""

    def measured(one_way_s, bytes_per_s, **settings):
        link = Link(one_way_s, bytes_per_s)
        monkeypatch.setattr(network, "Conversation", lambda *_, **__: link)
        monkeypatch.setattr(network, "Stopwatch", Unstamped)
        monkeypatch.setattr(network.time, "perf_counter", lambda: link.now_s)
        found = measure_pair("a", Member("b", "b"), ProbeSettings(**settings), key=b"")
        return [each.value for each in found]

    return measured


@given(
    one_way_s=st.floats(1e-5, 1.0),
    bytes_per_s=st.floats(1e3, 1e9),
    size=st.integers(1 << 10, 4 * MIB),
    echoes=st.integers(1, 9),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_latency_and_bandwidth_are_those_of_the_link(on_link, one_way_s, bytes_per_s, size, echoes):
    """On a clock that only the link moves, so that it is exact however busy the machine is."""
    latency_s, speed = on_link(lambda: one_way_s, bytes_per_s, message_bytes=size, echoes=echoes)
    trip_s = 2 * one_way_s + 4 / bytes_per_s
    assert latency_s == pytest.approx(trip_s, abs=1e-9)
    took_s = 2 * one_way_s + size / bytes_per_s
    moving_s = took_s - trip_s
    expected = size / (moving_s if moving_s > took_s / 10 else took_s)
    assert speed == pytest.approx(expected, rel=1e-3)


def test_the_latency_is_the_median_of_the_round_trips(on_link):
    """One that waited for a CPU makes it no longer."""
    trips_s = iter([0.01, 0.01, 5.0, 5.0, 0.02, 0.02, 0.01, 0.01])
    latency_s, _ = on_link(lambda: next(trips_s), 1e12, message_bytes=1024, echoes=3)
    assert latency_s == pytest.approx(0.04, abs=1e-6)


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


class Announced(Channel):
    """Our side, which says when it sends."""

    def __init__(self, link, timeout_s, *, sends, after):
        super().__init__(link, timeout_s)
        self._sends, self._after = sends, after

    def send(self, data):
        if not self._after:
            self._sends.set()
        super().send(data)
        self._sends.set()


class Busy(Channel):
    """The other side on a host whose programs wait for a CPU, from when something is sent."""

    def __init__(self, link, timeout_s, sends):
        super().__init__(link, timeout_s)
        self._sends = sends

    def skip(self, length):
        assert self._sends.wait(LONGEST_WAIT_S)
        time.sleep(BUSY_S)
        super().skip(length)


def exchanged(connection, size, round_trip_s, *, after):
    """Send a message to a busy host; give what was measured, and how long all of it took.

    after: whether the other side is busy from the end of our sending on, or from its begin.
    """
    near, far = connection
    sends = threading.Event()
    with ThreadPoolExecutor() as other:
        busy = Busy(far, LONGEST_WAIT_S, sends)
        served = other.submit(serve_pair, busy, size_bytes=size, echoes=0)
        channel = Announced(near, LONGEST_WAIT_S, sends=sends, after=after)
        began = time.monotonic()
        sent = send_message(channel, size, round_trip_s)
        took_s = time.monotonic() - began
        served.result()
    return sent, took_s


@pytest.fixture
def connection():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
        with near, far:
            yield near, far


def test_a_program_that_waits_for_a_cpu_makes_no_link_slow(connection):
    near, _ = connection
    try:
        near.setsockopt(socket.SOL_SOCKET, network.SO_TIMESTAMPING, network.TX_ACK)
    except OSError as error:
        pytest.skip(f"this kernel stamps nothing: {error}")
    sent, took_s = exchanged(connection, 64 << 10, 1e-4, after=True)
    # The kernel acknowledged it at once; its program took it that much later, whatever else ran.
    assert 0 < sent[0] < took_s - BUSY_S / 2
    assert 0 < sent[1] <= sent[0]


@pytest.mark.parametrize("size", [64 << 10, 4 * MIB])
def test_where_the_kernel_does_not_say_it_is_timed_here(connection, size, monkeypatch):
    if size <= network.AT_ONCE_BYTES:
        monkeypatch.setattr(network, "SO_TIMESTAMPING", 0xFFFF)
    sent, took_s = exchanged(connection, size, 0.125, after=False)
    assert BUSY_S <= sent[0] <= took_s
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
    assert made.low_s < made.time_s < made.high_s
    assert (made.verdict, made.transfers) == (Verdict.DOUBTFUL, 5)


def learnt(hosts, sender):
    """Probe and send at each of some rates; give all measurements."""
    series = []
    for rate_mbit in (20, 10, 16, 12, 18, 15):
        slow_link.set_rate(hosts, rate_mbit, burst_kb=32)
        series += sender.send()
    return series
