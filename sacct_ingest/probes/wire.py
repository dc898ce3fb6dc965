"""One request and its answer between sensors, over TCP, both signed with a shared key.

The server greets with a random number.  Each message begins with a head of fixed length: a random
number of its sender, length and digest of the JSON that follows, and an HMAC of all this and of the
other side's number.  So the key is checked before the message is read.  A host without the key
can neither make a sensor send or take data nor answer for it, and no message can be sent again.
"""

import hashlib
import hmac
import json
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from sacct_ingest.errors import ProbeError
from sacct_ingest.probes.probe_settings import Member

Message = dict[str, Any]

#: A request is a few hundred bytes; an answer has a page of measurements.
LONGEST_REQUEST: Final = 64 << 10
_LONGEST_ANSWER: Final = 8 << 20
_NONCE: Final = 32
_LENGTH: Final = 8
_DIGEST: Final = 64
#: Nonce, length, digest and HMAC, with a space or the end of the line after each.
_HEAD: Final = _NONCE + _LENGTH + 2 * _DIGEST + 4


class Channel:
    """A connection that is given up at a point in time, however slowly the other side sends."""

    def __init__(self, link: socket.socket, timeout_s: float) -> None:
        self.link = link
        self._give_up = time.monotonic() + timeout_s
        self._read = bytearray()
        # Probes are timed: nothing may wait for more to send.
        with suppress(OSError):
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes | memoryview) -> None:
        """Send all of it."""
        self._arm()
        self.link.sendall(data)

    def receive(self, length: int) -> bytes:
        """Receive so many bytes exactly."""
        parts = []
        missing = length
        while missing:
            part = bytes(self._read[:missing]) or self._more(min(missing, 1 << 18))
            del self._read[: len(part)]
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def skip(self, length: int) -> None:
        """Receive so many bytes and forget them."""
        taken = min(length, len(self._read))
        del self._read[:taken]
        while taken < length:
            taken += len(self._more(min(length - taken, 1 << 18)))

    def _more(self, most: int) -> bytes:
        self._arm()
        data = self.link.recv(most)
        if not data:
            raise ConnectionError("closed by the other side")
        return data

    def _arm(self) -> None:
        left = self._give_up - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self.link.settimeout(left)


class Superseded(ProbeError):  # noqa: N818 - what happened to a token
    """The other side has a newer token, of this ``generation``."""

    def __init__(self, name: str, generation: tuple[int, int]) -> None:
        super().__init__(f"{name}: has a newer token")
        self.generation = generation


class Conversation:
    """A connection to a sensor on which one request was sent and accepted; a context manager."""

    def __init__(self, to: Member, request: Message, *, key: bytes, timeout_s: float) -> None:
        began = time.monotonic()
        try:
            self._link = socket.create_connection((to.host, to.port), timeout=timeout_s)
        except OSError as error:
            raise ProbeError(f"{to.name}: {_reason(error)}") from error
        self.channel = Channel(self._link, timeout_s - (time.monotonic() - began))
        try:
            with translated(to.name):
                greeting = self.channel.receive(_NONCE).decode(errors="replace")
                seal = Seal.new(key, theirs=greeting)
                self.channel.send(seal.sealed(request, "request"))
                self.answer = seal.opened(self.channel, "answer", longest=_LONGEST_ANSWER)
            _check(self.answer, to)
        except BaseException:
            self._link.close()
            raise

    def __enter__(self) -> "Conversation":
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()


def ask(to: Member, request: Message, *, key: bytes, timeout_s: float) -> Message:
    """Send one request and give its answer.

    Raises ProbeError: the sensor cannot be reached, is slow, or refuses.
    """
    with Conversation(to, request, key=key, timeout_s=timeout_s) as talk:
        return talk.answer


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn what sockets raise into our error, with the name of the host."""
    try:
        yield
    except OSError as error:
        raise ProbeError(f"{name}: {_reason(error)}") from error
    except Unsigned as error:
        raise ProbeError(f"{name}: {error}") from error


class Unsigned(ProbeError):  # noqa: N818 - what a message is
    """A message that was not signed with our key; no more than its head was read."""

    def __init__(self) -> None:
        super().__init__("no sensor with this key: its answer is signed with another key, or none")


class Seal:
    """Signs what one side of a connection sends, and checks what it receives.

    ours, theirs: random numbers, as hexadecimal digits: this side's, and the other side's once it
        has come.
    """

    def __init__(self, key: bytes, *, ours: str, theirs: str = "") -> None:
        self._key = key
        self._ours = ours
        self._theirs = theirs

    @classmethod
    def new(cls, key: bytes, *, theirs: str = "") -> "Seal":
        """Make the seal of one side of a new connection."""
        return cls(key, ours=secrets.token_hex(_NONCE // 2), theirs=theirs)

    @property
    def greeting(self) -> bytes:
        """What a server sends first."""
        return self._ours.encode()

    def sealed(self, message: Mapping[str, Any], kind: str) -> bytes:
        """Give the bytes of a message; ``kind`` keeps answers from being taken for requests."""
        body = json.dumps(message).encode()
        head = f"{self._ours} {len(body):0{_LENGTH}} {hashlib.sha256(body).hexdigest()}"
        return f"{head} {self._mac(kind, head, self._theirs)}\n".encode() + body

    def opened(self, channel: Channel, kind: str, *, longest: int) -> Message:
        """Receive a message; its body is read once its head was found to be signed.

        Raises Unsigned: it is not signed with our key; ProbeError: it is too long, or no message of
            ours.
        """
        head, _, mac = channel.receive(_HEAD).decode(errors="replace").rstrip("\n").rpartition(" ")
        theirs, _, rest = head.partition(" ")
        expected = self._mac(kind, head, self._ours)
        same = hmac.compare_digest(mac.encode(), expected.encode())
        if not same or self._theirs not in ("", theirs):
            raise Unsigned
        self._theirs = theirs
        length, _, digest = rest.partition(" ")
        if int(length) > longest:
            raise ProbeError(f"a message of {int(length)} bytes; at most {longest} are taken")
        body = channel.receive(int(length))
        if hashlib.sha256(body).hexdigest() != digest:
            raise ProbeError("a message that was changed on its way")
        message = json.loads(body)
        if not isinstance(message, dict):
            raise ProbeError("not a sensor of ours: its message is no object")
        return message

    def _mac(self, kind: str, head: str, other: str) -> str:
        return hmac.new(self._key, f"{kind} {other} {head}".encode(), hashlib.sha256).hexdigest()


def _check(answer: Message, to: Member) -> None:
    if "newer" in answer:
        counter, origin = answer["newer"]
        raise Superseded(to.name, (int(counter), int(origin)))
    if "refused" in answer:
        raise ProbeError(f"{to.name}: refused: {answer['refused']}")


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return error.strerror or str(error) or type(error).__name__
