"""How well transfers are predicted from small probes: AdRM and its rivals, on real TCP.

Two network namespaces are joined by a link whose rate walks, swings and jumps between 50 and
400 Mbit/s (``tc … tbf``), while bursts of other TCP flows compete.  Before each transfer of 3 MB
(as SARA's in the paper) or 16 MB (SRB's) probes of 64 KiB are sent, all by the product's own
sensors.  A day of the paper is half a minute here.  Each site is another link.

Needs root and ``tc``; elsewhere the same is done with a simulated link, and said so.  ``--record
FILE`` keeps the series, ``--data FILE`` scores them again.

RBW, AdRM, CDF: Faerman et al. 1999, tables 1 and 2; bank: the NWS's forecasters on past transfers
alone.  "of 3": the mean of three probes in place of one.
"""

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from math import exp, log, pi, sin
from pathlib import Path
from statistics import fmean
from typing import Any

import _bench

from predictor.forecast import Bank, Criterion
from predictor.metrics import mse, nmae
from predictor.models.adrm import AdRM, CdfMatching, RawBandwidth, TransferModel
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
#: Pairs that no prediction is scored on: the paper's start-up window.
START_UP = 2
#: Table 1 and 2 of the paper: NMAE in percent and MSE in Mbit²/s², of RBW and of AdRM.
PAPER = (
    ("SRB 16 MB, U.C. Davis", 54.10, 11.09, 0.7536, 0.0534),
    ("SRB 16 MB, NCSA", 105.20, 9.20, 0.3320, 0.0195),
    ("SRB 16 MB, W.U. St. Louis", 96.31, 11.95, 1.2147, 0.0112),
    ("SRB 16 MB, Rutgers", 101.56, 1.15, 0.8129, 0.0004),
    ("SARA 3 MB, Utah", 34.40, 9.98, 0.9652, 0.1449),
    ("SARA 3 MB, UIUC", 36.08, 11.10, 0.8690, 0.1524),
    ("SARA 3 MB, Caltech", 15.80, 11.67, 0.5128, 0.2975),
)


@dataclass(frozen=True)
class Site:
    """A link: its burst, how fast its rate walks, and how busy others keep it."""

    name: str
    burst_kb: int
    walk: float  #: standard deviation of the log rate's step, four a second
    idle_s: float  #: mean pause between two transfers of the others; 0: nobody else is there


SITES = (
    Site("quiet", 32, 0.02, 0.0),
    Site("shared", 32, 0.02, 1.5),
    Site("restless", 24, 0.05, 1.0),
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
            others = stack.enter_context(_started(hosts, hosts.near, "others", site.idle_s, seed))
            assert others.poll() is None
        near = stack.enter_context(_started(hosts, hosts.near, "pairs", size_mb, count, seed))
        assert near.stdout is not None
        pairs = [json.loads(line) for line in near.stdout]
    if len(pairs) < count:
        raise SystemExit(f"{site.name}: only {len(pairs)} of {count} transfers ended")
    return Series(site.name, size_mb, pairs)


@contextmanager
def _started(hosts: Hosts, name: str, *part: object) -> Iterator["subprocess.Popen[str]"]:
    """Run a part of this benchmark on one of the hosts."""
    argv = hosts.command(name, sys.executable, __file__, "--part", *map(str, part))
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
            time.sleep(rng.uniform(0.1, 0.5))


def _part_others(idle_s: str, seed: str) -> None:
    far, rng = Member("far", ADDRESSES[1]), random.Random(seed)
    with tempfile.NamedTemporaryFile() as file:
        while True:
            time.sleep(rng.expovariate(1 / float(idle_s)))
            file.truncate(int(rng.uniform(2, 12) * 1e6))
            send_file("other", far, Path(file.name), key=KEY)


PARTS: dict[str, Callable[..., None]] = {
    "sensor": _part_sensor,
    "pairs": _part_pairs,
    "others": _part_others,
}


def simulated(site: Site, size_mb: int, count: int, seed: int) -> Series:
    """Do the same on a link that is only computed: a token bucket that flows share fairly."""
    rate, rng, pairs = Rate(site, seed), random.Random(seed), []
    busy = 0.4 / (site.idle_s + 0.4) if site.idle_s else 0.0
    for _ in range(count):
        now = rate.next() / (2 if rng.random() < busy else 1)
        burst = site.burst_kb / 64
        probes = [now / (1 - burst) * rng.lognormvariate(0, 0.05) for _ in range(PROBES)]
        steps = max(1, round(size_mb * 8 / now * 4))
        moved = fmean([now, *(rate.next() for _ in range(min(steps, 8) - 1))])
        pairs.append((probes, moved * rng.lognormvariate(0, 0.03)))
        rate.next()
    return Series(site.name, size_mb, pairs)


def methods() -> dict[str, tuple[Callable[[], TransferModel], int]]:
    """Make of each method a model, and say how many probes it is told of."""
    made: dict[str, tuple[Callable[[], TransferModel], int]] = {
        "RBW": (RawBandwidth, 1),
        "CDF": (CdfMatching, 1),
    }
    made |= {f"AdRM {w}": (partial(AdRM, w), 1) for w in (5, 8, 10, 15, 20)}
    return made | {
        "AdRM auto": (AdRM, 1),
        f"CDF of {PROBES}": (CdfMatching, PROBES),
        f"AdRM 10 of {PROBES}": (partial(AdRM, 10), PROBES),
        f"AdRM auto of {PROBES}": (AdRM, PROBES),
    }


def by_model(make: Callable[[], TransferModel], probes: int, series: Series) -> list[float]:
    """Predict each transfer but the first from what was before it; the last probes count."""
    model, made = make(), []
    for number, (seen, moved) in enumerate(series.pairs):
        probe = fmean(seen[-probes:])
        if number >= START_UP:
            made.append(model.predict(probe).value)
        model.update(probe, moved)
    return made


def by_bank(criterion: Criterion, series: Series) -> list[float]:
    """Predict each transfer from the transfers before it."""
    bank, made = Bank(criterion), []
    for number, (_, moved) in enumerate(series.pairs):
        if number >= START_UP:
            made.append(bank.forecast().value)
        bank.update(moved)
    return made


def score(all_series: Sequence[Series]) -> list[dict[str, Any]]:
    """Errors of each method on each series."""
    rows = []
    for series in all_series:
        actual = [moved for _, moved in series.pairs[START_UP:]]
        made = {name: by_model(*how, series) for name, how in methods().items()}
        made |= {f"bank {one.value}": by_bank(one, series) for one in Criterion}
        rows += [
            {
                "site": series.site,
                "MB": series.size_mb,
                "method": name,
                "NMAE %": 100 * nmae(values, actual),
                "MSE": mse(values, actual),
                "mean Mbit/s": fmean(actual),
                "transfers": len(actual),
            }
            for name, values in made.items()
        ]
    return rows


def across(rows: Sequence[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    """One row a method, one column a series."""
    names = dict.fromkeys(row["method"] for row in rows)
    return [
        {"method": name}
        | {f"{r['site']} {r['MB']} MB": r[column] for r in rows if r["method"] == name}
        for name in names
    ]


def bank_speed(values: int) -> dict[str, Any]:
    """Measurements a second that a bank takes, each with its forecast."""
    rng = random.Random(1)
    series = [rng.gauss(100, 10) for _ in range(values)]
    bank = Bank()
    began = time.perf_counter()
    for value in series:
        bank.update(value)
    took = time.perf_counter() - began
    return {
        "forecasters": len(bank.errors()),
        "values": values,
        "updates/s": values / took,
        "us each": 1e6 * took / values,
    }


def collect(args: Any) -> tuple[str, list[Series]]:
    """Measure, simulate or read the series; say which."""
    if args.data:
        read = json.loads(args.data.read_text())
        return read["link"], [Series(**each) for each in read["series"]]
    reason = slow_link.missing()
    make = simulated if reason else measured
    sites = SITES[1:2] if args.quick else SITES
    counts = {3: 24, 16: 12} if args.quick else {3: 50, 16: 28}
    found = [
        make(site, size, count, args.seed + number)
        for number, site in enumerate(sites)
        for size, count in counts.items()
    ]
    return f"simulated ({reason})" if reason else "real TCP between network namespaces", found


def main() -> None:
    """Measure, score, print."""
    parser = _bench.options(__doc__ or "", data="score the series of this file (of --record)")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the series here")
    parser.add_argument("--seed", type=int, default=1, help="of the links")
    parser.add_argument("--part", nargs="+", help="for this benchmark's own processes")
    args = parser.parse_args()
    if args.part:
        with suppress(KeyboardInterrupt):
            PARTS[args.part[0]](*args.part[1:])
        return
    link, series = collect(args)
    if args.record:
        kept = {"link": link, "series": [asdict(each) for each in series]}
        args.record.write_text(json.dumps(kept) + "\n")
    rows, speed = score(series), bank_speed(2_000 if args.quick else 100_000)
    print(f"link: {link}")
    _bench.table(across(rows, "NMAE %"), title="NMAE, %")
    _bench.table(across(rows, "MSE"), title="MSE, Mbit²/s²")
    heads = ("paper", "NMAE RBW %", "NMAE AdRM %", "MSE RBW", "MSE AdRM")
    paper = [dict(zip(heads, row, strict=True)) for row in PAPER]
    _bench.table(paper, title="The paper's tables 1 and 2")
    _bench.table([speed], title="The bank's speed")
    _bench.write(args.json, link=link, rows=rows, paper=paper, bank=speed)


if __name__ == "__main__":
    main()
