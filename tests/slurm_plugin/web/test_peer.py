"""Who is at the other end of a connection, as the kernel says."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from slurm_plugin.web.viewer import Peer, peer_of

LOOPBACKS = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]


@contextmanager
def listening(family: int, address: object) -> Iterator[socket.socket]:
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
