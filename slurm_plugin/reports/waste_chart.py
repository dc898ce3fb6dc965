"""Waste as a chart for a slide: a bar for each cause, and no names."""

from pathlib import Path

from slurm_plugin.evaluation.waste_report import CauseWaste, WasteReport
from slurm_plugin.reports import chart_file
from slurm_plugin.reports.chart import Bar, bars
from slurm_plugin.reports.chart_marks import KEY_WIDTH, Box, ChartPath, KeyEntry
from slurm_plugin.reports.waste_text import WORDS, period, rounded, title_of
from slurm_plugin.text.formatting import percent


def save(report: WasteReport, path: Path) -> None:
    """Draw it into a file; its suffix sets the format. Raises PlotError: it cannot be written."""
    key = [
        KeyEntry([Box("band", 0, -11, KEY_WIDTH, 14)], "node-hours that bought nothing"),
        KeyEntry([Box("first", 0, -8, KEY_WIDTH, 8)], "could come back"),
        KeyEntry([ChartPath("spread", f"M0 -4H{KEY_WIDTH}")], "its 90 % interval"),
    ]
    data = [_bar(row, report.node_hours) for row in report.causes]
    chart = bars("Causes", data, width=chart_file.FILE_WIDTH, key=key if data else ())
    chart_file.save(chart_file.sheet([chart], title_of(report), period(report)), path)


def _bar(row: CauseWaste, all_hours: float) -> Bar:
    hours = max(row.node_hours, 1e-9)
    ends = (min(row.back_low / hours, 1.0), min(row.back_high / hours, 1.0))
    return Bar(
        WORDS[row.cause].name,
        row.node_hours,
        f"{rounded(row.node_hours)} ({percent(row.node_hours / all_hours, 1)})",
        "band",
        part=min(row.back / hours, 1.0),
        part_ends=ends if ends[1] > ends[0] else None,
    )
