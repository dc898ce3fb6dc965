"""The two first pages: the site at a glance for admins, and a user's own start page."""

import time
from dataclasses import replace

from predictor.table import decode
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import DecisionSelection
from sacct_ingest.text.slurm_text import time_span
from slurm_plugin.config.settings import Config
from slurm_plugin.protocol.reasons import WORDS
from slurm_plugin.reports import page
from slurm_plugin.reports.headline import Task, headline
from slurm_plugin.reports.html import PageLink, Table, TableColumn
from slurm_plugin.reports.report_title import title_of
from slurm_plugin.slurm.privacy import PrivateDataRules
from slurm_plugin.text.formatting import count, short_clock
from slurm_plugin.web.catalogue import VERDICTS, CatalogueQuery, may_see
from slurm_plugin.web.suggestion import Suggestion, suggestion
from slurm_plugin.web.views import (
    OLD_S,
    SOME,
    View,
    application_by_label,
    application_link,
    chosen_days,
    decisions_table,
    linked,
    periods,
)

#: Steps of a new site, with their commands.
_STEPS = (
    ("Read the accounting", "nimo ingest"),
    ("Learn from it", "nimo fit"),
    ("Start nimod, and set the hooks in slurm.conf", "systemctl enable --now nimod; nimo doctor"),
    ("Submit a job: the first decision", "sbatch job.sh; nimo why JOBID"),
)


def home(view: View) -> str:
    """Show admins the overview, and users what is theirs."""
    return overview(view) if view.viewer.everything else mine(view)


def overview(view: View) -> str:
    """Show whether NIMO runs, whether it helps, how far to trust it, and what to do."""
    days = chosen_days(view)
    report = view.site.report(view.viewer, days)
    tables = [
        one
        for heading, group in page.sections(report, WORDS)
        if heading == "Applications"
        for one in group
        if one.name != "applications" and one.rows
    ]
    head = headline(report)
    looked_s, checks = view.site.checks()
    return view.render(
        "overview.html.j2",
        "Overview",
        at="Overview",
        lead=title_of(report),
        days=days,
        periods=periods(view, "/", days),
        mode=_mode(view.site.config),
        looked=time_span(max(time.time() - looked_s, 0.0)),
        checks=checks,
        head=head if report.decisions else None,
        tasks=[_task(view, one) for one in head.tasks],
        steps=() if report.decisions else _STEPS,
        by_verdict=_by_verdict(view),
        figures=page.figures(report),
        charts=page.charts(report, WORDS),
        tables=[linked(view, replace(one, rows=one.rows[:SOME])) for one in tables],
        report=view.link("/report"),
    )


def mine(view: View) -> str:
    """Show a user's applications with what to ask for, waiting jobs and last decisions."""
    name = view.viewer.name
    own = may_see(PrivateDataRules(only_user=name))
    entries = view.site.catalogue().select(CatalogueQuery(), own)
    newest = sorted(entries, key=lambda entry: -entry.listed.last_s)[:SOME]
    rows = view.site.store.fits.find([(KeyLevel(one.level), one.key) for one in newest])
    tables = {(row.level.value, row.key): decode(row.payload) for row in rows}
    shown = [(one, tables[one.table_key]) for one in newest if one.table_key in tables]
    asked = [(one, table, suggestion(table, view.site.config)) for one, table in shown]
    pairs = view.site.decisions(view.viewer, DecisionSelection(user=name), most=5)
    return view.render(
        "mine.html.j2",
        "My jobs",
        at="My jobs",
        applications=Table(
            name="mine",
            caption="What the next job of each application should ask for",
            columns=(
                TableColumn(key="application", title="application", left=True),
                TableColumn(key="runs", title="runs"),
                TableColumn(key="nodes", title="count"),
                TableColumn(key="time_s", title="takes about"),
                TableColumn(key="line", title="line to paste", left=True),
            ),
            rows=[
                (application_link(view, one), str(table.runs), *_asked(made))
                for one, table, made in asked
            ],
            empty="no application with a prediction yet: it needs finished runs",
        ),
        more=view.link("/applications") if len(entries) > len(newest) else "",
        waiting=_waiting(view),
        decisions=decisions_table(view, pairs, "My last decisions"),
        all_decisions=view.link("/decisions", user=name),
    )


def _asked(made: Suggestion | None) -> tuple[str, str, str]:
    if made is None:
        return "-", "-", "not enough runs yet"
    size = count(made.nodes, made.unit.word)
    line = f"#SBATCH {' '.join(made.options)}" if made.options else "-"
    return size, time_span(made.time_s), line


def _waiting(view: View) -> dict[str, object]:
    """Jobs of the user in the queue, with when they start; ``trouble`` says why there are none."""
    answer = view.site.service.waits(view.viewer.name)
    rows = [one for one in answer.rows if one.user == view.viewer.name]
    age_s = None if answer.made_s is None else max(time.time() - answer.made_s, 0.0)
    return {
        "trouble": answer.error,
        "age": "" if age_s is None else time_span(age_s),
        "old": age_s is None or age_s > OLD_S,
        "table": Table(
            name="waiting",
            caption="When they start",
            columns=(
                TableColumn(key="job_id", title="job"),
                TableColumn(key="name", title="name", left=True),
                TableColumn(key="partition", title="partition", left=True),
                TableColumn(key="nodes", title="nodes"),
                TableColumn(key="start_s", title="half start by"),
                TableColumn(key="interval", title="nine in ten between"),
                TableColumn(key="reason", title="Slurm's reason", left=True),
            ),
            rows=[
                (
                    str(one.job_id),
                    one.name,
                    one.partition,
                    str(one.nodes),
                    short_clock(one.start_s),
                    f"{short_clock(one.low_s)} and {short_clock(one.high_s)}",
                    one.reason,
                )
                for one in rows[:50]
            ],
            empty="no job of yours waits",
        ),
    }


def _mode(config: Config) -> str:
    """Name the mode, and where rules say another one."""
    others = [
        f"{rule.mode.value} for {_whom(rule)}"
        for rule in config.rules
        if rule.mode and rule.mode is not config.mode
    ]
    return ", ".join((config.mode.value, *others))


def _whom(rule: object) -> str:
    names = ("partition", "account", "qos", "user", "application")
    said = ((name, getattr(rule, name)) for name in names)
    return ", ".join(
        f"{name} {value if isinstance(value, str) else ' or '.join(value)}"
        for name, value in said
        if value != "*"
    )


def _task(view: View, one: Task) -> PageLink:
    if one.table:
        return PageLink(one.text, f"{view.link('/report')}#{one.table}")
    found = application_by_label(view, one.application)
    return PageLink(one.text, view.link("/report") if isinstance(found, str) else found.href)


def _by_verdict(view: View) -> list[tuple[str, int, str]]:
    """Count the applications by verdict, each with the list of them."""
    entries = view.site.catalogue().select(CatalogueQuery(), view.site.may_see(view.viewer))
    return [
        (words, number, view.link("/applications", verdict=name))
        for name, (words, holds) in VERDICTS.items()
        if name != "any" and (number := sum(map(holds, entries)))
    ]
