"""Pages about many jobs: the report of the last days, a saved replay."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from slurm_plugin.protocol.reasons import WORDS
from slurm_plugin.reports import page
from slurm_plugin.reports.headline import headline, proven_lines, title_of
from slurm_plugin.reports.sheets import find, sheets_of
from slurm_plugin.text.formatting import clock
from slurm_plugin.text.table_columns import Table
from slurm_plugin.web.view import PageMissing, View

_DAYS = (7, 30, 90)
_REPORT_ROWS = 20  #: of one table; CSV has all
_SENTENCE = re.compile(r"(?<=\.) (?=[A-Z])")
#: Columns that are links to decisions: the filter of that page which takes them.
_FILTERS = {"job_id": "job", "user": "user", "reason": "reason"}
_LARGEST = 8 << 20  #: bytes of a replay; hundreds of settings are far below


def report(view: View) -> str:
    """Give all tables of the last days."""
    days = chosen_days(view)
    outcomes = view.site.report(view.viewer, days)

    def shown(one: Table) -> Table:
        return replace(
            linked(view, one), csv_link=view.link("/table.csv", name=one.name, days=days)
        )

    return view.render(
        "report.web.html.j2",
        "Report",
        lead=title_of(outcomes),
        age=view.site.report_age(view.viewer, days),
        head=headline(outcomes) if outcomes.decisions else None,
        days=days,
        periods=periods(view, "/report", days),
        sections=[
            (heading, [shown(one) for one in tables])
            for heading, tables in page.sections(outcomes, WORDS, most=_REPORT_ROWS)
        ],
    )


def table_csv(view: View) -> str:
    """Give one table of the report as CSV."""
    sheets = sheets_of(view.site.report(view.viewer, chosen_days(view)), WORDS)
    return find(sheets, view.choice("name", [s.name for s in sheets], "applications")).csv()


def chosen_days(view: View) -> int:
    """Give the days that overview and report are about."""
    own = view.site.config.web.days
    return int(view.choice("days", [str(n) for n in {own, *_DAYS}], str(own)))


def periods(view: View, path: str, days: int) -> list[tuple[str, str, bool]]:
    """Link to other periods: words, URL, whether it is the present one."""
    own = view.site.config.web.days
    choices = sorted({own, *_DAYS})
    return [(f"{n} days", view.link(path, days="" if n == own else n), n == days) for n in choices]


def linked(view: View, table: Table) -> Table:
    """Make links of the applications, jobs, users and reasons that a table of the report names."""

    def application(row: Any) -> str:
        # Of arrays it is the name of the job alone.
        own = f"{row.user}/{row.application}" if table.name == "arrays" else label(row)
        found = view.application_by_label(own)
        return "" if isinstance(found, str) else found.href

    def label(row: Any) -> str:
        return str(next(one for one in table.columns if one.name == "application").of(row))

    def decisions(name: str) -> Callable[[Any], str]:
        return lambda row: view.link("/decisions", **{_FILTERS[name]: getattr(row, name)})

    def who(row: Any) -> str:
        return view.link("/decisions", **{row.kind: row.who})

    links: dict[str, Callable[[Any], str]] = {"application": application, "who": who}
    links |= {name: decisions(name) for name in _FILTERS}
    return replace(table, columns=[replace(one, link=links.get(one.name)) for one in table.columns])


def replay(view: View) -> str:
    """Give the results of a saved replay, a file of ``nimo replay --json``."""
    if not view.viewer.everything:
        raise PageMissing("replays show all users' jobs: only admins may see them")
    made: dict[str, object] = {}
    path = view.site.config.web.replay
    if path:
        try:
            status = Path(path).stat()
            if status.st_size > _LARGEST:
                made = {"error": f"{path} is too large for a replay"}
            else:
                made = _read(path, status.st_mtime_ns, status.st_ino)
        except OSError as error:
            made = {"error": f"{path}: {error.strerror or error}"}
    return view.render("replay.html.j2", "Replay", replayed=made)


@lru_cache(maxsize=2)
def _read(path: str, changed_ns: int, inode: int) -> dict[str, object]:
    """Give a replay in words and tables; ``error`` says why there is none."""
    del inode  # part of what is remembered
    # Loaded here: numpy and scipy take half a second, and most pages need neither.
    from slurm_plugin.reports import replay_text  # noqa: PLC0415

    try:
        report = msgspec.json.decode(Path(path).read_bytes(), type=replay_text.ReplayReport)
    except msgspec.DecodeError as error:
        words = f"not what 'nimo replay --json' of this release writes: {error}"
        return {"error": f"{path}: {words}"}
    if not report.results:
        return {"error": f"{path}: no setting was replayed"}
    sentences = _SENTENCE.split(replay_text.verdict(report))
    return {
        "error": "",
        "title": replay_text.title_of(report),
        "verdict": sentences[:3],
        "more": " ".join((*sentences[3:], *proven_lines(report.proven))),
        "made": clock(changed_ns / 1e9),
        "drawing": replay_text.benefit_and_harm(report),
        "tables": replay_text.tables(report),
        "assumptions": report.assumptions,
    }
