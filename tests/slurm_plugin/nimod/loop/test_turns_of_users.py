"""Turns: slurmctld first, then users, by what each took."""

import socket
import threading
import time
from contextlib import suppress

import pytest

from slurm_plugin.nimod.connection import Connection, Reply
from slurm_plugin.nimod.loop import Loop
from slurm_plugin.service.accountant import Kind, Principal, Resource
from tests.processes import LONGEST_WAIT_S, wait_until
from tests.slurm_plugin.nimod.loop.running_loop import Listener, Running


def test_slurmctld_waits_for_one_of_the_crowd_at_most(running):
    crowd = [running.connect() for _ in range(10)]
    for channel in crowd:
        channel.sendall(b"hello\n")
        assert channel.recv(100) == b"hello\n"
    running.served_by.first = True
    slurmctld = running.connect()
    slurmctld.sendall(b"first\n")
    assert slurmctld.recv(100) == b"first\n"
    running.served_by.served.clear()
    go_on = running.hold()
    for channel in crowd:
        channel.sendall(b"crowd\n" * 5)
    slurmctld.sendall(b"first\n")
    go_on.set()
    assert slurmctld.recv(100) == b"first\n"
    wait_until(lambda: len(running.served_by.served) == 51, what="all answers")
    assert running.served_by.served.index(b"first\n") <= 1


def test_the_longest_work_without_a_look_at_requests_is_measured(running):
    def work(seconds):
        running.cpu_s += seconds

    for seconds in (0.25, 2.0, 0.5):
        running.loop.call_soon(lambda s=seconds: work(s))
        running.settle()
    assert running.loop.longest_s == 2.0


def test_turns_are_taken(running):
    one, other = running.connect(), running.connect()
    for channel in (one, other):
        channel.sendall(b"hello\n")
        assert channel.recv(100) == b"hello\n"
    running.now_s += 1
    running.served_by.served.clear()
    go_on = running.hold()
    one.sendall(b"one\n" * 20)
    other.sendall(b"other\n")
    go_on.set()
    wait_until(lambda: len(running.served_by.served) == 21, what="all answers")
    assert running.served_by.served.index(b"other\n") <= 2


def test_a_crowd_that_waits_to_be_let_in_is_let_in_at_once(running):
    """Whoever comes after a hundred others is let in with them, not after a hundred turns."""
    entered = []
    enter = running.served_by.enter
    running.served_by.enter = lambda channel, later: (
        entered.append(len(running.served_by.served)) or enter(channel, later)
    )
    go_on = running.hold()
    crowd = [running.connect() for _ in range(40)]
    for channel in crowd:
        channel.sendall(b"hello\n")
    go_on.set()
    assert all(channel.recv(10) == b"hello\n" for channel in crowd)
    assert max(entered) <= 1


@pytest.mark.parametrize("reads", [True, False])
def test_an_answer_counts_until_it_was_taken_or_its_peer_is_gone(running, reads):
    channel = running.connect()
    channel.sendall(b"query\n")
    assert channel.recv(1) == b"y"
    running.settle()
    assert running.served_by.taken == []
    if reads:
        channel.makefile("rb").readline()
    else:
        channel.close()
    wait_until(lambda: running.served_by.taken == [b"query\n"], what="the answer's end")


def test_slurmctlds_own_socket_is_looked_at_after_each_that_is_let_in(tmp_path):
    """A crowd waits to be let in when slurmctld connects: it comes next, not after all of them."""
    served_by, channels, entered = Listener(), [], []
    with socket.socket(socket.AF_UNIX) as public, socket.socket(socket.AF_UNIX) as reserved:
        for listener, name in ((public, "s"), (reserved, "s.ctld")):
            listener.bind(str(tmp_path / name))
            listener.listen(64)

        def connect(name):
            channel = socket.socket(socket.AF_UNIX)
            channel.settimeout(LONGEST_WAIT_S)
            channel.connect(str(tmp_path / name))
            channels.append(channel)
            channel.sendall(name.encode() + b"\n")

        def enter(channel, later):
            served_by.first = len(entered) == 3
            entered.append(channel)
            if len(entered) == 3:  # while the crowd is let in
                connect("s.ctld")
            return Listener.enter(served_by, channel, later)

        served_by.enter = enter
        for _ in range(30):
            connect("s")
        made = Loop(public, served_by, clock=time.monotonic, reserved=reserved)
        made.call_soon(lambda: None)
        thread = threading.Thread(target=made.run, args=(lambda: None,), kwargs={"tick_s": 0.01})
        thread.start()
        wait_until(lambda: len(served_by.served) == 31, what="all of them")
        made.call_soon(made.stop)
        thread.join()
        made.close()
        for channel in channels:
            channel.close()
    assert served_by.served.index(b"s.ctld\n") <= 2


class Users(Listener):
    """Lets each connection in as another user, in turns of three."""

    def enter(self, channel, later):
        self.entered = getattr(self, "entered", -1) + 1
        account = self.accountant.of(Principal(Kind.USER, min(self.entered // 16, 1)))
        return Connection(channel, self.respond, uid=1, account=account)


def test_a_user_with_many_connections_has_no_more_turns_than_one_with_one(tmp_path, request):
    running = Running(str(tmp_path / "s"), served_by=Users())
    request.addfinalizer(running.end)
    crowd = [running.connect() for _ in range(16)]
    honest = running.connect()
    for channel in (*crowd, honest):
        channel.sendall(b"hello\n")
        assert channel.recv(10) == b"hello\n"
    running.served_by.served.clear()
    go_on = running.hold()
    for channel in crowd:
        channel.sendall(b"crowd\n" * 3)
    honest.sendall(b"honest\n" * 3)
    go_on.set()
    wait_until(lambda: len(running.served_by.served) == 51, what="all answers")
    last = max(at for at, one in enumerate(running.served_by.served) if one == b"honest\n")
    assert last <= 8


def test_a_user_who_used_up_the_processor_time_is_charged_for_each_turn(running):
    account = running.served_by.accountant.of(Principal(Kind.USER, 1))

    def answer(line, uid):
        running.cpu_s += 100.0
        return Reply(line)

    running.served_by.respond = answer
    channel = running.connect()
    for _ in range(3):
        channel.sendall(b"hello\n")
        assert channel.recv(10) == b"hello\n"
        running.settle()
    assert not account.spend(Resource.PROCESSOR_TIME, 0.0)
    assert account.wait_s(Resource.PROCESSOR_TIME) > 5000


def test_bytes_that_a_user_leaves_in_memory_are_counted_and_given_back(running):
    account = running.served_by.accountant.of(Principal(Kind.USER, 1))
    channel = running.connect()
    channel.sendall(b"x" * 1000)
    wait_until(lambda: account.held(Resource.BYTES_HELD) == 1000, what="the bytes")
    channel.sendall(b"\n")
    assert channel.recv(2000)
    wait_until(lambda: account.held(Resource.BYTES_HELD) == 0, what="them to be gone")
    crowd = [running.connect() for _ in range(60)]
    for one in crowd:
        with suppress(BrokenPipeError, ConnectionResetError):
            one.sendall(b"x" * 250_000)
    wait_until(lambda: running.served_by.left > 5, what="some to be cut off")
    assert account.held(Resource.BYTES_HELD) <= 12 * 2**20


def test_letting_in_takes_no_more_than_its_share_of_the_processor(running):
    """A crowd waits in the kernel's queue; slurmctld, who is in already, is served meanwhile."""
    running.served_by.first = True
    slurmctld = running.connect()
    slurmctld.sendall(b"hello\n")
    assert slurmctld.recv(10) == b"hello\n"
    running.served_by.first = False
    enter = running.served_by.enter

    def costly(channel, later):
        running.cpu_s += 10.0
        return enter(channel, later)

    running.served_by.enter = costly
    first = running.connect()
    first.sendall(b"hello\n")
    assert first.recv(10) == b"hello\n"
    crowd = [running.connect() for _ in range(20)]
    running.settle()
    slurmctld.sendall(b"again\n")
    assert slurmctld.recv(10) == b"again\n"
    whole = running.served_by.accountant.whole
    assert running.served_by.accountant.refused[Kind.SERVICE, Resource.PROCESSOR_TIME] >= 1
    assert running.cpu_s < 210.0
    whole.charge(Resource.PROCESSOR_TIME, -1000.0)
    running.pass_time(3000.0)
    crowd[-1].sendall(b"late\n")
    assert crowd[-1].recv(10) == b"late\n"
