"""The network probes: both ends of a round trip, of one TCP message, of a file's transfer.

As in the NWS the latency is the round trip of a message of four bytes on an open connection, and
the bandwidth is what one message of (by default) 64 KiB reaches until its receipt is acknowledged,
less that round trip.  A message this small is mostly TCP's slow start: on long or fast links it is
far below what a long transfer reaches, but rises and falls with it, which is what AdRM's
regression needs (Faerman et al., sec. 3.2).  The kernel reports when it was acknowledged: on a busy
host a program may wait longer for a CPU than the message takes.
"""

import os
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from statistics import median

from sacct_ingest.errors import ProbeError, system_errors
from sacct_ingest.probes.local import share_by_load
from sacct_ingest.probes.probe_settings import Member, ProbeSettings
from sacct_ingest.probes.wire import Channel, Conversation, Superseded, ask, translated
from sacct_ingest.records import Probe, Resource

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

#: Seconds until a message was acknowledged, and of the least round trip of its connection.
Acknowledged = tuple[float, float]
#: A sensor takes no larger message from any host.
LARGEST_MESSAGE = 64 << 20
MOST_ECHOES = 100
_PING = b"nimo"
DONE = b"."
#: A sensor takes no larger file, and spends no longer on one.
LARGEST_FILE = 16 << 30
LONGEST_S = 3600.0
#: Probes before a file.
PROBES = 5
_CHUNK = 1 << 18


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
        self._began_ns = time.time_ns()
        self._began = time.monotonic()

    def stop(self) -> Acknowledged | None:
        """Read the kernel's time stamps, once the other side has answered the message.

        Returns tuple or None: none where the message is large, the kernel gives no time
            stamps, or the clock was set meanwhile.
        """
        passed_s = time.monotonic() - self._began
        try:
            took_s = (max(self._stamps()) - self._began_ns) / 1e9
            info = self._link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ROOM)
            (trip_us,) = _MIN_RTT.unpack_from(info)
        except (OSError, ValueError, AttributeError, struct.error):
            return None
        return (took_s, trip_us / 1e6) if 0 < took_s <= passed_s + _SLACK_S else None

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


def measure_pair(
    source: str,
    target: Member,
    settings: ProbeSettings,
    *,
    key: bytes,
    generation: Sequence[int] | None = (0, 0),
) -> list[Probe]:
    """Measure latency and bandwidth to one host; a failure is a measurement without a value.

    ``generation`` is that of the token that allows it; None: one by hand, outside of the ring.

    Raises Superseded: the host has a newer token than that of ``generation``.
    """
    began_s = time.time()
    began = time.monotonic()
    request = {
        "op": "pair",
        "bytes": settings.message_bytes,
        "echoes": settings.echoes,
        "generation": None if generation is None else list(generation),
    }
    try:
        talk = Conversation(target, request, key=key, timeout_s=settings.timeout_s)
        with talk, translated(target.name):
            trips = [_round_trip(talk.channel) for _ in range(settings.echoes)]
            sent_s = time.time()
            took_s, trip_s = send_message(talk.channel, settings.message_bytes, min(trips))
            speed = bandwidth(settings.message_bytes, took_s, trip_s)
    except Superseded:
        raise
    except ProbeError as error:
        took_s = time.monotonic() - began
        return [
            Probe(resource=resource, source=source, target=target.name, at_s=began_s,
                  took_s=took_s, error=str(error))
            for resource in (Resource.LATENCY, Resource.BANDWIDTH)
        ]  # fmt: skip
    return [
        Probe(resource=Resource.LATENCY, source=source, target=target.name, at_s=began_s,
              value=median(trips), size_bytes=len(_PING), took_s=sum(trips)),
        Probe(resource=Resource.BANDWIDTH, source=source, target=target.name, at_s=sent_s,
              value=speed, size_bytes=settings.message_bytes, took_s=took_s),
    ]  # fmt: skip


def bandwidth(size_bytes: int, took_s: float, round_trip_s: float) -> float:
    """Bytes a second of one message: its time less the round trip of its acknowledgement.

    On a fast link the trip may have been longer than the message: then nothing is taken off.

    Raises ProbeError: the message took no time, as a clock says that was set back.
    """
    if not took_s > 0:
        raise ProbeError(f"a message of {size_bytes} bytes took {took_s} s: no speed")
    moving_s = took_s - round_trip_s
    return size_bytes / (moving_s if moving_s > took_s / 10 else took_s)


def serve_pair(channel: Channel, *, size_bytes: int, echoes: int) -> None:
    """Answer a measurement: send back each ping, take the message, acknowledge it."""
    for _ in range(echoes):
        channel.send(channel.receive(len(_PING)))
    # Have the kernel acknowledge what comes while the program still waits for a CPU.
    with suppress(OSError, AttributeError):
        channel.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    channel.skip(size_bytes)
    channel.send(DONE)


def send_message(channel: Channel, size_bytes: int, round_trip_s: float) -> Acknowledged:
    """Send a message and time it: by the kernel's clock, or by ours without its time stamps.

    ``round_trip_s`` is the least that our own clock saw.
    """
    message = memoryview(bytes(size_bytes))
    watch = Stopwatch(channel.link, size_bytes)
    began = time.perf_counter()
    channel.send(message)
    channel.receive(len(DONE))
    took_s = time.perf_counter() - began
    return watch.stop() or (took_s, round_trip_s)


def _round_trip(channel: Channel) -> float:
    began = time.perf_counter()
    channel.send(_PING)
    channel.receive(len(_PING))
    return time.perf_counter() - began


def measure_transfer(
    source: str, target: Member, file: Path, settings: ProbeSettings, *, key: bytes
) -> list[Probe]:
    """Probe the path to a host and the load at both ends, then send it a file that it forgets.

    Returns list of Probe: latencies and bandwidths, CPUs, and last the transfer.  A failed one has
        an error and no value.
    Raises ProbeError: the file cannot be read.
    """
    measured = [
        each
        for _ in range(PROBES)
        for each in measure_pair(source, target, settings, key=key, generation=None)
    ]
    loads = _loads(source, target, settings, key=key)
    return [*measured, *loads, send_file(source, target, file, key=key)]


def _loads(source: str, target: Member, settings: ProbeSettings, *, key: bytes) -> list[Probe]:
    """Shares of a CPU that a new process would get here and there, as far as they are known."""
    at_s = time.time()
    shares = {}
    with suppress(ProbeError):
        shares[source] = share_by_load()
    with suppress(ProbeError):  # sensors of an earlier release do not say
        answer = ask(target, {"op": "load"}, key=key, timeout_s=settings.timeout_s)
        shares[target.name] = float(answer["share"])
    return [
        Probe(resource=Resource.CPU, source=host, at_s=at_s, value=share)
        for host, share in shares.items()
    ]


def send_file(source: str, target: Member, file: Path, *, key: bytes) -> Probe:
    """Send a file to a host that forgets it; timed from its first byte to its acknowledgement.

    Raises ProbeError: the file cannot be read, or is empty.
    """
    with system_errors(ProbeError, file), file.open("rb", buffering=0) as content:
        size = os.fstat(content.fileno()).st_size
        if not 0 < size <= LARGEST_FILE:
            raise ProbeError(f"{file}: {size} bytes; a transfer is of 1 to {LARGEST_FILE} bytes")
        return _send(source, target, content, size, key)


def _send(source: str, target: Member, content: FileIO, size: int, key: bytes) -> Probe:
    began_s = time.time()
    began = time.perf_counter()
    value = None
    why = ""
    request = {"op": "transfer", "bytes": size}
    took_s = 0.0
    try:
        talk = Conversation(target, request, key=key, timeout_s=LONGEST_S)
        with talk, translated(target.name):
            began_s = time.time()
            began = time.perf_counter()
            _stream(talk.channel, content, size)
            talk.channel.receive(len(DONE))
            took_s = time.perf_counter() - began
            value = size / took_s
    except ProbeError as error:
        took_s = time.perf_counter() - began
        why = str(error)
    return Probe(
        resource=Resource.TRANSFER,
        source=source,
        target=target.name,
        at_s=began_s,
        value=value,
        size_bytes=size,
        took_s=took_s,
        error=why,
    )


def _stream(channel: Channel, content: FileIO, size: int) -> None:
    left = size
    while left > 0:
        part = content.read(min(_CHUNK, left))
        if not part:
            raise ProbeError(f"the file became shorter: {left} of {size} bytes are missing")
        channel.send(part)
        left -= len(part)
