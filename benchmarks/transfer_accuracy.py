"""How well transfers are predicted from small probes: AdRM and its rivals, on real TCP.

Two network namespaces are joined by a link whose rate walks, swings and jumps between 50 and
400 Mbit/s (``tc … tbf``), while bursts of other TCP flows compete.  Before each transfer of 3 MB
(as SARA's in the paper) or 16 MB (SRB's) probes of 64 KiB are sent, all by the product's own
sensors.  Between two transfers of 3 MB hardly anything changes; between two of 16 MB so much time
passes on the link that it may be quite another, as in the hours between SRB's.  Each site is
another link: nobody else, many small flows, few flows as large as the transfers themselves.

Needs root and ``tc``; elsewhere the same is done with a simulated link, and said so.  ``--record
FILE`` keeps the series, ``--data FILE`` scores them again.

RBW, AdRM, CDF: Faerman et al. 1999, tables 1 and 2; bank: the NWS's forecasters on past transfers
alone.  "of 5": the fastest of five probes in place of one.

A second table says what there was to be known: the best line that could have been drawn, in
hindsight, through the transfers and the probes before them, or the rate that the link was set to,
which nobody sees; and one more transfer of that size right after each.  A third one has the error
by the length of the running window, 2 to 25 as in figures 4, 5, 8 and 9 of the paper.
"""

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from typing import Any

import _bench
from _cdf_matching import CdfMatching
from _changing_link import PROBES, SITES, Series, measured, simulated, slow_link
from _error_measures import mse, nmae

from predictor.forecasts.adrm import AdRM, RawBandwidth, together
from predictor.forecasts.forecasters import Bank, Criterion

#: Pairs that no prediction is scored on: the paper's start-up window.
START_UP = 2
#: Running windows of figures 4, 5, 8 and 9.
WINDOWS = range(2, 26)
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


Model = AdRM | CdfMatching | RawBandwidth


def methods() -> dict[str, tuple[Callable[[], Model], int]]:
    """Make of each method a model, and say how many probes it is told of."""
    made: dict[str, tuple[Callable[[], Model], int]] = {
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


def by_model(make: Callable[[], Model], probes: int, series: Series) -> list[float]:
    """Predict each transfer but the first from what was before it; the last probes count."""
    model, made = make(), []
    for number, (observed, moved) in enumerate(series.pairs):
        probe = together(observed[-probes:])
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


def windows(all_series: Sequence[Series]) -> list[dict[str, Any]]:
    """Errors of the published method by the length of its running window (figures 4, 5, 8, 9)."""
    rows = []
    for series in all_series:
        actual = [moved for _, moved in series.pairs[START_UP:]]
        for window in WINDOWS:
            for probes in (1, PROBES):
                values = by_model(partial(AdRM, window), probes, series)
                rows.append({
                    "site": series.site,
                    "MB": series.size_mb,
                    "method": f"{window} pairs, {probes} probe{'s' * (probes > 1)}",
                    "window": window,
                    "probes": probes,
                    "MAE": nmae(values, actual) * fmean(actual),
                    "NMAE %": 100 * nmae(values, actual),
                    "MSE": mse(values, actual),
                })  # fmt: skip
    return rows


def hindsight(all_series: Sequence[Series]) -> list[dict[str, Any]]:
    """Errors that remain when all transfers are known, but the next one only by some sign."""
    rows = []
    for series in all_series:
        moved = [transfer for _, transfer in series.pairs[START_UP:]]
        observed = [probes for probes, _ in series.pairs[START_UP:]]
        signs = {
            "nothing": [0.0] * len(moved),
            "one probe": [probes[-1] for probes in observed],
            f"{PROBES} probes": [together(probes) for probes in observed],
            "rate at its begin": [rate for rate, _ in series.rates[START_UP:]],
            "rate while it ran": [rate for _, rate in series.rates[START_UP:]],
            "the next transfer": series.again[START_UP:],
        }
        rows += [
            {
                "site": series.site,
                "MB": series.size_mb,
                "method": f"best line by {name}" if name != "nothing" else "best constant",
                "NMAE %": 100 * least_error(sign, moved) / fmean(moved) if sign else None,
            }
            for name, sign in signs.items()
        ]
    return rows


def least_error(sign: Sequence[float], moved: Sequence[float]) -> float:
    """Mean absolute error of the line that has the least; one such line meets two of the points."""
    points = list(zip(sign, moved, strict=True))
    lines = [(0.0, median(moved))]
    for (x, y), (other_x, other_y) in combinations(points, 2):
        if x != other_x:
            slope = (other_y - y) / (other_x - x)
            lines.append((slope, y - slope * x))
    return min(fmean(abs(y - slope * x - level) for x, y in points) for slope, level in lines)


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
    counts = {3: 24, 16: 14} if args.quick else {3: 36, 16: 24}
    result = [
        make(site, size, count, args.seed + number)
        for number, site in enumerate(sites)
        for size, count in counts.items()
    ]
    return f"simulated ({reason})" if reason else "real TCP between network namespaces", result


def main() -> None:
    """Measure, score, print."""
    parser = _bench.options(__doc__ or "", data="score the series of this file (of --record)")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the series here")
    parser.add_argument("--seed", type=int, default=1, help="of the links")
    args = parser.parse_args()
    link, series = collect(args)
    if args.record:
        remaining = {"link": link, "series": [asdict(each) for each in series]}
        args.record.write_text(json.dumps(remaining) + "\n")
    rows, recorded, swept = score(series), hindsight(series), windows(series)
    speed = bank_speed(2_000 if args.quick else 100_000)
    print(f"link: {link}")
    _bench.table(across(rows, "NMAE %"), title="NMAE, %")
    _bench.table(across(recorded, "NMAE %"), title="NMAE in hindsight, %")
    _bench.table(across(rows, "MSE"), title="MSE, Mbit²/s²")
    _bench.table(across(swept, "NMAE %"), title="NMAE of AdRM by its running window, %")
    heads = ("paper", "NMAE RBW %", "NMAE AdRM %", "MSE RBW", "MSE AdRM")
    paper = [dict(zip(heads, row, strict=True)) for row in PAPER]
    _bench.table(paper, title="The paper's tables 1 and 2")
    _bench.table([speed], title="The bank's speed")
    _bench.write(
        args.json, link=link, rows=rows, windows=swept, hindsight=recorded, paper=paper, bank=speed
    )


if __name__ == "__main__":
    main()
