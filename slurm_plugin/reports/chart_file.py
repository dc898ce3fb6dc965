"""Charts as files: the marks of the pages, with title, caption and key, as SVG, PNG or PDF."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Final

from sacct_ingest.errors import PlotError, system_errors
from sacct_ingest.files import atomic_file
from slurm_plugin.reports import html
from slurm_plugin.reports.chart_marks import (
    KEY_WIDTH,
    Box,
    Chart,
    ChartLabel,
    Group,
    KeyEntry,
    Mark,
)
from slurm_plugin.reports.mark_looks import style_of_files
from slurm_plugin.text.formatting import printable

#: A column of a page at 96 to the inch, with text of ten points.
FILE_WIDTH: Final = 560
FILE_HEIGHT: Final = 360
_MARGIN: Final = 12
_LINE: Final = 19
_GAP: Final = 8
#: Widths of letters on average: files are drawn with whatever font there is, so with room.
_LETTER: Final = 7.4
_BOLD_LETTER: Final = 8.2


def sheet(charts: Sequence[Chart], title: str, caption: str = "") -> Chart:
    """Put charts side by side between their title and the key of the first."""
    inner = sum(chart.width for chart in charts) + _MARGIN * (len(charts) - 1)
    lines = [("title", line) for line in wrap(printable(title), int(inner / _BOLD_LETTER))]
    lines += [("faint", line) for line in wrap(caption, int(inner / _LETTER))]
    marks: list[Mark] = []
    y = float(_MARGIN)
    for look, line in lines:
        y += _LINE
        marks.append(ChartLabel(look, _MARGIN, y - 6, line))
    y += _MARGIN
    x = float(_MARGIN)
    for chart in charts:
        marks.append(Group(x, y, chart.marks))
        x += chart.width + _MARGIN
    y += max(chart.height for chart in charts) + _MARGIN
    key, rows = _key(charts[0], inner)
    marks.append(Group(_MARGIN, y, key))
    width = inner + 2 * _MARGIN
    height = round(y + rows * _LINE)
    described = " ".join(chart.description for chart in charts)
    paper = Box("paper", 0, 0, width, height)
    return Chart(title, described, [paper, *marks], height, width=width)


def _key(chart: Chart, width: float) -> tuple[list[Mark], int]:
    """Lay the key out in as many columns as there is room for; give its marks and its rows."""
    columns = _columns(chart.key, width)
    marks: list[Mark] = []
    x = 0.0
    for column in columns:
        for row, entry in enumerate(column):
            y = (row + 0.5) * _LINE
            marks.append(Group(x, y, entry.samples))
            marks.append(ChartLabel("", x + KEY_WIDTH + _GAP, y, entry.words))
        x = round(x + _width(column), 1)
    return marks, max(map(len, columns), default=0)


def _columns(key: Sequence[KeyEntry], width: float) -> list[Sequence[KeyEntry]]:
    for number in range(len(key), 0, -1):
        rows = -(-len(key) // number)
        columns = [key[begin : begin + rows] for begin in range(0, len(key), rows)]
        if number == 1 or sum(map(_width, columns)) <= width:
            return columns
    return []


def _width(column: Sequence[KeyEntry]) -> float:
    longest = max(len(entry.words) for entry in column)
    return KEY_WIDTH + 3 * _GAP + longest * _LETTER


def save(chart: Chart, *paths: Path) -> None:
    """Write a chart into files; their suffixes set the format.

    Raises PlotError: a file cannot be written, or Matplotlib, for PNG and PDF, is not installed.
    """
    for path in paths:
        with system_errors(PlotError, path):
            if path.suffix.lower() == ".svg":
                atomic_file.write(path, _svg(chart).encode())
            else:
                from slurm_plugin.reports import matplotlib_marks  # noqa: PLC0415 - an extra

                matplotlib_marks.save(chart, path)


def _svg(chart: Chart) -> str:
    from markupsafe import Markup  # noqa: PLC0415

    looks = Markup(style_of_files())  # noqa: S704 - our own file
    return html.render("chart.svg.j2", one=chart, looks=looks)
