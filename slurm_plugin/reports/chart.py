"""Charts as lists of marks, for inline SVG: pure geometry, colours are the style sheet's.

What a chart shows it also says, in ``description``, for those who cannot see it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from slurm_plugin.protocol.status_messages import PartitionWait
from slurm_plugin.reports.picture import (
    KNEE,
    NEXT_RUN,
    OBSERVED,
    PREDICTED,
    RECOMMENDED,
    Picture,
    node_ticks,
    time_ticks,
)
from slurm_plugin.text.formatting import duration, percent, printable

_WIDTH = 560
_LINE = 22  #: height of one bar with its gap
_WIDEST = 90.0  #: column with its gap
_LETTER = 7.0  #: about the width of a letter
_LONGEST = 46  #: letters of a label


#: Look in the style sheet, and its colour in words.
_LOOKS = {RECOMMENDED: ("second", "orange"), NEXT_RUN: ("third", "green")}


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


Mark = Box | ChartPath | Dot | ChartLabel


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawing with its title and, in words, what it shows."""

    title: str
    description: str
    marks: tuple[Mark, ...]
    height: int
    width: int = _WIDTH
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """One value with its label; ``text`` is the value as people read it."""

    label: str
    value: float
    text: str
    look: str = "first"


def bars(title: str, data: Sequence[Bar], *, legend: str = "") -> Chart:
    """Draw horizontal bars, as long as their values (none below zero), labels before them."""
    room = min(max((len(bar.label) for bar in data), default=1), _LONGEST) * _LETTER + 8
    tail = max((len(bar.text) for bar in data), default=1) * _LETTER + 8
    longest = max((bar.value for bar in data), default=0.0) or 1.0
    marks: list[Mark] = []
    for i, bar in enumerate(data):
        y = i * _LINE + 2
        length = (_WIDTH - room - tail) * bar.value / longest
        marks += [
            ChartLabel("end", _short(room - 8), y + 14, _cut(bar.label)),
            Box(bar.look, _short(room), y, _short(max(length, 1.0)), _LINE - 6),
            ChartLabel("faint", _short(room + length + 6), y + 14, bar.text),
        ]
    said = "; ".join(f"{bar.label}: {bar.text}" for bar in data)
    return Chart(
        title=title,
        description=said,
        marks=tuple(marks),
        height=len(data) * _LINE + 4,
        legend=legend,
    )


def columns(
    title: str, data: Sequence[Bar], *, guide: int | None = None, legend: str = ""
) -> Chart:
    """Draw vertical columns side by side, labels below; ``guide`` marks the left end of one.

    With a guide the labels are bounds: each stands below the left end of its column.
    """
    height, base = 210, 180
    step = min((_WIDTH - 20) / max(len(data), 1), _WIDEST)
    widest = max((len(bar.text) for bar in data), default=1) * _LETTER
    highest = max((bar.value for bar in data), default=0.0) or 1.0
    every = math.ceil(max((len(bar.label) for bar in data), default=1) * _LETTER / step)
    marks: list[Mark] = [ChartPath("grid", f"M10 {base}H{_WIDTH - 10}")]
    for i, bar in enumerate(data):
        tall = (base - 24) * bar.value / highest
        x = 10 + i * step
        if bar.value:
            marks.append(
                Box(bar.look, _short(x + 1), _short(base - tall), _short(step - 2), _short(tall))
            )
            if widest < step:
                over = _short(base - tall - 5)
                marks.append(ChartLabel("middle", _short(x + step / 2), over, bar.text))
        if i % every == 0:
            at = x if guide is not None and i else x + step / 2
            marks.append(ChartLabel("faint middle", _short(at), base + 18, bar.label))
        if i == guide:
            marks.append(ChartPath("guide", f"M{_short(x)} 10V{base}"))
    said = "; ".join(f"{bar.label}: {bar.text}" for bar in data if bar.value)
    return Chart(title=title, description=said, marks=tuple(marks), height=height, legend=legend)


def against_nominal(
    title: str, shares: Iterable[tuple[float, float]], *, legend: str = ""
) -> Chart:
    """Draw pairs of a nominal and a realised share: the mark is the nominal one."""
    pairs = list(shares)
    left, right = 60.0, _WIDTH - 70.0
    marks: list[Mark] = []
    for i, (nominal, real) in enumerate(pairs):
        y = i * 44 + 8
        marks += [
            ChartLabel("end", left - 8, y + 17, percent(nominal)),
            Box("range", left, y, right - left, 24),
            Box("first", left, y + 4, _short((right - left) * real), 16),
            ChartPath("guide", f"M{_short(left + (right - left) * nominal)} {y - 4}v32"),
            ChartLabel("", right + 8, y + 17, percent(real, 1)),
        ]
    said = "; ".join(f"{percent(n)} interval: {percent(r, 1)} of runs inside" for n, r in pairs)
    return Chart(
        title=title,
        description=said,
        marks=tuple(marks),
        height=len(pairs) * 44 + 8,
        legend=legend,
    )


def curve(picture: Picture) -> Chart:
    """Draw run time over node counts with its interval, observations, knee and next run.

    Both axes are logarithmic.
    """
    frame = _Frame(*picture.limits(), picture.unit.plural)
    marks: list[Mark] = [frame.observed_range(*picture.observed_range), *frame.axes()]
    if picture.nodes:
        marks += [
            ChartPath("band", frame.area(picture.nodes, picture.low_s, picture.high_s)),
            ChartPath("first dashed", frame.line(picture.nodes, picture.median_s)),
            ChartPath("first", frame.line(*picture.between())),
        ]
    if picture.knee:
        marks.append(frame.upright("guide", picture.knee))
    for point in picture.observed:
        marks += [
            frame.spread(point.nodes, *picture.spread(point)),
            Dot("observed", frame.x(point.nodes), frame.y(point.time_s), 3.5),
        ]
    for name, (look, _) in _LOOKS.items():
        if nodes := picture.marks.get(name):
            marks.append(Dot(look, frame.x(nodes), frame.y(picture.height(nodes)), 6))
    return Chart(
        title=picture.title,
        description=_in_words(picture),
        marks=tuple(marks),
        height=_Frame.HEIGHT,
        legend=_legend(picture),
    )


def waits(title: str, rows: Sequence[PartitionWait]) -> Chart:
    """Draw the wait over node counts with its interval; both axes are logarithmic.

    rows: of one partition, for rising node counts.
    """
    nodes = [row.nodes for row in rows]
    low, middle, high = (
        [max(getattr(row, name), 1.0) for row in rows] for name in ("low_s", "wait_s", "high_s")
    )
    frame = _Frame(nodes[0], nodes[-1], min(low), max(high), "nodes")
    marks: list[Mark] = [
        *frame.axes(),
        ChartPath("band", frame.area(nodes, low, high)),
        ChartPath("first", frame.line(nodes, middle)),
        *(Dot("observed", frame.x(n), frame.y(t), 3.5) for n, t in zip(nodes, middle, strict=True)),
    ]
    said = ", ".join(
        f"{row.nodes} nodes {duration(row.wait_s)} ({duration(row.low_s)} to "
        f"{duration(row.high_s)})"
        for row in rows
    )
    return Chart(
        title=title,
        description=f"Expected waits: {said}.",
        marks=tuple(marks),
        height=_Frame.HEIGHT,
        legend="line: median wait; band: 90 % of such jobs; both axes logarithmic, with starts at "
        "once drawn at 00:00:01",
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """The plot's area: from node counts and seconds to places, both logarithmic."""

    few: int
    many: int
    low_s: float
    high_s: float
    unit: str  #: of the horizontal axis

    HEIGHT: ClassVar[int] = 320
    LEFT: ClassVar[int] = 86
    RIGHT: ClassVar[int] = _WIDTH - 16
    TOP: ClassVar[int] = 12
    BASE: ClassVar[int] = 280

    def x(self, nodes: float) -> float:
        low, high = math.log(self.few / 1.1), math.log(self.many * 1.1)
        return _short(self.LEFT + (self.RIGHT - self.LEFT) * (math.log(nodes) - low) / (high - low))

    def y(self, time_s: float) -> float:
        low, high = math.log(self.low_s / 1.1), math.log(self.high_s * 1.1)
        share = (math.log(max(time_s, 1e-9)) - low) / (high - low)
        return _short(self.BASE - (self.BASE - self.TOP) * min(max(share, 0.0), 1.0))

    def axes(self) -> list[Mark]:
        marks: list[Mark] = []
        for time_s in time_ticks(self.low_s, self.high_s):
            y = self.y(time_s)
            marks += [
                ChartPath("grid", f"M{self.LEFT} {y}H{self.RIGHT}"),
                ChartLabel("faint end", self.LEFT - 6, y + 4, duration(time_s)),
            ]
        for nodes in node_ticks(self.few, self.many):
            x = self.x(nodes)
            marks += [
                ChartPath("grid", f"M{x} {self.BASE}v5"),
                ChartLabel("faint middle", x, self.BASE + 20, str(nodes)),
            ]
        middle = (self.LEFT + self.RIGHT) / 2
        return [*marks, ChartLabel("faint middle", middle, self.BASE + 36, self.unit)]

    def observed_range(self, first: int, last: int) -> Box:
        x = self.x(first / 1.03)
        return Box("range", x, self.TOP, _short(self.x(last * 1.03) - x), self.BASE - self.TOP)

    def line(self, nodes: Sequence[int], times: Sequence[float]) -> str:
        points = [f"{self.x(n)} {self.y(t)}" for n, t in zip(nodes, times, strict=True)]
        return "M" + "L".join(points) if points else "M0 0"

    def area(self, nodes: Sequence[int], low: Sequence[float], high: Sequence[float]) -> str:
        back = self.line(nodes[::-1], high[::-1]).removeprefix("M")
        return f"{self.line(nodes, low)}L{back}Z"

    def upright(self, look: str, nodes: int) -> ChartPath:
        return ChartPath(look, f"M{self.x(nodes)} {self.TOP}V{self.BASE}")

    def spread(self, nodes: int, low_s: float, high_s: float) -> ChartPath:
        return ChartPath("spread", f"M{self.x(nodes)} {self.y(low_s)}V{self.y(high_s)}")


def _legend(picture: Picture) -> str:
    signs = {KNEE: "dotted line"} | {name: colour for name, (_, colour) in _LOOKS.items()}
    parts = [f"line: {PREDICTED}; band: {picture.interval}; dots: {OBSERVED}"]
    parts += [f"{signs[name]}: {name}, {nodes}" for name, nodes in picture.marks.items()]
    return "; ".join(parts)


def _in_words(picture: Picture) -> str:
    unit = picture.unit.plural
    points = ", ".join(f"{p.nodes} {unit} {duration(p.time_s)}" for p in picture.observed)
    text = f"Observed run times: {points}."
    if picture.nodes:
        few, many = picture.nodes[0], picture.nodes[-1]
        text += (
            f" Predicted from {duration(picture.median_s[0])} on {few} to "
            f"{duration(picture.median_s[-1])} on {many} {unit}."
        )
    return text


def _cut(label: str) -> str:
    label = printable(label)
    return label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…"


def _short(value: float) -> float:
    return round(value, 1)
