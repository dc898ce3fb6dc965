"""What a run's node counted of its I/O, and the network's share of the time for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Shell words that print the counters; what a node does not have is left out.
CAPTURE = (
    "{ cat /proc/self/mountstats; echo '= net'; grep -H . /sys/class/net/*/speed; "
    "cat /proc/net/dev; echo '= diskstats'; cat /proc/diskstats; echo '= io.stat'; "
    "cat \"/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/io.stat\"; } 2>/dev/null"
)
#: Operations that a server answers from its memory: their round trip is the network's.
_LIGHT = frozenset({"GETATTR", "ACCESS", "LOOKUP", "NULL", "FSINFO", "PATHCONF", "FSSTAT"})
#: Places of operations, bytes sent and received, queue and round trip (ms) in a line of mountstats.
_OPS, _SENT, _RECEIVED, _QUEUE, _ROUND_TRIP = 0, 3, 4, 5, 6
#: Line of a mount's transport, and places of its kind, requests sent, and in flight at each, added.
_TRANSPORT, _KIND, _SENDS, _IN_FLIGHT = "xprt:", 1, 7, 10

#: Operations, milliseconds in the queue and in round trips, bytes; by mount point and operation.
Operations = Mapping[tuple[str, str], tuple[int, int, int, int]]
#: Megabits a second and bytes moved of each network interface.
Interfaces = Mapping[str, tuple[int, int]]
#: Operations and milliseconds by device, as ``major:minor``.
Devices = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class IoCounters:
    """Counters at one moment: of NFS, the network, all disks, and what the job asked of them."""

    nfs: Operations
    disks: Devices
    own: Mapping[str, int]
    network: Interfaces = field(default_factory=dict)


def parse(text: str) -> IoCounters:
    """Read what :data:`CAPTURE` printed; lines that are not understood are left out."""
    rest, _, own = text.partition("= io.stat")
    rest, _, disks = rest.partition("= diskstats")
    mounts, _, network = rest.partition("= net")
    counters = {}
    for line in own.splitlines():
        device, *pairs = line.split() or [""]
        values = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        counts = [values.get(name, "") for name in ("rios", "wios")]
        if ":" in device and all(one.isdecimal() for one in counts):
            counters[device] = sum(map(int, counts))
    return IoCounters(_nfs(mounts), _disks(disks), counters, _network(network))


def network_share(before: IoCounters, after: IoCounters) -> float | None:
    """Share of the time for I/O that is the network's, 0 to 1; None where nothing was counted.

    A round trip of an operation that the server answers from its memory is what the network takes,
    and its bytes at the link's speed; what reading and writing take beyond that is the server's
    disk.
    """
    network_ms, served_ms = _nfs_ms(before, after)
    # The share that the job asked for of all that the disks did.
    total = 0.0
    for device, count in after.own.items():
        asked = count - before.own.get(device, 0)
        now = after.disks.get(device, (0, 0))
        then = before.disks.get(device, (0, 0))
        done = now[0] - then[0]
        busy_ms = now[1] - then[1]
        if asked > 0 and done > 0 and busy_ms > 0:
            total += busy_ms * min(asked / done, 1.0)
    served_ms += total
    whole_ms = network_ms + served_ms
    return network_ms / whole_ms if whole_ms > 0 else None


def _nfs_ms(before: IoCounters, after: IoCounters) -> tuple[float, float]:
    light_ops = light_ms = 0
    queued_ms = 0
    heavy = []
    together = {}
    for (mount, kind), now in after.nfs.items():
        then = before.nfs.get((mount, kind), (0, 0, 0, 0))
        ops, queue, trips, moved = (max(a - b, 0) for a, b in zip(now, then, strict=True))
        queued_ms += queue
        if kind == _TRANSPORT:
            together[mount] = max(trips / ops, 1.0) if ops else 1.0
        elif kind in _LIGHT:
            light_ops = light_ops + ops
            light_ms = light_ms + trips
        elif ops:
            heavy.append((mount, ops, trips, moved))
    trip_ms = light_ms / light_ops if light_ops else min((t / n for _, n, t, _ in heavy), default=0)
    byte_ms = _byte_ms(before.network, after.network)
    travelled_ms = sum(
        min(ops * trip_ms + together.get(mount, 1.0) * moved * byte_ms, trips)
        for mount, ops, trips, moved in heavy
    )
    served_ms = sum(trips for _, _, trips, _ in heavy) - travelled_ms
    return queued_ms + light_ms + travelled_ms, served_ms


def _byte_ms(before: Interfaces, after: Interfaces) -> float:
    """Time of a byte on the interface that moved the most; 0 where its speed is not known."""
    moved = {name: now[1] - before.get(name, (0, 0))[1] for name, now in after.items()}
    busiest = max(moved, key=moved.__getitem__, default="")
    speed = after[busiest][0] if busiest else 0
    return 8e-3 / speed if speed > 0 and moved[busiest] > 0 else 0.0


def _nfs(text: str) -> Operations:
    mounts: dict[tuple[str, str], tuple[int, int, int, int]] = {}
    mount = ""
    counted = False
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["device"] and "on" in words:
            mount = words[words.index("on") + 1]
            counted = False
        elif line.strip() == "per-op statistics":
            counted = True
        elif words[:1] == [_TRANSPORT] and len(words) > _IN_FLIGHT and words[_KIND] != "udp":
            sends = words[_SENDS]
            flying = words[_IN_FLIGHT]
            if sends.isdecimal() and flying.isdecimal():
                before = mounts.get((mount, _TRANSPORT), (0, 0, 0, 0))
                mounts[mount, _TRANSPORT] = before[0] + int(sends), 0, before[2] + int(flying), 0
        elif counted and words and words[0].endswith(":"):
            numbers = [int(word) for word in words[1:] if word.isdecimal()]
            if len(numbers) > _ROUND_TRIP:
                moved = numbers[_SENT] + numbers[_RECEIVED]
                taken = (numbers[_OPS], numbers[_QUEUE], numbers[_ROUND_TRIP], moved)
                mounts[mount, words[0].rstrip(":")] = taken
    return mounts


def _network(text: str) -> Interfaces:
    """Speeds of ``/sys/class/net`` and bytes of ``/proc/net/dev``; the loopback has no speed."""
    speeds: dict[str, int] = {}
    moved: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.strip().rpartition(":")
        words = rest.split()
        if name.endswith("/speed") and rest.isdecimal():
            speeds[name.split("/")[-2]] = int(rest)
        elif len(words) == 16 and words[0].isdecimal() and words[8].isdecimal() and name != "lo":
            moved[name] = int(words[0]) + int(words[8])
    return {name: (speeds.get(name, 0), count) for name, count in moved.items()}


def _disks(text: str) -> Devices:
    disks = {}
    for line in text.splitlines():
        words = line.split()
        numbers = [int(word) for word in words[3:] if word.isdecimal()]
        if len(numbers) >= 8:  # reads, merged, sectors, ms, and the same of writes
            disks[":".join(words[:2])] = (numbers[0] + numbers[4], numbers[3] + numbers[7])
    return disks
