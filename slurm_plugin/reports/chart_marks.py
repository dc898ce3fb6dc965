"""Marks of which charts are made: pure geometry; how marks look is the style sheet's.

What a chart shows it also says, in ``description``, for those who cannot see it.  Pages draw it as
SVG (``templates/parts.html.j2``), files hold the same marks (:mod:`chart_file`).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

WIDTH = 360  #: of a phone: the text is readable there, and the style sheet draws it no wider
KEY_WIDTH = 26.0  #: of the samples in a key
LETTER = 7.0  #: about the width of a letter
_STEP = re.compile(r"([MLHVZmlhv])([^A-Za-z]*)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle."""

    look: str
    x: float
    y: float
    width: float
    height: float
    kind: ClassVar[str] = "box"


@dataclass(frozen=True, slots=True)
class ChartPath:
    """A line or an area, in SVG's own words."""

    look: str
    data: str
    kind: ClassVar[str] = "path"


@dataclass(frozen=True, slots=True)
class Dot:
    """A point."""

    look: str
    x: float
    y: float
    radius: float
    kind: ClassVar[str] = "dot"


@dataclass(frozen=True, slots=True)
class ChartLabel:
    """A text at its base line; ``look`` says whether it begins, centres or ends at ``x``."""

    look: str
    x: float
    y: float
    text: str
    kind: ClassVar[str] = "text"


@dataclass(frozen=True, slots=True)
class LinkedMarks:
    """Marks that lead somewhere together; ``name`` says what they are about."""

    href: str
    name: str
    marks: "Sequence[Mark]"
    kind: ClassVar[str] = "link"


@dataclass(frozen=True, slots=True)
class Group:
    """Marks that are drawn so far to the right and down."""

    x: float
    y: float
    marks: "Sequence[Mark]"
    kind: ClassVar[str] = "group"


@dataclass(frozen=True, slots=True)
class Spot:
    """A point of a curve with its values as text, which a browser shows on hover."""

    x: float
    y: float
    text: str
    key: str = ""  #: its place on the axis, by which a part of that may be asked for


Mark = Box | ChartPath | Dot | ChartLabel | LinkedMarks | Group


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """What a kind of mark means; its samples stand right of a base line's beginning."""

    samples: Sequence[Mark]
    words: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with its title and, in words, what it shows."""

    title: str
    description: str
    marks: Sequence[Mark]
    height: int
    legend: str = ""
    width: int = WIDTH
    spots: Sequence[Spot] = ()
    key: Sequence[KeyEntry] = ()  #: for files; pages have the legend
    zoom: str = ""  #: what asks the page for a part of its axis; empty: nothing does

    @property
    def linked(self) -> bool:
        """Whether a mark leads somewhere."""
        return any(isinstance(one, LinkedMarks) for one in self.marks)


def level_line(y: float, left: float, right: float, text: str, look: str = "grid") -> list[Mark]:
    """Draw a level line with its label on the left."""
    line = ChartPath(look, f"M{left} {y}H{right}")
    return [line, ChartLabel("faint end", left - 6, y + 4, text)]


def short(value: float) -> float:
    """Round a place: a tenth of a dot is not seen."""
    return round(value, 1)


def corners(data: str) -> Iterator[tuple[str, float, float]]:
    """Read a path in SVG's words, as far as charts use them: each step with where it leads.

    Steps are ``M`` (begin there), ``L`` (draw a line to there), ``Z`` (close the outline).

    >>> list(corners("M1 2h3V9"))
    [('M', 1.0, 2.0), ('L', 4.0, 2.0), ('L', 4.0, 9.0)]
    """
    x = y = 0.0
    begin = (x, y)
    for letter, written in _STEP.findall(data):
        numbers = [float(number) for number in _NUMBER.findall(written)]
        base_x, base_y = (x, y) if letter.islower() else (0.0, 0.0)
        match letter.upper():
            case "Z":
                x, y = begin
                yield "Z", x, y
                continue
            case "H":
                x = base_x + numbers[0]
            case "V":
                y = base_y + numbers[0]
            case _:
                x = base_x + numbers[0]
                y = base_y + numbers[1]
        if letter.upper() == "M":
            begin = (x, y)
        yield "M" if letter.upper() == "M" else "L", x, y
