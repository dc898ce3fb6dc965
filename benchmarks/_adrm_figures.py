"""AdRM's figures 4 to 9 and tables 1 and 2, on recorded links."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from math import exp
from pathlib import Path
from statistics import fmean
from typing import Any

import _recordings
from _changing_link import PROBES, Series
from _error_measures import mse, nmae
from _plots import panels
from transfer_accuracy import PAPER, START_UP, WINDOWS, by_bank, by_model, least_error, windows

from predictor.forecasts.adrm import AdRM, RawBandwidth, together
from predictor.forecasts.forecasters import Criterion

#: Own transfers that are known, where it is asked what they bring.
OWN = (0, 1, 2, 5, 10)
#: Throughputs by what network and server reach, and transfers of each synthetic server.
SERVERS: dict[str, Callable[[float, float], float]] = {
    "the network": lambda network, _: network,
    "the server": lambda _, server: server / 2,
    "the slower one": min,
    "one after the other": lambda network, server: 1 / (1 / network + 1 / server),
}
TRANSFERS = 30


def figures(directory: Path, *, quick: bool) -> dict[str, list[dict[str, Any]]]:
    """Draw the figures; give the tables."""
    recorded = [
        Series(one.site, one.size_mb, [(list(probes), moved) for probes, moved in one.pairs])
        for one in _recordings.links()
    ]
    _by_window(directory / "adrm-4-5-8-9.png", recorded)
    _followed(directory / "adrm-6-7.png", recorded)
    return {
        "AdRM, tables 1 and 2: real TCP over a link that changes": _tables(recorded),
        "AdRM, table 1: NMAE in percent, what the links leave, in hindsight": _bounds(recorded),
        "AdRM, table 1: NMAE in percent, by the number of own transfers known": _own(recorded),
        "AdRM, load of the server: NMAE in percent, synthetic": _loaded(3 if quick else 12),
        "AdRM, tables 1 and 2 as published": [
            dict(
                zip(("site", "RBW NMAE %", "AdRM NMAE %", "RBW MSE", "AdRM MSE"), row, strict=True)
            )
            for row in PAPER
        ],
    }


def _tables(recorded: list[Series]) -> list[dict[str, Any]]:
    """Errors of RBW, of AdRM with a window of ten, and of the choice that the product makes."""
    rows = []
    for series in recorded:
        actual = [moved for _, moved in series.pairs[START_UP:]]
        row: dict[str, Any] = {"site": f"{series.site}, {series.size_mb} MB"}
        for name, make in {"RBW": RawBandwidth, "AdRM": partial(AdRM, 10), "chosen": AdRM}.items():
            made = by_model(make, 1, series)
            row |= {f"{name} NMAE %": 100 * nmae(made, actual), f"{name} MSE": mse(made, actual)}
        rows.append(row)
    return rows


def _bounds(recorded: list[Series]) -> list[dict[str, Any]]:
    """Errors beside those of lines that are drawn when all transfers are known."""
    rows = []
    for series in recorded:
        moved = [transfer for _, transfer in series.pairs[START_UP:]]
        mean = fmean(moved)
        observed = [probes for probes, _ in series.pairs[START_UP:]]
        signs = {
            "best constant": [0.0] * len(moved),
            "best line by one probe": [probes[-1] for probes in observed],
            f"best line by {PROBES} probes": [together(probes) for probes in observed],
        }
        last = [transfer for _, transfer in series.pairs[START_UP - 1 : -1]]
        rows.append(
            {
                "site": f"{series.site}, {series.size_mb} MB",
                "chosen, 1 probe": 100 * nmae(by_model(AdRM, 1, series), moved),
                f"chosen, {PROBES} probes": 100 * nmae(by_model(AdRM, PROBES, series), moved),
                "own transfers alone": 100 * nmae(by_bank(Criterion.MAE, series), moved),
                "the last transfer": 100 * nmae(last, moved),
            }
            | {name: 100 * least_error(sign, moved) / mean for name, sign in signs.items()}
        )
    return rows


def _own(recorded: list[Series]) -> list[dict[str, Any]]:
    """Errors where so many of the latest own transfers are known, with five probes each."""
    rows = []
    first = max(OWN)
    for series in recorded:
        row: dict[str, Any] = {"site": f"{series.site}, {series.size_mb} MB"}
        pairs = [(together(probes), moved) for probes, moved in series.pairs]
        moved = [transfer for _, transfer in pairs[first:]]
        for known in OWN:
            made = [
                _after(pairs[number - known : number], pairs[number][0])
                for number in range(first, len(pairs))
            ]
            row[str(known)] = 100 * nmae(made, moved)
        rows.append(row)
    return rows


def _after(pairs: Sequence[tuple[float, float]], probe: float) -> float:
    """Throughput after a probe, by the pairs that are known."""
    model = AdRM(start_up=1) if pairs else RawBandwidth()
    for pair in pairs:
        model.update(*pair)
    return model.predict(probe).value


def _loaded(draws: int) -> list[dict[str, Any]]:
    """Errors on synthetic servers whose load varies, with and without the load as a regressor.

    Link and load walk; a transfer is bound by the network, by the server, by the slower of both, or
    does one after the other.  Probes of both are off by 10 %, transfers by 5 %.
    """
    rows = []
    for kind, moved_at in SERVERS.items():
        off: dict[bool, list[float]] = {False: [], True: []}
        for seed in range(draws):
            rng, rate, share = random.Random(seed), 200.0, 0.8
            models = {True: AdRM(), False: AdRM()}
            made: dict[bool, list[float]] = {False: [], True: []}
            actual = []
            for number in range(TRANSFERS):
                rate = min(400.0, max(50.0, rate * exp(rng.gauss(0, 0.25))))
                share = min(1.0, max(0.1, share + rng.gauss(0, 0.2)))
                probe = rate * exp(rng.gauss(0, 0.1))
                load = min(1.0, share * exp(rng.gauss(0, 0.1)))
                moved = moved_at(0.6 * rate, 250 * share) * exp(rng.gauss(0, 0.05))
                for known, model in models.items():
                    seen = load if known else None
                    if number >= START_UP:
                        made[known].append(model.predict(probe, seen).value)
                    model.update(probe, moved, seen)
                actual += [moved] if number >= START_UP else []
            for known, values in made.items():
                off[known].append(100 * nmae(values, actual))
        rows.append({
            "a transfer is bound by": kind,
            "without load": fmean(off[False]),
            "with load": fmean(off[True]),
        })  # fmt: skip
    return rows


def counted(probes: int) -> str:
    """Say how many probes."""
    return f"{probes} probe{'s' * (probes != 1)}"


def _by_window(path: Path, recorded: list[Series]) -> None:
    title = "AdRM, figures 4, 5 (mean absolute error) and 8, 9 (squared): real TCP, by window"
    rows = windows(recorded)
    with panels(path, len(recorded), title) as axes:
        for axis, series in zip(axes, recorded, strict=True):
            own = [row for row in rows if (row["site"], row["MB"]) == (series.site, series.size_mb)]
            for probes, style in ((1, "o-"), (5, "s--")):
                of = [row["MAE"] for row in own if row["probes"] == probes]
                axis.plot(list(WINDOWS), of, style, ms=3, label=f"MAE, {counted(probes)}")
            root = [row["MSE"] ** 0.5 for row in own if row["probes"] == 1]
            axis.plot(list(WINDOWS), root, ":", label="root of MSE, 1 probe")
            axis.set(title=f"{series.site}, {series.size_mb} MB", ylabel="Mbit/s")
            axis.set(xlabel="window, pairs")
            axis.set_ylim(0, 2.2 * sorted(root)[len(root) // 2])
            axis.legend(fontsize=6)


def _followed(path: Path, recorded: list[Series]) -> None:
    title = "AdRM, figures 6 and 7: real TCP, measured and predicted before each transfer"
    with panels(path, len(recorded), title) as axes:
        for axis, series in zip(axes, recorded, strict=True):
            moved = [transfer for _, transfer in series.pairs[START_UP:]]
            axis.plot(moved, "k-", lw=2, label="measured")
            line = by_model(partial(AdRM, 10), 5, series)
            axis.plot(line, "o-", ms=3, label="AdRM, window 10, 5 probes")
            axis.plot(by_model(RawBandwidth, 1, series), "--", label="RBW, 1 probe")
            axis.set(title=f"{series.site}, {series.size_mb} MB", ylabel="Mbit/s")
            axis.set(xlabel="transfer")
            axis.legend(fontsize=6)
