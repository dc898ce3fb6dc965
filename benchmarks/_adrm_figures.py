"""AdRM's figures 4 to 9 and tables 1 and 2, on recorded links."""

from functools import partial
from pathlib import Path
from typing import Any

import _recordings
from _changing_link import Series
from _error_measures import mse, nmae
from _plots import panels
from transfer_accuracy import PAPER, START_UP, WINDOWS, by_model, windows

from predictor.forecasts.transfer_time import AdRM, RawBandwidth


def figures(directory: Path, *, quick: bool) -> dict[str, list[dict[str, Any]]]:
    """Draw the figures; give the tables."""
    del quick
    recorded = [
        Series(one.site, one.size_mb, [(list(probes), moved) for probes, moved in one.pairs])
        for one in _recordings.links()
    ]
    _by_window(directory / "adrm-4-5-8-9.png", recorded)
    _followed(directory / "adrm-6-7.png", recorded)
    return {
        "AdRM, tables 1 and 2: real TCP over a link that changes": _tables(recorded),
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
