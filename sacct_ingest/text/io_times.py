"""Time that a run's I/O spent in the network and at disks, as Linux counts it.

NIMO parts the stall of a run in proportion to the time that an I/O takes in network and storage,
which it reads from traces of NFS (VLDB 2006, algorithm 3, step 3).  Here the kernel's own counters
before and after the run give it: ``/proc/self/mountstats`` has for each NFS operation the time in
the queue and the round trip, ``io.stat`` of the job's cgroup (version 2) what the job asked of each
disk, and ``/proc/diskstats`` how long the disk took for all.
"""

from collections.abc import Mapping
from dataclasses import dataclass

#: Shell words that print the counters; what a node does not have is left out.
CAPTURE = (
    "{ cat /proc/self/mountstats; echo '= diskstats'; cat /proc/diskstats; echo '= io.stat'; "
    "cat \"/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/io.stat\"; } 2>/dev/null"
)
#: Operations that a server answers from its memory: their round trip is the network's.
_LIGHT = frozenset({"GETATTR", "ACCESS", "LOOKUP", "NULL", "FSINFO", "PATHCONF", "FSSTAT"})
#: Places of operations, queue and round trip (ms) in a line of mountstats.
_OPS, _QUEUE, _ROUND_TRIP = 0, 5, 6

#: Operations, milliseconds in the queue and in round trips, by mount point and operation.
Operations = Mapping[tuple[str, str], tuple[int, int, int]]
#: Operations and milliseconds by device, as ``major:minor``.
Devices = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class IoCounters:
    """Counters at one moment: of NFS, of all disks, and what the job's cgroup asked of them."""

    nfs: Operations
    disks: Devices
    own: Mapping[str, int]


def parse(text: str) -> IoCounters:
    """Read what :data:`CAPTURE` printed; lines that are not understood are left out."""
    mounts, _, rest = text.partition("= diskstats")
    disks, _, own = rest.partition("= io.stat")
    return IoCounters(_nfs(mounts), _disks(disks), _own(own))


def network_share(before: IoCounters, after: IoCounters) -> float | None:
    """Share of the time for I/O that is the network's, 0 to 1; None where nothing was counted.

    A round trip of an operation that the server answers from its memory is what the network takes;
    what reading and writing take beyond that is the server's disk.
    """
    network_ms, served_ms = _nfs_ms(before.nfs, after.nfs)
    served_ms += _disk_ms(before, after)
    whole_ms = network_ms + served_ms
    return network_ms / whole_ms if whole_ms > 0 else None


def _nfs_ms(before: Operations, after: Operations) -> tuple[float, float]:
    light_ops = light_ms = 0
    queued_ms, heavy = 0, []
    for key, now in after.items():
        ops, queue, trips = (
            max(new - old, 0) for new, old in zip(now, before.get(key, (0, 0, 0)), strict=True)
        )
        queued_ms += queue
        if key[1] in _LIGHT:
            light_ops, light_ms = light_ops + ops, light_ms + trips
        elif ops:
            heavy.append((ops, trips))
    each_ms = light_ms / light_ops if light_ops else min((t / n for n, t in heavy), default=0.0)
    travelled_ms = sum(min(ops * each_ms, trips) for ops, trips in heavy)
    served_ms = sum(trips for _, trips in heavy) - travelled_ms
    return queued_ms + light_ms + travelled_ms, served_ms


def _disk_ms(before: IoCounters, after: IoCounters) -> float:
    """Time of the disks in the share that the job asked for of all that they did."""
    total = 0.0
    for device, count in after.own.items():
        asked = count - before.own.get(device, 0)
        now, then = after.disks.get(device, (0, 0)), before.disks.get(device, (0, 0))
        done, busy_ms = now[0] - then[0], now[1] - then[1]
        if asked > 0 and done > 0 and busy_ms > 0:
            total += busy_ms * min(asked / done, 1.0)
    return total


def _nfs(text: str) -> Operations:
    mounts: dict[tuple[str, str], tuple[int, int, int]] = {}
    mount, counted = "", False
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["device"] and "on" in words:
            mount, counted = words[words.index("on") + 1], False
        elif line.strip() == "per-op statistics":
            counted = True
        elif counted and words and words[0].endswith(":"):
            numbers = [int(word) for word in words[1:] if word.isdigit()]
            if len(numbers) > _ROUND_TRIP:
                taken = (numbers[_OPS], numbers[_QUEUE], numbers[_ROUND_TRIP])
                mounts[mount, words[0].rstrip(":")] = taken
    return mounts


def _disks(text: str) -> Devices:
    disks = {}
    for line in text.splitlines():
        words = line.split()
        numbers = [int(word) for word in words[3:] if word.isdigit()]
        if len(numbers) >= 8:  # reads, merged, sectors, ms, and the same of writes
            disks[":".join(words[:2])] = (numbers[0] + numbers[4], numbers[3] + numbers[7])
    return disks


def _own(text: str) -> Mapping[str, int]:
    counters = {}
    for line in text.splitlines():
        device, *pairs = line.split() or [""]
        values = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        counts = [values.get(name, "") for name in ("rios", "wios")]
        if ":" in device and all(one.isdigit() for one in counts):
            counters[device] = sum(map(int, counts))
    return counters
