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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from math import exp, log, pi, sin
from pathlib import Path
from statistics import fmean

from sacct_ingest.probes.network import measure_pair
from sacct_ingest.probes.sensor import Sensor
from sacct_ingest.probes.settings import Member, Settings
from sacct_ingest.probes.transfer import PROBES, send_file
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
    """Pairs of probes and the transfer that followed, in Mbit/s."""

    site: str
    size_mb: int
    pairs: list[tuple[list[float], float]]


class Rate:
    """Rate of a link over time: a bounded walk, a wave like a day's, and jumps of level."""

    def __init__(self, site: Site, seed: int) -> None:
        self._rng, self._walk = random.Random(seed), site.walk
        self._at, self._level, self._step = 0.0, 0.0, 0

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
        return min(max(exp(log(150) + wave + self._level + self._at), LEAST), MOST)


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
        pairs = []
        for line in near.stdout:
            pairs.append(json.loads(line))
            if size_mb > SMALL_MB:
                rate.pass_by()
                slow_link.set_rate(hosts, rate.next(), burst_kb=site.burst_kb)
    if len(pairs) < count:
        raise SystemExit(f"{site.name}: only {len(pairs)} of {count} transfers ended")
    return Series(site.name, size_mb, pairs)


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
    far = Sensor([Member("far", ADDRESSES[1])], "far", Settings(spin_s=0.01, period_s=3600),
                 bind=(ADDRESSES[1], 7733), key=KEY)  # fmt: skip
    far.run(ready=lambda: print("ready", flush=True))


def _part_pairs(size_mb: str, count: str, seed: str) -> None:
    far, rng = Member("far", ADDRESSES[1]), random.Random(seed)
    settings = Settings(timeout_s=30, echoes=2)
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(int(size_mb) * 1_000_000)
        for _ in range(int(count)):
            seen = []
            for _ in range(PROBES):
                found = measure_pair("near", far, settings, key=KEY, generation=None)
                seen += [p.value for p in found if p.resource is Resource.BANDWIDTH and p.value]
            moved = send_file("near", far, Path(file.name), key=KEY).value
            if seen and moved:
                print(json.dumps([[one / MBIT for one in seen], moved / MBIT]), flush=True)
            time.sleep(rng.uniform(0.2, 0.4))


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
    rate, rng, pairs = Rate(site, seed), random.Random(seed), []
    moving_s = site.largest_mb / 30
    busy = moving_s / (site.idle_s + moving_s) if site.idle_s else 0.0
    for _ in range(count):
        now = rate.next() / (2 if rng.random() < busy else 1)
        burst = site.burst_kb / 64
        probes = [now / (1 - burst) * rng.lognormvariate(0, 0.05) for _ in range(PROBES)]
        steps = max(1, round(size_mb * 8 / now * 4))
        moved = fmean([now, *(rate.next() for _ in range(min(steps, 8) - 1))])
        pairs.append((probes, moved * rng.lognormvariate(0, 0.03)))
        if size_mb > SMALL_MB:
            rate.pass_by()
    return Series(site.name, size_mb, pairs)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        PARTS[sys.argv[1]](*sys.argv[2:])
