"""A loop that runs in a thread of the test, and what it has served."""

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field

from slurm_plugin.nimod.connection import Connection, Reply
from slurm_plugin.nimod.loop import Loop
from slurm_plugin.service.accountant import Accountant, Kind, Principal
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


def ended(channel):
    with suppress(ConnectionResetError):
        return channel.recv(10) == b""
    return True
