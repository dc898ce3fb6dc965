"""One request and its answer between sensors: lines of JSON over TCP, signed with a shared key.

The server greets with a random number, the request carries an HMAC of it and of itself: nobody
without the key can have a sensor send or take data, and no request can be sent again.
"""

import hashlib
import hmac
import json
import secrets
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from sacct_ingest.errors import ProbeError
from sacct_ingest.probes.settings import Member

Message = dict[str, Any]

_LONGEST_LINE: Final = 8 << 20


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
        parts, missing = [], length
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

    def send_message(self, message: Mapping[str, Any]) -> None:
        """Send one line."""
        self.send(json.dumps(message).encode() + b"\n")

    def receive_message(self) -> Message:
        """Receive one line.

        Raises
        ------
        ProbeError
            It is not JSON of ours.
        """
        while (end := self._read.find(b"\n")) < 0:
            if len(self._read) > _LONGEST_LINE:
                raise ProbeError("a message that does not end")
            self._read += self._more(1 << 16)
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        try:
            message = json.loads(line)
        except ValueError as error:
            raise ProbeError("not a sensor of ours: its message is not JSON") from error
        if not isinstance(message, dict):
            raise ProbeError("not a sensor of ours: its message is no object")
        return message

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
    """The other side knows of a newer token; ``generation`` is that one's."""

    def __init__(self, name: str, generation: tuple[int, int]) -> None:
        super().__init__(f"{name}: knows of a newer token")
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
                nonce = str(self.channel.receive_message().get("nonce", ""))
                self.channel.send_message(signed(request, nonce, key))
                self.answer = self.channel.receive_message()
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

    Raises
    ------
    ProbeError
        The sensor cannot be reached, is slow, or refuses.
    """
    with Conversation(to, request, key=key, timeout_s=timeout_s) as talk:
        return talk.answer


class translated:  # noqa: N801 - a context manager, named like contextlib's
    """Turn what sockets raise into our error, with the name of the host."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        """Do nothing yet."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise ProbeError(f"{self._name}: {_reason(error)}") from error


def greet(channel: Channel) -> str:
    """Send a greeting; give its nonce."""
    nonce = secrets.token_hex(16)
    channel.send_message({"nonce": nonce})
    return nonce


def signed(request: Message, nonce: str, key: bytes) -> Message:
    """Add the HMAC that a sensor with the same key expects."""
    return {**request, "mac": _mac(request, nonce, key)}


def genuine(request: Message, nonce: str, key: bytes) -> bool:
    """Whether a request was signed with our key for this greeting."""
    mac = str(request.pop("mac", ""))
    return hmac.compare_digest(mac, _mac(request, nonce, key))


def _mac(request: Message, nonce: str, key: bytes) -> str:
    text = nonce + json.dumps(request, sort_keys=True)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


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
