"""ADEPT's figures 5 and 6 on measured curves of others' programs, by ``papers.py --data CSV``.

The file is that of ``scaling_accuracy.py --data``.  Of each curve four counts are shown, spread
over the lower two thirds; the others are asked for, between these and beyond them.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _adept_figures import fitted, predicted
from _plots import panels
from scaling_accuracy import Measured, load

SHOWN = 4


def figures(directory: Path, data: Path) -> dict[str, list[dict[str, Any]]]:
    """Draw the curve with the most counts of each program; give the table of all."""
    programs: dict[str, list[Measured]] = defaultdict(list)
    for curve in load(data):
        programs[curve.family].append(curve)
    for number, what in ((5, "speedup"), (6, "run time")):
        title = f"ADEPT, figure {number}: {what} of measured curves"
        with panels(directory / f"adept-{number}-measured.png", len(programs), title) as axes:
            for axis, (name, curves) in zip(axes, sorted(programs.items()), strict=True):
                longest = max(curves, key=lambda curve: len(curve.nodes))
                _draw(axis, name, longest, log=number == 6)
    rows = [_errors(name, curves) for name, curves in sorted(programs.items())]
    return {"ADEPT, figures 5 and 6: measured curves of others' programs": rows}


def _shown(curve: Measured) -> list[int]:
    """Places of the counts that are shown."""
    last = max(SHOWN - 1, 2 * (len(curve.nodes) - 1) // 3)
    return sorted({round(i * last / (SHOWN - 1)) for i in range(SHOWN)})


def _errors(name: str, curves: Sequence[Measured]) -> dict[str, Any]:
    """Give the medians over all that is asked of a program's curves, in percent."""
    inside: list[float] = []
    beyond: list[float] = []
    silent = 0
    for curve in curves:
        nodes, times, at = np.array(curve.nodes, float), np.array(curve.times_s), _shown(curve)
        fit = fitted(nodes[at], times[at])
        silent += not fit.problems
        off = 100 * np.abs(predicted(fit, nodes) / times - 1)
        asked = [i for i in range(len(nodes)) if i not in at]
        inside += [off[i] for i in asked if i < at[-1]]
        beyond += [off[i] for i in asked if i > at[-1]]
    return {
        "program": name,
        "curves": len(curves),
        "inside, median %": float(np.median(inside)) if inside else None,
        "beyond, median %": float(np.median(beyond)) if beyond else None,
        "beyond, 90th percentile %": float(np.quantile(beyond, 0.9)) if beyond else None,
        "nothing found against": silent,
    }


def _draw(axis: Any, name: str, curve: Measured, *, log: bool) -> None:
    """Draw what was measured and what is predicted of it, as speedup or as run time."""
    nodes, times, at = np.array(curve.nodes, float), np.array(curve.times_s), _shown(curve)
    every = np.unique(np.geomspace(nodes[0], nodes[-1], 60).round())
    expected = predicted(fitted(nodes[at], times[at]), every)
    first = 1.0 if log else times[0]
    measured_shown, expected_shown = (times, expected) if log else (first / times, first / expected)
    axis.plot(nodes, measured_shown, "ko", ms=4, label="measured")
    axis.plot(every, expected_shown, "-", label="ADEPT")
    axis.plot(nodes[at], measured_shown[at], "rs", ms=7, mfc="none", label="shown")
    axis.set(title=name, xlabel=curve.unit, ylabel="s" if log else "speedup", xscale="log")
    if log:
        axis.set_yscale("log")
    axis.legend(fontsize=6)
