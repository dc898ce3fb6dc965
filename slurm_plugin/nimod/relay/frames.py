"""What travels between relay and controller: frames with a number, each under its sender's seal.

A frame is its length (4 bytes), its seal (32 bytes, or none where TLS protects the link), and its
body: kind, number of the request, uid of the user, and data.
"""

import asyncio
import hashlib
import hmac
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from sacct_ingest.errors import NimoError
from slurm_plugin.protocol.lines import MAX_LINE_BYTES

_LENGTH = struct.Struct(">I")
_HEAD = struct.Struct(">BQI")  # kind, number, uid
_COUNT = struct.Struct(">Q")
_SEAL_BYTES = hashlib.sha256().digest_size
LONGEST_REQUEST = MAX_LINE_BYTES + _HEAD.size + _SEAL_BYTES
LONGEST_ANSWER = 16 * 2**20 + _HEAD.size + _SEAL_BYTES
#: What may wait to be sent: a peer that takes nothing is as good as cut off.
_MOST_UNSENT = 32 * 2**20


class LinkError(NimoError):
    """The link between a relay and its controller does not come about, or broke."""

    exit_status = 74  # sysexits.h EX_IOERR


class Kind(IntEnum):
    """What a frame is."""

    ASK = 1  #: a request line of a user
    NOTICE = 2  #: one that is not answered
    PENDING = 3  #: it arrived, and its answer takes longer
    ANSWER = 4
    PING = 5
    PONG = 6


@dataclass(frozen=True, slots=True)
class Frame:
    """One message of a link."""

    kind: Kind
    number: int = 0  #: of the request
    uid: int = 0  #: of who asks
    data: bytes = b""


class FrameSeal:
    """Message authentication of one direction: no one can change, repeat, drop or reorder frames.

    key: secret of both sides; empty: frames have no seal, because TLS protects them.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._count = 0

    @property
    def size(self) -> int:
        """Bytes of a seal."""
        return _SEAL_BYTES if self._key else 0

    def of(self, body: bytes) -> bytes:
        """Make the seal of the next frame."""
        if not self._key:
            return b""
        self._count += 1
        return hmac.digest(self._key, _COUNT.pack(self._count) + body, "sha256")


class Link:
    """An authenticated connection: frames in both directions.

    ours, theirs: seals of what is sent and received; None: none, because TLS protects it.
    longest: bytes of the longest frame that is taken.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        ours: FrameSeal | None = None,
        theirs: FrameSeal | None = None,
        longest: int,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._ours = ours or FrameSeal(b"")
        self._theirs = theirs or FrameSeal(b"")
        self._longest = longest

    def has_room(self, size: int) -> bool:
        """Whether so many bytes of an answer can wait to be sent, and leave room for short ones."""
        waiting = self._writer.transport.get_write_buffer_size()
        return size <= LONGEST_ANSWER and waiting + size <= _MOST_UNSENT // 2

    def send(self, frame: Frame) -> None:
        """Send a frame, without waiting; a peer that takes nothing is hung up on."""
        transport = self._writer.transport
        if transport.get_write_buffer_size() > _MOST_UNSENT:
            transport.abort()
        if transport.is_closing():
            return
        body = _HEAD.pack(frame.kind, frame.number, frame.uid) + frame.data
        seal = self._ours.of(body)
        self._writer.write(b"".join((_LENGTH.pack(len(seal) + len(body)), seal, body)))

    async def receive(self) -> Frame:
        """Receive a frame.

        Raises LinkError: the frame is too long, was changed, or is none; OSError, EOFError: the
            link is cut.
        """
        (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        if not self._theirs.size + _HEAD.size <= length <= self._longest:
            raise LinkError(f"a frame of {length} bytes")
        seal = await self._reader.readexactly(self._theirs.size)
        body = await self._reader.readexactly(length - self._theirs.size)
        if not hmac.compare_digest(seal, self._theirs.of(body)):
            raise LinkError("a frame was changed on its way")
        kind, number, uid = _HEAD.unpack_from(body)
        try:
            return Frame(Kind(kind), number, uid, body[_HEAD.size :])
        except ValueError as error:
            raise LinkError(f"a frame of kind {kind}") from error

    def close(self) -> None:
        """Hang up at once."""
        self._writer.transport.abort()


class LoopThread:
    """Runs one coroutine, and what it begins, until closed.

    name: for logs.
    main: makes the coroutine.
    """

    def __init__(self, name: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.loop = asyncio.new_event_loop()
        self._main = main
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Cancel all that runs, and wait for its end."""
        self.call_soon(self._cancel)
        self._thread.join(timeout_s)

    def call_soon(self, call: Callable[..., object], *given: Any) -> None:
        """Call something in the thread; from any thread.  After the end nothing happens."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(call, *given)

    def _cancel(self) -> None:
        if self._task is None:  # it is about to begin
            self.loop.call_soon(self._cancel)
        else:
            self._task.cancel()

    def _run(self) -> None:
        runner = asyncio.Runner(loop_factory=lambda: self.loop)
        with runner, suppress(asyncio.CancelledError):
            runner.run(self._noted())

    async def _noted(self) -> None:
        self._task = asyncio.current_task()
        await self._main()
