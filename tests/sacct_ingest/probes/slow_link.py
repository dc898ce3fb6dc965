"""Two hosts on one machine: network namespaces, joined by a link that is as slow as told.

Bandwidth is limited by the kernel (``tc … tbf``).  Delay is the kernel's too (``tc … netem``)
where it has that; many small kernels do not, so a link may also be two TUN devices between which
this process carries each packet, late.
"""

import ctypes
import fcntl
import heapq
import os
import select
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

ADDRESSES = ("10.213.7.1", "10.213.7.2")
_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


@dataclass(frozen=True)
class Hosts:
    """Names of the two namespaces."""

    near: str
    far: str

    @staticmethod
    def command(name: str, *argv: str) -> list[str]:
        """Command line that runs something on that host."""
        return ["ip", "netns", "exec", name, *argv]


def missing() -> str:
    """Give the reason why there can be no such link here; empty: there can."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    try:
        with _hosts():
            return ""
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no network namespaces here: {error}"


@contextmanager
def limited(rate_mbit: float, *, burst_kb: int = 16) -> Iterator[Hosts]:
    """Join two hosts by a link of this bandwidth, on which a burst passes at once."""
    with _hosts() as hosts:
        _run("ip", "link", "add", "nimo0", "netns", hosts.near, "type", "veth",
             "peer", "name", "nimo0", "netns", hosts.far)  # fmt: skip
        for name, address in zip((hosts.near, hosts.far), ADDRESSES, strict=True):
            _in(name, "ip", "address", "add", f"{address}/24", "dev", "nimo0")
            _in(name, "ip", "link", "set", "nimo0", "up")
        set_rate(hosts, rate_mbit, burst_kb=burst_kb)
        yield hosts


def set_rate(hosts: Hosts, rate_mbit: float, *, burst_kb: int = 16) -> None:
    """Give a limited link another bandwidth, also while something passes over it."""
    for name in (hosts.near, hosts.far):
        _in(name, "tc", "qdisc", "replace", "dev", "nimo0", "root", "tbf",
            "rate", f"{rate_mbit * 1e6:.0f}bit", "burst", f"{burst_kb}kb",
            "latency", "200ms")  # fmt: skip


@contextmanager
def delayed(one_way_s: float) -> Iterator[Hosts]:
    """Join two hosts by a link on which a packet takes this long in each direction."""
    with _hosts() as hosts, ExitStack() as stack:
        ends = []
        for name, address in zip((hosts.near, hosts.far), ADDRESSES, strict=True):
            ends.append(_tun(name))
            stack.callback(os.close, ends[-1])
            _in(name, "ip", "address", "add", f"{address}/24", "dev", "nimo0")
            _in(name, "ip", "link", "set", "nimo0", "up")
        stopped = threading.Event()
        carrier = threading.Thread(target=_carry, args=(ends, one_way_s, stopped))
        carrier.start()
        try:
            yield hosts
        finally:
            stopped.set()
            carrier.join()


@contextmanager
def _hosts() -> Iterator[Hosts]:
    hosts = Hosts(f"nimo-near-{os.getpid()}", f"nimo-far-{os.getpid()}")
    with ExitStack() as stack:
        for name in (hosts.near, hosts.far):
            _run("ip", "netns", "add", name)
            stack.callback(_run, "ip", "netns", "delete", name)
            _in(name, "ip", "link", "set", "lo", "up")
        yield hosts


def _tun(name: str) -> int:
    """Make a TUN device in a namespace; in a thread of its own, which enters it and ends there."""
    made: list[int] = []

    def make() -> None:
        with Path(f"/run/netns/{name}").open("rb") as namespace:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(namespace.fileno(), _CLONE_NEWNET) != 0:
                return
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", b"nimo0", _IFF_TUN | _IFF_NO_PI))
        made.append(device)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if not made:
        raise OSError("no TUN device could be made")
    return made[0]


def _carry(ends: list[int], late_s: float, stopped: threading.Event) -> None:
    under_way: list[tuple[float, int, int, bytes]] = []
    number = 0
    while not stopped.is_set():
        wait_s = min(0.1, max(0.0, under_way[0][0] - time.monotonic())) if under_way else 0.1
        for end in select.select(ends, [], [], wait_s)[0]:
            number += 1
            other = ends[1 - ends.index(end)]
            packet = os.read(end, 65536)
            heapq.heappush(under_way, (time.monotonic() + late_s, number, other, packet))
        while under_way and under_way[0][0] <= time.monotonic():
            _, _, end, packet = heapq.heappop(under_way)
            os.write(end, packet)


def _in(name: str, *argv: str) -> None:
    _run(*Hosts.command(name, *argv))


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)
