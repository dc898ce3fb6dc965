"""Telling systemd."""

import os
import socket

import pytest

from slurm_plugin.service.listening import notify, watchdog_s


@pytest.fixture
def listener(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(5)
        yield channel


def test_a_state_arrives(listener):
    assert notify("READY=1", {"NOTIFY_SOCKET": listener.getsockname()})
    assert listener.recv(100) == b"READY=1"


def test_an_abstract_address_is_understood():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(f"\0nimo-test-{os.getpid()}")
        channel.settimeout(5)
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
