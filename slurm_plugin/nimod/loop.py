"""The loop of nimod: one thread that serves peers with a request, and never waits for one.

Built on :mod:`selectors` rather than asyncio: a submission comes alone, after a pause, and finds
every cache cold; asyncio's share of such an answer was 100 µs of 300.
"""

import logging
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from traceback import extract_tb

from slurm_plugin.nimod.access import ConnectionLimiter
from slurm_plugin.nimod.connection import Connection, PeerClosed
from slurm_plugin.service.accountant import Account, FairQueues, FairTurns, Resource

_log = logging.getLogger(__name__)
HALFWAY_S = 10.0  #: longest that a request may take to arrive, or an answer to be taken
IDLE_S = 60.0  #: longest that anybody but slurmctld may say nothing
#: The loop stays awake so long after an empty line: a core that fell asleep takes 80 µs, and the
#: hook 741 µs instead of 831.
AWAKE_S = 0.0005
#: Work that can wait does so for this long, or until somebody else comes: slurmctld goes on with
#: the job, which takes a third longer beside a core at work.
REST_S = 0.002
#: Of requests nearer to each other than this none is put off: what was just used is in the caches.
_BUSY_S = 0.02
#: A slurmctld that waits for no answers is listened to this often: what it said meanwhile is worked
#: off in one go.  Longer, and a crowd of jobs with long scripts would fill its socket.
PAUSE_S = 0.05
_ACCEPTED = 64  #: most that are let in or refused before others have their turn
#: A turn counts as so much processor time at least, for what the kernel and the loop do for it.
_LEAST_TURN_S = 50e-6
_SHUT_S = 0.005  #: users' connections wait at least so long where they come too fast
_REPORTED = 100  #: most places whose errors are logged


class Loop:
    """Serves the connections of a listening socket until stopped.

    Peers that go ``first`` (slurmctld) are served as soon as they have sent something, and looked
    at after each connection that is let in.  Of the others one is served at a time, one whose user
    took least processor time, so that a crowd of them delays slurmctld by one answer at most.

    listener: bound, listening socket.
    reserved: another one, on which only peers that go first can connect: no crowd fills its queue.
    doorman: makes connections of channels.
    clock: seconds, rising.
    cpu_clock: processor time of the thread that runs the loop, seconds.
    longest_s: longest processor time between two looks for peers; no peer is served meanwhile.  How
        busy the machine was does not count.
    """

    def __init__(
        self,
        listener: socket.socket,
        doorman: ConnectionLimiter,
        *,
        clock: Callable[[], float],
        reserved: socket.socket | None = None,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._listeners = (listener,) if reserved is None else (reserved, listener)
        self._limiter = doorman
        self._clock = clock
        self._cpu_clock = cpu_clock
        self.longest_s = 0.0
        self._selector = selectors.DefaultSelector()
        self._calls: deque[Callable[[], None]] = deque()
        self._turns = FairTurns()  # of peers and of calls, one at a time, after slurmctld
        self._turn_calls: FairQueues[Callable[[], None]] = FairQueues(turns=self._turns)
        # What slurmctld sends, or a connection of its: looked at without asking for all others.
        self._ahead = selectors.DefaultSelector()
        if reserved is not None:
            self._ahead.register(reserved, selectors.EVENT_READ, None)
        self._woken, self._waker = socket.socketpair()
        self._more: set[Connection] = set()  # have sent more than one request, or have just come
        self._unwatched: set[Connection] = set()  # are not in the selector
        self._resting: set[Connection] = set()  # of these, are looked at after a pause
        self._asked_s = 0.0  # when slurmctld asked last
        self._turn = 0
        self._undone: deque[Callable[[], None]] = deque()  # could wait until answers were sent
        self._awake_s = 0.0  # until when no request is waited for asleep; 0: one is
        self._stopping = False
        self._shut_s: float | None = None  # until when no users are let in; None: they are
        self._reported: set[tuple[type[Exception], str, int]] = set()
        for channel in (*self._listeners, self._woken, self._waker):
            channel.settimeout(0)
        for channel in (*self._listeners, self._woken):
            self._selector.register(channel, selectors.EVENT_READ, None)

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call something in the loop's thread; from any thread, or a signal handler."""
        self._calls.append(call)
        with suppress(OSError if self._stopping else BlockingIOError):  # closed, woken already
            self._waker.send(b"\0")

    def call_in_turn(self, account: Account, call: Callable[[], None]) -> None:
        """Call something in the loop's thread as a peer of this account; from any thread."""

        def wait() -> None:
            self._turn_calls.put(account, call)

        self.call_soon(wait)

    def stop(self) -> None:
        """Make :meth:`run` return."""
        self._stopping = True

    def adopt(self, connection: Connection) -> None:
        """Serve a connection from now on."""
        connection.served_s = self._clock()
        self._register(connection)

    def hang_up_on_quiet(self) -> int:
        """End the connections whose peers wait for no answers, so that they ask anew; count them.

        Called in the loop's thread, by way of :meth:`call_soon`.
        """
        quiet = [connection for connection in self._connections() if connection.quiet]
        for connection in quiet:
            self._drop(connection)
        return len(quiet)

    def run(self, tick: Callable[[], object], *, tick_s: float) -> None:
        """Serve until stopped; ``tick`` is called about every ``tick_s`` seconds."""
        due_s = self._clock()
        while not self._stopping:
            self._once(0.0 if self._more or self._turn_calls or self.awake else tick_s)
            if self._clock() >= due_s:
                due_s = self._clock() + tick_s
                # Hang up on peers that leave us waiting.
                now_s = self._clock()
                for peer in list(self._connections()):
                    halfway = peer.since_s is not None and now_s - peer.since_s > HALFWAY_S
                    if halfway or (not peer.first and now_s - peer.served_s > IDLE_S):
                        if peer.account is not None:
                            text = "uid %d left nimod waiting: connection closed"
                            peer.account.log(_log, text, peer.uid, level=logging.INFO)
                        self._drop(peer)
                self._attempt(tick)

    def close(self) -> None:
        """Hang up on everybody."""
        for connection in list(self._connections()):
            self._drop(connection)
        self._catch_up()
        self._selector.close()
        self._ahead.close()
        self._woken.close()
        self._waker.close()

    @property
    def awake(self) -> bool:
        """Whether a request was announced a moment ago: it is not waited for asleep."""
        if self._awake_s and self._clock() >= self._awake_s:
            self._awake_s = 0.0
        return self._awake_s > 0.0

    def _once(self, wait_s: float) -> None:
        if self._resting:
            wait_s = min(wait_s, PAUSE_S)
        if self._shut_s is not None:
            wait_s = min(wait_s, self._let_in_again_s())
        ready = self._selector.select(min(wait_s, REST_S) if self._undone else wait_s)
        began_s = self._cpu_clock()
        self._take_turns(ready)
        self.longest_s = max(self.longest_s, self._cpu_clock() - began_s)

    def _let_in_again_s(self) -> float:
        """Let users in again, if it is time; seconds until then."""
        left_s = (self._shut_s or 0.0) - self._clock()
        if left_s > 0.0:
            return left_s
        self._shut_s = None
        self._selector.register(self._listeners[-1], selectors.EVENT_READ, None)
        return 0.0

    def _shut_for_a_moment(self, took_s: float) -> None:
        """Let no users in where letting in takes more than its share of the processor."""
        whole = self._limiter.accountant.whole
        whole.charge(Resource.PROCESSOR_TIME, took_s)
        wait_s = whole.wait_s(Resource.PROCESSOR_TIME)
        if wait_s > 0.0 and self._shut_s is None:
            whole.refuse(Resource.PROCESSOR_TIME)
            self._shut_s = self._clock() + max(wait_s, _SHUT_S)
            self._selector.unregister(self._listeners[-1])

    def _take_turns(self, ready: Iterable[tuple[selectors.SelectorKey, int]]) -> None:
        self._catch_up()
        peers = [key.data for key, _ in ready if key.data is not None]
        others = [key.fileobj for key, _ in ready if key.data is None]
        calls = bool(self._turn_calls)
        if len(peers) == 1 and peers[0].informs and not (others or self._more or calls):
            self._rest(peers[0])
            return
        self._listen_to_resting()
        asking = {*self._more, *peers}
        waiting: list[Connection] = []
        for peer in asking:
            if peer.first:
                self._serve(peer)
            else:
                waiting.append(peer)
        if waiting or calls:
            self._serve_one(waiting)
        # These may add connections and end some, so they come last.
        if self._woken in others:
            self._do_calls()
        for listener in self._listeners:
            if listener in others:
                began_s = self._cpu_clock()
                self._accept(listener)
                if listener is self._listeners[-1]:
                    self._shut_for_a_moment(self._cpu_clock() - began_s)

    def _serve_one(self, waiting: Sequence[Connection]) -> None:
        """Serve one of the peers and calls that wait: one whose account took least."""
        peer = min(waiting, key=self._order, default=None)
        account = self._turn_calls.first()
        took = self._turns.took
        if account is not None and (
            peer is None or peer.account is None or took(account) <= took(peer.account)
        ):
            call = self._turn_calls.take()
            began_s = self._cpu_clock()
            if call is not None:
                self._attempt(call)
            self._turn_calls.charge(account, self._least_s(began_s))
            self._turn_calls.release(account)
        elif peer is not None and peer.account is not None:
            account = peer.account
            self._turns.serve(account)
            began_s = self._cpu_clock()
            self._serve(peer)
            took_s = self._least_s(began_s)
            self._turns.charge(account, took_s)
            account.charge(Resource.PROCESSOR_TIME, took_s)

    def _order(self, peer: Connection) -> tuple[float, int]:
        return self._turns.took(peer.account) if peer.account else 0.0, peer.turn

    def _least_s(self, began_s: float) -> float:
        """Processor time since then, as much as a turn counts at least."""
        return max(self._cpu_clock() - began_s, _LEAST_TURN_S)

    def _rest(self, peer: Connection) -> None:
        """Look at a peer that waits for no answers after a pause, or before anybody else."""
        self._unregister(peer)
        self._unwatched.add(peer)
        self._resting.add(peer)

    def _listen_to_resting(self) -> None:
        for peer in list(self._resting):
            peer.informs = False
            self._serve(peer)
            if not peer.informs:  # it has said nothing
                self._resting.discard(peer)
                self._watch(peer)
        self._catch_up()

    def _catch_up(self) -> None:
        """Do what could wait: before anybody asks again, who is to find it done."""
        while self._undone:
            self._attempt(self._undone.popleft())

    def _do_calls(self) -> None:
        self._woken.recv(4096)
        while self._calls:
            self._attempt(self._calls.popleft())

    def _attempt(self, work: Callable[[], object]) -> None:
        """Do something; an error in it is reported and ends neither the loop nor a connection."""
        try:
            work()
        except Exception as error:
            self._report(error)

    def _report(self, error: Exception) -> None:
        """Log an unexpected error, once for each place: a peer could fill the log."""
        last = extract_tb(error.__traceback__)[-1]
        place = type(error), last.filename, last.lineno or 0
        if place not in self._reported and len(self._reported) < _REPORTED:
            self._reported.add(place)
            _log.error("unexpected error; logged this once", exc_info=error)

    def _accept(self, listener: socket.socket) -> None:
        """Let in, or refuse, who waits, until slurmctld has something to say."""
        for _ in range(_ACCEPTED):
            if listener is not self._listeners[0] and self._ahead.select(0):
                return
            try:
                channel, _address = listener.accept()
            except OSError as error:  # the peer is gone, or no descriptor is left
                _log.debug("accept: %s", error)
                return
            try:
                connection = self._limiter.enter(channel, self._later)
                if connection is not None:  # as a rule its request is here already
                    connection.served_s = self._clock()
                    self._unwatched.add(connection)
                    self._more.add(connection)
            except Exception as error:
                self._report(error)
                channel.close()

    def _later(self, connection: Connection) -> None:
        """Serve a connection that the limiter had put off, if it still may be; from any thread."""

        def settle() -> None:
            if self._limiter.settle(connection):
                self.adopt(connection)

        self.call_soon(settle)

    def _serve(self, peer: Connection) -> None:
        was_writing = peer.writing
        try:
            more = self._one_of(peer)
            # All of it, so that a connection after a job's report finds it decided.
            while more and peer.first:
                more = self._one_of(peer)
        except PeerClosed:
            self._drop(peer)
            return
        except Exception as error:
            self._report(error)
            peer.fail(error)
            self._drop(peer)
            return
        if peer.query is not None:
            self._forget(peer)
            peer.query(lambda data: self.call_soon(partial(self._end, peer, data)))
            return
        if peer.halfway and peer.since_s is None:
            peer.since_s = self._clock()
        if peer not in self._resting:
            self._watch(peer)
        if peer.first:
            self._served_first(peer)
        else:
            self._turn += 1
            peer.turn = self._turn
            peer.served_s = self._clock()
        if peer.writing is not was_writing:
            events = selectors.EVENT_WRITE if peer.writing else selectors.EVENT_READ
            self._selector.modify(peer, events, peer)
        if more:
            self._more.add(peer)
        else:
            self._more.discard(peer)

    def _served_first(self, peer: Connection) -> None:
        now_s = self._clock()
        self._awake_s = now_s + AWAKE_S if peer.awake else 0.0
        if now_s - self._asked_s < _BUSY_S:
            self._catch_up()
        self._asked_s = now_s

    def _end(self, peer: Connection, answer: bytes) -> None:
        """Give a peer the answer to its query, and serve it again."""
        self.adopt(peer)
        try:
            more = peer.deliver(answer)
        except PeerClosed:
            self._drop(peer)
            return
        if peer.writing:
            peer.since_s = self._clock()
            self._selector.modify(peer, selectors.EVENT_WRITE, peer)
        if more:
            self._more.add(peer)

    def _one_of(self, peer: Connection) -> bool:
        self._catch_up()
        try:
            return peer.serve()
        finally:
            self._undone += peer.undone()

    def _drop(self, peer: Connection) -> None:
        self._forget(peer)
        peer.close()
        self._limiter.leave(peer)

    def _watch(self, peer: Connection) -> None:
        if peer in self._unwatched:
            self._unwatched.discard(peer)
            self._register(peer)

    def _register(self, peer: Connection) -> None:
        self._selector.register(peer, selectors.EVENT_READ, peer)
        if peer.first:
            self._ahead.register(peer, selectors.EVENT_READ, peer)

    def _forget(self, peer: Connection) -> None:
        for peers in (self._more, self._resting):
            peers.discard(peer)
        if peer in self._unwatched:
            self._unwatched.discard(peer)
        else:
            self._unregister(peer)

    def _unregister(self, peer: Connection) -> None:
        self._selector.unregister(peer)
        if peer.first:
            self._ahead.unregister(peer)

    def _connections(self) -> Iterable[Connection]:
        watched = (key.data for key in self._selector.get_map().values())
        return (one for one in (*watched, *self._unwatched) if one is not None)
