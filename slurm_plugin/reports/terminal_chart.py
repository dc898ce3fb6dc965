"""A chart on a terminal: the marks of pages and files, drawn with characters.

Lines are made of Braille patterns, which have two by four dots in each character.  Imports nothing
heavy.
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from slurm_plugin.reports.chart_marks import Box, Chart, ChartLabel, ChartPath, Dot, Mark, corners
from slurm_plugin.reports.picture import ASKED, NEXT_RUN, OBSERVED, RECOMMENDED, RUN, SIGNS, TRY

#: Of a character, in the units of charts.
_WIDE, _TALL = 7.0, 14.0
#: Of a dot of a Braille pattern; bits of its dots by row and column (Unicode, "Braille Patterns").
_DOT = 3.5
_DESCENT = 4.0  #: of a label below the line that it names
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BLANK = 0x2800
_DASH = 6  #: dots of a dash and the gap behind it
_LEAST_COLUMNS, _LEAST_ROWS = 40, 12
#: Looks of lines and areas -> the character that they are made of; others are made of dots.
_WEAK: Final[Mapping[str, str]] = {
    "grid": "┈", "tick": "╵", "band": "·", "edge": "·", "change": "+", "guide": "┆", "range": "─"
}  # fmt: skip
#: Looks of single marks -> their sign.
_SIGNS: Final[Mapping[str, str]] = {
    "observed": SIGNS[OBSERVED],
    "run": SIGNS[RUN],
    "try": SIGNS[TRY],
    "mark second": SIGNS[RECOMMENDED],
    "mark third": SIGNS[NEXT_RUN],
    "mark change": SIGNS[ASKED],
}

Place = tuple[float, float]


def size_of(columns: int, rows: int) -> dict[str, int]:
    """Width and height of a chart that fills so much of a terminal, its labels counted."""
    wide = max(columns, _LEAST_COLUMNS) * _WIDE
    tall = max(rows, _LEAST_ROWS) * _TALL
    return {"width": int(wide), "height": int(tall) + 2}  # its base line is between two rows


def draw(chart: Chart, caption: str = "") -> str:
    """Draw a chart with its title and its key."""
    columns = int(chart.width / _WIDE)
    rows = int(chart.height / _TALL)
    canvas = _Canvas(columns, rows)
    for mark in chart.marks:
        canvas.draw(mark)
    heading = textwrap.fill(": ".join(filter(None, (chart.title, caption))), columns)
    # An entry of the key stays on one line.
    named = (f"{_sample(entry.samples)} {entry.words}" for entry in chart.key)
    whole = "  ".join(entry.replace(" ", "\xa0") for entry in named)
    key = textwrap.fill(whole, columns).replace("\xa0", " ")
    return "\n".join([heading, *(line.rstrip() for line in canvas.lines()), "", key]).rstrip()


@dataclass(slots=True)
class _Canvas:
    """Characters of a chart: signs and texts hide dots, dots hide areas."""

    width: int
    height: int
    weak: dict[tuple[int, int], str] = field(default_factory=dict)
    dots: dict[tuple[int, int], int] = field(default_factory=dict)
    signs: dict[tuple[int, int], str] = field(default_factory=dict)

    def draw(self, mark: Mark) -> None:
        if isinstance(mark, ChartLabel):
            self._write(mark)
        elif isinstance(mark, Dot):
            self.signs[self._cell(mark.x, mark.y)] = _SIGNS[mark.look]
        elif isinstance(mark, Box):
            self._mark_range(mark)
        elif isinstance(mark, ChartPath):
            self._draw_path(mark)

    def lines(self) -> Iterator[str]:
        """All lines from the top."""
        for row in range(self.height):
            yield "".join(self._character((column, row)) for column in range(self.width))

    def _character(self, cell: tuple[int, int]) -> str:
        if sign := self.signs.get(cell):
            return sign
        if dots := self.dots.get(cell):
            return chr(_BLANK + dots)
        return self.weak.get(cell, " ")

    def _cell(self, x: float, y: float) -> tuple[int, int]:
        column = int(x / _WIDE)
        row = int(y / _TALL)
        return min(max(column, 0), self.width - 1), min(max(row, 0), self.height - 1)

    def _write(self, label: ChartLabel) -> None:
        words = label.look.split()
        begin, row = self._cell(label.x, label.y - _DESCENT)
        if "end" in words:
            begin -= len(label.text)
        elif "middle" in words:
            begin -= len(label.text) // 2
        begin = max(min(begin, self.width - len(label.text)), 0)
        for at, letter in enumerate(label.text[: self.width]):
            self.signs[begin + at, row] = letter

    def _mark_range(self, box: Box) -> None:
        """Draw the lower end of an area, as long as it is wide."""
        first, row = self._cell(box.x, box.y + box.height - 1)
        last, _ = self._cell(box.x + box.width, 0)
        for column in range(first, last + 1):
            self.weak[column, row] = _WEAK[box.look]
        self.weak[first, row], self.weak[last, row] = "├", "┤"

    def _draw_path(self, path: ChartPath) -> None:
        if sign := _SIGNS.get(path.look):
            _, x, y = next(corners(path.data))
            if path.look == "try":  # a cross begins at its corner
                x = x + _DOT
                y = y + _DOT
            self.signs[self._cell(x, y)] = sign
        elif path.look == "band":
            self._fill([(x, y) for _, x, y in corners(path.data)], _WEAK["band"])
        else:
            for begin, end in _strokes(path.data):
                upright = path.look == "grid" and begin[0] == end[0]
                self._stroke(begin, end, "tick" if upright else path.look)

    def _stroke(self, begin: Place, end: Place, look: str) -> None:
        for x, y in _between(begin, end):
            sign = _WEAK.get(look)
            if look == "guide":
                self.weak.setdefault(self._cell(x, y), _WEAK[look])
            elif sign:
                self.weak[self._cell(x, y)] = sign
            elif "dashed" not in look or int(x / _DOT) % _DASH < _DASH / 2:
                bit = _DOTS[int(y % _TALL / _DOT)][int(x % _WIDE / _DOT)]
                cell = self._cell(x, y)
                self.dots[cell] = self.dots.get(cell, 0) | bit

    def _fill(self, outline: Sequence[Place], sign: str) -> None:
        """Fill what lies inside an outline, column by column."""
        for column in range(self.width):
            middle = (column + 0.5) * _WIDE
            edges = sorted(
                y + (middle - x) / (other_x - x) * (other_y - y)
                for (x, y), (other_x, other_y) in pairwise(outline)
                if min(x, other_x) <= middle < max(x, other_x)
            )
            for top, base in zip(edges[::2], edges[1::2], strict=False):
                first = self._cell(middle, top)[1]
                last = self._cell(middle, base)[1]
                for row in range(first, last + 1):
                    self.weak[column, row] = sign


def _strokes(data: str) -> Iterator[tuple[Place, Place]]:
    for (_, *begin), (step, *end) in pairwise(corners(data)):
        if step != "M":
            yield (begin[0], begin[1]), (end[0], end[1])


def _between(begin: Place, end: Place) -> Iterator[Place]:
    """Places on a line, a dot apart."""
    (x, y), (other_x, other_y) = begin, end
    number = max(int(max(abs(other_x - x), abs(other_y - y)) / _DOT), 1)
    for at in range(number + 1):
        share = at / number
        yield x + share * (other_x - x), y + share * (other_y - y)


def _sample(marks: Iterable[Mark]) -> str:
    """Give what stands on the terminal for the samples of a key: the last of them."""
    *_, mark = marks
    look = str(getattr(mark, "look", ""))
    if look == "range":
        return "├┤"
    return _SIGNS.get(look) or _WEAK.get(look) or "⠒⠒"
