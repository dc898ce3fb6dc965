"""When the kernel saw a message acknowledged: a probe's time without the programs' own delays.

On a busy host a program waits for a CPU, often longer than a small message takes.  Linux notes when
the last byte of a message was acknowledged (``SO_TIMESTAMPING``) and the least round trip of the
connection (``TCP_INFO``), both before any program has to wake up.
"""

import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass

# From linux/net_tstamp.h and asm-generic/socket.h; Python has no names for them.
SO_TIMESTAMPING = 37
_SOFTWARE, _OPT_ID, TX_ACK, _OPT_TSONLY = 1 << 4, 1 << 7, 1 << 9, 1 << 11
_TIMESPEC = struct.Struct("@qq")
#: Place of ``tcpi_min_rtt``, in microseconds, in struct tcp_info of linux/tcp.h.
_MIN_RTT = struct.Struct("@148xI")
#: Larger messages take so long that a program's delays matter less than buffers that do not grow.
AT_ONCE_BYTES = 128 << 10
#: A stamp may be so much after what the program saw: two clocks were read.
_SLACK_S = 1e-3
_ROOM = 512


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Time until a message was acknowledged, and the least round trip of its connection."""

    took_s: float
    round_trip_s: float


class Stopwatch:
    """Times one message on a connection; begins now, before it is sent.

    link: a TCP connection on which nothing is under way.
    size_bytes: length of the message: the kernel is to take all of it at once.
    """

    def __init__(self, link: socket.socket, size_bytes: int) -> None:
        self._link = link
        if size_bytes <= AT_ONCE_BYTES:
            with suppress(OSError):
                link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * size_bytes)
                flags = TX_ACK | _SOFTWARE | _OPT_ID | _OPT_TSONLY
                link.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, flags)
        self._began_ns, self._began = time.time_ns(), time.monotonic()

    def stop(self) -> Acknowledged | None:
        """Read the kernel's time stamps, once the other side has answered the message.

        Returns Acknowledged or None: none where the message is large, the kernel gives no time
            stamps, or the clock was set meanwhile.
        """
        passed_s = time.monotonic() - self._began
        try:
            took_s = (max(self._stamps()) - self._began_ns) / 1e9
            info = self._link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ROOM)
            (trip_us,) = _MIN_RTT.unpack_from(info)
        except (OSError, ValueError, AttributeError, struct.error):
            return None
        return Acknowledged(took_s, trip_us / 1e6) if 0 < took_s <= passed_s + _SLACK_S else None

    def _stamps(self) -> list[int]:
        """Take the times of acknowledgements, in ns, from the connection's error queue."""
        stamps = []
        before = self._link.gettimeout()
        self._link.settimeout(0)
        try:
            with suppress(BlockingIOError):
                while True:
                    _, notes, _, _ = self._link.recvmsg(0, _ROOM, socket.MSG_ERRQUEUE)
                    stamps += [
                        _TIMESPEC.unpack_from(data)
                        for level, kind, data in notes
                        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPING)
                    ]
        finally:
            self._link.settimeout(before)
        return [seconds * 10**9 + ns for seconds, ns in stamps]


def acknowledge_at_once(link: socket.socket) -> None:
    """Have the kernel acknowledge what comes while the program still waits for a CPU."""
    with suppress(OSError, AttributeError):
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
