"""The queue as a picture: nodes in use over time, and where jobs fit; see :mod:`chart`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.protocol.status_messages import QueueUse
from slurm_plugin.reports.chart_marks import (
    WIDTH,
    Box,
    Chart,
    ChartLabel,
    ChartPath,
    Mark,
    Spot,
    level_line,
    short,
)
from slurm_plugin.text.formatting import count

_LEFT, _RIGHT, _TOP, _BASE = 44.0, WIDTH - 18.0, 28.0, 168.0
_LANE = 38  #: height of a job with its label
_AT_ONCE_S = 60.0
_TICKS_S = (900.0, 3600.0, 7200.0, 21_600.0, 86_400.0)  #: between dates below, by the span
_TICKS = 7  #: at most
_SAID = 8  #: steps between the moments that the description names


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """When a job starts, seconds from the outlook on; ``name`` says whose and how large it is."""

    name: str
    start_s: float
    low_s: float
    high_s: float
    limit_s: float | None
    look: str = "second"

    @property
    def text(self) -> str:
        """When it starts, in words."""
        if self.high_s < _AT_ONCE_S:
            return f"{self.name}: at once"
        if self.start_s < _AT_ONCE_S:
            return f"{self.name}: within {duration_text(self.high_s)}"
        between = duration_range(max(self.low_s, 0.0), self.high_s)
        return f"{self.name}: in {duration_text(self.start_s)} ({between})"


def nodes_in_use(
    title: str, use: QueueUse, lanes: Sequence[Lane], *, apart: bool, part: range | None = None
) -> Chart:
    """Draw the nodes in use over time, and below when jobs start.

    apart: whether to tell jobs that run from those that wait.
    part: the steps that are drawn, two at least; None: all.
    """
    part = part or range(len(use.running))
    scale = _Scale(use, part)
    total = [min(a + b, use.nodes) for a, b in zip(use.running, use.waiting, strict=True)]
    ends = [use.nodes - one for one in use.closed]
    marks: list[Mark] = [ChartLabel("faint", 0, 12, "nodes in use")]
    if apart:
        marks.append(ChartPath("queued", scale.area(total)))
    marks.append(ChartPath("busy", scale.area(use.running if apart else total)))
    marks.append(ChartPath("edge", scale.line(total)))
    marks += level_line(_BASE, _LEFT, _RIGHT, "0")
    marks += level_line(scale.y(use.nodes), _LEFT, _RIGHT, str(use.nodes))
    if any(use.closed):
        marks.append(ChartPath("guide", scale.steps(ends)))
    marks += scale.dates()
    for place, lane in enumerate(lanes):
        marks += _lane_marks(scale, lane, _BASE + 30 + place * _LANE)
    moments = [_in_words(use, place, total[place], apart=apart) for place in part]
    spots = [
        Spot(scale.x(place * use.step_s), scale.y(total[place]), text, str(minutes_of(use, place)))
        for place, text in zip(part, moments, strict=True)
    ]
    said = [*moments[::_SAID], *(lane.text for lane in lanes)]
    height = int(_BASE + 30 + _LANE * len(lanes))
    return Chart(
        title, "; ".join(said), marks, height, _legend(use, lanes, apart=apart), spots=spots
    )


def minutes_of(use: QueueUse, place: int) -> int:
    """Give the minutes from the outlook to one of its steps: the names of the picture's places."""
    return round(place * use.step_s / 60)


@dataclass(frozen=True, slots=True)
class _Scale:
    """From seconds and nodes to places, of some steps."""

    use: QueueUse
    part: range

    @property
    def first_s(self) -> float:
        return self.use.step_s * self.part[0]

    @property
    def last_s(self) -> float:
        return self.use.step_s * self.part[-1]

    def x(self, time_s: float) -> float:
        share = (time_s - self.first_s) / (self.last_s - self.first_s)
        return short(_LEFT + (_RIGHT - _LEFT) * min(max(share, 0.0), 1.0))

    def y(self, nodes: float) -> float:
        return short(_BASE - (_BASE - _TOP) * nodes / max(self.use.nodes, 1))

    def line(self, values: Sequence[float]) -> str:
        places = (f"{self.x(i * self.use.step_s)} {self.y(values[i])}" for i in self.part)
        return f"M{'L'.join(places)}"

    def area(self, values: Sequence[float]) -> str:
        return f"{self.line(values)}V{_BASE}H{_LEFT}Z"

    def steps(self, values: Sequence[float]) -> str:
        path = f"M{_LEFT} {self.y(values[self.part[0]])}"
        for before, after in pairwise(self.part):
            if values[before] != values[after]:
                path += f"H{self.x(after * self.use.step_s)}V{self.y(values[after])}"
        return f"{path}H{_RIGHT}"

    def dates(self) -> Iterator[Mark]:
        """Write moments below, the first of them now."""
        span_s = self.last_s - self.first_s
        step_s = next(one for one in _TICKS_S if span_s / one <= _TICKS or one == _TICKS_S[-1])
        for place in range(ceil(self.first_s / step_s), int(self.last_s / step_s) + 1):
            x = self.x(place * step_s)
            text = duration_text(place * step_s) if place else "now"
            yield ChartPath("grid", f"M{x} {_BASE}v5")
            yield ChartLabel("faint middle", x, _BASE + 18, text)


def _lane_marks(scale: _Scale, lane: Lane, top: float) -> Iterator[Mark]:
    """Draw the label of a job and below it from when until when it may start, and its limit."""
    yield ChartLabel("", 0, top + 14, lane.text)
    middle = top + 26
    if lane.start_s > scale.last_s:  # an arrow: behind what is drawn
        yield ChartPath("spread", f"M{_RIGHT - 14} {middle}h14m-5 -4l5 4l-5 4")
        return
    x = scale.x(lane.start_s)
    end = scale.x(lane.start_s + (lane.limit_s or scale.last_s))
    yield Box(lane.look, x, middle - 6, short(max(end - x, 3.0)), 12)
    low = scale.x(lane.low_s)
    high = scale.x(lane.high_s)
    if high - low > 1:
        last = "m0 -4v8" if lane.high_s <= scale.last_s else "m-5 -4l5 4l-5 4"
        yield ChartPath("spread", f"M{low} {middle - 4}v8M{low} {middle}H{high}{last}")


def _in_words(use: QueueUse, place: int, total: float, *, apart: bool) -> str:
    when = f"In {duration_text(place * use.step_s)}" if place else "Now"
    text = f"{when}: {total:.0f} of {count(use.nodes, 'node')} in use"
    if apart and use.waiting[place] >= 0.5:
        text += f", {use.waiting[place]:.0f} of them by jobs that wait now"
    if use.closed[place]:
        text += f"; {use.closed[place]:.0f} reserved"
    return text


def _legend(use: QueueUse, lanes: Sequence[Lane], *, apart: bool) -> str:
    parts = []
    if apart and any(use.waiting):
        parts.append("lower area: jobs that run now; upper area: jobs that wait now")
    if any(use.closed):
        parts.append("dashed line: what reservations leave")
    if lanes:
        limits = {lane.limit_s for lane in lanes}
        limit_s = limits.pop()
        length = f" ({duration_text(limit_s)})" if limit_s and not limits else ""
        parts.append(f"bars: a job from its likely start for its time limit{length}")
        parts.append("line in a bar: 9 of 10 such jobs start there")
    words = "; ".join([*parts, "jobs that come later are not drawn"])
    return f"{words[0].upper()}{words[1:]}."
