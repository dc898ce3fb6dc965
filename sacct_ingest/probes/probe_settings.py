"""Settings of the sensors, and what their probes cost."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sacct_ingest.errors import ProbeError

DEFAULT_PORT: Final = 7733
_MEMBER = re.compile(r"(?:([\w.-]+)=)?(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(\d{1,5}))?")
#: Bytes of one pair besides the message: greeting, request, acknowledgement, TCP's and IP's own.
_OVERHEAD = 900
_ECHO = 8


@dataclass(frozen=True, slots=True)
class Member:
    """One sensor: the name that its series have, and where it listens."""

    name: str
    host: str
    port: int = DEFAULT_PORT


def member(text: str) -> Member:
    """Read ``[NAME=]HOST[:PORT]``; an IPv6 address stands in brackets.

    Raises ProbeError: it is none.

    >>> member("n1=10.0.0.1:7000")
    Member(name='n1', host='10.0.0.1', port=7000)
    >>> member("n2")
    Member(name='n2', host='n2', port=7733)
    """
    match = _MEMBER.fullmatch(text)
    if match is None:
        raise ProbeError(f"host {text!r}: write NAME=HOST:PORT, HOST:PORT or HOST")
    name, host, port = match.groups()
    bare = host.strip("[]")
    number = int(port or DEFAULT_PORT)
    if number > 65535:
        raise ProbeError(f"host {text!r}: ports end at 65535")
    return Member(name or bare, bare, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """How much is measured, how often.

    period_s: between two measurements of one series.
    message_bytes: one TCP message of the bandwidth probe.
    echoes: round trips of four bytes of which the latency is the median.
    timeout_s: for one pair of hosts, for one message between sensors, and between two looks at the
        token.
    hold_s: how long a sensor may keep the token; what it did not reach, it measures the next time.
    spin_s, spin_every: a process that spins so long corrects every so many-th estimate of the CPU.
    disk_folder, disk_bytes: where a file of this size is written and read; no folder: no disk
        probe.
    """

    period_s: float = 300.0
    message_bytes: int = 64 << 10
    echoes: int = 5
    timeout_s: float = 5.0
    hold_s: float = 30.0
    spin_s: float = 1.5
    spin_every: int = 6
    disk_folder: Path | None = None
    disk_bytes: int = 16 << 20
    disk_reads: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the probes of a clique use, at most.

    ``link_share`` is that of a link on which only one host is, at 1 Gbit/s.
    """

    pairs: int
    probes_per_hour: float
    bytes_per_pair: int
    network_bytes_per_hour: float
    link_share: float
    cpu_share: float
    disk_bytes_per_hour: float


def cost(settings: ProbeSettings, hosts: int) -> Cost:
    """Compute the cost of probing ``hosts`` hosts, each with each, both ways.

    Raises ProbeError: there is no host, or a period is not above zero.
    """
    for name in ("period_s", "timeout_s", "spin_every"):
        if not getattr(settings, name) > 0:
            raise ProbeError(f"{name} is {getattr(settings, name)}: it must be above 0")
    if hosts < 1:
        raise ProbeError(f"{hosts} hosts: at least one is needed")
    pairs = hosts * (hosts - 1)
    rounds = 3600.0 / settings.period_s
    bytes_per_pair = settings.message_bytes + settings.echoes * _ECHO + _OVERHEAD
    through_one_link = 2 * (hosts - 1) * bytes_per_pair * rounds
    # For checking the token and for passing it on.
    watching = (3600.0 / settings.timeout_s + hosts * rounds) * _OVERHEAD if hosts > 1 else 0.0
    local = 1 if settings.disk_folder is None else 4
    disk_bytes = 2 * settings.disk_bytes + 4096 * settings.disk_reads
    return Cost(
        pairs=pairs,
        probes_per_hour=rounds * (2 * pairs + local * hosts),
        bytes_per_pair=bytes_per_pair,
        network_bytes_per_hour=rounds * pairs * bytes_per_pair + watching,
        link_share=through_one_link / (3600 * 125e6),
        cpu_share=settings.spin_s / (settings.period_s * settings.spin_every),
        disk_bytes_per_hour=0.0 if settings.disk_folder is None else rounds * disk_bytes,
    )


def find(members: Sequence[Member], name: str) -> int:
    """Give the place of a host in the ring.

    Raises ProbeError: it is not in the clique, or there twice.
    """
    names = [each.name for each in members]
    if len(set(names)) < len(names):
        raise ProbeError(f"hosts of the clique: {', '.join(names)}: each name may be there once")
    if name not in names:
        listed = ", ".join(names) or "none"
        raise ProbeError(f"{name!r} is no host of the clique ({listed}): give its --name")
    return names.index(name)
