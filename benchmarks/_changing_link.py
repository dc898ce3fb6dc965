"""A link between two network namespaces that changes all the time, and transfers over it.

Run as a program it is one of the processes on the two hosts.
"""

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from math import exp, inf, log, pi, sin
from pathlib import Path
from statistics import fmean

from sacct_ingest.probes.network import PROBES, measure_pair, send_file
from sacct_ingest.probes.probe_settings import Member, ProbeSettings
from sacct_ingest.probes.sensor import Sensor
from sacct_ingest.records import Resource

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the link comes from the tests

from tests.sacct_ingest.probes import slow_link
from tests.sacct_ingest.probes.slow_link import ADDRESSES, Hosts

KEY = b"a key of this benchmark only"
MBIT = 1e6 / 8
LEAST, MOST = 50.0, 400.0
#: Transfers up to this size follow each other closely; before larger ones much time passes.
SMALL_MB = 3


@dataclass(frozen=True)
class Site:
    """A link: its burst, how fast its rate walks, and how busy others keep it."""

    name: str
    burst_kb: int
    walk: float  #: standard deviation of the log rate's step, four a second
    idle_s: float  #: mean pause between two transfers of the others; 0: nobody else is there
    largest_mb: float  #: the others move up to so much at once


SITES = (
    Site("quiet", 32, 0.02, 0.0, 0.0),
    Site("shared", 32, 0.02, 0.1, 1.0),
    Site("elephants", 24, 0.05, 1.0, 12.0),
)


@dataclass(frozen=True)
class Series:
    """Pairs of probes and the transfer that followed, in Mbit/s; and what nobody knew."""

    site: str
    size_mb: int
    pairs: list[tuple[list[float], float]]
    #: Rate that the link was set to when each transfer began, and its mean until each ended.
    rates: list[tuple[float, float]] = field(default_factory=list)
    #: Throughput of one more transfer of that size right after each.
    again: list[float] = field(default_factory=list)


class Rate:
    """Rate of a link over time: a bounded walk, a wave like a day's, and jumps of level."""

    def __init__(self, site: Site, seed: int) -> None:
        self._rng, self._walk = random.Random(seed), site.walk
        self._at, self._level, self._step = 0.0, 0.0, 0
        self._set: list[tuple[float, float]] = []

    def pass_by(self) -> None:
        """Let much time pass."""
        for _ in range(self._rng.randint(20, 100)):
            self.next()

    def next(self) -> float:
        """Rate a quarter of a second later, in Mbit/s."""
        self._step += 1
        self._at = min(max(self._at + self._rng.gauss(0, self._walk), -0.4), 0.4)
        if self._rng.random() < 1 / 60:
            self._level = self._rng.uniform(-0.35, 0.35)
        wave = 0.4 * sin(2 * pi * self._step / 120)
        now = min(max(exp(log(150) + wave + self._level + self._at), LEAST), MOST)
        self._set.append((time.monotonic(), now))
        return now

    def during(self, began: float, ended: float) -> tuple[float, float]:
        """Rate at the beginning of a time (of ``time.monotonic``), and its mean until the end."""
        first = max(bisect_right(self._set, (began, inf)) - 1, 0)
        last = max(bisect_right(self._set, (ended, inf)), first + 1)
        steps = self._set[first:last]
        ends = [*(at for at, _ in steps[1:]), ended]
        spans = [end - max(at, began) for (at, _), end in zip(steps, ends, strict=True)]
        return steps[0][1], fmean((rate for _, rate in steps), spans)


def measured(site: Site, size_mb: int, count: int, seed: int) -> Series:
    """Send real transfers over a real link."""
    rate = Rate(site, seed)
    with ExitStack() as stack:
        hosts = stack.enter_context(slow_link.limited(rate.next(), burst_kb=site.burst_kb))
        far = stack.enter_context(_started(hosts, hosts.far, "sensor"))
        assert far.stdout is not None
        far.stdout.readline()
        stack.enter_context(_varied(hosts, site, rate))
        if site.idle_s:
            others = stack.enter_context(
                _started(hosts, hosts.near, "others", site.idle_s, site.largest_mb, seed)
            )
            assert others.poll() is None
        near = stack.enter_context(_started(hosts, hosts.near, "pairs", size_mb, count, seed))
        assert near.stdout is not None
        pairs, rates, again = [], [], []
        for line in near.stdout:
            observed, moved, span, once_more = json.loads(line)
            pairs.append((observed, moved))
            rates.append(rate.during(*span))
            again.append(once_more)
            if size_mb > SMALL_MB:
                rate.pass_by()
                slow_link.set_rate(hosts, rate.next(), burst_kb=site.burst_kb)
    if len(pairs) < count:
        raise SystemExit(f"{site.name}: only {len(pairs)} of {count} transfers ended")
    return Series(site.name, size_mb, pairs, rates, again)


@contextmanager
def _started(hosts: Hosts, name: str, *part: object) -> Iterator["subprocess.Popen[str]"]:
    """Run a part of this benchmark on one of the hosts."""
    argv = hosts.command(name, sys.executable, __file__, *map(str, part))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def _varied(hosts: Hosts, site: Site, rate: Rate) -> Iterator[None]:
    stopped = threading.Event()

    def vary() -> None:
        while not stopped.wait(0.25):
            slow_link.set_rate(hosts, rate.next(), burst_kb=site.burst_kb)

    thread = threading.Thread(target=vary)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _part_sensor() -> None:
    far = Sensor([Member("far", ADDRESSES[1])], "far", ProbeSettings(spin_s=0.01, period_s=3600),
                 bind=(ADDRESSES[1], 7733), key=KEY)  # fmt: skip
    far.run(ready=lambda: print("ready", flush=True))


def _part_pairs(size_mb: str, count: str, seed: str) -> None:
    far, rng = Member("far", ADDRESSES[1]), random.Random(seed)
    settings = ProbeSettings(timeout_s=30, echoes=2)
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(int(size_mb) * 1_000_000)
        for _ in range(int(count)):
            observed = []
            for _ in range(PROBES):
                result = measure_pair("near", far, settings, key=KEY, generation=None)
                observed += [
                    p.value for p in result if p.resource is Resource.BANDWIDTH and p.value
                ]
            moved, span = _sent(far, file.name)
            again, _ = _sent(far, file.name)
            if observed and moved and again:
                print(
                    json.dumps([[one / MBIT for one in observed], moved, span, again]), flush=True
                )
            time.sleep(rng.uniform(0.2, 0.4))


def _sent(far: Member, file: str) -> tuple[float, tuple[float, float]]:
    """Send a file; its throughput in Mbit/s, 0 for none, and from when to when."""
    result = send_file("near", far, Path(file), key=KEY)
    ended = time.monotonic()
    return (result.value or 0.0) / MBIT, (ended - result.took_s, ended)


def _part_others(idle_s: str, largest_mb: str, seed: str) -> None:
    far, rng = Member("far", ADDRESSES[1]), random.Random(seed)
    with tempfile.NamedTemporaryFile() as file:
        while True:
            time.sleep(rng.expovariate(1 / float(idle_s)))
            file.truncate(int(rng.uniform(0.1, 1.0) * float(largest_mb) * 1e6))
            send_file("other", far, Path(file.name), key=KEY)


PARTS: dict[str, Callable[..., None]] = {
    "sensor": _part_sensor,
    "pairs": _part_pairs,
    "others": _part_others,
}


def simulated(site: Site, size_mb: int, count: int, seed: int) -> Series:
    """Do the same on a link that is only computed: a token bucket that flows share fairly."""
    rate, rng = Rate(site, seed), random.Random(seed)
    pairs, rates, again = [], [], []
    moving_s = site.largest_mb / 30
    busy = moving_s / (site.idle_s + moving_s) if site.idle_s else 0.0

    def moved(left: float) -> tuple[float, float]:
        """Transfer: its throughput, and the mean rate meanwhile."""
        steps = min(max(1, round(size_mb * 8 / left * 4)), 8)
        during = fmean([left, *(rate.next() for _ in range(steps - 1))])
        return during * rng.lognormvariate(0, 0.03), during

    for _ in range(count):
        level = rate.next()
        now = level / (2 if rng.random() < busy else 1)
        burst = site.burst_kb / 64
        probes = [now / (1 - burst) * rng.lognormvariate(0, 0.05) for _ in range(PROBES)]
        first, during = moved(now)
        pairs.append((probes, first))
        rates.append((level, during))
        again.append(moved(rate.next() / (2 if rng.random() < busy else 1))[0])
        if size_mb > SMALL_MB:
            rate.pass_by()
    return Series(site.name, size_mb, pairs, rates, again)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        PARTS[sys.argv[1]](*sys.argv[2:])
