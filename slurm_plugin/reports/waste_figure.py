"""Waste as a picture for a slide: a bar for each cause, and no names; needs the extra ``plot``."""

from pathlib import Path

from matplotlib.figure import Figure

from slurm_plugin.evaluation.waste_report import WasteReport
from slurm_plugin.reports import figure
from slurm_plugin.reports import picture as marks
from slurm_plugin.reports.waste_text import WORDS, period, rounded, title_of
from slurm_plugin.text.formatting import percent

_WIDTH, _BAR, _REST = 8.0, 0.42, 1.9  #: inches


def save(report: WasteReport, path: Path) -> None:
    """Draw it into a file; its suffix sets the format. Raises PlotError: it cannot be written."""
    figure.write(lambda: draw(report), path)


def draw(report: WasteReport) -> Figure:
    """Make the figure."""
    rows = list(reversed(report.causes))
    made = figure.empty((_WIDTH, _REST + _BAR * max(len(rows), 1)))
    axes = made.add_subplot()
    axes.set_title(title_of(report).replace(": ", ":\n", 1), loc="left", fontsize=11)
    names = [WORDS[row.cause].name for row in rows]
    hours = [row.node_hours for row in rows]
    back = [min(row.back, row.node_hours) for row in rows]
    light, dark = marks.COLOURS["band"], marks.COLOURS["first"]
    axes.barh(names, hours, color=light, label="bought nothing")
    axes.barh(names, back, height=0.45, color=dark, label="could come back")
    for place, row in enumerate(rows):
        said = f" {rounded(row.node_hours)} ({percent(row.node_hours / report.node_hours, 1)})"
        axes.text(row.node_hours, place, said, va="center", fontsize=9)
        if row.back_high > row.back_low:
            ends = [row.back_low, row.back_high]
            axes.plot(ends, [place, place], color="#000000", linewidth=1.2)
    axes.set_xlim(0, 1.25 * max([*hours, 1e-9]))
    axes.set_xlabel(f"node-hours; {period(report)}")
    axes.spines[["top", "right"]].set_visible(False)
    if rows:
        made.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=2)
    return made
