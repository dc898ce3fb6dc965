"""Decisions and the runs that became of them: the list and the page of each."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from math import isfinite
from typing import NamedTuple

from predictor.application.request import for_request
from predictor.prediction_table import PredictionTable
from predictor.stored_table import decode
from predictor.table import covers
from predictor.types import Verdict
from sacct_ingest.records import DecisionRow, JobState, KeyLevel
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import DecisionSelection, RunRow
from sacct_ingest.text.durations import duration_text
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.evaluation.accuracy import predicted_for
from slurm_plugin.evaluation.outcomes import Pair, application_of
from slurm_plugin.protocol.query_messages import explanation_of
from slurm_plugin.protocol.reasons import WORDS
from slurm_plugin.reports.chart_marks import Chart
from slurm_plugin.reports.curve_chart import curve
from slurm_plugin.reports.curve_text import within
from slurm_plugin.reports.picture import of_table
from slurm_plugin.reports.why_text import explain, size_given
from slurm_plugin.text.table_columns import AMOUNT, MOMENT, SECONDS, Column, Table, text_column
from slurm_plugin.web.data import CatalogueEntry
from slurm_plugin.web.queue_page import largest_cluster
from slurm_plugin.web.view import ROWS, BadQuery, PageMissing, View

_EQUAL = ("user", "account", "label", "partition", "reason", "key")
_FILTERS = (*_EQUAL, "job", "state", "changed", "day", "mode", "level", "ratio")
_SPAN_S = 90 * 86_400.0


def decisions(view: View) -> str:
    """Give decisions, the newest first, a page at a time."""
    filters = {name: view.text(name) for name in _FILTERS}
    modes = [mode.value for mode in Mode]
    states = [one.value for one in JobState]
    selection = DecisionSelection(
        job_id=view.number("job", 0),
        mode=view.choice("mode", modes),
        state=view.choice("state", states),
        changed={"yes": True, "no": False}.get(view.choice("changed", ("yes", "no"))),
        ratio=_ratio(filters["ratio"]),
        until_s=_day_end_s(filters["day"]),
        key_level=filters["level"],
        **{name: filters[name] for name in _EQUAL},  # type: ignore[arg-type]
    )
    before = _before(view)
    since_s = None
    slow = ("account", "partition", "mode", "reason", "state", "changed", "ratio", "label")
    # Where no index helps, a page searches a span.
    if not filters["job"] and (view.viewer.visibility.accounts or any(map(filters.get, slow))):
        since_s = (before[0] if before else selection.until_s or time.time()) - _SPAN_S
    chosen = replace(selection, since_s=since_s)
    pairs = view.site.decisions(view.viewer, chosen, most=ROWS + 1, before=before)
    last = pairs[ROWS - 1][0] if len(pairs) > ROWS else None
    older = {"before": repr(last.at_s), "id": last.decision_id} if last else {}
    if since_s is not None and not older:
        rest = DecisionSelection(until_s=since_s)  # of anybody
        older = {"before": repr(since_s)} if view.site.store.decisions.newest(rest, most=1) else {}
    entry = view.application((selection.key_level, selection.key)) if selection.key else None
    return view.render(
        "decisions.html.j2",
        "Decisions",
        filters=filters,
        application=entry.label if entry else selection.key,
        modes={"": "any", **{mode: mode for mode in modes}},
        states={"": "any", **{state: state.lower() for state in states}},
        reasons={"": "any", **WORDS},
        table=decisions_table(view, pairs[:ROWS], "Decisions, newest first"),
        newest=view.link("/decisions", **filters) if "before" in view.query else "",
        since_s=since_s,
        older=view.link("/decisions", **filters, **older) if older else "",
    )


def one_decision(view: View) -> str:
    """Show one decision."""
    selection = DecisionSelection(decision_id=view.text("id"))
    pairs = view.site.decisions(view.viewer, selection, most=1) if selection.decision_id else []
    if not pairs:
        raise PageMissing("there is no such decision, or it is about another user's job")
    ((decision, run),) = pairs
    entry = view.application((decision.key_level, decision.key))
    rows = view.site.store.fits.find([(KeyLevel(entry.level), entry.key)]) if entry else []
    text = explain(explanation_of(decision, run), run.job_id if run else 0)
    return view.render(
        "decision.html.j2",
        title_of(decision, run),
        at="Decisions",
        sentences=(text if run else text.replace("Job 0 ", "The job ")).splitlines(),
        table=_three_ways(decision, run),
        drawing=_drawing(
            decision, decode(rows[0].payload), largest_cluster(view), view.site.config.cluster
        )
        if rows
        else None,
        decision=decision,
        application=view.application_link(entry) if entry else None,
    )


def decisions_table(
    view: View,
    pairs: Sequence[Pair],
    caption: str,
    empty: str = "no decision matches these choices",
) -> Table:
    """List decisions, one line each; what is named leads on."""

    def entry(pair: Pair) -> CatalogueEntry | None:
        one = pair[0]
        return view.application((one.key_level, one.key)) if one.key else None

    def label(pair: Pair) -> str:
        found = entry(pair)
        return found.label if found else application_of(pair[0])

    def application(pair: Pair) -> str:
        found = entry(pair)
        return view.application_link(found).href if found else ""

    def filtered(name: str) -> Callable[[Pair], str]:
        return lambda pair: view.link("/decisions", **{name: getattr(pair[0], name)})

    columns = [
        text_column(
            "job_id",
            "job",
            value=lambda pair: pair[1].job_id if pair[1] else None,
            show=lambda pair: str(pair[1].job_id) if pair[1] else "not yet read",
            link=lambda pair: view.link("/decision", id=pair[0].decision_id),
        ),
        text_column("at_s", "submitted", value=lambda pair: pair[0].at_s, as_text=MOMENT),
        text_column("application", "application", value=label, link=application),
        text_column("user", "user", value=lambda pair: pair[0].user, link=filtered("user")),
        Column("size", "size", lambda pair: _size_change(pair[0])),
        Column("limit", "limit", lambda pair: _limit_change(pair[0])),
        Column("took", "outcome", lambda pair: _took(*pair)),
        text_column(
            "reason",
            "why",
            value=lambda pair: pair[0].reason,
            show=lambda pair: _why(pair[0]),
            link=filtered("reason"),
        ),
    ]
    return Table(columns, pairs, "decisions", caption, empty=empty)


def _why(one: DecisionRow) -> str:
    # A job that was left as it was all the same.
    mode = "" if one.applied or one.action == "keep" else "not applied: "
    return mode + one.reason.replace("_", " ")


def _limit_change(one: DecisionRow) -> str:
    """Write the time limit without NIMO and the one that was given."""
    asked = duration_text(one.limit_s) if one.limit_s else "-"
    given = one.given_limit_s
    return f"{asked} → {duration_text(given)}" if given and given != one.limit_s else asked


def _size_change(one: DecisionRow) -> str:
    """Write the count without NIMO and the chosen one, such as ``2 → 6``."""
    asked = one.requested_nodes
    chosen = one.nodes
    if one.action != "set" or asked == chosen:
        return _or_dash(asked if asked is not None else chosen)
    return f"{_or_dash(asked)} → {_or_dash(chosen)}"


def _took(decision: DecisionRow, run: RunRow | None) -> str:
    """Write how long the run took and what was predicted, or how it ended and after how long."""
    if run is None:
        return "-"
    state = run.state.value.lower().replace("_", " ")
    if run.end_s is None or not run.elapsed_s:
        return state
    text = duration_text(run.elapsed_s)
    if run.state is not JobState.COMPLETED:
        return f"{state} after {text}"
    predicted = predicted_for(decision, run.nodes)
    return f"{text}, predicted {duration_text(predicted[0])}" if predicted else text


def title_of(one: DecisionRow, run: RunRow | None) -> str:
    """Say what was done to the job, such as ``Job 900008: 6 nodes instead of 2``."""
    job = f"Job {run.job_id}" if run else f"{one.user}/{one.name}"
    if one.action == "refuse":
        done = "refused"
    elif size := size_given(one):
        done = size
    elif one.given_limit_s:
        done = f"a limit of {duration_text(one.given_limit_s)}"
    elif one.given_mem_mib:
        done = f"--mem={one.given_mem_mib}M"
    elif one.given_place:
        done = f"{one.given_place} first"
    else:
        return f"{job}: left as it was"
    return f"{job}: {done}" if one.applied else f"{job}: {done}, had NIMO changed it"


def _three_ways(one: DecisionRow, run: RunRow | None) -> Table:
    """Put what was asked, chosen and what happened side by side."""
    word = Unit(one.unit).word
    chosen = one.nodes if one.action == "set" else one.requested_nodes
    limit_s = one.given_limit_s or one.limit_s
    asked_s = one.request_predicted_s
    ways = [
        _Way("asked, predicted", one.requested_nodes, asked_s, one.request_wait_s, one.limit_s),
        _Way("chosen, predicted", chosen, one.predicted_s, one.wait_s, limit_s),
    ]
    if run is not None:
        waited_s = run.start_s - run.submit_s if run.start_s is not None else None
        took_s = run.elapsed_s if run.end_s is not None else None
        state = run.state.value.lower().replace("_", " ")
        ways.append(_Way(f"happened, {state}", run.nodes, took_s, waited_s, run.limit_s))
    columns = [
        text_column("name", ""),
        Column("nodes", f"{word}s"),
        Column("time_s", "run time", as_text=SECONDS),
        Column("wait_s", "wait", as_text=SECONDS),
        Column("node_hours", f"{word}-hours", as_text=AMOUNT),
        Column("limit_s", "limit", as_text=SECONDS),
    ]
    return Table(columns, ways, "ways", "As asked, as chosen, as it happened")


class _Way(NamedTuple):
    """One of the ways that a job could go, or went."""

    name: str
    nodes: int | None
    time_s: float | None
    wait_s: float | None
    limit_s: float | None

    @property
    def node_hours(self) -> float | None:
        """What it used."""
        return (
            None if self.nodes is None or self.time_s is None else self.nodes * self.time_s / 3600
        )


def _drawing(
    one: DecisionRow, table: PredictionTable, largest: int | None, cluster: str
) -> Chart | None:
    """Draw what such a job takes on other counts, with the asked and the chosen one marked."""
    if not (asked := one.requested_nodes):
        return None
    job = for_request(replace(table, acting={}), asked)
    if not covers(job, asked) or not job.observed or job.unit != one.unit:
        return None
    chosen = one.nodes if one.action == "set" else None
    shown = within(replace(job, verdict=Verdict.DOUBTFUL, verdicts=()), largest)
    made = replace(
        of_table(shown, cluster=cluster),
        title="Such a job on other counts",
        caption=of_table(table, cluster=cluster).caption,
        knee=None,
        observe=None,
        asked=asked,
        recommended=chosen if chosen != asked else None,
    )
    return curve(made)


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)


def _day_end_s(day: str) -> float | None:
    """Give the end of a day in local time, seconds since the epoch; None where there is none."""
    if not day:
        return None
    try:
        return (datetime.strptime(day, "%Y-%m-%d").astimezone() + timedelta(days=1)).timestamp()
    except (ValueError, OverflowError) as error:
        raise BadQuery("day: a date as 2026-11-25") from error


def _ratio(ends: str) -> tuple[float, float] | None:
    """Read ends of actual over predicted run time, such as ``1.2-2``."""
    low, _, high = ends.partition("-")
    try:
        return (float(low), float(high)) if ends else None
    except ValueError as error:
        raise BadQuery("ratio: two numbers as 1.2-2") from error


def _before(view: View) -> tuple[float, str] | None:
    at = view.text("before")
    with suppress(ValueError):
        if not at or isfinite(float(at)):
            return (float(at), view.text("id")) if at else None
    raise BadQuery("before: seconds since the epoch")
