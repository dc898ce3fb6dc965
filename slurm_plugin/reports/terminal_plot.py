"""A curve drawn with characters.  Imports nothing heavy.

Lines are made of Braille patterns, which have two by four dots in each character.
"""

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

from sacct_ingest.text.durations import duration_text
from slurm_plugin.reports import picture as marks

#: Bits of the dots of U+2800 by row and column (Unicode Standard, chapter "Braille Patterns").
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BLANK = 0x2800
#: Signs of what has none elsewhere.
_LINES = {marks.RANGE: "├┤", marks.BAND: "·", marks.CHANGE: "+", marks.PREDICTED: "⠒⠒"}
_LABEL = 9  #: columns for run times: ``365 days`` and a space
_LEAST_WIDTH, _LEAST_HEIGHT = 40, 8


@dataclass(slots=True)
class Canvas:
    """Characters of the plot's area, on logarithmic axes."""

    width: int
    height: int
    limits: tuple[int, int, float, float]
    dots: dict[tuple[int, int], int] = field(default_factory=dict)
    marks: dict[tuple[int, int], str] = field(default_factory=dict)

    def column(self, nodes: float) -> int:
        """Dot column of a node count, from the left."""
        low, high = self.limits[:2]
        return _place(nodes, low, high, 2 * self.width)

    def row(self, time_s: float) -> int:
        """Dot row of a run time, from the top; outside of the canvas where it is out of range."""
        low, high = self.limits[2:]
        return 4 * self.height - 1 - _place(time_s, low, high, 4 * self.height)

    def nodes_at(self, column: int) -> float:
        """Node count in the middle of a dot column; the inverse of `column`."""
        low, high = self.limits[:2]
        share = column / max(2 * self.width - 1, 1)
        return float(low ** (1 - share) * high**share)

    def dot(self, column: int, row: int) -> None:
        """Set one dot."""
        if 0 <= row < 4 * self.height:
            cell = (column // 2, row // 4)
            self.dots[cell] = self.dots.get(cell, 0) | _DOTS[row % 4][column % 2]

    def mark(self, nodes: int, time_s: float | None, sign: str) -> None:
        """Put a sign at a point; on the bottom line where there is no run time."""
        row = self.row(time_s) // 4 if time_s else self.height - 1
        if 0 <= row < self.height:
            self.marks[self.column(nodes) // 2, row] = sign

    def lines(self) -> Iterator[str]:
        """All lines from the top; marks hide dots."""
        for row in range(self.height):
            cells = ((column, row) for column in range(self.width))
            yield "".join(self._character(cell) for cell in cells)

    def _character(self, cell: tuple[int, int]) -> str:
        mark = self.marks.get(cell, " ")
        if cell in self.dots and mark in (" ", _LINES[marks.BAND], _LINES[marks.CHANGE]):
            return chr(_BLANK + self.dots[cell])
        return mark


def draw(picture: marks.Picture, *, width: int = 80, height: int = 20) -> str:
    """Draw a curve in ``width`` columns and ``height`` lines, axes and legend not counted."""
    area = max(width, _LEAST_WIDTH) - _LABEL - 1
    canvas = Canvas(area, max(height, _LEAST_HEIGHT), picture.limits())
    _draw_interval(canvas, picture)
    for column in range(0, canvas.width, 2):
        nodes = canvas.nodes_at(2 * column)
        if (time_s := marks.at(picture.asked_nodes, picture.asked_s, nodes)) is not None:
            canvas.marks[column, canvas.row(time_s) // 4] = _LINES[marks.CHANGE]
    _draw_median(canvas, picture)
    for point in picture.observed:
        low, high = map(canvas.row, picture.spread(point))
        for row in range(high, low + 1):
            canvas.dot(canvas.column(point.nodes), row)
    for size, time_s, tried in picture.runs:
        canvas.mark(size, time_s, marks.SIGNS[marks.TRY if tried else marks.RUN])
    signs = [(n, picture.height(n), marks.SIGNS[name]) for name, n in picture.marks.items()]
    points = [
        (point.nodes, point.time_s, marks.SIGNS[marks.OBSERVED]) for point in picture.observed
    ]
    # Of the signs what was asked for and the recommendation hide a run.
    last = len(signs) - sum(name in picture.marks for name in (marks.ASKED, marks.RECOMMENDED))
    for mark in (*signs[:last], *points, *signs[last:]):
        canvas.mark(*mark)
    labels: dict[int, str] = {}
    for tick in marks.time_ticks(*canvas.limits[2:]):
        labels.setdefault(canvas.row(tick) // 4, duration_text(tick))
    body = [
        f"{labels.get(row, ''):>{_LABEL - 1}} │{line}".rstrip()
        for row, line in enumerate(canvas.lines())
    ]
    signs_of = marks.SIGNS | _LINES
    # An entry of the legend stays on one line.
    named = [f"{signs_of[what]} {words}" for what, words in picture.names.items()]
    whole = "  ".join(entry.replace(" ", "\xa0") for entry in named)
    legend = textwrap.fill(whole, max(width, _LEAST_WIDTH)).replace("\xa0", " ")
    title = textwrap.fill(
        ": ".join(filter(None, (picture.title, picture.caption))), max(width, _LEAST_WIDTH)
    )
    return "\n".join([title, *body, *_node_axis(canvas, picture), "", legend])


def _draw_interval(canvas: Canvas, picture: marks.Picture) -> None:
    for column in range(canvas.width):
        nodes = canvas.nodes_at(2 * column)
        low = marks.at(picture.nodes, picture.low_s, nodes)
        high = marks.at(picture.nodes, picture.high_s, nodes)
        if low is None or high is None:
            continue
        top, bottom = max(canvas.row(high) // 4, 0), min(canvas.row(low) // 4, canvas.height - 1)
        for row in range(top, bottom + 1):
            canvas.marks[column, row] = _LINES[marks.BAND]


def _draw_median(canvas: Canvas, picture: marks.Picture) -> None:
    """Solid between the observations, dashed beyond them."""
    first, last = picture.observed_range
    before: int | None = None
    for column in range(2 * canvas.width):
        nodes = canvas.nodes_at(column)
        time_s = picture.median_at(nodes)
        if time_s is None:
            continue
        row = canvas.row(time_s)
        if first * 0.999 <= nodes <= last * 1.001 or column % 6 < 3:
            # Steep pieces need the dots between two columns, too.
            for between in range(*sorted((row, before if before is not None else row))):
                canvas.dot(column, between)
            canvas.dot(column, row)
        before = row


def _node_axis(canvas: Canvas, picture: marks.Picture) -> list[str]:
    """Axis with powers of two, and below it the observed range."""
    axis, labels = ["─"] * canvas.width, [" "] * (canvas.width + 8)
    free = 0
    for tick in marks.node_ticks(*canvas.limits[:2]):
        column = canvas.column(tick) // 2
        axis[column] = "┬"
        if column >= free:
            labels[column : column + len(str(tick))] = str(tick)
            free = column + len(str(tick)) + 1
    first, last = (canvas.column(n) // 2 for n in picture.observed_range)
    name = " observed " if last - first > 11 else ""
    span = f"├{name:─^{last - first - 1}}┤" if last > first else "┴"
    indent = " " * _LABEL
    text = "".join(labels).rstrip()
    return [
        f"{indent}└{''.join(axis)}",
        f"{indent} {text} {picture.unit.plural}",
        f"{indent} {' ' * first}{span}",
    ]


def _place(value: float, low: float, high: float, size: int) -> int:
    """Index of ``value`` on a logarithmic axis of ``size`` dots."""
    if high <= low:
        return size // 2
    return round(math.log(value / low) / math.log(high / low) * (size - 1))
