"""The loop that serves connections: turns, patience, order."""

import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from slurm_plugin.nimod import loop
from slurm_plugin.nimod.connection import Connection, Reply
from slurm_plugin.nimod.loop import AWAKE_S, HALFWAY_S, IDLE_S, Loop
from slurm_plugin.protocol.lines import MAX_LINE_BYTES
from slurm_plugin.service.accountant import Accountant, Kind, Principal, Resource
from tests.processes import LONGEST_WAIT_S, wait_until


@dataclass
class Listener:
    """Lets everybody in; the next ones go first if so told."""

    first: bool = False
    shut: bool = False
    served: list = field(default_factory=list)
    booked: list = field(default_factory=list)
    behind: list = field(default_factory=list)  # requests not booked, at each request
    taken: list = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    left: int = 0
    announced: int = 0
    accountant: Accountant = field(default_factory=Accountant)

    def respond(self, line, uid):
        if line.isspace():
            self.announced += 1
            return Reply(awake=True)
        self.behind.append(len(self.served) - len(self.booked))
        self.served.append(line)
        size = int(line[1:]) if line.startswith(b"*") else 0
        if line == b"quiet\n":
            return Reply(line, quiet=True)
        if line.startswith(b"note"):
            return Reply(afterwards=lambda: self.book(line))
        if line == b"query\n":
            long = b"y" * 4_000_000 + line
            return Reply(query=lambda done: done(long), taken=lambda: self.taken.append(line))
        if line == b"fail\n":
            raise RecursionError("too deep")
        return Reply(b"x" * size + line, lambda: self.book(line), line == b"last\n")

    def book(self, line):
        if line == b"hold\n":
            assert self.released.wait(LONGEST_WAIT_S)
        if line == b"no room\n":
            raise OSError("no room")
        self.booked.append(line)

    def enter(self, channel, later):
        if self.shut:
            raise KeyError("who?")
        account = None if self.first else self.accountant.of(Principal(Kind.USER, 1))
        return Connection(channel, self.respond, uid=1, account=account)

    def leave(self, connection):
        self.left += 1


class Running:
    """A loop in a thread, with a clock that stands still."""

    def __init__(self, path, tick_s=0.01, served_by=None):
        self.now_s = 1000.0
        self.served_by = served_by or Listener()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.path = path
        self.channels = []
        self.ticks = 0
        self.cpu_s = 0.0
        self.loop = Loop(
            self.listener, self.served_by, clock=lambda: self.now_s, cpu_clock=lambda: self.cpu_s
        )
        self.thread = threading.Thread(
            target=self.loop.run, args=(self.tick,), kwargs={"tick_s": tick_s}
        )
        self.thread.start()

    def tick(self):
        self.ticks += 1

    def connect(self):
        channel = socket.socket(socket.AF_UNIX)
        channel.settimeout(LONGEST_WAIT_S)
        channel.connect(self.path)
        self.channels.append(channel)
        return channel

    def pass_time(self, seconds):
        """Let the clock jump, and the loop look around."""
        before, self.now_s = self.ticks, self.now_s + seconds
        self.loop.call_soon(lambda: None)
        wait_until(lambda: self.ticks > before, what="a tick")

    def awake(self):
        return self.loop.awake

    def settle(self):
        """Wait until the loop has done what there was to do."""
        done = threading.Event()
        for _ in range(2):
            self.loop.call_soon(done.set)
            assert done.wait(LONGEST_WAIT_S)
            done.clear()

    def hold(self):
        """Keep the loop busy from now on until the event that is returned is set."""
        held, go_on = threading.Event(), threading.Event()

        def work():
            held.set()
            assert go_on.wait(LONGEST_WAIT_S)

        self.loop.call_soon(work)
        assert held.wait(LONGEST_WAIT_S)
        return go_on

    def end(self):
        self.loop.call_soon(self.loop.stop)
        self.thread.join(LONGEST_WAIT_S)
        self.loop.close()
        for channel in [*self.channels, self.listener]:
            channel.close()


@pytest.fixture
def running(tmp_path):
    made = Running(str(tmp_path / "s"))
    yield made
    made.end()


def ended(channel):
    with suppress(ConnectionResetError):
        return channel.recv(10) == b""
    return True


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
