"""Charts of a scaling study: run times with fit and ideal, and parallel efficiency."""

from slurm_plugin.experiments.scale.results import Results
from slurm_plugin.reports.chart_file import sheet
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
    level_line,
    short,
)
from slurm_plugin.reports.curve_chart import HEIGHT, LogFrame
from slurm_plugin.text.formatting import percent

_LEVEL = f"M0 -4H{KEY_WIDTH}"
_FIT = KeyEntry([ChartPath("first", _LEVEL)], "fit")
_BAND = KeyEntry([Box("band", 0, -11, KEY_WIDTH, 14)], "90 % of runs")
_MEASURED = KeyEntry([Dot("observed", KEY_WIDTH / 2, -4, 3.5)], "measured")
_IDEAL = KeyEntry([ChartPath("second dashed", _LEVEL)], "ideal")
_RECOMMENDED = ChartPath("guide", f"M{KEY_WIDTH / 2} -11V3")
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def sheet_of(results: Results) -> Chart:
    """Draw both side by side."""
    few = results.rows[0].count
    many = results.rows[-1].count
    return sheet([_times(results, few, many), _efficiencies(results, few, many)], "")


def _times(results: Results, few: int, many: int) -> Chart:
    measured = results.measured
    counts = [row.count for row in measured]
    times = [row.time_s or 0.0 for row in measured]
    ideal = [times[0]] * len(counts)
    if not results.settings.weak:
        ideal = [times[0] * counts[0] / count for count in counts]
    low_s = min(*times, *ideal) / 1.2
    high_s = max(*times, *ideal) * 1.2
    frame = LogFrame(few, many, low_s, high_s, results.settings.sizes.plural)
    marks: list[Mark] = [*frame.axes("run time")]
    key = []
    if results.answer:
        curve = results.answer.predictions
        nodes = [point.nodes for point in curve]
        band = frame.interval(nodes, [p.low_s for p in curve], [p.high_s for p in curve])
        marks += [*band, ChartPath("first", frame.line(nodes, [p.time_s for p in curve]))]
        key += [_FIT, _BAND]
    marks.append(ChartPath("second dashed", frame.line(counts, ideal)))
    marks += [
        Dot("observed", frame.x(count), frame.y(time_s), 3.5)
        for count, time_s in zip(counts, times, strict=True)
    ]
    key += [_MEASURED, _IDEAL]
    if results.recommended:
        marks.append(_upright(frame, results.recommended))
        key.append(KeyEntry([_RECOMMENDED], f"recommended: {results.recommended}"))
    return Chart("Run times", "", marks, HEIGHT, key=key)


def _efficiencies(results: Results, few: int, many: int) -> Chart:
    measured = results.measured
    values = [row.efficiency or 0.0 for row in measured]
    highest = max(1.1, *(1.1 * value for value in values))
    frame = LogFrame(few, many, 1.0, 1.0, results.settings.sizes.plural)

    def y(share: float) -> float:
        return short(frame.base - (frame.base - frame.TOP) * share / highest)

    marks: list[Mark] = [ChartLabel("faint", 0, 12, "parallel efficiency"), *frame.count_axis()]
    for share in _TICKS:
        marks += level_line(y(share), frame.LEFT, frame.right, percent(share))
    marks.append(ChartPath("second dashed", f"M{frame.LEFT} {y(1.0)}H{frame.right}"))
    points = [(frame.x(row.count), y(v)) for row, v in zip(measured, values, strict=True)]
    marks.append(ChartPath("first", "M" + "L".join(f"{x} {level}" for x, level in points)))
    marks += [Dot("first", *point, 3.5) for point in points]
    if results.recommended:
        marks.append(_upright(frame, results.recommended))
    return Chart("Parallel efficiency", "", marks, HEIGHT, width=WIDTH)


def _upright(frame: LogFrame, count: int) -> ChartPath:
    x = frame.x(count)
    return ChartPath("guide", f"M{x} {frame.TOP}V{frame.base}")
