"""The two first pages: the site at a glance for admins, and a user's own start page."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from predictor.prediction_table import PredictionTable
from predictor.stored_table import decode, is_outdated
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import DecisionSelection
from sacct_ingest.text.durations import duration_text
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.failures import failures_text
from slurm_plugin.decision.messages import sentence
from slurm_plugin.decision.policy import without_times
from slurm_plugin.protocol.reasons import WORDS
from slurm_plugin.protocol.status_messages import WaitRow
from slurm_plugin.reports import page
from slurm_plugin.reports.advice_text import DIRECTIVE
from slurm_plugin.reports.headline import TASKS, Task, headline, title_of
from slurm_plugin.reports.html import PageLink, for_page
from slurm_plugin.reports.queue_table import moments_text, queue_table
from slurm_plugin.reports.sheets import find, sheets_of
from slurm_plugin.reports.waste_text import title_of as waste_title
from slurm_plugin.slurm.slurm_conf import PrivateDataRules
from slurm_plugin.text.formatting import count, printable
from slurm_plugin.text.table_columns import SECONDS, Column, Table, text_column
from slurm_plugin.web.data import VERDICTS, CatalogueEntry, CatalogueQuery, may_see
from slurm_plugin.web.decisions_page import decisions_table
from slurm_plugin.web.report_pages import chosen_days, linked, periods
from slurm_plugin.web.suggestions import Suggestion, WhatIf, suggestion, what_if
from slurm_plugin.web.view import OLD_S, SOME, View
from slurm_plugin.web.waiting_reasons import reasons_table

#: Worst state first; what it means for the whole.
_STATES = {
    "error": "It does not work",
    "warning": "It runs, with a warning",
    "ok": "It runs",
    "skipped": "Mode",
}
_DETAILS = ("switched_off", "records", "drift", "problems")
#: What each mode does to jobs, the strongest last.
_MODES = {
    Mode.OFF: "NIMO leaves all jobs alone",
    Mode.OBSERVE: "NIMO changes no job, and records what it would do",
    Mode.ADVISE: "NIMO changes no job, and tells users of better counts",
    Mode.ENFORCE: "NIMO changes jobs where users leave the count open",
}
_WAITING = 50  #: jobs of the queue that are listed
_ICONS = {"ok": "✓", "warning": "!", "error": "✗", "skipped": "–"}


def home(view: View) -> str:
    """Show admins the overview, and users what is theirs."""
    return _overview(view) if view.viewer.everything else mine(view)


def _overview(view: View) -> str:
    """Show whether NIMO runs, whether it helps, how far to trust it, and what to do."""
    days = chosen_days(view)
    report = view.site.report(view.viewer, days)
    sheets = sheets_of(report, WORDS)
    tables = [for_page(find(sheets, name), SOME) for name in _DETAILS]
    head = headline(report)
    status = _status(view)
    tasks = [_task(view, one) for one in head.tasks]
    if bad := sum(one.state in ("warning", "error") for one in status["bad"]):
        text = f"put right {count(bad, 'thing')} under 'Does it run?'"
        tasks.insert(0, PageLink(text, "#status"))
    worst = printable(head.worst)
    entries = view.site.catalogue().select(CatalogueQuery(), may_see(view.viewer.visibility))
    return view.render(
        "overview.html.j2",
        "Overview",
        lead=title_of(report),
        age=view.site.report_age(view.viewer, days),
        days=days,
        periods=periods(view, "/", days),
        **status,
        head=head if report.decisions else None,
        trust=head.trust.partition(worst) if worst else (head.trust, "", ""),
        worst=view.application_by_label(head.worst),
        tasks=tasks[:TASKS],
        by_verdict=[
            (words, number, view.link("/applications", verdict=name))
            for name, (words, holds) in VERDICTS.items()
            if name != "any" and (number := sum(map(holds, entries)))
        ],
        figures=page.figures(report),
        charts=list(page.charts(report, WORDS, partial(view.link, "/decisions"))),
        tables=[linked(view, one) for one in tables if one.rows],
    )


def mine(view: View) -> str:
    """Show a user's applications with what to ask for, waiting jobs and last decisions."""
    name = view.viewer.name
    own = may_see(PrivateDataRules(only_user=name))
    entries = view.site.catalogue().select(CatalogueQuery(), own)
    newest = sorted(entries, key=lambda entry: -entry.last_s)[:SOME]
    rows = view.site.store.fits.find([(KeyLevel(one.level), one.key) for one in newest])
    tables = {(row.level.value, row.key): decode(row.payload) for row in rows}

    predicted = [(one, tables[one.table_key]) for one in newest if one.table_key in tables]
    jobs = [_Next(one, table, suggestion(view, table)) for one, table in predicted]
    worst_first = sorted(predicted, key=lambda each: _failed_runs(each[1]), reverse=True)
    failures = [
        (view.application_link(one), sentence(text))
        for one, table in worst_first
        if (text := failures_text(table, name))
    ]
    pairs = view.site.decisions(view.viewer, DecisionSelection(user=name), most=5)
    waste = view.site.waste(name)
    return view.render(
        "mine.html.j2",
        "My jobs",
        applications=_next_jobs(view, jobs),
        more=len(entries) > len(newest),
        failures=failures,
        what_if=_what_if(view, jobs),
        waste=waste_title(waste) if waste and waste.starts else "",
        waiting=_waiting(view),
        reasons=reasons_table(view),
        decisions=decisions_table(view, pairs, "My last decisions", empty="none yet"),
        all_decisions=view.link("/decisions", user=name),
    )


def _failed_runs(table: PredictionTable) -> tuple[int, int]:
    """Count the runs that failed one after the other, and all of the latest that did."""
    failures = table.failures
    return (failures.runs, failures.often) if failures else (0, 0)


class _Next(NamedTuple):
    """An application with its prediction and what its next job should ask for."""

    entry: CatalogueEntry
    prediction: PredictionTable
    suggested: Suggestion | None

    @property
    def size(self) -> str | None:
        """Count with its unit."""
        advice = self.suggested.advice if self.suggested else None
        return advice.unit.counted(advice.nodes) if advice and advice.nodes else None

    @property
    def time_s(self) -> float | None:
        """Predicted run time."""
        row = self.suggested.row if self.suggested else None
        return row.time_s if row else None

    @property
    def options(self) -> str:
        """Options of sbatch to ask for; empty: none."""
        return self.suggested.options if self.suggested else ""

    @property
    def line(self) -> str:
        """What to paste, or why there is nothing."""
        if is_outdated(self.prediction):
            return without_times(self.prediction).text
        if self.suggested is None:
            return "not enough runs yet"
        return f"{DIRECTIVE}{self.options}" if self.options else self.suggested.advice.reason


def _next_jobs(view: View, rows: Sequence[_Next]) -> Table:
    columns = [
        text_column(
            "application",
            "application",
            value=lambda row: row.entry.label,
            link=lambda row: view.application_link(row.entry).href,
        ),
        Column("runs", "runs", lambda row: row.prediction.runs),
        Column("size", "count"),
        Column("time_s", "takes about", as_text=SECONDS),
        text_column("line", "line to paste", paste=lambda row: bool(row.options)),
    ]
    return Table(
        columns,
        rows,
        "mine",
        "What the next job of each application should ask for",
        empty="no application with a prediction yet: it needs finished runs",
    )


def _what_if(view: View, jobs: Sequence[_Next]) -> WhatIf | None:
    """Show another count of one of a user's applications, the newest unless the query names one."""
    named = {f"{job.entry.level}:{job.entry.key}": job for job in jobs if job.suggested}
    if not named:
        return None
    wanted = view.text("application")
    chosen = wanted if wanted in named else next(iter(named))
    job = named[chosen]
    choices = {value: one.entry.label for value, one in named.items()}
    return what_if(view, job.prediction, job.suggested, choices=choices, chosen=chosen)


def _waiting(view: View) -> dict[str, object]:
    """Jobs of the user in the queue, with when they start; ``trouble`` says why there are none."""
    answer = view.site.service.waits(view.viewer.name)
    rows = [one for one in answer.rows if one.user == view.viewer.name]
    age_s = None if answer.made_s is None else max(time.time() - answer.made_s, 0.0)
    return {
        "trouble": answer.error,
        "age": "" if age_s is None else duration_text(age_s),
        "old": age_s is None or age_s > OLD_S,
        "table": replace(
            for_page(queue_table(rows), _WAITING),
            caption="When they start",
            note=moments_text(rows),
            empty="no job of yours waits",
        ),
        "guesses": _guesses([row for row in rows if row.guess_s is not None][:SOME]),
    }


def _guesses(rows: Sequence[WaitRow]) -> Table | None:
    """Say how long waiting jobs take whose commands never ran; None: there is none."""
    columns = [
        Column("job_id", "job"),
        text_column("name", "name"),
        Column("guess_s", "takes about", as_text=SECONDS),
        Column("guess_low_s", "at least", as_text=SECONDS),
        Column("guess_high_s", "at most", as_text=SECONDS),
    ]
    note = "Their commands never ran: guesses from the jobs most like them. Nine in ten of such "
    note += "jobs take between the last two."
    return Table(columns, rows, "guesses", "How long they take", note=note) if rows else None


def _status(view: View) -> dict[str, Any]:
    """Say in one line whether NIMO runs, and what is not as it should be."""
    looked_s, checks = view.site.checks()
    states = {one.state for one in checks}
    state = next((one for one in _STATES if one in states), "skipped")
    age = f"{duration_text(max(time.time() - looked_s, 0.0))} ago"
    fine = [one.message for one in checks if one.state == "ok"]
    told = [
        one.replace(" answers", f" answered {age}")
        for one in (f"mode: {_mode(view.site.config)}", *fine)
    ]
    told += [f"looked at {age}"] * (bool(checks) and told[1:] == fine)
    bad = [one for one in checks if one.state != "ok"]
    return {
        "state": state,
        "word": _STATES[state],
        "told": told,
        "bad": bad,
        "icons": _ICONS,
        "meaning": _meaning(view.site.config),
        "kill_switch": view.site.config.kill_switch,
    }


def _meaning(config: Config) -> str:
    """Say what NIMO may do with jobs, at most."""
    modes = {config.mode, *(rule.mode for rule in config.rules)}
    return next(text for mode, text in reversed(_MODES.items()) if mode in modes)


def _mode(config: Config) -> str:
    """Name the mode, and where rules say another one; off goes without saying beside these."""
    modes = [config.mode.value]
    for rule in config.rules:
        if rule.mode and rule.mode is not config.mode:
            names = {"partition": "in"} | {
                name: f"for {name}" for name in ("account", "qos", "user", "application")
            }
            whom = ", ".join(
                f"{where} {value if isinstance(value, str) else ' or '.join(value)}"
                for name, where in names.items()
                if (value := getattr(rule, name)) != "*"
            )
            modes.append(f"{rule.mode.value} {whom}")
    return ", ".join(modes[1:] if len(modes) > 1 and config.mode is Mode.OFF else modes)


def _task(view: View, one: Task) -> PageLink:
    if one.table:
        return PageLink(one.text, f"{view.link('/report')}#{one.table}")
    found = view.application_by_label(one.application)
    return PageLink(one.text, view.link("/report") if isinstance(found, str) else found.href)
