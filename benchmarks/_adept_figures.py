"""ADEPT's figures 1 and 5 to 9: recorded kernels like NAS's, and the paper's synthetic curves."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _recordings
import numpy as np
from _plots import panels
from numpy.typing import NDArray

from predictor.models.adept import Adept, AdeptFit
from predictor.models.adept.anomalies import AnomalySettings, Metric
from predictor.models.adept.search import SearchSettings
from predictor.models.downey import speedup
from predictor.types import Curve, Point

Floats = NDArray[np.float64]
#: Threads that are shown, without and with T(1); the others are asked for.
WITHOUT, WITH = (2, 6, 12, 24), (1, 4, 12, 24)
#: What section VII says of the programs of the same name, on 2 to 256 nodes of a cluster.
PUBLISHED = {
    "cg": "2 % at 8; 22 and 13 % beyond (64, 128)",
    "ft": "under 9 %, 23 % at 16; 23 % beyond (128)",
    "lu": "above 80 % accurate",
    "mg": "-",
    "ep": "-",
    "is": "-",
}


def figures(directory: Path, *, quick: bool) -> dict[str, list[dict[str, Any]]]:
    """Draw the figures; give the tables."""
    del quick
    recorded = _recordings.kernels()
    _figure_1(directory / "adept-1.png", next(one for one in recorded if one.name == "is"))
    _figures_5_and_6(directory, recorded)
    rows = _figure_7(directory / "adept-7.png")
    rows += _figure_8(directory / "adept-8.png")
    rows += _figure_9(directory / "adept-9.png")
    measured = (
        "ADEPT, figures 5 and 6: kernels like NAS's, recorded here (CPU time of the slowest thread)"
    )
    return {
        measured: [row for kernel in recorded for row in _errors(kernel)],
        "ADEPT, figures 7 to 9: synthetic curves": rows,
    }


def fitted(nodes: Sequence[float], times: Floats, q: float = 2.0) -> AdeptFit:
    """Fit ADEPT to exact times."""
    points = zip(nodes, times, strict=True)
    curve = Curve(tuple(Point(int(n), float(t)) for n, t in points))
    return Adept(search=SearchSettings(q=q)).fit(curve)


def predicted(fit: AdeptFit, nodes: Sequence[float]) -> Floats:
    """Predict run times."""
    return np.array([p.time_s for p in fit.predict([int(n) for n in nodes])])


def _fluctuation(nodes: Floats, times: Floats) -> list[float]:
    """R of each neighbouring pair of observations (section VIII.A)."""
    noise = (0.0,) * len(nodes)
    metric = Metric(tuple(nodes.tolist()), tuple(times.tolist()), noise, AnomalySettings())
    return [metric.of_pair(i, i + 1) for i in range(len(nodes) - 1)]


def _errors(kernel: _recordings.Kernel) -> list[dict[str, Any]]:
    """Relative errors of one kernel, in percent, at each number of threads that was not shown."""
    threads, times = np.array(kernel.threads, float), np.array(kernel.dedicated_s)
    rows = []
    for label, shown, q in (
        ("without T(1)", WITHOUT, 2.0),
        ("with T(1)", WITH, 2.0),
        ("without T(1), q = 1.01", WITHOUT, 1.01),
        ("without T(1), equal weights", WITHOUT, 1e6),
    ):
        own = np.isin(threads, shown)
        fit = fitted(threads[own], times[own], q)
        error = 100 * np.abs(predicted(fit, threads) / times - 1)
        inside = ~own & (threads > shown[0]) & (threads < shown[-1])
        beyond = threads > shown[-1]
        rows.append({
            "kernel": kernel.name.upper(),
            "shown": label,
            "inside, median %": float(np.median(error[inside])),
            "inside, worst %": float(error[inside].max()),
            **{f"at {threads[i]:.0f} %": float(error[i]) for i in np.flatnonzero(beyond)},
            "found": ", ".join(problem.name for problem in fit.problems) or "-",
            "published": PUBLISHED[kernel.name],
        })  # fmt: skip
    return rows


def _figure_1(path: Path, declining: _recordings.Kernel) -> None:
    """Draw the model, and a recorded kernel whose declining end it cannot have."""
    n = np.geomspace(1, 1000, 200)
    with panels(path, 3, "ADEPT, figure 1: speedup of Downey's model") as (left, middle, right):
        for A in (1000, 300, 120, 50):
            left.plot(n, speedup(n, A, 2.0), label=f"A = {A}, σ = 2")
        for sigma in (0, 0.5, 1, 1000):
            middle.plot(n, speedup(n, 220, sigma), label=f"A = 220, σ = {sigma}")
        _draw(right, declining, log=False)
        right.set(title="no declining piece: IS, recorded here")
        for axis, title in ((left, "varying A"), (middle, "varying σ")):
            axis.set(title=title, xlabel="nodes", ylabel="speedup")
            axis.legend(fontsize=7)


def _figures_5_and_6(directory: Path, recorded: list[_recordings.Kernel]) -> None:
    for number, what in ((5, "speedup"), (6, "run time")):
        title = f"ADEPT, figure {number}: {what} of kernels like NAS's, recorded here"
        with panels(directory / f"adept-{number}.png", len(recorded), title) as axes:
            for axis, kernel in zip(axes, recorded, strict=True):
                _draw(axis, kernel, log=number == 6)


def _draw(axis: Any, kernel: _recordings.Kernel, *, log: bool) -> None:
    """Draw what was measured and what is predicted of it, as speedup or as run time."""
    threads, times = np.array(kernel.threads, float), np.array(kernel.dedicated_s)
    every = np.arange(1, threads[-1] + 1)

    def shown(values: Floats) -> Floats:
        return values if log else times[0] / values

    axis.plot(threads, shown(times), "ko", ms=4, label="measured")
    for label, at, style in (("without T(1)", WITHOUT, "-"), ("with T(1)", WITH, "--")):
        own = np.isin(threads, at)
        fit = fitted(threads[own], times[own])
        axis.plot(every, shown(predicted(fit, every)), style, label=label)
    own = np.isin(threads, WITHOUT)
    axis.plot(threads[own], shown(times[own]), "rs", ms=7, mfc="none", label="shown")
    axis.set(title=kernel.name.upper(), xlabel="threads", ylabel="s" if log else "speedup")
    if log:
        axis.set_yscale("log")
    axis.legend(fontsize=6)


def _described(figure: str, fit: AdeptFit, true: Floats) -> dict[str, Any]:
    nodes = np.array(fit.nodes)
    off = np.abs(predicted(fit, nodes) / true - 1)
    return {
        "figure": figure,
        "found": "; ".join(
            problem.name + (f" ({problem.observe})" if problem.observe else "")
            for problem in fit.problems
        ),
        "off from the truth, median %": 100 * float(np.median(off)),
        "worst %": 100 * float(off.max()),
    }


def _figure_7(path: Path) -> list[dict[str, Any]]:
    """Single anomalies: one at 64 nodes, one 20 % fast at 80; R with and without it."""
    rows = []
    title = "ADEPT, figure 7: anomalies of synthetic curves"
    with panels(path, 3, title) as (top, metric, bottom):
        nodes = 2.0 ** np.arange(1, 9)
        true = 1000 / speedup(nodes, 300, 0.8)
        times = true / np.where(nodes == 64, 1.25, 1)
        metric.plot(nodes[1:], _fluctuation(nodes, times), "o-", label="all observations")
        for left_out in (64, 128):
            remaining = nodes != left_out
            metric.plot(
                nodes[remaining][1:],
                _fluctuation(nodes[remaining], times[remaining]),
                label=f"without {left_out}",
            )
        metric.set(title="7, fluctuation, with the run at 64 nodes", xscale="log", xlabel="nodes",
                   ylabel="R")  # fmt: skip
        metric.legend(fontsize=7)
        rows.append(_drawn(top, "7, one at 64 nodes", nodes, times, true))
        nodes = np.array([9, 16, 25, 36, 49, 64, 80, 100, 121.0])
        true = 1000 / speedup(nodes, 150, 0.8)
        times = true / np.where(nodes == 80, 1.2, 1)
        rows.append(_drawn(bottom, "7, 20 % fast at 80", nodes, times, true))
    return rows


def _figure_8(path: Path) -> list[dict[str, Any]]:
    """Draw steps, of two and three phases, and powers of two."""
    cases = []
    nodes = np.arange(1, 9.0)
    times = 1000 / speedup(nodes, 30, 0.8) / np.where(nodes > 5, 1.5, 1)
    cases.append(("8, a step between 5 and 6", nodes, times, times))
    nodes = 2.0 ** np.arange(1, 9)
    times = 1000 / speedup(nodes, 500, 0.8)
    times = times / np.where(nodes >= 16, 1.4, 1) / np.where(nodes >= 128, 1.4, 1)
    cases.append(("8, three phases", nodes, times, times))
    nodes = np.array([2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64.0])
    true = 1000 / speedup(nodes, 100, 0.8)
    times = true * np.where(np.log2(nodes) % 1 == 0, 1, 1.4)
    cases.append(("8, powers of two", nodes, times, true))
    with panels(path, 3, "ADEPT, figure 8: patterns of synthetic curves") as axes:
        return [_drawn(axis, *case) for axis, case in zip(axes, cases, strict=True)]


def _figure_9(path: Path) -> list[dict[str, Any]]:
    """High fitting error, all in the linear section, a runner-up."""
    lu = np.array([2, 4, 8, 16, 32, 64.0])
    true = 1000 / speedup(lu, 80, 0.6)
    off = true * np.array([1, 1.14, 0.88, 1.0, 1.16, 0.9])
    linear = np.array([4, 8, 12, 16.0])
    straight = 1000 / speedup(linear, 105, 0.5)
    open_end = np.array([16, 25, 36, 81.0])
    rivals = 1000 / speedup(open_end, 320, 1.5) * np.array([1.01, 0.99, 1.01, 0.995])
    cases = (
        ("9, far from the model", lu, off, off),
        ("9, all in the linear section", linear, straight, straight),
        ("9, runner-up", open_end, rivals, rivals),
    )
    with panels(path, 3, "ADEPT, figure 9: reliability on synthetic curves") as axes:
        return [_drawn(axis, *case) for axis, case in zip(axes, cases, strict=True)]


def _drawn(axis: Any, figure: str, nodes: Floats, times: Floats, true: Floats) -> dict[str, Any]:
    fit = fitted(nodes, times)
    every = np.unique(np.geomspace(nodes[0], 2 * nodes[-1], 60).round())
    serial = fit.instances[0].serial_s
    axis.plot(nodes, serial / times, "ko", ms=4, label="input")
    axis.plot(every, serial / predicted(fit, every), "-", label="ADEPT")
    axis.set(title=figure, xlabel="nodes", ylabel="speedup")
    axis.legend(fontsize=7)
    return _described(figure, fit, true)
