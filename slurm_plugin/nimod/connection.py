"""One connection to nimod: lines in, lines out, whatever they hold."""

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from typing import cast

from slurm_plugin.protocol import MAX_LINE_BYTES, Answer, encode

Respond = Callable[[bytes, int], bytes]

_log = logging.getLogger(__name__)
_PEERCRED = struct.Struct("3i")  # pid, uid, gid: unix(7)


class Connection(asyncio.Protocol):
    """Hands each line to ``respond`` together with the peer's uid and sends what it returns.

    A line longer than the protocol allows ends the connection: where the next one begins is
    known only to the peer.
    """

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._uid = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note who is there."""
        self._transport = cast("asyncio.Transport", transport)
        channel = transport.get_extra_info("socket")
        credentials = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size)
        self._uid = _PEERCRED.unpack(credentials)[1]

    def data_received(self, data: bytes) -> None:
        """Answer every whole line."""
        self._received += data
        if b"\n" in data:
            *lines, rest = self._received.split(b"\n")
            self._received = rest
            self._send(b"".join(self._respond(bytes(line), self._uid) for line in lines if line))
        if len(self._received) > MAX_LINE_BYTES:
            self._received.clear()
            error = f"request longer than {MAX_LINE_BYTES} bytes"
            self._send(encode(Answer(ok=False, error=error)))
            if self._transport is not None:
                self._transport.close()

    def pause_writing(self) -> None:
        """Drop a peer that asks but does not read the answers."""
        _log.warning("uid %d does not read its answers: connection closed", self._uid)
        if self._transport is not None:
            self._transport.abort()

    def _send(self, data: bytes) -> None:
        if data and self._transport is not None:
            self._transport.write(data)
