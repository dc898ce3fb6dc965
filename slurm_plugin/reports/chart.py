"""Charts as lists of marks, for inline SVG: pure geometry, colours are the style sheet's.

What a chart shows it also says, in ``description``, for those who cannot see it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.protocol.status_messages import PartitionWait
from slurm_plugin.reports import picture as pictures
from slurm_plugin.text.formatting import count, percent, printable

WIDTH = 360  #: of a phone: the text is readable there, and the style sheet draws it no wider
_LINE = 40  #: height of one bar with its label
_WIDEST = 90.0  #: column with its gap
_LETTER = 7.0  #: about the width of a letter
_LONGEST = 48  #: letters of a label


#: Look in the style sheet.
_LOOKS = {pictures.NEXT_RUN: "third", pictures.ASKED: "change", pictures.RECOMMENDED: "second"}
#: The signs of other drawings.
_FORMS = {
    pictures.ASKED: "M{} {}m-5 -5h10v10h-10Z",
    pictures.RECOMMENDED: "M{} {}m0 -7l7 7l-7 7l-7 -7Z",
    pictures.NEXT_RUN: "M{} {}m0 -7l7 12h-14Z",
}
_BINS = 24  #: of a histogram
_APART = 4.0  #: between two spots of a curve


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
class Spot:
    """A point of a curve with its values as text, which a browser shows on hover."""

    x: float
    y: float
    text: str


Mark = Box | ChartPath | Dot | ChartLabel | LinkedMarks


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

    @property
    def linked(self) -> bool:
        """Whether a mark leads somewhere."""
        return any(isinstance(one, LinkedMarks) for one in self.marks)


@dataclass(frozen=True, slots=True)
class Bar:
    """One value with its label; ``text`` is the value as people read it."""

    label: str
    value: float
    text: str
    look: str = "first"
    href: str = ""  #: where the jobs behind it are

    def linked(self, *marks: Mark) -> Sequence[Mark]:
        """Make a link of the marks, where there is one."""
        return [LinkedMarks(self.href, f"{self.label}: {self.text}", marks)] if self.href else marks


def bars(title: str, data: Sequence[Bar], *, legend: str = "") -> Chart:
    """Draw horizontal bars, as long as their values (none below zero), labels above them."""
    tail = max((len(bar.text) for bar in data), default=1) * _LETTER + 14
    longest = max((bar.value for bar in data), default=0.0) or 1.0
    marks: list[Mark] = []
    for i, bar in enumerate(data):
        y, label = i * _LINE, printable(bar.label)
        if len(label) > _LONGEST:
            label = f"{label[: _LONGEST - 1]}…"
        length = (WIDTH - tail) * bar.value / longest
        marks += bar.linked(
            ChartLabel("", 0, y + 14, label),
            Box(bar.look, 0, y + 19, short(max(length, 1.0)), 14),
            ChartLabel("faint", short(length + 6), y + 31, bar.text),
        )
    said = "; ".join(f"{bar.label}: {bar.text}" for bar in data)
    return Chart(title, said, marks, len(data) * _LINE + 4, legend)


def columns(
    title: str, data: Sequence[Bar], *, guide: int | None = None, legend: str = ""
) -> Chart:
    """Draw vertical columns side by side, labels below; ``guide`` marks the left end of one.

    With a guide the labels are bounds: each stands below the left end of its column.
    """
    height, base = 210, 180
    step = min((WIDTH - 20) / max(len(data), 1), _WIDEST)
    widest = max((len(bar.text) for bar in data), default=1) * _LETTER
    highest = max((bar.value for bar in data), default=0.0) or 1.0
    every = math.ceil(max((len(bar.label) + 1 for bar in data), default=1) * _LETTER / step)
    marks: list[Mark] = [ChartPath("grid", f"M10 {base}H{WIDTH - 10}")]
    spots = []
    for i, bar in enumerate(data):
        tall = (base - 24) * bar.value / highest
        x = 10 + i * step
        name = f"from {bar.label}" if guide is not None and i else bar.label
        spots.append(Spot(short(x + step / 2), short(base - tall), f"{name}: {bar.text}"))
        if bar.value:
            top, width = short(base - tall), short(step - 2)
            drawn: list[Mark] = [Box(bar.look, short(x + 1), top, width, short(tall))]
            if widest < step:
                drawn.append(ChartLabel("middle", short(x + step / 2), top - 5, bar.text))
            marks += bar.linked(*drawn)
        if i % every == 0:
            at = x if guide is not None and i else x + step / 2
            marks.append(ChartLabel("faint middle", short(at), base + 18, bar.label))
        if i == guide:
            marks.append(ChartPath("guide", f"M{short(x)} 10V{base}"))
    said = "; ".join(f"{bar.label}: {bar.text}" for bar in data if bar.value)
    return Chart(title, said, marks, height, legend, spots=spots)


def against_nominal(
    title: str, shares: Iterable[tuple[float, float]], *, legend: str = ""
) -> Chart:
    """Draw pairs of a nominal and a realised share: the mark is the nominal one."""
    pairs = list(shares)
    left, right = 44.0, WIDTH - 66.0
    marks: list[Mark] = []
    for i, (nominal, real) in enumerate(pairs):
        y = i * 44 + 8
        marks += [
            ChartLabel("end", left - 8, y + 17, percent(nominal)),
            Box("range", left, y, right - left, 24),
            Box("first", left, y + 4, short((right - left) * real), 16),
            ChartPath("guide", f"M{short(left + (right - left) * nominal)} {y - 4}v32"),
            ChartLabel("", right + 8, y + 17, percent(real, 1)),
        ]
    said = "; ".join(f"{percent(n)} interval: {percent(r, 1)} of runs inside" for n, r in pairs)
    return Chart(title, said, marks, len(pairs) * 44 + 8, legend)


def curve(picture: pictures.Picture) -> Chart:
    """Draw run time over node counts, level and change apart.

    That is the interval with its edges, the last runs, the median of jobs as they were asked for,
    what one of them would take elsewhere, the counts to mark.  Both axes are logarithmic.
    """
    frame = _Frame(*picture.limits(), picture.unit.plural)
    first, last = picture.observed_range
    left = frame.x(first / 1.03)
    width = short(frame.x(last * 1.03) - left)
    marks: list[Mark] = [
        Box("range", left, frame.TOP, width, frame.BASE - frame.TOP),
        *frame.axes("run time"),
    ]
    if picture.nodes:
        marks += frame.interval(picture.nodes, picture.low_s, picture.high_s)
        marks += [
            ChartPath("first dashed", frame.line(picture.nodes, picture.median_s)),
            ChartPath("first", frame.line(*picture.between())),
        ]
    if picture.knee:
        upright = f"M{frame.x(picture.knee)} {frame.TOP}V{frame.BASE}"
        marks.append(ChartPath("guide", upright))
    for size, time_s, tried in picture.runs:
        x, y = frame.x(size), frame.y(time_s)
        cross = f"M{x - 3.5} {y - 3.5}l7 7m0 -7l-7 7"
        marks.append(ChartPath("try", cross) if tried else Dot("run", x, y, 2.5))
    if picture.asked_nodes:
        marks.append(ChartPath("change", frame.line(picture.asked_nodes, picture.asked_s)))
    for point in picture.observed:
        x, (low, high) = frame.x(point.nodes), map(frame.y, picture.spread(point))
        marks.append(ChartPath("spread", f"M{x} {low}V{high}"))
        marks.append(Dot("observed", x, frame.y(point.time_s), 3.5))
    for name, look in _LOOKS.items():
        if nodes := picture.marks.get(name):
            form = _FORMS[name].format(frame.x(nodes), frame.y(picture.height(nodes)))
            marks.append(ChartPath(f"mark {look}", form))
    signs = pictures.SIGNS | _LINES
    named = "; ".join(f"{signs[what]} {words}" for what, words in picture.names.items())
    legend = ". ".join(filter(None, (named, picture.caption)))
    spots = list(_curve_spots(frame, picture))
    return Chart(picture.title, _in_words(picture), marks, _Frame.HEIGHT, legend, spots=spots)


def _curve_spots(frame: "_Frame", picture: pictures.Picture) -> Iterator[Spot]:
    """Say what is predicted and what was observed on each count, as far as they stand apart."""
    seen = {point.nodes: point for point in picture.observed}
    predicted = {
        nodes: times
        for nodes, *times in zip(
            picture.nodes, picture.median_s, picture.low_s, picture.high_s, strict=True
        )
    }
    asked = dict(zip(picture.asked_nodes, picture.asked_s, strict=True))
    marked = {*seen, *picture.marks.values()}
    last_x = -math.inf
    for nodes in sorted({*seen, *predicted, *asked}):
        x = frame.x(nodes)
        if x - last_x < _APART and nodes not in marked:
            continue
        last_x, said = x, []
        if times := predicted.get(nodes):
            share = percent(picture.confidence)
            said.append(
                f"{duration_text(times[0])} ({share} of runs: {duration_range(*times[1:])})"
            )
        if nodes in asked:
            said.append(f"{duration_text(asked[nodes])} for a job that asks for {picture.asked}")
        if point := seen.get(nodes):
            said.append(f"observed {duration_text(point.time_s)}, {count(point.repeats, 'run')}")
        high_s = times[0] if times else asked.get(nodes) or seen[nodes].time_s
        text = f"{picture.unit.counted(nodes)}: {'; '.join(said)}"
        yield Spot(x, frame.y(high_s), text)


def histogram(
    title: str,
    times: Sequence[float],
    *,
    low_s: float,
    high_s: float,
    limit_s: float | None,
    caption: str = "",
) -> Chart:
    """Draw how often runs on one count took how long, with their interval and the time limit.

    times: run times in seconds, one at least; their axis is logarithmic.
    low_s, high_s: ends of the interval of a new run.
    """
    ends = [*times, low_s, high_s, *([limit_s] if limit_s else [])]
    first, last = min(ends) / 1.1, max(ends) * 1.1
    left, right, base = 10.0, WIDTH - 10.0, 170.0

    def x(time_s: float) -> float:
        return short(left + (right - left) * math.log(time_s / first) / math.log(last / first))

    step = (right - left) / _BINS
    counts = Counter(min(int((x(one) - left) / step), _BINS - 1) for one in times)
    highest = max(counts.values())
    band = Box("band", x(low_s), 24, short(x(high_s) - x(low_s)), base - 24)
    edges = "".join(f"M{x(end)} 24V{base}" for end in (low_s, high_s))
    marks: list[Mark] = [
        ChartLabel("faint", left, 12, f"runs, up to {highest} in a column"),
        *(band, ChartPath("edge", edges), ChartPath("grid", f"M{left} {base}H{right}")),
    ]
    for place, number in sorted(counts.items()):
        tall = short((base - 30) * number / highest)
        at = short(left + place * step + 1)
        marks.append(Box("first", at, short(base - tall), short(step - 2), tall))
    marks += [
        ChartLabel("faint middle", x(tick), base + 18, duration_text(tick))
        for tick in pictures.time_ticks(first, last, 4)
    ]
    marks.append(ChartLabel("faint middle", (left + right) / 2, base + 36, "run time"))
    if limit_s:
        marks.append(ChartPath("second", f"M{x(limit_s)} 24V{base}"))
    limit = f"; orange line: time limit, {duration_text(limit_s)}" if limit_s else ""
    interval = duration_range(low_s, high_s)
    said = (
        f"{len(times)} runs took {duration_text(min(times))} to {duration_text(max(times))}; "
        f"the interval is {interval}{limit}."
    )
    legend = (
        f"columns: the last {count(len(times), 'run')}; band: {interval}, the interval of a new "
        f"run{limit}; the axis is logarithmic. {caption}"
    )
    return Chart(title, said, marks, int(base) + 44, legend.strip())


def scatter(
    title: str,
    points: Sequence[tuple[float, float, str]],
    *,
    across: str,
    up: str,
    names: Mapping[str, str],
) -> Chart:
    """Draw shares against shares; the look of a point is one of ``names``.

    Marks are a circle for ``run``, a square for ``change``, a diamond for ``second``.
    """
    left, right, top, base = 52.0, WIDTH - 28.0, 28.0, 220.0
    most_x = max(*(x for x, _, _ in points), 0.01)
    low, high = min(*(y for _, y, _ in points), 0.0), max(*(y for _, y, _ in points), 0.01)

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            short(left + (right - left) * x / most_x),
            short(base - (base - top) * (y - low) / (high - low)),
        )

    marks: list[Mark] = [
        ChartLabel("faint", 0, 12, up),
        ChartLabel("faint middle", (left + right) / 2, base + 36, across),
    ]
    for share in sorted({low, 0.0, high}):
        marks += level_line(place(0, share)[1], left, right, percent(share))
    for share in (0.0, most_x):
        label = ChartLabel("faint middle", place(share, low)[0], base + 18, percent(share, 1))
        marks.append(label)
    kinds = {"run": pictures.RUN, "change": pictures.ASKED, "second": pictures.RECOMMENDED}
    for x, y, look in points:
        at, form = place(x, y), _FORMS.get(kinds[look])
        marks.append(ChartPath(f"mark {look}", form.format(*at)) if form else Dot("run", *at, 4))
    drawn = [look for look in names if any(look == one for _, _, one in points)]
    said = "; ".join(
        f"{names[look]}: {percent(y)} {up}, {percent(x, 1)} {across}" for x, y, look in points
    )
    legend = "; ".join(f"{pictures.SIGNS[kinds[look]]} {names[look]}" for look in drawn)
    return Chart(title, said, marks, int(base) + 44, legend)


def waits(title: str, rows: Sequence[PartitionWait], *, most_s: float = 0.0) -> Chart:
    """Draw the wait over node counts with its interval; both axes are logarithmic.

    rows: of one partition, for rising node counts.
    most_s: end of the axis of waits, so that charts side by side have one; 0: the rows' own.
    """
    nodes = [row.nodes for row in rows]
    low, middle, high = (
        [max(getattr(row, name), 1.0) for row in rows] for name in ("low_s", "wait_s", "high_s")
    )
    least_s = 1.0 if most_s else min(low)
    frame = _Frame(nodes[0], nodes[-1], least_s, max(*high, most_s), "nodes")
    marks: list[Mark] = [
        *frame.axes("wait"),
        *frame.interval(nodes, low, high),
        ChartPath("first", frame.line(nodes, middle)),
        *(Dot("observed", frame.x(n), frame.y(t), 3.5) for n, t in zip(nodes, middle, strict=True)),
    ]
    each = [
        f"{count(row.nodes, 'node')}: {duration_text(row.wait_s)} "
        f"(90 % of such jobs: {duration_range(row.low_s, row.high_s)})"
        for row in rows
    ]
    places = zip(nodes, middle, each, strict=True)
    spots = [Spot(frame.x(n), frame.y(t), text) for n, t, text in places]
    legend = "line: median wait; band: 90 % of such jobs; both axes logarithmic, with starts at "
    said = f"Expected waits: {'; '.join(each)}."
    return Chart(title, said, marks, _Frame.HEIGHT, f"{legend}once drawn at 1 s", spots=spots)


@dataclass(frozen=True, slots=True)
class _Frame:
    """The plot's area: from node counts and seconds to places, both logarithmic."""

    few: int
    many: int
    low_s: float
    high_s: float
    unit: str  #: of the horizontal axis

    HEIGHT: ClassVar[int] = 290
    LEFT: ClassVar[int] = 58
    RIGHT: ClassVar[int] = WIDTH - 8
    TOP: ClassVar[int] = 24
    BASE: ClassVar[int] = 246

    def x(self, nodes: float) -> float:
        low, high = math.log(self.few / 1.1), math.log(self.many * 1.1)
        return short(self.LEFT + (self.RIGHT - self.LEFT) * (math.log(nodes) - low) / (high - low))

    def y(self, time_s: float) -> float:
        low, high = math.log(self.low_s / 1.1), math.log(self.high_s * 1.1)
        share = (math.log(max(time_s, 1e-9)) - low) / (high - low)
        return short(self.BASE - (self.BASE - self.TOP) * min(max(share, 0.0), 1.0))

    def axes(self, name: str) -> list[Mark]:
        marks: list[Mark] = [ChartLabel("faint", 0, 12, name)]
        for time_s in pictures.time_ticks(self.low_s, self.high_s):
            marks += level_line(self.y(time_s), self.LEFT, self.RIGHT, duration_text(time_s))
        for nodes in pictures.node_ticks(self.few, self.many):
            x = self.x(nodes)
            marks += [
                ChartPath("grid", f"M{x} {self.BASE}v5"),
                ChartLabel("faint middle", x, self.BASE + 20, str(nodes)),
            ]
        middle = (self.LEFT + self.RIGHT) / 2
        return [*marks, ChartLabel("faint middle", middle, self.BASE + 36, self.unit)]

    def line(self, nodes: Sequence[int], times: Sequence[float]) -> str:
        points = [f"{self.x(n)} {self.y(t)}" for n, t in zip(nodes, times, strict=True)]
        return "M" + "L".join(points) if points else "M0 0"

    def interval(
        self, nodes: Sequence[int], low: Sequence[float], high: Sequence[float]
    ) -> list[Mark]:
        if len(nodes) == 1:
            x, top, base = self.x(nodes[0]), self.y(high[0]), self.y(low[0])
            return [ChartPath("edge", f"M{x - 5} {top}h10M{x} {top}V{base}M{x - 5} {base}h10")]
        below, back = self.line(nodes, low), self.line(nodes[::-1], high[::-1]).removeprefix("M")
        edges = below + self.line(nodes, high)
        return [ChartPath("band", f"{below}L{back}Z"), ChartPath("edge", edges)]


#: What stands before a name where there is no sign.
_LINES = {
    pictures.RANGE: "grey:",
    pictures.PREDICTED: "blue line:",
    pictures.BAND: "band:",
    pictures.CHANGE: "purple line:",
    pictures.KNEE: "dashed line:",
}


def _in_words(picture: pictures.Picture) -> str:
    unit = picture.unit.plural
    points = ", ".join(f"{p.nodes} {unit} {duration_text(p.time_s)}" for p in picture.observed)
    text = f"Observed run times: {points}."
    if picture.nodes:
        few, many = picture.nodes[0], picture.nodes[-1]
        text += (
            f" Predicted from {duration_text(picture.median_s[0])} on {few} to "
            f"{duration_text(picture.median_s[-1])} on {many} {unit}."
        )
    if picture.asked_nodes:
        few, many = picture.asked_nodes[0], picture.asked_nodes[-1]
        text += (
            f" A job that asks for {picture.asked} takes {duration_text(picture.asked_s[0])} on "
            f"{few} and {duration_text(picture.asked_s[-1])} on {many}."
        )
    return text


def level_line(y: float, left: float, right: float, text: str, look: str = "grid") -> list[Mark]:
    """Draw a level line with its label on the left."""
    line = ChartPath(look, f"M{left} {y}H{right}")
    return [line, ChartLabel("faint end", left - 6, y + 4, text)]


def short(value: float) -> float:
    """Round a place: a tenth of a dot is not seen."""
    return round(value, 1)
