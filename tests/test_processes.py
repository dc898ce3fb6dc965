"""Daemons of tests end when they must, whatever they do."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guardian import start_time
from tests.processes import ProcessError, Processes, wait_until

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


def test_a_daemon_that_ignores_the_request_is_killed(processes):
    pid = processes.start("mule", ["sh", "-c", STUBBORN])
    wait_until(lambda: "ready" in processes.log("mule").read_text(), what="the trap")
    began = time.monotonic()
    processes.stop("mule", wait_s=0.3)
    assert start_time(pid) is None
    assert time.monotonic() - began > 0.3


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
