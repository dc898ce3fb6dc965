"""Charts over time: a value of each week or run with its interval; see :mod:`chart_marks`."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from slurm_plugin.reports.chart_marks import (
    LETTER,
    WIDTH,
    Chart,
    ChartLabel,
    ChartPath,
    Dot,
    Mark,
    Spot,
    level_line,
    short,
)
from slurm_plugin.text.formatting import count

_LEFT, _RIGHT, _TOP, _BASE = 58.0, WIDTH - 10.0, 28.0, 188.0
_DOTS = 60  #: moments of which each has a dot
_CUT = "Where the band meets the picture's edge, it reaches beyond."


@dataclass(frozen=True, slots=True)
class Moment:
    """A value of one week or run, with its interval; ``text`` says it in words."""

    label: str
    value: float
    text: str
    low: float | None = None
    high: float | None = None
    key: str = ""  #: its place in time


def series(
    title: str,
    moments: Sequence[Moment],
    *,
    up: str,
    write: Callable[[float], str],
    guide: float = 0.0,
    ends: tuple[float, float] | None = None,
    legend: str = "",
) -> Chart:
    """Draw values of weeks, one after the other, joined by a line; ``guide`` is drawn dashed.

    moments: one at least.
    write: writes a value of the upright axis.
    ends: of that axis; None: those of the values, and some of their intervals.
    """
    values = [one.value for one in moments]
    first, last = min([*values, guide]), max([*values, guide])
    room = (last - first) or abs(last) or 1.0
    # A very wide interval would otherwise flatten the line.
    far = [end for one in moments for end in (one.low, one.high) if end is not None]
    low = max(min([first, *far]), first - room)
    high = min(max([last, *far]), last + room)
    if ends:
        low, high = ends
    elif low == high:
        high = low + 1.0

    def y(value: float) -> float:
        share = (value - low) / (high - low)
        return short(_BASE - (_BASE - _TOP) * min(max(share, 0.0), 1.0))

    ticks = {low: "grid", high: "grid", guide: "guide"}
    near = [one for one in ticks if one != guide and abs(y(one) - y(guide)) < 14]
    levels = [(y(at), write(at), look) for at, look in ticks.items() if at not in near]
    places = list(zip(_across(len(moments)), moments, strict=True))
    marks: list[Mark] = [
        *_band(places, y),
        *_frame(up, levels),
        ChartPath("first", "M" + "L".join(f"{x} {y(one.value)}" for x, one in places)),
        *_dates(places),
    ]
    if any(not low <= end <= high for end in far):
        legend = f"{legend} {_CUT}".lstrip()
    return _chart(title, places, y, marks, legend)


def ratios(title: str, runs: Sequence[Moment]) -> Chart:
    """Draw actual over predicted run time, run after run, with the band of the predictions.

    runs: one at least; their values are ratios, and so are their intervals.
    """
    reach = max(2.0, *(max(one.value, 1 / one.value) for one in runs)) * 1.05

    def y(ratio: float) -> float:
        share = 0.5 + math.log(max(ratio, 1e-9)) / math.log(reach) / 2
        return short(_BASE - (_BASE - _TOP) * min(max(share, 0.0), 1.0))

    levels = [(y(one), f"{one:g}", "guide" if one == 1 else "grid") for one in (0.5, 1.0, 2.0)]
    places = list(zip(_across(len(runs)), runs, strict=True))
    marks = [*_band(places, y), *_frame("actual / predicted", levels), *_dates(places)]
    longer = sum(one.value > 1 for one in runs)
    banded = " Band: where nine in ten runs were predicted." * any(one.high for one in runs)
    legend = (
        f"{count(len(runs), 'completed run')}, the newest on the right; above the dashed line they "
        f"took longer than predicted.{banded}"
    )
    said = (
        f"{longer} of {len(runs)} runs took longer than predicted; the last one "
        f"{runs[-1].value:.2f} times as long."
    )
    return _chart(title, places, y, marks, legend, said)


_Places = Sequence[tuple[float, Moment]]


def _chart(
    title: str,
    places: _Places,
    y: Callable[[float], float],
    marks: list[Mark],
    legend: str,
    said: str = "",
) -> Chart:
    if len(places) <= _DOTS:
        marks += [Dot("first", x, y(one.value), 3.5) for x, one in places]
    spots = [Spot(x, y(one.value), one.text, one.key) for x, one in places]
    described = said or "; ".join(one.text for _, one in places)
    return Chart(title, described, marks, int(_BASE) + 26, legend, spots=spots)


def _across(number: int) -> Iterator[float]:
    step = (_RIGHT - _LEFT) / max(number, 1)
    return (short(_LEFT + (i + 0.5) * step) for i in range(number))


def _frame(up: str, levels: Sequence[tuple[float, str, str]]) -> Iterator[Mark]:
    yield ChartLabel("faint", 0, 12, up)
    for y, text, look in levels:
        yield from level_line(y, _LEFT, _RIGHT, text, look)


def _band(places: _Places, y: Callable[[float], float]) -> Iterator[Mark]:
    """Fill what lies between the ends of the intervals, as far as they follow one another."""
    for known, group in groupby(places, key=lambda one: None not in (one[1].low, one[1].high)):
        rows = [(x, y(one.low or 0.0), y(one.high or 0.0)) for x, one in group] if known else []
        if len(rows) == 1:
            ((x, low, high),) = rows
            yield ChartPath("edge", f"M{x} {low}V{high}")
        elif rows:
            below = "L".join(f"{x} {low}" for x, low, _ in rows)
            above = "L".join(f"{x} {high}" for x, _, high in reversed(rows))
            yield ChartPath("band", f"M{below}L{above}Z")


def _dates(places: _Places) -> Iterator[Mark]:
    """Write as many dates below as there is room for, each once."""
    longest = max(len(one.label) for _, one in places) + 1
    every = math.ceil(longest * LETTER * len(places) / (_RIGHT - _LEFT))
    written = ""
    for x, one in places[::every]:
        if one.label != written:
            yield ChartLabel("faint middle", x, _BASE + 18, one.label)
        written = one.label
