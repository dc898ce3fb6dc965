"""Daemons of tests end when they must, whatever they do."""

import random
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guardian import start_time
from tests.processes import ProcessError, Processes, free_ports, tail, wait_until

STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
# Its child leaves the session and the parent ends: what a daemon does to detach itself.
DETACHING = "setsid sleep 1000 & echo $! >child; while [ ! -e stop ]; do sleep 0.02; done"


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(tmp_path)
    processes.open(leashed=True)
    yield processes
    processes.close()
    assert not processes.up


def test_a_daemon_is_started_and_stopped(processes):
    pid = processes.start("nap", ["sleep", "1000"])
    assert processes.status() == {"nap": f"running, pid {pid}"}
    processes.stop("nap")
    assert start_time(pid) is None
    assert processes.status() == {}


def test_a_daemon_that_ignores_the_request_is_killed(processes):
    pid = processes.start("mule", ["sh", "-c", STUBBORN])
    wait_until(lambda: "ready" in processes.log("mule").read_text(), what="the trap")
    began = time.monotonic()
    processes.stop("mule", wait_s=0.3)
    assert start_time(pid) is None
    assert time.monotonic() - began > 0.3


def test_a_frozen_daemon_ends_too(processes):
    pid = processes.start("frozen", ["sleep", "1000"])
    processes.signal("frozen", signal.SIGSTOP)
    processes.stop("frozen", wait_s=0.1)
    assert start_time(pid) is None


def test_what_a_daemon_left_behind_ends_with_the_guardian(processes, tmp_path):
    processes.start("parent", ["sh", "-c", DETACHING])
    left = tmp_path / "child"
    wait_until(lambda: left.exists() and bool(left.read_text()), what="the child")
    child = int(left.read_text())
    (tmp_path / "stop").touch()
    wait_until(lambda: not processes.running("parent"), what="the parent to end")
    assert start_time(child) is not None
    processes.close()
    assert start_time(child) is None


def test_how_a_daemon_ended_is_reported_with_its_last_words(processes):
    processes.start("brief", ["sh", "-c", "echo no licence; exit 3"])
    with pytest.raises(ProcessError, match=r"ended with status 3(.|\n)*no licence"):
        processes.wait_for("brief", lambda: False, timeout_s=5)


def test_a_program_that_is_missing_is_an_error(processes):
    with pytest.raises(ProcessError, match="no-such-program"):
        processes.start("ghost", ["no-such-program"])
    assert processes.status() == {}


def test_a_second_client_sees_the_same_daemons(processes, tmp_path):
    pid = processes.start("nap", ["sleep", "1000"])
    other = Processes(tmp_path)
    assert other.status() == {"nap": f"running, pid {pid}"}
    with pytest.raises(ProcessError, match="already run"):
        other.open(leashed=True)


def test_nothing_to_ask_is_an_error(tmp_path):
    with pytest.raises(ProcessError, match="nothing runs in"):
        Processes(tmp_path).start("nap", ["sleep", "1"])


def test_a_path_too_long_for_a_socket_is_reported_before_anything_starts(tmp_path):
    with pytest.raises(ProcessError, match="too long for a Unix socket"):
        Processes(tmp_path / ("x" * 100)).open(leashed=True)


def test_free_ports_avoid_one_that_is_taken():
    first = free_ports(4, rng=random.Random(1))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", first[2]))
        listener.listen()
        second = free_ports(4, rng=random.Random(1))
    assert first[2] not in second


def test_the_tail_of_a_log_names_its_file(tmp_path):
    log = tmp_path / "log"
    assert "no such file" in tail(log)
    log.write_text("one\ntwo\nthree\n")
    assert tail(log, lines=2) == f"--- {log}\ntwo\nthree"
