"""The pages: what goes into which template.  Each takes a request's view of the site."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from predictor.table import decode
from predictor.types import PredictionTable
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.store import DecisionSelection
from sacct_ingest.store.prediction_records import OUTLOOK
from sacct_ingest.text.slurm_text import time_span
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.evaluation.outcomes import Pair, application_of
from slurm_plugin.protocol.reasons import WORDS
from slurm_plugin.reports import page
from slurm_plugin.reports.headline import headline
from slurm_plugin.reports.html import PageLink, Table, TableColumn
from slurm_plugin.reports.report_title import title_of
from slurm_plugin.reports.sheet import csv_text, find
from slurm_plugin.reports.sheets import sheets_of
from slurm_plugin.text.formatting import RECOGNISED, count, short_clock
from slurm_plugin.web import application_page, page_layout, query
from slurm_plugin.web.catalogue import (
    GROUPS,
    ORDERS,
    VERDICTS,
    CatalogueEntry,
    CatalogueQuery,
)
from slurm_plugin.web.data import PageData
from slurm_plugin.web.decisions_page import (
    COLUMNS,
    drawing,
    facts,
    limit_change,
    sentences,
    size_change,
    tag,
    three_ways,
    title_of_decision,
    took,
)
from slurm_plugin.web.queue_page import largest_partition, outlooks
from slurm_plugin.web.replay_page import replayed
from slurm_plugin.web.viewer import Viewer

_ROWS = 50
SOME = 10
OLD_S = 300.0  #: waits older than this are not those of now
_DAYS = (7, 30, 90)
_DOTS = 30  #: runs of an application that are drawn one by one
_REPORT_ROWS = 20  #: of one table; CSV has all
_SPAN_DAYS = 90
_SPAN_S = 86_400.0 * _SPAN_DAYS


class PageMissing(Exception):  # noqa: N818 - a state, not an error
    """There is no such page, or nothing on it that the viewer may see."""


@dataclass(frozen=True, slots=True)
class View:
    """One request: by whom, of what, with which query."""

    site: PageData
    viewer: Viewer
    query: Mapping[str, str]

    def link(self, path: str, **values: object) -> str:
        """URL of another page."""
        return query.link(self.site.config.web.prefix + path, **values)

    def render(self, template: str, title: str, *, at: str = "", **context: Any) -> str:
        """Fill a template; ``at`` is the part of the site that it belongs to."""
        return page_layout.render(self.site.config, self.viewer, template, title, at=at, **context)


def report(view: View) -> str:
    """Give all tables of the last days."""
    days = chosen_days(view)
    outcomes = view.site.report(view.viewer, days)

    def csv(name: str) -> str:
        return view.link("/table.csv", name=name, days=days)

    return view.render(
        "report.web.html.j2",
        "Report",
        at="Report",
        lead=title_of(outcomes),
        head=headline(outcomes) if outcomes.decisions else None,
        days=days,
        periods=periods(view, "/report", days),
        sections=[
            (heading, [replace(linked(view, one), csv=csv(one.name)) for one in tables])
            for heading, tables in page.report_sections(outcomes, WORDS, most=_REPORT_ROWS)
        ],
    )


def table_csv(view: View) -> str:
    """Give one table of the report as CSV."""
    sheets = sheets_of(view.site.report(view.viewer, chosen_days(view)), WORDS)
    name = query.choice(view.query, "name", [one.name for one in sheets], "applications")
    return csv_text(find(sheets, name))


def chosen_days(view: View) -> int:
    """Give the days that overview and report are about."""
    own = view.site.config.web.days
    return int(query.choice(view.query, "days", [str(n) for n in {own, *_DAYS}], str(own)))


def periods(view: View, path: str, days: int) -> list[tuple[str, str, bool]]:
    """Link to other periods: words, URL, whether it is the present one."""
    own = view.site.config.web.days
    choices = sorted({own, *_DAYS})
    return [(f"{n} days", view.link(path, days="" if n == own else n), n == days) for n in choices]


def applications(view: View) -> str:
    """Find applications: words, groups, an order, a page at a time."""
    filters = _catalogue_query(view)
    matches = view.site.catalogue().select(filters, view.site.may_see(view.viewer))
    last = max(1, -(-len(matches) // _ROWS))
    at = min(query.number(view.query, "page", 1), last)
    shown = matches[(at - 1) * _ROWS : at * _ROWS]
    return view.render(
        "applications.html.j2",
        "Applications",
        at="Applications",
        action=view.link("/applications"),
        filters=filters,
        groups={name: words for name, (words, _) in GROUPS.items()},
        verdicts={name: words for name, (words, _) in VERDICTS.items()},
        table=_listing(view, shown, filters),
        total=count(len(matches), "application"),
        page=at,
        last=last,
        links={
            number: _list_link(view, filters, page=number if number > 1 else "")
            for number in {1, at - 1, at + 1, last}
        },
    )


def one_application(view: View) -> str:
    """Show one application's curve, its facts and its newest decisions."""
    entry = _visible(view, query.text(view.query, "level"), query.text(view.query, "key"))
    rows = view.site.store.fits.find([(KeyLevel(entry.level), entry.key)])
    if not rows:
        raise PageMissing("the store has this application no more; look for it in the list")
    prediction: PredictionTable = decode(rows[0].payload)
    same = DecisionSelection(key_level=entry.level, key=entry.key)
    pairs = view.site.decisions(view.viewer, same, most=_DOTS)
    standings = {(row.level.value, row.key): row for row in view.site.store.standings.all()}
    every = query.choice(view.query, "counts", ("some", "all"), "some") == "all"
    runs = view.site.store.runs.of_key(KeyLevel(entry.level), entry.key, most=_DOTS)
    largest = largest_cluster(view)
    config = view.site.config
    return view.render(
        "application.html.j2",
        prediction.label,
        at="Applications",
        prediction=prediction,
        facts=application_page.facts(prediction, standings.get(entry.table_key)),
        steps=application_page.next_steps(prediction, config, largest),
        accuracy=application_page.accuracy_chart(pairs),
        curves=list(
            application_page.curves(prediction, config, runs, every=every, largest=largest)
        ),
        every=every,
        other=view.link(
            "/application", level=entry.level, key=entry.key, counts="" if every else "all"
        ),
        decisions=decisions_table(view, pairs[:SOME], "Its newest decisions"),
        more=view.link("/decisions", level=entry.level, key=entry.key),
    )


def largest_cluster(view: View) -> int | None:
    """Nodes of the largest partition, by the outlook that nimod left; None: there is none."""
    return largest_partition(view.site.store.records.of_level(OUTLOOK))


def decisions(view: View) -> str:
    """Give decisions, the newest first, a page at a time."""
    parameters = view.query
    selection = DecisionSelection(
        job_id=query.number(parameters, "job", 0) if query.text(parameters, "job") else 0,
        user=query.text(parameters, "user"),
        partition=query.text(parameters, "partition"),
        mode=query.choice(parameters, "mode", ("", *(mode.value for mode in Mode)), ""),
        reason=query.text(parameters, "reason"),
        state=query.choice(parameters, "state", ("", *(one.value for one in JobState)), ""),
        changed=query.choice(parameters, "changed", ("", "yes"), "") == "yes",
        until_s=query.day_end_s(parameters, "day"),
        key_level=query.text(parameters, "level"),
        key=query.text(parameters, "key"),
    )
    before = _before(parameters)
    since_s = _since(view, selection, before)
    chosen = replace(selection, since_s=since_s)
    pairs = view.site.decisions(view.viewer, chosen, most=_ROWS + 1, before=before)
    named = {
        "job": selection.job_id or "",
        "state": selection.state,
        "changed": "yes" if selection.changed else "",
        "day": query.text(parameters, "day"),
        "user": selection.user,
        "partition": selection.partition,
        "mode": selection.mode,
        "reason": selection.reason,
        "level": selection.key_level,
        "key": selection.key,
    }
    last = pairs[_ROWS - 1][0] if len(pairs) > _ROWS else None
    older = {"before": repr(last.at_s), "id": last.decision_id} if last else {}
    if since_s is not None and not older and view.site.decided_before(since_s):
        older = {"before": repr(since_s)}
    return view.render(
        "decisions.html.j2",
        "Decisions",
        at="Decisions",
        action=view.link("/decisions"),
        filters=selection,
        application=_label(view, selection),
        modes={"": "any", **{mode.value: mode.value for mode in Mode}},
        states={"": "any", **{one.value: one.value.lower() for one in JobState}},
        day=query.text(parameters, "day"),
        reasons={"": "any", **WORDS},
        table=decisions_table(view, pairs[:_ROWS], "Decisions, newest first"),
        newest=view.link("/decisions", **named) if "before" in parameters else "",
        since_s=since_s,
        older=view.link("/decisions", **named, **older) if older else "",
    )


def one_decision(view: View) -> str:
    """Show one decision."""
    selection = DecisionSelection(decision_id=query.text(view.query, "id"))
    pairs = view.site.decisions(view.viewer, selection, most=1) if selection.decision_id else []
    if not pairs:
        raise PageMissing("there is no such decision, or it is about another user's job")
    ((decision, run),) = pairs
    entry = view.site.catalogue().find((decision.key_level, decision.key))
    visible = entry if entry and view.site.may_see(view.viewer)(entry) else None
    rows = view.site.store.fits.find([(KeyLevel(visible.level), visible.key)]) if visible else []
    return view.render(
        "decision.html.j2",
        title_of_decision(decision, run),
        at="Decisions",
        sentences=sentences(decision, run),
        table=three_ways(decision, run),
        drawing=drawing(decision, decode(rows[0].payload)) if rows else None,
        facts=facts(decision),
        application=application_link(view, visible) if visible else None,
    )


def queue(view: View) -> str:
    """Show what new jobs have to expect in each partition."""
    payloads = view.site.store.records.of_level(OUTLOOK)
    limit = query.choice(view.query, "limit", ("1", "4", "12", "24"), "1")
    made = outlooks(
        payloads,
        counts=view.viewer.everything,
        now_s=time.time(),
        limit_s=3600.0 * int(limit),
    )
    oldest_s = max((one.age_s for one in made), default=0.0)
    limits = sorted({f"{one_s / 3600:.0f}" for one in made for one_s in one.limits}, key=int)
    return view.render(
        "queue.html.j2",
        "Queue",
        at="Queue",
        outlooks=made,
        age=time_span(oldest_s),
        now=oldest_s <= OLD_S,
        limit=limit,
        limits=[
            (f"{n} h", view.link("/queue", limit="" if n == "1" else n), n == limit) for n in limits
        ],
    )


def replay(view: View) -> str:
    """Give the results of a saved replay."""
    if not view.viewer.everything:
        raise PageMissing("replays show all users' jobs: only admins may see them")
    path = view.site.config.web.replay
    return view.render("replay.html.j2", "Replay", at="Replay", path=path, replayed=replayed(path))


def _catalogue_query(view: View) -> CatalogueQuery:
    parameters, default = view.query, CatalogueQuery()
    return CatalogueQuery(
        text=query.text(parameters, "q"),
        group=query.choice(parameters, "group", GROUPS, default.group),
        verdict=query.choice(parameters, "verdict", VERDICTS, default.verdict),
        order=query.choice(parameters, "order", ORDERS, default.order),
        reverse=query.choice(parameters, "reverse", ("no", "yes"), "no") == "yes",
    )


def _list_link(view: View, filters: CatalogueQuery, **more: object) -> str:
    default = CatalogueQuery()
    return view.link(
        "/applications",
        q=filters.text,
        group="" if filters.group == default.group else filters.group,
        verdict="" if filters.verdict == default.verdict else filters.verdict,
        order="" if filters.order == default.order else filters.order,
        reverse="yes" if filters.reverse else "",
        **more,
    )


def _listing(view: View, shown: Sequence[CatalogueEntry], filters: CatalogueQuery) -> Table:
    heads = {
        "application": "application", "details": "differs by",
        "recognised_by": "recognised by", "runs": "runs",
        "nodes": "observed", "knee": "knee", "verdict": "verdict", "model": "model",
    }  # fmt: skip
    details = view.site.catalogue().details
    words = ("application", "details", "recognised_by", "verdict", "model")
    return Table(
        name="applications",
        caption="Applications",
        columns=tuple(
            _sorted(view, TableColumn(key=key, title=title, left=key in words), filters)
            for key, title in heads.items()
        ),
        rows=[
            (
                PageLink(entry.listed.name, application_href(view, entry)),
                details(entry),
                RECOGNISED[entry.level],
                str(entry.runs),
                f"{entry.fewest} to {entry.most} {entry.unit}" if entry.most else "-",
                f"{entry.knee} {entry.unit}" if entry.knee else "-",
                f"{entry.verdict}, switched off" if entry.off else entry.verdict,
                entry.model,
            )
            for entry in shown
        ],
        empty="no application that these words and choices are about",
    )


def _sorted(view: View, column: TableColumn, filters: CatalogueQuery) -> TableColumn:
    """Column with the link that puts the rows in its order, or turns that round."""
    if column.key not in ORDERS:
        return column
    present = filters.order == column.key
    turned = replace(filters, order=column.key, reverse=present and not filters.reverse)
    down = ORDERS[filters.order][1] != filters.reverse
    order = ("descending" if down else "ascending") if present else ""
    return replace(column, href=_list_link(view, turned), order=order)


def application_link(view: View, entry: CatalogueEntry) -> PageLink:
    """Link to an application by its name."""
    return PageLink(entry.label, application_href(view, entry))


def application_href(view: View, entry: CatalogueEntry) -> str:
    """URL of an application's page."""
    return view.link("/application", level=entry.level, key=entry.key)


def _visible(view: View, level: str, key: str) -> CatalogueEntry:
    entry = view.site.catalogue().find((level, key))
    # The answer does not say which: the application is missing, or the user may not see it.
    if entry is None or not view.site.may_see(view.viewer)(entry):
        raise PageMissing("there is no such application, or other users ran it")
    return entry


def _label(view: View, selection: DecisionSelection) -> str:
    if not selection.key:
        return ""
    entry = view.site.catalogue().find((selection.key_level, selection.key))
    return entry.label if entry and view.site.may_see(view.viewer)(entry) else selection.key


def decisions_table(view: View, pairs: Sequence[Pair], caption: str) -> Table:
    """List decisions, one line each; what is named leads on."""
    catalogue, may_see = view.site.catalogue(), view.site.may_see(view.viewer)

    def rows() -> Iterator[Sequence[str | PageLink]]:
        for one, run in pairs:
            here = view.link("/decision", id=one.decision_id)
            entry = catalogue.find((one.key_level, one.key)) if one.key else None
            yield (
                PageLink(str(run.job_id) if run else "not yet read", here),
                short_clock(one.at_s),
                application_link(view, entry) if entry and may_see(entry) else application_of(one),
                PageLink(one.user, view.link("/decisions", user=one.user)),
                size_change(one),
                limit_change(one),
                took(one, run),
                PageLink(tag(one), view.link("/decisions", reason=one.reason)),
            )

    return Table(
        name="decisions",
        caption=caption,
        columns=COLUMNS,
        rows=list(rows()),
        empty="no decision that these choices are about",
    )


def linked(view: View, table: Table) -> Table:
    """Make links of the applications, users and reasons that a table of the report names."""
    leads = {"application": application_by_label, "user": _user_link, "reason": _reason_link}
    columns = [leads.get(column.key) for column in table.columns]

    def cells(row: Sequence[str | PageLink]) -> list[str | PageLink]:
        return [
            lead(view, cell) if lead and isinstance(cell, str) else cell
            for lead, cell in zip(columns, row, strict=True)
        ]

    return replace(table, rows=[cells(row) for row in table.rows])


def application_by_label(view: View, label: str) -> str | PageLink:
    """Link to the application of this name; only its name where there is none to see."""
    entry = view.site.catalogue().named(label)
    return (
        application_link(view, entry) if entry and view.site.may_see(view.viewer)(entry) else label
    )


def _user_link(view: View, name: str) -> str | PageLink:
    return PageLink(name, view.link("/decisions", user=name)) if name else name


def _reason_link(view: View, name: str) -> str | PageLink:
    return PageLink(name, view.link("/decisions", reason=name))


def _since(
    view: View, selection: DecisionSelection, before: tuple[float, str] | None
) -> float | None:
    """Return the oldest time that a page searches; None: all, where an index helps."""
    slow = (
        *(selection.partition, selection.mode, selection.reason, selection.state),
        *(selection.changed, view.viewer.visibility.accounts),
    )
    if selection.job_id or not any(slow):
        return None
    return (before[0] if before else selection.until_s or time.time()) - _SPAN_S


def _before(parameters: Mapping[str, str]) -> tuple[float, str] | None:
    at = query.text(parameters, "before")
    if not at:
        return None
    with suppress(ValueError):
        if isfinite(at_s := float(at)):
            return at_s, query.text(parameters, "id")
    raise query.BadQuery("before: seconds since the epoch")
