"""A real transfer of a file between two hosts, with small probes right before it.

The pair of both is what AdRM learns from (Faerman et al., section 4).  The probes are several: at
short intervals they say more about a long transfer than one does (section 5).
"""

import os
import time
from io import FileIO
from pathlib import Path

from sacct_ingest.errors import ProbeError
from sacct_ingest.probes.network import measure_pair
from sacct_ingest.probes.probe_settings import Member, ProbeSettings
from sacct_ingest.probes.wire import Channel, Conversation, translated
from sacct_ingest.records import Probe, Resource

#: A sensor takes no larger file, and spends no longer on one.
LARGEST_FILE = 16 << 30
LONGEST_S = 3600.0
#: Probes before a file.
PROBES = 5
_CHUNK = 1 << 18
DONE = b"."


def measure_transfer(
    source: str,
    target: Member,
    file: Path,
    settings: ProbeSettings,
    *,
    key: bytes,
    probes: int = PROBES,
) -> list[Probe]:
    """Probe the path to a host, then send it a file that it forgets.

    Returns list of Probe: latencies and bandwidths, and last the transfer.  A failed one has an
        error and no value.
    Raises ProbeError: the file cannot be read.
    """
    measured = [
        each
        for _ in range(probes)
        for each in measure_pair(source, target, settings, key=key, generation=None)
    ]
    return [*measured, send_file(source, target, file, key=key)]


def send_file(source: str, target: Member, file: Path, *, key: bytes) -> Probe:
    """Send a file to a host that forgets it; timed from its first byte to its acknowledgement.

    Raises ProbeError: the file cannot be read, or is empty.
    """
    try:
        with file.open("rb", buffering=0) as content:
            size = os.fstat(content.fileno()).st_size
            if not 0 < size <= LARGEST_FILE:
                raise ProbeError(
                    f"{file}: {size} bytes; a transfer is of 1 to {LARGEST_FILE} bytes"
                )
            return _send(source, target, content, size, key)
    except OSError as error:
        raise ProbeError(f"{file}: {error.strerror}") from error


def _send(source: str, target: Member, content: FileIO, size: int, key: bytes) -> Probe:
    began_s, began, value, why = time.time(), time.perf_counter(), None, ""
    request = {"op": "transfer", "bytes": size}
    took_s = 0.0
    try:
        talk = Conversation(target, request, key=key, timeout_s=LONGEST_S)
        with talk, translated(target.name):
            began_s, began = time.time(), time.perf_counter()
            _stream(talk.channel, content, size)
            talk.channel.receive(len(DONE))
            took_s = time.perf_counter() - began
            value = size / took_s
    except ProbeError as error:
        took_s, why = time.perf_counter() - began, str(error)
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
