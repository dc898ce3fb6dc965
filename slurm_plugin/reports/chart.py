"""Charts that count and compare: bars, columns, histograms, shares against shares."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.reports import picture as pictures
from slurm_plugin.reports.chart_marks import (
    LETTER,
    WIDTH,
    Box,
    Chart,
    ChartLabel,
    ChartPath,
    Dot,
    KeyEntry,
    LinkedMarks,
    Mark,
    Spot,
    level_line,
    short,
)
from slurm_plugin.reports.curve_chart import FORMS
from slurm_plugin.text.formatting import count, percent, printable

_LINE = 40  #: height of one bar with its label
_WIDEST = 90.0  #: column with its gap
_LONGEST = 48  #: letters of a label
_BINS = 24  #: of a histogram


@dataclass(frozen=True, slots=True)
class Bar:
    """One value with its label; ``text`` is the value as people read it."""

    label: str
    value: float
    text: str
    look: str = "first"
    href: str = ""  #: where the jobs behind it are
    part: float = 0.0  #: share of the value that is drawn inside, in horizontal bars
    part_ends: tuple[float, float] | None = None  #: interval of the share

    def linked(self, *marks: Mark) -> Sequence[Mark]:
        """Make a link of the marks, where there is one."""
        return [LinkedMarks(self.href, f"{self.label}: {self.text}", marks)] if self.href else marks


def bars(
    title: str,
    data: Sequence[Bar],
    *,
    legend: str = "",
    width: int = WIDTH,
    key: Sequence[KeyEntry] = (),
) -> Chart:
    """Draw horizontal bars, as long as their values (none below zero), labels above them."""
    tail = max((len(bar.text) for bar in data), default=1) * LETTER + 14
    longest = max((bar.value for bar in data), default=0.0) or 1.0
    marks: list[Mark] = []
    for i, bar in enumerate(data):
        y = i * _LINE
        label = printable(bar.label)
        if len(label) > _LONGEST:
            label, _, _ = label.partition(":")
        if len(label) > _LONGEST:
            label = f"{label[: _LONGEST - 1]}…"
        length = (width - tail) * bar.value / longest
        marks += bar.linked(
            ChartLabel("", 0, y + 14, label),
            Box(bar.look, 0, y + 19, short(max(length, 1.0)), 14),
            *_part(bar, length, y),
            ChartLabel("faint", short(length + 6), y + 31, bar.text),
        )
    said = "; ".join(f"{bar.label}: {bar.text}" for bar in data)
    return Chart(title, said, marks, len(data) * _LINE + 4, legend, width, key=key)


def _part(bar: Bar, length: float, y: float) -> Iterator[Mark]:
    if bar.part:
        yield Box("first", 0, y + 22, short(bar.part * length), 8)
    if bar.part_ends:
        low, high = (short(end * length) for end in bar.part_ends)
        yield ChartPath("spread", f"M{low} {y + 26}H{high}")


def columns(
    title: str, data: Sequence[Bar], *, guide: int | None = None, legend: str = ""
) -> Chart:
    """Draw vertical columns side by side, labels below; ``guide`` marks the left end of one.

    With a guide the labels are bounds: each stands below the left end of its column.
    """
    height = 210
    base = 180
    step = min((WIDTH - 20) / max(len(data), 1), _WIDEST)
    widest = max((len(bar.text) for bar in data), default=1) * LETTER
    highest = max((bar.value for bar in data), default=0.0) or 1.0
    every = math.ceil(max((len(bar.label) + 1 for bar in data), default=1) * LETTER / step)
    marks: list[Mark] = [ChartPath("grid", f"M10 {base}H{WIDTH - 10}")]
    spots = []
    for i, bar in enumerate(data):
        tall = (base - 24) * bar.value / highest
        x = 10 + i * step
        name = f"from {bar.label}" if guide is not None and i else bar.label
        spots.append(Spot(short(x + step / 2), short(base - tall), f"{name}: {bar.text}"))
        if bar.value:
            top = short(base - tall)
            width = short(step - 2)
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
    left = 44.0
    right = WIDTH - 66.0
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
        f"{len(times)} runs took {duration_range(min(times), max(times))}; "
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
        at = place(x, y)
        form = FORMS.get(kinds[look])
        marks.append(ChartPath(f"mark {look}", form.format(*at)) if form else Dot("run", *at, 4))
    drawn = [look for look in names if any(look == one for _, _, one in points)]
    said = "; ".join(
        f"{names[look]}: {percent(y)} {up}, {percent(x, 1)} {across}" for x, y, look in points
    )
    legend = "; ".join(f"{pictures.SIGNS[kinds[look]]} {names[look]}" for look in drawn)
    return Chart(title, said, marks, int(base) + 44, legend)
