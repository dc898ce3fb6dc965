"""Who is at the other end of a connection, as the kernel says."""

import os
import pwd
import socket
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from sacct_ingest.errors import ConfigError
from slurm_plugin.config.settings import Web
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
ME = User(os.getuid(), pwd.getpwuid(os.getuid()).pw_name)


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
    assert user_of(Peer(uid=os.getuid()), ["ada"], PROXIES) == ME
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
