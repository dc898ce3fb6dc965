"""One peer of nimod: lines in, one answer to each, whatever they hold."""

import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field

import msgspec

from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.lines import MAX_LINE_BYTES, encode
from slurm_plugin.service.accountant import Account, Resource

_PIECE = 65536


class PeerClosed(Exception):  # noqa: N818 - a state, not an error
    """The peer hung up, or is to be hung up on."""


class Reply(msgspec.Struct, frozen=True):
    """What a request leads to: bytes for the peer now, and work that can wait."""

    data: bytes = b""
    afterwards: Callable[[], None] | None = None
    last: bool = False  #: hang up after it
    quiet: bool = False  #: the peer should not wait for answers from now on
    awake: bool = False  #: another request is about to come
    query: "Query | None" = None  #: has the answer made, elsewhere: it takes long
    taken: Callable[[], None] | None = None  #: called once that answer was taken, or given up


#: Has an answer made, and what it is given called with it; in any thread, now or later.
Query = Callable[[Callable[[bytes], None]], None]
Respond = Callable[[bytes, int], Reply]


@dataclass(slots=True, eq=False)
class Connection:
    """Takes lines from a peer, one at a time, and sends it what ``respond`` makes of them.

    Nothing here waits: the loop calls :meth:`serve` when there is something to do.
    """

    _channel: socket.socket  #: connected Unix socket
    _respond: Respond  #: makes the answer to a line
    _: KW_ONLY
    uid: int  #: who the kernel says the peer is
    #: that what it uses counts for; None: it goes first, and nothing is counted
    account: Account | None = None
    turn: int = 0  #: number of its last turn
    served_s: float = 0.0  #: when that was, by the loop's clock
    #: since when it is half way through a request or an answer; None: it is not
    since_s: float | None = None
    quiet: bool = False  #: whether the peer does not wait for answers
    informs: bool = False  #: whether it did not wait for the answer to its last request either
    awake: bool = False  #: whether it said that a request is about to come
    query: Query | None = None  #: has the answer made that it waits for; None: it waits for none
    _received: bytearray = field(default_factory=bytearray)
    _unsent: bytes = b""
    _taken: Callable[[], None] | None = None
    _undone: list[Callable[[], None]] = field(default_factory=list)
    _held: int = 0  # bytes that its account holds for it

    def __post_init__(self) -> None:
        self._channel.settimeout(0)

    def fileno(self) -> int:
        """File descriptor, for a selector."""
        return self._channel.fileno()

    @property
    def first(self) -> bool:
        """Whether this peer goes before others."""
        return self.account is None

    @property
    def writing(self) -> bool:
        """Whether an answer waits for room; no request is taken meanwhile."""
        return bool(self._unsent)

    @property
    def halfway(self) -> bool:
        """Whether the rest of a request, or room for an answer, is waited for."""
        return bool(self._received or self._unsent)

    def serve(self) -> bool:
        """Answer one line at most; return whether another one has arrived.

        Raises PeerClosed: this connection is over.
        """
        if self._unsent:
            self._send(self._unsent)
            if not self._unsent:
                self.since_s = None
                self._give_up()
        elif line := self._line():
            self._answer(line)
        self._count_held()
        return self.query is None and not self._unsent and b"\n" in self._received

    def undone(self) -> list[Callable[[], None]]:
        """Give away the work that could wait, in its order."""
        undone = self._undone
        self._undone = []
        return undone

    def deliver(self, answer: bytes) -> bool:
        """Send the answer of a query; return whether another request has arrived.

        Raises PeerClosed: this connection is over.
        """
        self.query = None
        self._send(answer)
        if not self._unsent:
            self._give_up()
        self._count_held()
        return not self._unsent and b"\n" in self._received

    def turn_away(self, reached: str) -> None:
        """Say which limit was reached, as far as the peer listens, and hang up."""
        with suppress(PeerClosed):
            self._send(encode(Answer(ok=False, error=f"{reached}; wait a moment")))
        self.close()

    def fail(self, error: Exception) -> None:
        """Say that an unexpected error ends this connection, as far as the peer listens."""
        text = f"{type(error).__name__} in nimod; see its log"
        with suppress(PeerClosed):
            self._send(encode(Answer(ok=False, error=text)))

    def close(self) -> None:
        """Hang up."""
        self._channel.close()
        self._received.clear()
        self._unsent = b""
        self._count_held()
        self._give_up()

    def _count_held(self) -> None:
        """Have the account hold what is in memory. Raises PeerClosed: that is too much."""
        if self.account is None:
            return
        more = len(self._received) + len(self._unsent) - self._held
        if more < 0:
            self.account.give_back(Resource.BYTES_HELD, -more)
        elif more > 0 and not self.account.take(Resource.BYTES_HELD, more):
            raise PeerClosed
        self._held += more

    def _give_up(self) -> None:
        if self._taken is not None:
            taken = self._taken
            self._taken = None
            taken()

    def _answer(self, line: bytes) -> None:
        self.since_s = None
        if self._received and line.isspace():
            return  # what it announced is here already
        reply = self._respond(line, self.uid)
        self.quiet = self.quiet or reply.quiet
        self.awake = reply.awake
        self.informs = self.first and self.quiet and not reply.data
        if reply.afterwards is not None:
            self._undone.append(reply.afterwards)
        self.query = reply.query
        self._taken = reply.taken
        if reply.data:
            self._send(reply.data)
        if reply.last:
            raise PeerClosed

    def _line(self) -> bytes:
        """Next whole line; nothing where there is none yet."""
        if b"\n" in self._received:
            return self._cut()
        data = self._piece()
        if not self._received and data.find(b"\n") == len(data) - 1:
            return data  # as a rule: one request in one piece
        self._received += data
        if b"\n" in data:
            return self._cut()
        if len(self._received) > MAX_LINE_BYTES:
            # Only the peer knows where the next request begins.
            if self.account is not None:
                self.account.refuse(Resource.REQUEST_BYTES)
            error = f"request longer than {MAX_LINE_BYTES} bytes"
            self._send(encode(Answer(ok=False, error=error)))
            raise PeerClosed
        return b""

    def _piece(self) -> bytes:
        try:
            data = self._channel.recv(_PIECE)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise PeerClosed from error
        if not data:
            raise PeerClosed
        if self.account is not None and not self.account.spend(Resource.BYTES_IN, len(data)):
            reached = self.account.error(Resource.BYTES_IN)
            self._send(encode(Answer(ok=False, error=f"{reached}; wait a moment")))
            raise PeerClosed
        return data

    def _cut(self) -> bytes:
        end = self._received.index(b"\n") + 1
        line = bytes(self._received[:end])
        del self._received[:end]
        return line

    def _send(self, data: bytes) -> None:
        try:
            sent = self._channel.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise PeerClosed from error
        self._unsent = data[sent:]
