"""Savings, waits and kept promises, week by week: for those who pay for the cluster."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from sacct_ingest.runs.layout import Unit
from sacct_ingest.text.durations import duration_text
from slurm_plugin.evaluation.effects import Effect
from slurm_plugin.evaluation.group_waits import GroupWaits
from slurm_plugin.evaluation.outcomes import OutcomeReport
from slurm_plugin.evaluation.stored_reports import SAVINGS_DAYS
from slurm_plugin.evaluation.weeks import Week
from slurm_plugin.protocol.status_messages import AT_ONCE_S
from slurm_plugin.reports import html
from slurm_plugin.reports.chart_marks import Chart
from slurm_plugin.reports.headline import headline, saved_hours, saved_node_hours, title_of
from slurm_plugin.reports.page import Figure
from slurm_plugin.reports.time_charts import Moment, series
from slurm_plugin.reports.wait_tables import NOTE, wait_tables
from slurm_plugin.text.formatting import clock, count, hours, interval, percent, with_interval
from slurm_plugin.text.table_columns import SECONDS, SHARE, Column, Table, text_column
from slurm_plugin.web.report_pages import linked
from slurm_plugin.web.view import SOME, View

_PERIODS = {str(SAVINGS_DAYS): f"{SAVINGS_DAYS} days", "all": "all"}
_WEEKS = 104  #: most that are drawn
_NEWEST = 4  #: weeks whose waits stand beside those of the weeks before


def savings(view: View) -> str:
    """Show what each week brought."""
    days = view.choice("days", list(_PERIODS), str(SAVINGS_DAYS))
    number = 0 if days == "all" else int(days)
    report = view.site.report(view.viewer, number)
    zoom = view.zoom("weeks", "/savings", dates=True)
    weeks = [one for one in report.weeks if zoom is None or clock(one.begin_s)[:10] in zoom]
    weeks = weeks[-_WEEKS:]
    return view.render(
        "savings.html.j2",
        "Savings",
        lead=title_of(report),
        age=view.site.report_age(view.viewer, number),
        benefit=headline(report).benefit if report.decisions else "",
        periods=[
            (
                words,
                view.link("/savings", days="" if name == str(SAVINGS_DAYS) else name),
                name == days,
            )
            for name, words in _PERIODS.items()
        ],
        zoom=zoom,
        figures=list(_figures(report)),
        charts=[
            replace(one, zoom="weeks")
            for one in _charts(weeks, report.confidence, now_s=time.time())
        ],
        waits=[_of_page(view, table, days) for table in wait_tables(report) if len(table.rows) > 1],
        waits_note=NOTE,
        table=_table(weeks, report.confidence),
    )


def _of_page(view: View, table: Table, days: str) -> Table:
    """Show the first rows; where they lead; where all are."""
    csv_link = "" if days == "all" else view.link("/table.csv", name=table.name, days=days)
    rows = html.for_page(replace(table, note=""), SOME)
    return replace(linked(view, rows), csv_link=csv_link)


def _figures(report: OutcomeReport) -> Iterator[Figure]:
    """Sum up what was saved: what those who pay ask first."""
    for one in report.applied:
        word = one.unit.word
        jobs = count(one.jobs, "changed job")
        yield _saving(f"{word.capitalize()}-hours", saved_node_hours(one), jobs)
        saved, waited = saved_hours(one)
        what = "Hours of waiting and running" if waited else "Hours of running"
        yield _saving(what, saved, jobs)
    if waits := [week for week in report.weeks if week.wait_s is not None]:
        newest, before = waits[-_NEWEST:], waits[:-_NEWEST]
        period = f"last {len(newest)} weeks" if len(newest) > 1 else "one week"
        note = f"{period}, all jobs"
        if before:
            note += f"; {duration_text(_mean_wait_s(before))} before"
        yield Figure("Mean wait", duration_text(_mean_wait_s(newest)), note)
    if longest := _longest(report.group_waits):
        most = duration_text(longest.most_s)
        note = f"{longest.kind}; 9 of 10 of its {count(longest.jobs, 'job')} wait at most {most}"
        yield Figure("Waits longest", longest.who, note)
    if (kept := report.accuracy) and kept.inside is not None:
        runs = f"of {count(kept.intervals, 'run')} took as long as promised"
        note = f"{runs}; {percent(report.confidence)} should"
        yield Figure("Promises kept", percent(kept.inside), note)


def _longest(groups: Sequence[GroupWaits]) -> GroupWaits | None:
    """Give what waits longest of several accounts, users or partitions; None: nothing waits."""
    for kind in ("account", "user", "partition"):
        several = [group for group in groups if group.kind == kind]
        if len(several) > 1 and several[0].most_s > AT_ONCE_S:
            return several[0]
    return None


def _saving(name: str, saved: tuple[float, float, float], jobs: str) -> Figure:
    """Say how many hours fewer or more than as asked for, with the ends, in words."""
    value, low, high = saved
    ends = f"{_fewer(low)} to {_fewer(high)}"
    if low * high > 0:
        near, far = sorted((abs(low), abs(high)))
        ends = interval(near, far, hours)
    return Figure(name, _fewer(value), f"likely {ends}; {jobs}")


def _fewer(saved: float) -> str:
    return f"{hours(abs(saved))} {'more' if saved < 0 else 'fewer'}"


def _mean_wait_s(weeks: Sequence[Week]) -> float:
    jobs = sum(week.waited_jobs for week in weeks)
    return sum((week.wait_s or 0.0) * week.waited_jobs for week in weeks) / jobs


def _charts(weeks: Sequence[Week], confidence: float, *, now_s: float) -> Iterator[Chart]:
    """Draw what some week has a value of."""
    lasts = bool(weeks) and weeks[-1].end_s > now_s
    so_far = " The last week is not over." if lasts else ""
    for unit in Unit:
        word = f"{unit.word}-hours"
        of = "" if unit is Unit.NODES else f", jobs of {unit.plural}"
        if saved := _moments(weeks, partial(_saved, unit=unit)):
            yield series(
                f"{word.capitalize()} saved by week",
                saved,
                up=f"{word} saved",
                write=_signed,
                legend=f"Jobs whose {unit.word} count NIMO changed, beside what they would have "
                "taken as asked for. Band: how sure that is. Below the dashed line they took more."
                f"{so_far}",
            )
        if sooner := _moments(weeks, partial(_sooner, unit=unit)):
            yield series(
                f"Time saved by week{of}",
                sooner,
                up="hours sooner",
                write=_signed,
                legend="How much sooner these jobs ended, in all, with their waits where these are "
                f"predicted well. Below the dashed line they ended later.{so_far}",
            )
    if waited := _moments(weeks, _wait):
        yield series(
            "Mean wait by week",
            waited,
            up="mean wait",
            write=lambda value: duration_text(value) if value else "0",
            legend="All jobs that started and waited for nothing but nodes.",
        )
    if kept := _moments(weeks, lambda week: _kept(week, confidence)):
        yield series(
            "Promises kept by week",
            kept,
            up=f"runs inside their {percent(confidence)} interval",
            write=percent,
            guide=confidence,
            ends=(0.0, 1.0),
            legend="The line should stay at the dashed one.",
        )


def _moments(weeks: Sequence[Week], moment: Callable[[Week], Moment | None]) -> list[Moment]:
    made = ((week, moment(week)) for week in weeks)
    return [
        replace(
            one,
            label=_day(week),
            text=f"Week of {_day(week)}: {one.text}",
            key=clock(week.begin_s)[:10],
        )
        for week, one in made
        if one
    ]


def _day(week: Week) -> str:
    return clock(week.begin_s)[5:10]


def _effect(week: Week, unit: Unit) -> Effect | None:
    return next((one for one in week.applied if one.unit is unit), None)


def _saved(week: Week, unit: Unit) -> Moment | None:
    if (one := _effect(week, unit)) is None:
        return None
    value, low, high = saved_node_hours(one)
    saved = with_interval(f"{_signed(value)} {unit.word}-hours saved", low, high, _signed)
    text = f"{saved} by {count(one.jobs, 'changed job')}"
    return Moment("", value, text, low, high)


def _sooner(week: Week, unit: Unit) -> Moment | None:
    if (one := _effect(week, unit)) is None:
        return None
    (value, low, high), waited = saved_hours(one)
    what = "of waiting and running" if waited else "of running"
    saved = with_interval(f"{_signed(value)} hours {what} saved", low, high, _signed)
    text = f"{saved} by {count(one.jobs, 'changed job')}"
    return Moment("", value, text, low, high)


def _wait(week: Week) -> Moment | None:
    if week.wait_s is None:
        return None
    text = f"{duration_text(week.wait_s)}, {count(week.waited_jobs, 'job')}"
    return Moment("", week.wait_s, text)


def _kept(week: Week, confidence: float) -> Moment | None:
    if week.accuracy is None or week.accuracy.inside is None:
        return None
    runs = count(week.accuracy.intervals, "run")
    text = f"{percent(week.accuracy.inside)} of {runs} inside their {percent(confidence)} interval"
    return Moment("", week.accuracy.inside, text)


def _signed(value: float) -> str:
    return f"{'−' if value < 0 else ''}{hours(abs(value))}"


def _table(weeks: Sequence[Week], confidence: float) -> Table:
    def of_nodes(make: Callable[[Effect], float]) -> Callable[[Week], float | None]:
        return lambda week: make(one) if (one := _effect(week, Unit.NODES)) else None

    columns = [
        text_column("begin", "week of", value=lambda week: clock(week.begin_s)[:10]),
        Column("decisions", "decisions"),
        Column("changed", "changed jobs", of_nodes(lambda one: one.jobs)),
        Column(
            "saved_node_hours",
            "node-hours saved",
            of_nodes(lambda one: saved_node_hours(one)[0]),
            as_text=_signed,
        ),
        Column(
            "saved_hours",
            "hours sooner",
            of_nodes(lambda one: saved_hours(one)[0][0]),
            as_text=_signed,
        ),
        Column("wait_s", "mean wait", as_text=SECONDS),
        Column(
            "inside",
            f"inside {percent(confidence)}",
            lambda week: week.accuracy.inside if week.accuracy else None,
            as_text=SHARE,
        ),
    ]
    return Table(
        columns, list(reversed(weeks)), "savings", "The newest week first", empty="no week yet"
    )
