"""Marks of a chart as PNG or PDF, drawn by Matplotlib; needs the extra ``plot``."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from sacct_ingest.errors import PlotError, how_to_install
from slurm_plugin.reports.chart_marks import Box, Chart, ChartLabel, ChartPath, Dot, Mark, corners
from slurm_plugin.reports.mark_looks import look_of

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle, Patch, PathPatch, Rectangle
    from matplotlib.path import Path as Outline
except ImportError as error:
    raise PlotError(f"Matplotlib is not installed; {how_to_install('plot')}") from error

_PER_INCH: Final = 96.0  #: CSS pixels
_POINTS: Final = 72.0 / _PER_INCH  #: of a CSS pixel
_SETTINGS: Final[dict[Any, Any]] = {
    "text.parse_math": False,  # a job's name may hold dollars
    "lines.scale_dashes": False,  # dashes are said in points
    "pdf.fonttype": 42,  # text stays text: searched, selected, read aloud
}
_SIZE = re.compile(r"(\d+)px")
_CODES: Final = {"M": Outline.MOVETO, "L": Outline.LINETO, "Z": Outline.CLOSEPOLY}
_ALIGNMENTS: Final = {"middle": "center", "end": "right"}


def save(chart: Chart, path: Path) -> None:
    """Write a chart into a file; its suffix sets the format."""
    with mpl.rc_context(_SETTINGS):
        # A file that changes with the clock would differ in every commit of a report.
        metadata = {"CreationDate": None} if path.suffix.lower() == ".pdf" else None
        draw(chart).savefig(path, dpi=2 * _PER_INCH, metadata=metadata)


def draw(chart: Chart) -> Figure:
    """Make the figure of a chart."""
    figure = Figure(figsize=(chart.width / _PER_INCH, chart.height / _PER_INCH))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, chart.width)
    axes.set_ylim(chart.height, 0)
    _draw(axes, chart.marks, 0.0, 0.0)
    return figure


def _draw(axes: Axes, marks: Iterable[Mark], right: float, down: float) -> None:
    for mark in marks:
        if isinstance(mark, Box):
            corner = (mark.x + right, mark.y + down)
            _add(axes, Rectangle(corner, mark.width, mark.height), look_of("rect", mark.look))
        elif isinstance(mark, ChartPath):
            outline = outline_of(mark.data, right, down)
            _add(axes, PathPatch(outline), look_of("path", mark.look))
        elif isinstance(mark, Dot):
            middle = (mark.x + right, mark.y + down)
            _add(axes, Circle(middle, mark.radius), look_of("circle", mark.look))
        elif isinstance(mark, ChartLabel):
            _write(axes, mark, right, down)
        else:
            x = getattr(mark, "x", 0.0)
            y = getattr(mark, "y", 0.0)
            _draw(axes, mark.marks, right + x, down + y)


def _add(axes: Axes, patch: Patch, look: Mapping[str, str]) -> None:
    patch.set_facecolor(look.get("fill", "#000000"))
    patch.set_edgecolor(look.get("stroke", "none"))
    patch.set_linewidth(float(look.get("stroke-width", 1)) * _POINTS)
    dashes = look.get("stroke-dasharray", "none")
    if dashes != "none":
        patch.set_linestyle((0, [float(part) * _POINTS for part in dashes.split()]))
    patch.set_clip_on(False)
    axes.add_patch(patch)


def _write(axes: Axes, label: ChartLabel, right: float, down: float) -> None:
    look = look_of("text", label.look)
    size = _SIZE.search(look["font"])
    axes.text(
        label.x + right,
        label.y + down,
        label.text,
        color=look["fill"],
        fontsize=float(size[1] if size else 13) * _POINTS,
        fontweight=int(look.get("font-weight", "400")),
        ha=_ALIGNMENTS.get(look.get("text-anchor", ""), "left"),
        va="baseline",
    )


def outline_of(data: str, right: float = 0.0, down: float = 0.0) -> Outline:
    """Read a path in SVG's words, as far as charts use them.

    >>> outline_of("M1 2h3V9").vertices.tolist()
    [[1.0, 2.0], [4.0, 2.0], [4.0, 9.0]]
    """
    read = list(corners(data))
    places = [(x + right, y + down) for _, x, y in read]
    return Outline(places, [_CODES[step] for step, _, _ in read])
