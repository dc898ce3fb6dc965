"""The pages: what goes into which template.  Each takes a request's view of the site."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from predictor.table import decode
from predictor.types import PredictionTable
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Selection
from slurm_plugin.config import Mode
from slurm_plugin.decision.reasons import WORDS
from slurm_plugin.evaluation.outcomes import Pair
from slurm_plugin.formatting import RECOGNISED, count
from slurm_plugin.reports import page
from slurm_plugin.reports.html import PageLink, Table, TableColumn
from slurm_plugin.reports.sheets import title_of
from slurm_plugin.web import application_page, layout, query
from slurm_plugin.web.catalogue import GROUPS, ORDERS, VERDICTS, Catalogue, CatalogueQuery, Entry
from slurm_plugin.web.data import PageData
from slurm_plugin.web.decisions_page import COLUMNS, cells, facts
from slurm_plugin.web.replay_page import replayed
from slurm_plugin.web.viewer import Viewer

_ROWS = 50
_SOME = 10
_SPAN_DAYS = 90
_SPAN_S = 86_400.0 * _SPAN_DAYS


class NotFound(Exception):  # noqa: N818 - a state, not an error
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

    def render(self, template: str, title: str, *, at: str = "", **given: Any) -> str:
        """Fill a template; ``at`` is the part of the site that it belongs to."""
        return layout.render(self.site.config, self.viewer, template, title, at=at, **given)


def overview(view: View) -> str:
    """Give the last days at a glance, and what needs somebody's attention."""
    report = view.site.report(view.viewer)
    tables = [
        one
        for heading, group in page.sections(report, WORDS)
        if heading == "Applications"
        for one in group
        if one.name != "applications" and one.rows
    ]
    return view.render(
        "overview.html.j2",
        "Overview",
        at="Overview",
        lead=title_of(report),
        days=view.site.config.web.days,
        known=_by_verdict(view),
        figures=page.figures(report),
        charts=page.charts(report, WORDS),
        tables=[replace(one, rows=one.rows[:_SOME]) for one in tables],
        report=view.link("/report"),
    )


def report(view: View) -> str:
    """Give all tables of the last days."""
    found = view.site.report(view.viewer)
    return view.render(
        "report.web.html.j2",
        "Report",
        at="Report",
        lead=title_of(found),
        days=view.site.config.web.days,
        sections=page.sections(found, WORDS) if found.decisions else [],
    )


def applications(view: View) -> str:
    """Find applications: words, groups, an order, a page at a time."""
    wanted = _catalogue_query(view)
    found = view.site.catalogue().select(wanted, view.site.may_see(view.viewer))
    last = max(1, -(-len(found) // _ROWS))
    at = min(query.number(view.query, "page", 1), last)
    shown = found[(at - 1) * _ROWS : at * _ROWS]
    return view.render(
        "applications.html.j2",
        "Applications",
        at="Applications",
        action=view.link("/applications"),
        wanted=wanted,
        groups={name: words for name, (words, _) in GROUPS.items()},
        verdicts={name: words for name, (words, _) in VERDICTS.items()},
        table=_listing(view, shown, wanted),
        found=count(len(found), "application"),
        page=at,
        last=last,
        links={
            number: _list_link(view, wanted, page=number if number > 1 else "")
            for number in {1, at - 1, at + 1, last}
        },
    )


def one_application(view: View) -> str:
    """Give one application's curve, what is made of it and its newest decisions."""
    entry = _visible(view, query.text(view.query, "level"), query.text(view.query, "key"))
    rows = view.site.store.fits.find([(KeyLevel(entry.level), entry.key)])
    if not rows:
        raise NotFound("this application is not known any more; the list has those that are")
    known: PredictionTable = decode(rows[0].payload)
    same = Selection(key_level=entry.level, key=entry.key)
    pairs = view.site.decisions(view.viewer, same, most=_SOME)
    standings = {(row.level.value, row.key): row for row in view.site.store.standings.all()}
    every = query.choice(view.query, "counts", ("some", "all"), "some") == "all"
    return view.render(
        "application.html.j2",
        known.label,
        at="Applications",
        known=known,
        facts=application_page.facts(known, standings.get(entry.identity)),
        curves=list(application_page.curves(known, every=every)),
        every=every,
        other=view.link(
            "/application", level=entry.level, key=entry.key, counts="" if every else "all"
        ),
        decisions=_decisions(view, pairs, "Its newest decisions"),
        more=view.link("/decisions", level=entry.level, key=entry.key),
    )


def decisions(view: View) -> str:
    """Give decisions, the newest first, a page at a time."""
    given = view.query
    wanted = Selection(
        user=query.text(given, "user"),
        partition=query.text(given, "partition"),
        mode=query.choice(given, "mode", ("", *(mode.value for mode in Mode)), ""),
        reason=query.text(given, "reason"),
        key_level=query.text(given, "level"),
        key=query.text(given, "key"),
    )
    before = _before(given)
    since_s = _since(view, wanted, before)
    chosen = replace(wanted, since_s=since_s)
    pairs = view.site.decisions(view.viewer, chosen, most=_ROWS + 1, before=before)
    named = {
        "user": wanted.user,
        "partition": wanted.partition,
        "mode": wanted.mode,
        "reason": wanted.reason,
        "level": wanted.key_level,
        "key": wanted.key,
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
        wanted=wanted,
        application=_label(view, wanted),
        modes={"": "any", **{mode.value: mode.value for mode in Mode}},
        reasons={"": "any", **WORDS},
        table=_decisions(view, pairs[:_ROWS], "Decisions, newest first"),
        newest=view.link("/decisions", **named) if "before" in given else "",
        since_s=since_s,
        older=view.link("/decisions", **named, **older) if older else "",
    )


def one_decision(view: View) -> str:
    """Give all that is known of one decision."""
    wanted = Selection(decision_id=query.text(view.query, "id"))
    found = view.site.decisions(view.viewer, wanted, most=1) if wanted.decision_id else []
    if not found:
        raise NotFound("there is no such decision, or it is about another user's job")
    ((decision, run),) = found
    entry = view.site.catalogue().find((decision.key_level, decision.key))
    seen = entry if entry and view.site.may_see(view.viewer)(entry) else None
    return view.render(
        "decision.html.j2",
        f"Decision {decision.decision_id}",
        at="Decisions",
        groups=facts(decision, run),
        application=_application_link(view, seen) if seen else None,
    )


def replay(view: View) -> str:
    """Give the results of a saved replay."""
    if not view.viewer.everything:
        raise NotFound("replays are about everybody's jobs: only admins see them")
    path = view.site.config.web.replay
    return view.render("replay.html.j2", "Replay", at="Replay", path=path, replayed=replayed(path))


def _by_verdict(view: View) -> list[tuple[str, int, str]]:
    """Count the applications with a curve, by verdict, each with the list of them."""
    seen = view.site.catalogue().select(CatalogueQuery(), view.site.may_see(view.viewer))
    return [
        (words, number, view.link("/applications", verdict=name))
        for name, (words, holds) in VERDICTS.items()
        if name != "any" and (number := sum(map(holds, seen)))
    ]


def _catalogue_query(view: View) -> CatalogueQuery:
    given, default = view.query, CatalogueQuery()
    return CatalogueQuery(
        text=query.text(given, "q"),
        group=query.choice(given, "group", GROUPS, default.group),
        verdict=query.choice(given, "verdict", VERDICTS, default.verdict),
        order=query.choice(given, "order", ORDERS, default.order),
        reverse=query.choice(given, "reverse", ("no", "yes"), "no") == "yes",
    )


def _list_link(view: View, wanted: CatalogueQuery, **more: object) -> str:
    default = CatalogueQuery()
    return view.link(
        "/applications",
        q=wanted.text,
        group="" if wanted.group == default.group else wanted.group,
        verdict="" if wanted.verdict == default.verdict else wanted.verdict,
        order="" if wanted.order == default.order else wanted.order,
        reverse="yes" if wanted.reverse else "",
        **more,
    )


def _listing(view: View, shown: Sequence[Entry], wanted: CatalogueQuery) -> Table:
    heads = {
        "application": "application", "known_by": "recognised by", "runs": "runs",
        "nodes": "nodes observed", "knee": "knee", "verdict": "verdict", "model": "model",
    }  # fmt: skip
    words = ("application", "known_by", "verdict", "model")
    return Table(
        name="applications",
        caption="Applications",
        columns=tuple(
            _sorted(view, TableColumn(key=key, title=title, left=key in words), wanted)
            for key, title in heads.items()
        ),
        rows=[
            (
                _application_link(view, entry),
                RECOGNISED[entry.level],
                str(entry.runs),
                f"{entry.fewest} to {entry.most}" if entry.most else "-",
                str(entry.knee or "-"),
                f"{entry.verdict}, switched off" if entry.off else entry.verdict,
                entry.model,
            )
            for entry in shown
        ],
        empty="no application that these words and choices are about",
    )


def _sorted(view: View, column: TableColumn, wanted: CatalogueQuery) -> TableColumn:
    """Column with the link that puts the rows in its order, or turns that round."""
    if column.key not in ORDERS:
        return column
    present = wanted.order == column.key
    turned = replace(wanted, order=column.key, reverse=present and not wanted.reverse)
    down = ORDERS[wanted.order][1] != wanted.reverse
    order = ("descending" if down else "ascending") if present else ""
    return replace(column, href=_list_link(view, turned), order=order)


def _application_link(view: View, entry: Entry) -> PageLink:
    return PageLink(entry.label, view.link("/application", level=entry.level, key=entry.key))


def _visible(view: View, level: str, key: str) -> Entry:
    entry = view.site.catalogue().find((level, key))
    # One answer for what is not there and what is not to be seen.
    if entry is None or not view.site.may_see(view.viewer)(entry):
        raise NotFound("nothing is known of this application, or others ran it")
    return entry


def _label(view: View, wanted: Selection) -> str:
    if not wanted.key:
        return ""
    entry = view.site.catalogue().find((wanted.key_level, wanted.key))
    return entry.label if entry and view.site.may_see(view.viewer)(entry) else wanted.key


def _decisions(view: View, pairs: Sequence[Pair], caption: str) -> Table:
    catalogue, seen = view.site.catalogue(), view.site.may_see(view.viewer)

    def rows() -> Iterator[Sequence[str | PageLink]]:
        for decision, run in pairs:
            at, what, *rest = cells(decision, run)
            here = view.link("/decision", id=decision.decision_id)
            entry = _of(catalogue, decision.key_level, decision.key)
            named = _application_link(view, entry) if entry and seen(entry) else what
            yield (PageLink(at, here), named, *rest)

    return Table(
        name="decisions",
        caption=caption,
        columns=COLUMNS,
        rows=list(rows()),
        empty="no decision that these choices are about",
    )


def _of(catalogue: Catalogue, level: str, key: str) -> Entry | None:
    return catalogue.find((level, key)) if key else None


def _since(view: View, wanted: Selection, before: tuple[float, str] | None) -> float | None:
    """Tell how far back a page looks: what no index finds is looked for in a span of time."""
    slow = wanted.partition or wanted.mode or wanted.reason or view.viewer.sight.accounts
    if not slow:
        return None
    return (before[0] if before else time.time()) - _SPAN_S


def _before(given: Mapping[str, str]) -> tuple[float, str] | None:
    at = query.text(given, "before")
    if not at:
        return None
    with suppress(ValueError):
        if isfinite(at_s := float(at)):
            return at_s, query.text(given, "id")
    raise query.BadQuery("before: seconds since the epoch")
