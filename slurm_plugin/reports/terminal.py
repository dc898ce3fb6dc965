"""The report of decisions and outcomes as tables on a terminal."""

from collections.abc import Iterator, Mapping

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from slurm_plugin.reports.curve import standing_line
from slurm_plugin.reports.outcomes import (
    Accuracy,
    ApplicationOutcome,
    Deadlines,
    Effect,
    OutcomeReport,
)
from slurm_plugin.reports.text import clock, count, duration, hours, percent, printable
from slurm_plugin.waits import SHARE, Held

_PIPE_WIDTH = 200  #: columns where stdout is no terminal: nothing is cut off


def console_for(*, terminal: bool) -> Console:
    """Make a console on stdout; without a terminal it has no colour and does not cut lines."""
    return Console(highlight=False, width=None if terminal else _PIPE_WIDTH)


def render(report: OutcomeReport, reasons: Mapping[str, str]) -> RenderableType:
    """Lay out the report.

    Parameters
    ----------
    report
        What ``outcomes.summarise`` made.
    reasons
        Plain words for the names of reasons; a name that is not in it stands for itself.
    """
    title = Text(_title(report), style="bold")
    if not report.decisions:
        return title
    parts = [title, _summary(report)]
    if report.unchanged:
        parts += [Text("\nPassed unchanged because", style="bold")]
        parts += [_unchanged(report.unchanged, reasons)]
    parts += [Text("\nApplications", style="bold"), _applications(report)]
    # Text, not markup: labels are the users' own.
    parts += [Text(standing_line(row)) for row in report.switched_off]
    return Group(*parts)


def parsable(report: OutcomeReport) -> Iterator[str]:
    """Lines of the applications' table with ``|`` between the fields, as ``sacct -P``."""
    yield "Application|Decisions|Changed|Finished|Compared|MAPE|ActualOverPredicted|Inside"
    for row in report.applications:
        name = printable(row.application).replace("|", "_")
        cells = (name, row.decisions, row.changed, row.finished, *_figures(row.accuracy))
        yield "|".join(str(cell) for cell in cells)


def _figures(accuracy: Accuracy | None) -> tuple[object, ...]:
    if accuracy is None:
        return 0, "", "", ""
    inside = "" if accuracy.inside is None else f"{accuracy.inside:.3f}"
    return accuracy.runs, f"{accuracy.mape:.3f}", f"{accuracy.bias:.3f}", inside


def _title(report: OutcomeReport) -> str:
    if not report.decisions:
        return "No decision is recorded for this selection; nimod records one at each submission."
    decisions = count(report.decisions, "decision")
    span = f"from {clock(report.first_s)} to {clock(report.last_s)}"
    return f"{decisions} {span}, {report.finished} with an outcome"


def _summary(report: OutcomeReport) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column()
    grid.add_row("modes", _listed(report.modes))
    grid.add_row("actions", _listed(report.actions))
    grid.add_row("accuracy", _accuracy(report.accuracy, report.confidence))
    several = report.by_verdict if len(report.by_verdict) > 1 else {}
    for verdict, accuracy in several.items():
        grid.add_row(f"  {verdict}", _accuracy(accuracy, report.confidence))
    if report.deadlines != Deadlines():
        grid.add_row("deadlines", _deadlines(report.deadlines))
    for name, held in (("started at once", report.waits.at_once), ("waited", report.waits.waiting)):
        if held:
            grid.add_row(name, _held(held))
    if report.applied:
        grid.add_row("changed jobs", _effect(report.applied, "as asked, by prediction"))
    if report.observed:
        grid.add_row("left alone", _effect(report.observed, "as chosen, by prediction"))
    return Padding(grid, (1, 0, 0, 0), expand=False)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def _accuracy(accuracy: Accuracy | None, confidence: float) -> str:
    if accuracy is None:
        return "no completed run to compare with yet"
    text = (
        f"{count(accuracy.runs, 'run')} compared: MAPE {percent(accuracy.mape, 1)}, "
        f"median of actual/predicted {accuracy.bias:.2f}"
    )
    if accuracy.inside is None:
        return text
    return (
        f"{text}, {percent(accuracy.inside)} of {accuracy.intervals} "
        f"inside the {percent(confidence)} interval"
    )


def _deadlines(deadlines: Deadlines) -> str:
    return (
        f"{deadlines.met} met, {deadlines.missed} missed, {deadlines.refused} refused, "
        f"{deadlines.open} not known yet"
    )


def _held(held: Held) -> str:
    return (
        f"as predicted within {duration(held.within_s)} for {percent(SHARE)} of "
        f"{count(held.jobs, 'job')}, {percent(held.later)} over a minute later"
    )


def _effect(effect: Effect, other: str) -> str:
    return (
        f"{count(effect.jobs, 'job')}: {hours(effect.node_hours)} node-hours "
        f"({hours(effect.other_node_hours)} {other}), run time {hours(effect.run_hours)} h "
        f"({hours(effect.other_run_hours)} h)"
    )


def _unchanged(unchanged: Mapping[str, int], reasons: Mapping[str, str]) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right")
    grid.add_column()
    for reason, number in unchanged.items():
        grid.add_row(str(number), reasons.get(reason, reason))
    return Padding(grid, (0, 0, 0, 2), expand=False)


def _applications(report: OutcomeReport) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("application", overflow="fold")
    for name in ("decisions", "changed", "finished", "compared", "MAPE", "actual/predicted"):
        table.add_column(name, justify="right")
    table.add_column(f"inside {percent(report.confidence)}", justify="right")
    for row in report.applications:
        table.add_row(*_application_cells(row))
    return table


def _application_cells(row: ApplicationOutcome) -> list[RenderableType]:
    # A job's name is the user's text: never markup.
    cells: list[RenderableType] = [Text(printable(row.application))]
    cells += [str(row.decisions), str(row.changed), str(row.finished)]
    if row.accuracy is None:
        return [*cells, "0", "-", "-", "-"]
    accuracy = row.accuracy
    cells += [str(accuracy.runs), percent(accuracy.mape, 1), f"{accuracy.bias:.2f}"]
    return [*cells, percent(accuracy.inside)]
