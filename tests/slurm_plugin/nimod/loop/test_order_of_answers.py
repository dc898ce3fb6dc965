"""The order in which lines are read, answered and booked."""

import socket
import time

import pytest

from slurm_plugin.nimod import loop
from slurm_plugin.nimod.connection import Connection
from slurm_plugin.nimod.loop import AWAKE_S
from slurm_plugin.service.accountant import Kind, Principal
from tests.processes import LONGEST_WAIT_S, wait_until
from tests.slurm_plugin.nimod.loop.running_loop import Listener, Running, ended


def test_lines_are_answered_in_their_order_and_booked(running):
    channel = running.connect()
    lines = [b"%d\n" % n for n in range(50)]
    channel.sendall(b"".join(lines))
    reader = channel.makefile("rb")
    assert [reader.readline() for _ in lines] == lines
    wait_until(lambda: running.served_by.booked == lines, what="the books")


def test_requests_from_elsewhere_and_peers_take_turns_after_slurmctld(running):
    others = [running.connect() for _ in range(4)]
    running.settle()
    running.served_by.first = True
    slurmctld = running.connect()
    running.settle()
    others[0].sendall(b"hold\n")
    assert others[0].recv(10) == b"hold\n"
    link = running.served_by.accountant.of(Principal(Kind.LINK, "login1#0"))
    for number in range(1, 4):
        others[number].sendall(b"peer\n")
        running.loop.call_in_turn(link, lambda: running.served_by.served.append(b"remote\n"))
    slurmctld.sendall(b"first\n")
    running.served_by.released.set()
    wait_until(lambda: len(running.served_by.served) == 8, what="all of it")
    served = running.served_by.served
    assert served.index(b"first\n") <= 2, "one of the others at most"
    rest = served[served.index(b"first\n") + 1 :]
    for number in range(len(rest)):
        some = rest[: number + 1]
        assert abs(some.count(b"peer\n") - some.count(b"remote\n")) <= 2, served


def test_a_line_in_pieces_is_one_line(running):
    channel = running.connect()
    for piece in (b"he", b"llo\nwor", b"ld\n"):
        channel.sendall(piece)
        running.settle()
    assert channel.makefile("rb").readline() == b"hello\n"
    wait_until(lambda: running.served_by.served == [b"hello\n", b"world\n"], what="both")


def test_blank_lines_are_not_answered(running):
    channel = running.connect()
    channel.sendall(b"\n \n\nhello\n")
    assert channel.makefile("rb").readline() == b"hello\n"
    assert running.served_by.served == [b"hello\n"]


def test_who_announced_a_request_finds_the_loop_awake_for_a_moment(running):
    running.served_by.first = True
    channel = running.connect()
    channel.sendall(b"\n")
    wait_until(lambda: running.served_by.announced == 1, what="the announcement")
    wait_until(running.awake, what="it to stay awake")
    running.now_s += AWAKE_S
    wait_until(lambda: not running.awake(), what="it to fall asleep")
    channel.sendall(b"\n")
    wait_until(lambda: running.served_by.announced == 2, what="the announcement")
    channel.sendall(b"hello\n")
    assert channel.makefile("rb").readline() == b"hello\n"
    wait_until(lambda: not running.awake(), what="it to fall asleep after the request")


def test_all_that_slurmctld_said_comes_before_who_knocks_after_it(running):
    running.served_by.first = True
    channel = running.connect()
    channel.sendall(b"hold\n")
    assert channel.recv(10) == b"hold\n"
    channel.sendall(b"1\n2\n3\n")
    running.connect().sendall(b"late\n")
    running.served_by.released.set()
    wait_until(lambda: len(running.served_by.served) == 5, what="all of it")
    assert running.served_by.served == [b"hold\n", b"1\n", b"2\n", b"3\n", b"late\n"]


def test_who_waits_for_no_answers_is_listened_to_after_a_pause_or_before_anybody_else(
    tmp_path, monkeypatch, request
):
    monkeypatch.setattr(loop, "PAUSE_S", LONGEST_WAIT_S)
    running = Running(str(tmp_path / "s"), tick_s=LONGEST_WAIT_S)
    request.addfinalizer(running.end)
    by = running.served_by
    by.first = True
    slurmctld = running.connect()
    slurmctld.sendall(b"quiet\n")
    assert slurmctld.recv(10) == b"quiet\n"
    slurmctld.sendall(b"note 1\n")
    wait_until(lambda: by.booked == [b"note 1\n"], what="the first at once")
    slurmctld.sendall(b"note 2\n")
    time.sleep(0.1)
    slurmctld.sendall(b"note 3\n")
    assert by.served[1:] == [b"note 1\n"]
    late = running.connect()
    late.sendall(b"late\n")
    assert late.recv(10) == b"late\n"
    assert by.served[1:] == [b"note 1\n", b"note 2\n", b"note 3\n", b"late\n"]
    monkeypatch.setattr(loop, "PAUSE_S", 0.01)
    running.settle()
    for number in range(4, 8):
        slurmctld.sendall(b"note %d\n" % number)
        wait_until(lambda: by.booked[-1] == b"note %d\n" % number, what="it")  # noqa: B023
    slurmctld.sendall(b"a question\n")
    assert slurmctld.recv(20) == b"a question\n"


def test_those_who_wait_for_no_answer_are_hung_up_on_and_nobody_else(running):
    quiet, other = running.connect(), running.connect()
    quiet.sendall(b"quiet\n")
    other.sendall(b"hello\n")
    assert (quiet.recv(10), other.recv(10)) == (b"quiet\n", b"hello\n")
    running.loop.call_soon(running.loop.hang_up_on_quiet)
    assert ended(quiet)
    other.sendall(b"again\n")
    assert other.recv(10) == b"again\n"


def test_an_answer_larger_than_the_pipe_arrives_whole(running):
    channel = running.connect()
    channel.sendall(b"*3000000\nnext\n")
    reader = channel.makefile("rb")
    assert len(reader.readline()) == 3_000_000 + len(b"*3000000\n")
    assert reader.readline() == b"next\n"


@pytest.mark.parametrize("first", [False, True])
def test_each_request_finds_those_before_it_booked(running, first):
    running.served_by.first = first
    channels = [running.connect() for _ in range(2)]
    for channel in channels:
        channel.sendall(b"1\n2\n3\n")
    for channel in channels:
        reader = channel.makefile("rb")
        assert [reader.readline() for _ in range(3)] == [b"1\n", b"2\n", b"3\n"]
    assert running.served_by.behind == [0] * 6


def test_what_can_wait_is_left_to_the_loop():
    """Who was answered goes on with its work, and is not to share its core with ours."""
    listener = Listener()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Connection(ours, listener.respond, uid=1)
        theirs.sendall(b"1\n")
        connection.serve()
        assert theirs.recv(10) == b"1\n"
        assert listener.booked == []
        (work,) = connection.undone()
        work()
        assert listener.booked == [b"1\n"]
        assert connection.undone() == []
