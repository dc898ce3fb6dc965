"""The plot of a study: run time with the ideal line, and efficiency; needs the extra ``plot``."""

from pathlib import Path
from typing import TYPE_CHECKING

from slurm_plugin.experiments.scale.results import Results
from slurm_plugin.reports import figure
from slurm_plugin.reports.picture import COLOURS, time_ticks
from slurm_plugin.text.formatting import duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SUFFIXES = (".svg", ".pdf", ".png")


def save(results: Results, folder: Path) -> list[Path]:
    """Draw it in three formats; give the files.

    Raises PlotError: a file cannot be written.
    """
    paths = [folder / f"plot{suffix}" for suffix in _SUFFIXES]
    figure.write(lambda: draw(results), *paths)
    return paths


def draw(results: Results) -> "Figure":
    """Make the figure."""
    drawn = figure.empty((7.2, 3.4))
    left, right = drawn.subplots(1, 2)
    _times(left, results)
    _efficiencies(right, results)
    counts = [row.count for row in results.rows]
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xlim(min(counts) / 1.15, max(counts) * 1.15)
        axes.set_xticks(counts, list(map(str, counts)))
        axes.minorticks_off()
        axes.set_xlabel(results.settings.sizes.value)
        axes.grid(visible=True, color="#DDDDDD", linewidth=0.5)
        axes.set_axisbelow(True)
        if results.recommended:
            label = f"recommended: {results.recommended}"
            axes.axvline(results.recommended, color=COLOURS["third"], linestyle=":", label=label)
    drawn.legend(
        *left.get_legend_handles_labels(),
        frameon=False,
        fontsize=8,
        loc="outside lower center",
        ncols=4,
    )
    return drawn


def _times(axes: "Axes", results: Results) -> None:
    measured = results.measured
    counts = [row.count for row in measured]
    times = [row.time_s or 0.0 for row in measured]
    work = [n / counts[0] for n in counts] if results.settings.weak else [1.0] * len(counts)
    ideal = [times[0] * w * counts[0] / n for n, w in zip(counts, work, strict=True)]
    if results.answer:
        curve = results.answer.predictions
        nodes = [one.nodes for one in curve]
        low, high = [one.low_s for one in curve], [one.high_s for one in curve]
        axes.fill_between(
            nodes, low, high, color=COLOURS["band"], linewidth=0, label="90 % of runs"
        )
        axes.plot(nodes, [one.time_s for one in curve], color=COLOURS["first"], linewidth=1.2)
    axes.plot(counts, times, "o", color="#000000", markersize=4.5, label="measured")
    axes.plot(counts, ideal, "--", color=COLOURS["second"], linewidth=1.2, label="ideal")
    axes.set_yscale("log")
    low_s, high_s = min(*times, *ideal) / 1.3, max(*times, *ideal) * 1.3
    axes.set_ylim(low_s, high_s)
    ticks = time_ticks(low_s, high_s)
    axes.set_yticks(ticks, [duration(tick) for tick in ticks])
    axes.set_ylabel("run time")


def _efficiencies(axes: "Axes", results: Results) -> None:
    measured = results.measured
    values = [100 * (row.efficiency or 0.0) for row in measured]
    axes.plot([row.count for row in measured], values, "o-", color=COLOURS["first"], markersize=4.5)
    axes.axhline(100, color=COLOURS["second"], linestyle="--", linewidth=1.2)
    axes.set_ylim(0, max(110.0, *(value * 1.1 for value in values)))
    axes.set_ylabel("parallel efficiency, %")
