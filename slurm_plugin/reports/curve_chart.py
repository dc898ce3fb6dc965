"""Charts of durations over counts, both axes logarithmic: an application's curve, waits."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.protocol.status_messages import PartitionWait
from slurm_plugin.reports import picture as pictures
from slurm_plugin.reports.chart_marks import (
    KEY_WIDTH,
    WIDTH,
    Box,
    Chart,
    ChartLabel,
    ChartPath,
    Dot,
    KeyEntry,
    Mark,
    Spot,
    level_line,
    short,
)
from slurm_plugin.text.formatting import count, percent

HEIGHT = 290
#: Look in the style sheet.
_LOOKS = {pictures.NEXT_RUN: "third", pictures.ASKED: "change", pictures.RECOMMENDED: "second"}
#: The signs of other drawings.
FORMS = {
    pictures.ASKED: "M{} {}m-5 -5h10v10h-10Z",
    pictures.RECOMMENDED: "M{} {}m0 -7l7 7l-7 7l-7 -7Z",
    pictures.NEXT_RUN: "M{} {}m0 -7l7 12h-14Z",
}
_APART = 4.0  #: between two spots of a curve
#: What stands before a name where there is no sign.
_LINES = {
    pictures.RANGE: "grey:",
    pictures.PREDICTED: "blue line:",
    pictures.BAND: "band:",
    pictures.CHANGE: "purple line:",
    pictures.KNEE: "dashed line:",
}


def curve(picture: pictures.Picture, *, width: int = WIDTH, height: int = HEIGHT) -> Chart:
    """Draw run time over node counts, level and change apart.

    That is the interval with its edges, the last runs, the median of jobs as they were asked for,
    what one of them would take elsewhere, the counts to mark.  Both axes are logarithmic.
    """
    frame = LogFrame(*picture.limits(), picture.unit.plural, width, height)
    first, last = picture.observed_range
    left = frame.x(first / 1.03)
    observed = short(frame.x(last * 1.03) - left)
    marks: list[Mark] = [
        Box("range", left, frame.TOP, observed, frame.base - frame.TOP),
        *frame.axes("run time"),
    ]
    if picture.nodes:
        marks += frame.interval(picture.nodes, picture.low_s, picture.high_s)
        marks += [
            ChartPath("first dashed", frame.line(picture.nodes, picture.median_s)),
            ChartPath("first", frame.line(*picture.between())),
        ]
    if picture.knee:
        upright = f"M{frame.x(picture.knee)} {frame.TOP}V{frame.base}"
        marks.append(ChartPath("guide", upright))
    for size, time_s, tried in picture.runs:
        x = frame.x(size)
        y = frame.y(time_s)
        marks.append(_cross(x, y) if tried else Dot("run", x, y, 2.5))
    if picture.asked_nodes:
        marks.append(ChartPath("change", frame.line(picture.asked_nodes, picture.asked_s)))
    for point in picture.observed:
        x, (low, high) = frame.x(point.nodes), map(frame.y, picture.spread(point))
        marks.append(ChartPath("spread", f"M{x} {low}V{high}"))
        marks.append(Dot("observed", x, frame.y(point.time_s), 3.5))
    for name, look in _LOOKS.items():
        if nodes := picture.marks.get(name):
            form = FORMS[name].format(frame.x(nodes), frame.y(picture.height(nodes)))
            marks.append(ChartPath(f"mark {look}", form))
    signs = pictures.SIGNS | _LINES
    named = "; ".join(f"{signs[what]} {words}" for what, words in picture.names.items())
    legend = ". ".join(filter(None, (named, picture.caption)))
    spots = list(_curve_spots(frame, picture))
    key = [KeyEntry(_samples(what), words) for what, words in picture.names.items()]
    return Chart(
        picture.title, _in_words(picture), marks, height, legend, width, spots=spots, key=key
    )


def _curve_spots(frame: "LogFrame", picture: pictures.Picture) -> Iterator[Spot]:
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
        last_x = x
        said = []
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
        yield Spot(x, frame.y(high_s), text, str(nodes))


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
    frame = LogFrame(nodes[0], nodes[-1], least_s, max(*high, most_s), "nodes")
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
    spots = [Spot(frame.x(n), frame.y(t), text, str(n)) for n, t, text in places]
    legend = "Line: median wait. Band: 90 % of such jobs. Both axes are logarithmic; "
    legend += "a start at once is drawn at 1 s."
    said = f"Expected waits: {'; '.join(each)}."
    return Chart(title, said, marks, HEIGHT, legend, spots=spots)


@dataclass(frozen=True, slots=True)
class LogFrame:
    """A plot's area: from node counts and seconds to places, both logarithmic."""

    few: int
    many: int
    low_s: float
    high_s: float
    unit: str  #: of the horizontal axis
    width: int = WIDTH
    height: int = HEIGHT

    LEFT: ClassVar[int] = 58
    TOP: ClassVar[int] = 24

    @property
    def right(self) -> int:
        """Right end of the plot's area."""
        return self.width - 8

    @property
    def base(self) -> int:
        """Lower end of the plot's area; labels stand below."""
        return self.height - 44

    def x(self, nodes: float) -> float:
        """Place of a count."""
        low = math.log(self.few / 1.1)
        high = math.log(self.many * 1.1)
        return short(self.LEFT + (self.right - self.LEFT) * (math.log(nodes) - low) / (high - low))

    def y(self, time_s: float) -> float:
        """Place of a duration; what is out of range stands at the edge."""
        low = math.log(self.low_s / 1.1)
        high = math.log(self.high_s * 1.1)
        share = (math.log(max(time_s, 1e-9)) - low) / (high - low)
        return short(self.base - (self.base - self.TOP) * min(max(share, 0.0), 1.0))

    def axes(self, name: str) -> list[Mark]:
        """Draw both axes; ``name`` is what the upright one shows."""
        marks: list[Mark] = [ChartLabel("faint", 0, 12, name)]
        for time_s in pictures.time_ticks(self.low_s, self.high_s):
            marks += level_line(self.y(time_s), self.LEFT, self.right, duration_text(time_s))
        return [*marks, *self.count_axis()]

    def count_axis(self) -> list[Mark]:
        """Draw the axis of counts."""
        marks: list[Mark] = []
        for nodes in pictures.node_ticks(self.few, self.many):
            x = self.x(nodes)
            marks += [
                ChartPath("grid", f"M{x} {self.base}v5"),
                ChartLabel("faint middle", x, self.base + 20, str(nodes)),
            ]
        middle = (self.LEFT + self.right) / 2
        return [*marks, ChartLabel("faint middle", middle, self.base + 36, self.unit)]

    def line(self, nodes: Sequence[int], times: Sequence[float]) -> str:
        """Join points."""
        points = [f"{self.x(n)} {self.y(t)}" for n, t in zip(nodes, times, strict=True)]
        return "M" + "L".join(points) if points else "M0 0"

    def interval(
        self, nodes: Sequence[int], low: Sequence[float], high: Sequence[float]
    ) -> list[Mark]:
        """Fill what lies between two lines."""
        if len(nodes) == 1:
            x = self.x(nodes[0])
            top = self.y(high[0])
            base = self.y(low[0])
            return [ChartPath("edge", f"M{x - 5} {top}h10M{x} {top}V{base}M{x - 5} {base}h10")]
        below = self.line(nodes, low)
        back = self.line(nodes[::-1], high[::-1]).removeprefix("M")
        edges = below + self.line(nodes, high)
        return [ChartPath("band", f"{below}L{back}Z"), ChartPath("edge", edges)]


def _in_words(picture: pictures.Picture) -> str:
    unit = picture.unit.plural
    points = ", ".join(f"{p.nodes} {unit} {duration_text(p.time_s)}" for p in picture.observed)
    text = f"Observed run times: {points}."
    if picture.nodes:
        few = picture.nodes[0]
        many = picture.nodes[-1]
        if few == many:
            where = picture.unit.counted(few)
            text += f" Predicted: {duration_text(picture.median_s[0])} on {where}."
    if len(picture.nodes) > 1:
        text += (
            f" Predicted from {duration_text(picture.median_s[0])} on {few} to "
            f"{duration_text(picture.median_s[-1])} on {many} {unit}."
        )
    if picture.asked_nodes:
        few = picture.asked_nodes[0]
        many = picture.asked_nodes[-1]
        text += (
            f" A job that asks for {picture.asked} takes {duration_text(picture.asked_s[0])} on "
            f"{few} and {duration_text(picture.asked_s[-1])} on {many}."
        )
    return text


def _cross(x: float, y: float) -> ChartPath:
    return ChartPath("try", f"M{x - 3.5} {y - 3.5}l7 7m0 -7l-7 7")


def _samples(what: str) -> list[Mark]:
    """Draw what a key shows of a kind of mark, as in the chart."""
    middle = KEY_WIDTH / 2
    y = -4.0
    top = -11.0
    bottom = 3.0
    level = f"M0 {y}H{KEY_WIDTH}"
    upright = f"M{middle} {top}V{bottom}"
    area = bottom - top
    samples: dict[str, list[Mark]] = {
        pictures.OBSERVED: [ChartPath("spread", upright), Dot("observed", middle, y, 3.5)],
        pictures.RANGE: [Box("range", 0, top, KEY_WIDTH, area)],
        pictures.PREDICTED: [ChartPath("first", level)],
        pictures.BAND: [
            Box("band", 0, top, KEY_WIDTH, area),
            ChartPath("edge", f"M0 {top}H{KEY_WIDTH}M0 {bottom}H{KEY_WIDTH}"),
        ],
        pictures.CHANGE: [ChartPath("change", level)],
        pictures.RUN: [Dot("run", middle, y, 2.5)],
        pictures.TRY: [_cross(middle, y)],
        pictures.KNEE: [ChartPath("guide", upright)],
    }
    if what in samples:
        return samples[what]
    return [ChartPath(f"mark {_LOOKS[what]}", FORMS[what].format(middle, y))]
