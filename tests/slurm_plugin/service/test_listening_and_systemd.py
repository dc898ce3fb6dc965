"""One nimod a socket."""

import os
import socket
import stat
import struct

import pytest

from sacct_ingest.errors import ConfigError
from slurm_plugin.service.listening import bound_socket, let_in, notify, watchdog_s
from tests.processes import LONGEST_WAIT_S


@pytest.fixture
def path(tmp_path):
    return tmp_path / "nimod.sock"


def test_everybody_may_connect(path):
    with bound_socket(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
    assert not path.exists()


def test_only_some_may_connect(path):
    with bound_socket(path, only={os.geteuid(), 4711}):
        # Of what ls shows the group's rights are the most that anybody on the list has.
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        entries = os.getxattr(path, "system.posix_acl_access")[4:]
        rows = [struct.unpack("<HHI", entries[i : i + 8]) for i in range(0, len(entries), 8)]
        given = {(tag, number): rights for tag, rights, number in rows}
        assert given[0x02, 4711] == 6
        assert [given[tag, 0xFFFFFFFF] for tag in (0x01, 0x04, 0x20)] == [6, 0, 0]
        let_in(path, {4712})
        assert struct.pack("<I", 4711) not in os.getxattr(path, "system.posix_acl_access")


def test_without_access_lists_it_is_for_ourselves_and_root(path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refuse)
    with bound_socket(path, only={4711}):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "only this user and root may connect" in caplog.text


def test_the_umask_is_as_before(path):
    before = os.umask(0o027)
    try:
        with bound_socket(path):
            assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_a_second_one_learns_who_has_it(path):
    with bound_socket(path), pytest.raises(ConfigError, match=f"process {os.getpid()}"):
        bound_socket(path).__enter__()


def test_a_second_one_leaves_the_first_in_peace(path):
    with bound_socket(path) as channel:
        with pytest.raises(ConfigError):
            bound_socket(path).__enter__()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            channel.accept()[0].close()


def test_a_socket_that_was_left_behind_is_no_obstacle(path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with bound_socket(path), socket.socket(socket.AF_UNIX) as client:
        assert client.connect_ex(str(path)) == 0


def test_what_is_no_socket_is_not_removed(path):
    path.write_text("precious")
    with pytest.raises(ConfigError, match="something else"):
        bound_socket(path).__enter__()
    assert path.read_text() == "precious"


@pytest.mark.parametrize("name", ["no/such/folder/nimod.sock", "x" * 200])
def test_a_place_that_does_not_do_is_a_configuration_error(tmp_path, name):
    with pytest.raises(ConfigError, match="socket "):
        bound_socket(tmp_path / name).__enter__()


def test_it_can_be_used_again(path):
    for _ in range(2):
        with bound_socket(path), socket.socket(socket.AF_UNIX) as client:
            assert client.connect_ex(str(path)) == 0


@pytest.fixture
def listener(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(LONGEST_WAIT_S)
        yield channel


def test_a_state_arrives(listener):
    assert notify("READY=1", {"NOTIFY_SOCKET": listener.getsockname()})
    assert listener.recv(100) == b"READY=1"


def test_an_abstract_address_is_understood():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(f"\0nimo-test-{os.getpid()}")
        channel.settimeout(LONGEST_WAIT_S)
        assert notify("STOPPING=1", {"NOTIFY_SOCKET": f"@nimo-test-{os.getpid()}"})
        assert channel.recv(100) == b"STOPPING=1"


def test_outside_of_systemd_nothing_happens(tmp_path):
    assert not notify("READY=1", {})
    assert not notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "gone")})


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
    ],
)
def test_the_watchdog_is_for_the_process_it_names(environ, seconds):
    assert watchdog_s(environ) == seconds
