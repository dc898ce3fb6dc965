"""`nimo web` as a process, asked over its sockets, and who is at the other end of them."""

import asyncio
import http.client
import os
import pwd
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from sacct_ingest.errors import ConfigError
from slurm_plugin.cli.nimo import main
from slurm_plugin.config.settings import Web
from slurm_plugin.web import server
from slurm_plugin.web.viewer import (
    NAMED,
    Peer,
    Proxies,
    Unauthenticated,
    User,
    peer_of,
    proxies_of,
    user_of,
)

ME = pwd.getpwuid(os.getuid()).pw_name
WAIT_S = 60.0
NOBODY = Proxies("X-Forwarded-User")


class OverUnix(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=WAIT_S)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(WAIT_S)
        self.sock.connect(self._path)


@contextmanager
def serving(store, listen, settings=""):
    """Run ``nimo web`` and give the place that it prints."""
    config = store.with_name("nimo.yaml")
    config.write_text(f"cluster: pine\nstore: sqlite:///{store}\n{settings}")
    code = "import sys; from slurm_plugin.cli.nimo import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "web", "--listen", listen, "--config", str(config)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.terminate()
        process.wait(timeout=WAIT_S)


def got(connection, path, **headers):
    connection.request("GET", path, headers={"Host": "localhost", **headers})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_over_tcp_the_kernel_says_who_asks_and_sigterm_ends_it(store_path):
    with serving(store_path, "127.0.0.1:0") as (place, process):
        port = int(place.removeprefix("http://127.0.0.1:").rstrip("/"))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        status, page = got(connection, "/applications", **{"X-Forwarded-User": "ada"})
        assert status == 200
        assert f"<bdi>{ME}</bdi> sees all jobs" in page
        assert "ada/wrf" in page
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=WAIT_S) in (0, -signal.SIGTERM)


def test_over_a_unix_socket_a_proxy_names_users(store_path):
    listen = str(store_path.with_name("web.sock"))
    with serving(store_path, listen, f"web: {{proxies: [{ME}]}}\n") as (place, _):
        assert place == listen
        connection = OverUnix(listen)
        status, page = got(connection, "/applications", **{"X-Forwarded-User": "ada"})
        assert status == 200
        assert "<bdi>ada</bdi> sees own jobs" in page
        assert "bob" not in page
        assert got(connection, "/applications")[0] == 403
        connection.close()
        assert (
            main(["web", "--store", str(store_path), "--listen", listen]) == ConfigError.exit_status
        )


@pytest.fixture
def short_timeouts(monkeypatch):
    monkeypatch.setattr(server, "LOOK_S", 0.2)
    monkeypatch.setattr(server, "CONNECTIONS_EACH", 2)


@contextmanager
def in_a_thread(folder):
    """Serve a page of two letters from a thread of this process; ``/slow`` takes a while."""

    async def page(scope, receive, send):
        if scope["path"] == "/slow":
            await asyncio.sleep(5 * server.LOOK_S)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    made = server.server(page, NOBODY)
    with server.listening(Web(listen=str(folder / "s")), NOBODY) as (channel, place):
        thread = threading.Thread(target=made.run, kwargs={"sockets": [channel]})
        thread.start()
        try:
            yield place
        finally:
            made.should_exit = True
            thread.join(WAIT_S)


def connected(place):
    channel = socket.socket(socket.AF_UNIX)
    channel.settimeout(WAIT_S)
    channel.connect(place)
    return channel


def ended(channel):
    try:
        return channel.recv(1000) == b""
    except ConnectionResetError:
        return True


@pytest.mark.usefixtures("short_timeouts")
def test_who_asks_nothing_or_drips_is_dropped(tmp_path):
    with in_a_thread(tmp_path) as place:
        with connected(place) as silent:
            assert ended(silent)
        with connected(place) as dripping:
            dripping.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX")
            assert ended(dripping)


@pytest.mark.usefixtures("short_timeouts")
def test_who_waits_for_a_page_is_not_dropped(tmp_path):
    with in_a_thread(tmp_path) as place, connected(place) as waiting:
        waiting.sendall(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert waiting.recv(1000).startswith(b"HTTP/1.1 200")


@pytest.mark.usefixtures("short_timeouts")
def test_a_user_has_so_many_connections(tmp_path):
    server.LOOK_S = 1000.0
    with in_a_thread(tmp_path) as place:
        ask = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        channels = [connected(place) for _ in range(2)]
        for one in channels:
            one.sendall(ask)
            assert one.recv(1000).startswith(b"HTTP/1.1 200")
        with connected(place) as third:
            assert ended(third)
        for one in channels:
            one.close()


@pytest.mark.parametrize(
    ("listen", "reported"),
    [
        ("0.0.0.0:0", "is open to the network"),
        ("somewhere:80", "neither ADDRESS:PORT"),
        ("127.0.0.1:99999", "neither ADDRESS:PORT"),
        ("127.0.0.1:x", "neither ADDRESS:PORT"),
        ("/nowhere/at/all.sock", "No such file or directory"),
    ],
)
def test_an_impossible_address_names_the_fix(listen, reported):
    with pytest.raises(ConfigError, match=reported), server.listening(Web(listen=listen), NOBODY):
        pass


def test_answers_do_not_wait_for_acknowledgements():
    # asyncio switches Nagle's delay off only where the socket names its protocol.
    with server.listening(Web(listen="127.0.0.1:0"), NOBODY) as (channel, _):
        assert channel.proto == socket.IPPROTO_TCP


def test_a_network_needs_a_proxy():
    proxies = Proxies("X-Forwarded-User", addresses=frozenset({"10.0.0.5"}))
    with server.listening(Web(listen="0.0.0.0:0"), proxies) as (_, place):
        assert place.startswith("http://0.0.0.0:")


def test_without_the_extra_it_says_what_to_install(store_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["web", "--store", str(store_path)]) == 1
    said = capsys.readouterr().err
    assert f"{sys.executable} -m pip install 'starlette>=" in said
    assert "uvicorn>=" in said


@pytest.mark.parametrize(
    ("length", "end", "status"),
    [(32_000, b"\r\n\r\n", b"200"), (33_000, b"\r\n\r\n", b"431"), (100_000, b"", b"400")],
)
def test_long_headers_and_those_without_end_are_cut_off(store_path, length, end, status):
    listen = str(store_path.with_name("web.sock"))
    with serving(store_path, listen), socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(WAIT_S)
        channel.connect(listen)
        channel.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * length + end)
        assert channel.recv(100).startswith(b"HTTP/1.1 " + status)


def test_a_crowd_on_the_loopback_keeps_nobody_out(monkeypatch):
    """However many connections one user makes at once: those of the next one are let in."""
    users = iter([*[1] * 60, 2])
    monkeypatch.setattr(server, "peer_of", lambda channel: Peer(uid=next(users)))
    made = server.server(_nothing, NOBODY)
    with server.listening(Web(listen="127.0.0.1:0"), NOBODY) as (channel, _):
        thread = threading.Thread(target=made.run, kwargs={"sockets": [channel]})
        thread.start()
        crowd = [socket.create_connection(channel.getsockname()) for _ in range(60)]
        refused = sum(_refused(one) for one in crowd)
        other = _refused(socket.create_connection(channel.getsockname()))
        made.should_exit = True
        thread.join(WAIT_S)
    assert (refused, other) == (60 - 32, False)


async def _nothing(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def _refused(channel):
    channel.settimeout(WAIT_S)
    with channel:
        try:
            channel.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return channel.recv(100) == b""
        except OSError:
            return True


LOOPBACKS = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]


@contextmanager
def listening(family, address):
    with socket.socket(family) as made:
        try:
            made.bind(address)
        except OSError as error:
            pytest.skip(f"no such address here: {error}")
        made.listen()
        yield made


@pytest.mark.parametrize(("family", "host"), LOOPBACKS)
def test_on_the_loopback_it_is_the_owner_of_the_other_end(family, host):
    with listening(family, (host, 0)) as server:
        client = socket.create_connection(server.getsockname()[:2])
        channel, _ = server.accept()
        with client, channel:
            assert peer_of(channel) == Peer(uid=os.getuid())
            client.close()
            assert peer_of(channel) == Peer()


def test_a_port_that_only_listens_is_nobodys_connection():
    """Of a connection that is over the kernel names who listens on its port."""
    with (
        listening(socket.AF_INET, ("127.0.0.1", 0)) as server,
        listening(socket.AF_INET, ("127.0.0.1", 0)) as other,
    ):
        local, remote = (one.getsockname() for one in (other, server))
        channel = SimpleNamespace(
            family=socket.AF_INET, getpeername=lambda: local, getsockname=lambda: remote
        )
        assert peer_of(channel) == Peer()


def test_on_a_unix_socket_it_is_the_owner_of_the_other_end(tmp_path):
    path = str(tmp_path / "s")
    with listening(socket.AF_UNIX, path) as server, socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        channel, _ = server.accept()
        with channel:
            assert peer_of(channel) == Peer(uid=os.getuid())


@pytest.mark.skipif(os.getuid() != 0, reason="only root may be another user")
@pytest.mark.parametrize(("family", "host"), LOOPBACKS)
def test_another_users_connection_is_that_users(family, host):
    with listening(family, (host, 0)) as server:
        os.seteuid(65534)
        try:
            client = socket.create_connection(server.getsockname()[:2])
        finally:
            os.seteuid(0)
        channel, _ = server.accept()
        with client, channel:
            assert peer_of(channel) == Peer(uid=65534)


def test_ipv4_through_an_ipv6_socket_is_detected_as_well():
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as server:
        try:
            client = socket.socket(socket.AF_INET6)
            client.connect(("::ffff:127.0.0.1", server.getsockname()[1]))
        except OSError as error:
            pytest.skip(f"no IPv6 here: {error}")
        channel, _ = server.accept()
        with client, channel:
            assert peer_of(channel) == Peer(uid=os.getuid())


PROXIES = Proxies("X-Forwarded-User", frozenset({33}), frozenset({"10.0.0.5"}))
MYSELF = User(os.getuid(), pwd.getpwuid(os.getuid()).pw_name)


@pytest.mark.parametrize("peer", [Peer(uid=33), Peer(address="10.0.0.5")])
def test_a_proxy_names_the_user(peer):
    assert user_of(peer, ["ada"], PROXIES) == User(NAMED, "ada")
    assert user_of(peer, ["rooted"], PROXIES).uid == NAMED


@pytest.mark.parametrize(
    "named", [[], [""], ["root"], ["ada", "bob"], ["ada bob"], ["a/b"], ["x" * 300]]
)
def test_a_proxy_that_names_nobody_is_refused(named):
    with pytest.raises(Unauthenticated, match="sends no user in X-Forwarded-User"):
        user_of(Peer(uid=33), named, PROXIES)


def test_of_nobody_else_the_header_is_believed():
    assert user_of(Peer(uid=os.getuid()), ["ada"], PROXIES) == MYSELF
    for stranger in (Peer(address="10.0.0.6"), Peer()):
        with pytest.raises(Unauthenticated):
            user_of(stranger, ["ada"], PROXIES)


def test_an_account_without_a_name_is_refused():
    with pytest.raises(Unauthenticated, match="has no name here"):
        user_of(Peer(uid=3_999_999_999), [], PROXIES)


def test_proxies_are_accounts_and_addresses():
    settings = Web(proxies=("www-data", "10.0.0.5", "2001:db8::5"))
    result = proxies_of(settings, {"www-data": 33}.__getitem__)
    assert (result.uids, result.addresses) == ({33}, {"10.0.0.5", "2001:db8::5"})


@pytest.mark.parametrize(
    ("one", "reported"),
    [
        ("127.0.0.1", "all users of this host come from there, too"),
        ("::1", "name the account that the proxy runs as"),
        ("nobody-here", "no such account here"),
    ],
)
def test_a_proxy_that_cannot_be_distinguished_from_users_is_an_error(one, reported):
    with pytest.raises(ConfigError, match=reported):
        proxies_of(Web(proxies=(one,)))
