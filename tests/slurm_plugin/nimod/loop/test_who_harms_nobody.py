"""Peers that hang up, drip, fail or come in crowds hold up nobody else."""

from contextlib import suppress

import pytest

from slurm_plugin.nimod.loop import HALFWAY_S, IDLE_S
from slurm_plugin.protocol.lines import MAX_LINE_BYTES
from tests.processes import wait_until
from tests.slurm_plugin.nimod.loop.running_loop import ended


def test_after_the_last_answer_it_hangs_up(running):
    channel = running.connect()
    channel.sendall(b"last\nmore\n")
    assert channel.makefile("rb").read() == b"last\n"
    wait_until(lambda: running.served_by.left == 1, what="the end")
    running.settle()
    assert running.served_by.served == running.served_by.booked == [b"last\n"]


@pytest.mark.parametrize("first", [False, True])
def test_a_peer_that_hangs_up_on_its_answers_harms_nobody(running, first):
    running.served_by.first = first
    channel = running.connect()
    channel.sendall(b"hold\nnext\nnext\n")
    assert channel.recv(10) == b"hold\n"
    channel.close()
    running.served_by.released.set()
    wait_until(lambda: running.served_by.left == 1, what="it to be gone")
    running.settle()


@pytest.mark.parametrize("first", [False, True])
def test_an_error_ends_its_connection_alone_and_is_logged_once(running, caplog, first):
    running.served_by.first = first
    other = running.connect()
    for _ in range(3):
        channel = running.connect()
        channel.sendall(b"fail\nmore\n")
        answer, *rest = channel.makefile("rb").readlines()
        assert b'"ok":false' in answer
        assert b"RecursionError" in answer
        assert rest == []
    other.sendall(b"hello\n")
    assert other.recv(10) == b"hello\n"
    assert [record.exc_info[0] for record in caplog.records] == [RecursionError]


def test_errors_in_work_that_waits_end_nothing(running, caplog):
    channel = running.connect()
    running.loop.call_soon(lambda: 1 // 0)
    channel.sendall(b"no room\nnext\n")
    reader = channel.makefile("rb")
    assert [reader.readline(), reader.readline()] == [b"no room\n", b"next\n"]
    running.settle()
    reported = {record.exc_info[0] for record in caplog.records}
    assert {OSError, ZeroDivisionError} <= reported


def test_a_peer_that_cannot_be_let_in_harms_nobody(running):
    channel = running.connect()
    channel.sendall(b"hello\n")
    assert channel.recv(10) == b"hello\n"
    running.served_by.shut = True
    assert ended(running.connect())
    channel.sendall(b"again\n")
    assert channel.recv(10) == b"again\n"


def test_an_endless_line_is_cut_off(running):
    channel = running.connect()
    with suppress(BrokenPipeError, ConnectionResetError):
        channel.sendall(b"x" * (MAX_LINE_BYTES + 200_000))
    wait_until(lambda: running.served_by.left == 1, what="the end")
    assert running.served_by.served == []


@pytest.mark.parametrize("first", [False, True])
def test_who_drips_is_dropped_however_steadily(running, first):
    running.served_by.first = first
    channel = running.connect()
    channel.sendall(b"x")
    running.settle()
    for _ in range(4):
        running.pass_time(HALFWAY_S / 3)
        with suppress(BrokenPipeError):
            channel.sendall(b"x")
        running.settle()
    assert ended(channel)


def test_who_does_not_take_the_answer_is_dropped(running):
    channel = running.connect()
    channel.sendall(b"*3000000\n")
    wait_until(lambda: running.served_by.booked, what="the answer")
    running.pass_time(HALFWAY_S + 1)
    assert running.served_by.left == 1


def test_idle_users_are_dropped_and_slurmctld_is_not(running):
    user = running.connect()
    user.sendall(b"hello\n")
    assert user.makefile("rb").readline() == b"hello\n"
    running.served_by.first = True
    slurmctld = running.connect()
    slurmctld.sendall(b"hello\n")
    assert slurmctld.makefile("rb").readline() == b"hello\n"
    running.pass_time(IDLE_S + 1)
    assert ended(user)
    slurmctld.sendall(b"again\n")
    assert slurmctld.recv(100) == b"again\n"
