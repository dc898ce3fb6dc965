"""The hook in the real interpreter with the real LuaSocket, against a nimod that misbehaves."""

import itertools
import json
import shutil
import socket
import subprocess
import threading
import time

import pytest

from tests.cluster.nimod import copy_hooks
from tests.conftest import scratch_directory, unavailable
from tests.lua.canned_nimod import CannedNimod, hang, say
from tests.lua.hooks import HERE
from tests.processes import LONGEST_WAIT_S, wait_until

#: Time-outs of the hooks: where an answer is to come, no busy machine turns it into none ...
LIMIT_S = 30.0
#: ... and where none comes in time.
SHORT_S = 0.5
MOLDABLE = {"min_nodes": 1, "max_nodes": 8, "script": "x", "comment": "mine"}
SET_4 = b'{"v":1,"action":"set","set":{"min_nodes":4,"max_nodes":4},"admin_comment":"NIMO1:x"}\n'


@pytest.fixture
def folder(request):
    """A folder with the hooks and their settings; a Unix socket's path must be short."""
    limit_s = getattr(request, "param", LIMIT_S)
    if shutil.which("lua5.1") is None:
        unavailable("not installed: lua5.1")
    probe = ["lua5.1", "-e", 'require("socket.unix")']
    if subprocess.run(probe, check=False, capture_output=True).returncode:
        unavailable("not installed: lua-socket")
    with scratch_directory("nimo-lua-") as directory:
        copy_hooks(directory, most_ms=1000 * limit_s)
        conf = f"socket = {directory}/s\nkill_switch = {directory}/off\n"
        conf += f"timeout_ms = {1000 * limit_s:.0f}\n"
        (directory / "nimo_hook.conf").write_text(conf)
        yield directory


@pytest.fixture
def nimod(folder):
    servers = []

    def start(behave):
        servers.append(CannedNimod(folder / "s", behave))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


#: The hooks wait for a short time only.
shortly = pytest.mark.parametrize("folder", [SHORT_S], indirect=True, ids=["short"])


def drive(folder, job, *pauses):
    return ["lua5.1", str(HERE / "drive.lua"), str(folder), json.dumps(job), *pauses]


def submit(folder, *pauses_s, job=None):
    """Submit one job, and one more after each pause, in one Lua state."""
    argv = drive(folder, job or MOLDABLE, *map(str, pauses_s))
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=LONGEST_WAIT_S)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_slurmctld_takes_the_socket_that_is_its_own(folder, nimod):
    shared, reserved = nimod(hang), CannedNimod(folder / "s.ctld", say(SET_4))
    try:
        (outcome,) = submit(folder)
    finally:
        reserved.stop()
    assert outcome["min_nodes"] == 4
    assert (shared.connections, reserved.connections) == (0, 1)


def unchanged(outcome):
    return outcome["code"] == 0 and not outcome["writes"] and outcome["comment"] == "mine"


def hang_up(connection, line):
    connection.shutdown(socket.SHUT_RDWR)


def cut_off(connection, line):
    connection.sendall(SET_4[:30])
    connection.shutdown(socket.SHUT_RDWR)


def drip(connection, line):
    for byte in SET_4:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def flood(connection, line):
    for _ in range(10_000):
        connection.sendall(b"x" * 65_536)


def test_answer_is_carried_out(folder, nimod):
    server = nimod(say(SET_4))
    outcomes = submit(folder, 0, 0)
    assert [(o["min_nodes"], o["max_nodes"], o["admin_comment"]) for o in outcomes] == [
        (4, 4, "NIMO1:x")
    ] * 3
    assert server.connections == 1


def test_answer_in_pieces_is_put_together(folder, nimod):
    def in_pieces(connection, line):
        connection.sendall(SET_4[:20])
        time.sleep(0.002)
        connection.sendall(SET_4[20:])

    nimod(in_pieces)
    assert submit(folder)[0]["min_nodes"] == 4


def test_large_request_arrives_whole(folder, nimod):
    server = nimod(say(SET_4))
    script = "#!/bin/sh\n" + 'echo "ä\\n"\t$X\n' * 4000
    submit(folder, job={**MOLDABLE, "script": script})
    assert server.jobs[0]["script"] == script


@shortly
@pytest.mark.parametrize("behave", [hang, drip], ids=lambda behave: behave.__name__)
def test_slow_nimod_costs_the_limit_and_no_more(folder, nimod, behave):
    nimod(behave)
    [outcome] = submit(folder)
    assert unchanged(outcome)
    assert "timeout" in outcome["log"][0]
    # No earlier; that it is no later is what the log says: all that drips would be an answer.
    assert outcome["took_s"] > 0.9 * SHORT_S


@shortly
@pytest.mark.parametrize(
    "behave",
    [hang_up, cut_off, flood, say(b"\x00\xff\n"), say(b"Traceback\n"), say(SET_4 + SET_4)],
    ids=["hang up", "cut off", "flood", "binary", "text", "twice"],
)
def test_broken_nimod_changes_no_job(folder, nimod, behave):
    nimod(behave)
    assert all(map(unchanged, submit(folder, 0)))


def test_no_socket(folder):
    [outcome] = submit(folder)
    assert unchanged(outcome)
    assert "No such file or directory" in outcome["log"][0]


def test_socket_that_nobody_listens_on(folder):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "s"))
    [outcome] = submit(folder)
    assert unchanged(outcome)
    assert "refused" in outcome["log"][0]


def test_socket_that_is_a_file(folder):
    (folder / "s").touch()
    assert unchanged(submit(folder)[0])


@shortly
def test_full_backlog_does_not_block(folder):
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(folder / "s"))
        deaf.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(str(folder / "s"))
        for outcome in submit(folder, 0):
            assert unchanged(outcome)
        for client in waiting:
            client.close()


@pytest.mark.parametrize("folder", [5.0], indirect=True, ids=["long enough for the second"])
def test_late_answer_does_not_reach_the_next_job(folder, nimod):
    count = itertools.count(2)
    asked_again, answered_late = threading.Event(), threading.Event()

    def late_at_first(connection, line):
        nodes = next(count)
        if nodes == 2:
            assert asked_again.wait(LONGEST_WAIT_S)
        else:
            asked_again.set()
            assert answered_late.wait(LONGEST_WAIT_S)
        try:
            connection.sendall(SET_4.replace(b"4", b"%d" % nodes))
        finally:
            answered_late.set()

    nimod(late_at_first)
    first, second = submit(folder, 0)
    assert unchanged(first)
    assert second["min_nodes"] == 3


QUIET = b'{"v":1,"quiet":true}\n'


def test_where_no_job_is_changed_nothing_is_read_after_the_first_answer(folder, nimod):
    answers = itertools.chain([QUIET], itertools.repeat(SET_4))
    server = nimod(lambda connection, _: connection.sendall(next(answers)))
    outcomes = submit(folder, *[0] * 20)
    assert all(map(unchanged, outcomes))
    assert [outcome["log"] for outcome in outcomes] == [[]] * 21
    wait_until(lambda: len(server.jobs) == 21, what="all jobs to be told of")
    assert server.connections == 1


@shortly
def test_a_frozen_nimod_that_is_only_notified_is_asked_again_when_it_takes_no_more(folder, nimod):
    thawed = threading.Event()

    def answer_once(connection, line):
        connection.sendall(QUIET)
        thawed.wait(LONGEST_WAIT_S)

    server = nimod(answer_once)
    outcomes = submit(folder, *[0] * 30, job={**MOLDABLE, "script": "x" * 50_000})
    thawed.set()
    assert all(map(unchanged, outcomes))
    assert [outcome["log"] for outcome in outcomes] == [[]] * 31
    assert 1 < server.connections < 31
