"""Messages between sensors, and what somebody without the key may try."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from sacct_ingest.errors import ProbeError
from sacct_ingest.probes import sensor, wire
from sacct_ingest.probes.probe_settings import Member, ProbeSettings, cost, find, member
from sacct_ingest.probes.sensor import Sensor
from sacct_ingest.probes.wire import Channel, Seal, Unsigned
from tests.processes import LONGEST_WAIT_S

KEY = b"a key that only tests know"


@pytest.fixture
def ends():
    near, far = socket.socketpair()
    with near, far:
        yield near, Channel(far, 10)


def seals(ours=KEY, theirs=KEY):
    server = Seal.new(theirs)
    return Seal.new(ours, theirs=server.greeting.decode()), server


def test_messages_come_back(ends):
    near, far = ends
    client, server = seals()
    near.sendall(client.sealed({"op": "wäke", "list": [1, None]}, "request"))
    assert server.opened(far, "request", longest=100) == {"op": "wäke", "list": [1, None]}
    far.send(server.sealed({"ok": True}, "answer"))
    assert client.opened(Channel(near, 10), "answer", longest=100) == {"ok": True}


def test_nothing_is_read_of_a_message_without_the_key(ends):
    near, far = ends
    client, server = seals(ours=b"another")
    data = client.sealed({"op": "series", "pad": "x" * 50_000}, "request")
    near.sendall(data)
    with pytest.raises(Unsigned):
        server.opened(far, "request", longest=wire.LONGEST_REQUEST)
    far.link.setblocking(False)
    assert len(far.link.recv(1 << 20)) == len(data) - 172


@pytest.mark.parametrize("junk", [b"x", b"\xff", b" ", b"9", b"\n"])
def test_junk_is_no_message(ends, junk):
    near, far = ends
    near.sendall(junk * 10_000)
    with pytest.raises(Unsigned):
        seals()[1].opened(far, "request", longest=100)


@pytest.mark.parametrize(
    ("message", "opened_as", "again", "error"),
    [
        ({"op": "wake"}, "request", True, Unsigned.__name__),
        ({"op": "wake"}, "answer", False, Unsigned.__name__),
        ({"bytes": 1}, "request", False, "changed"),
        ({"pad": "x" * 200}, "request", False, "at most 100"),
    ],
    ids=["sent again", "a request is no answer", "changed", "too long"],
)
def test_a_message_with_the_key_is_refused(ends, message, opened_as, again, error):
    near, far = ends
    client, server = seals()
    near.sendall(client.sealed(message, "request").replace(b'"bytes": 1', b'"bytes": 9'))
    with pytest.raises(ProbeError) as refused:
        (Seal.new(KEY) if again else server).opened(far, opened_as, longest=100)
    assert error in f"{refused.type.__name__}: {refused.value}"


def test_an_answer_without_the_key_is_refused():
    """Somebody else has taken the sensor's port."""
    with socket.create_server(("127.0.0.1", 0)) as false:
        port = false.getsockname()[1]

        def answer():
            link, _ = false.accept()
            with link:
                seal = Seal.new(b"another", theirs="0" * 32)
                link.sendall(seal.greeting)
                link.recv(1 << 16)
                link.sendall(seal.sealed({"probes": [], "holding": True}, "answer"))
                with suppress(ConnectionError):
                    link.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ProbeError, match="b: no sensor with this key"):
            wire.ask(
                Member("b", "127.0.0.1", port), {"op": "series"}, key=KEY, timeout_s=LONGEST_WAIT_S
            )
        thread.join()


def test_one_connection_too_many_is_closed(monkeypatch):
    monkeypatch.setattr(sensor, "MOST_CONNECTIONS", 3)
    made = Sensor([Member("a", "127.0.0.1")], "a", ProbeSettings(), bind=("127.0.0.1", 0), key=KEY)
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        links = [socket.create_connection(made.address, timeout=LONGEST_WAIT_S) for _ in range(3)]
        greetings = [link.recv(32) for link in links]
        assert all(len(greeting) == 32 for greeting in greetings)
        with socket.create_connection(made.address, timeout=LONGEST_WAIT_S) as more:
            assert more.recv(32) == b""
        for link in links:
            link.close()
    finally:
        made.stop()
        thread.join()


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("n1", Member("n1", "n1")),
        ("n1:99", Member("n1", "n1", 99)),
        ("a=n1.example:99", Member("a", "n1.example", 99)),
        ("a=[fe80::1]:99", Member("a", "fe80::1", 99)),
    ],
)
def test_hosts(text, read):
    assert member(text) == read


@pytest.mark.parametrize("text", ["", "a=", "n1:", "n1:x", "n1:99999", "a b", "a=b=c"])
def test_what_is_no_host(text):
    with pytest.raises(ProbeError):
        member(text)


def test_a_host_must_be_in_its_clique_once():
    clique = [member("a"), member("b")]
    assert find(clique, "b") == 1
    with pytest.raises(ProbeError, match=r"'c' is no host.*a, b.*--name"):
        find(clique, "c")
    with pytest.raises(ProbeError, match="once"):
        find([*clique, member("a=x")], "b")


def test_the_cost_is_that_of_all_pairs():
    settings = ProbeSettings(period_s=360.0, message_bytes=10_000, spin_s=1.8, spin_every=10)
    result = cost(settings, 3)
    assert result.pairs == 6
    assert result.probes_per_hour == 10 * (2 * 6 + 3)
    assert result.network_bytes_per_hour - 10 * 6 * result.bytes_per_pair == (720 + 30) * 900
    assert 10_000 < result.bytes_per_pair < 11_000
    assert result.cpu_share == pytest.approx(0.0005)
    assert result.disk_bytes_per_hour == 0
    with_disk = cost(ProbeSettings(period_s=3600.0, disk_folder=Path("/x"), disk_bytes=1000), 1)
    assert with_disk.disk_bytes_per_hour == 2000 + 32 * 4096
    assert with_disk.pairs == with_disk.network_bytes_per_hour == 0
    with pytest.raises(ProbeError, match="0 hosts"):
        cost(settings, 0)
    with pytest.raises(ProbeError, match="spin_every is 0"):
        cost(ProbeSettings(spin_every=0), 2)
