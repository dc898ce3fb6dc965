"""Pages about many jobs: the report of the last days, a saved replay, the outlook of the queue."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from sacct_ingest.store.fits import OUTLOOK
from sacct_ingest.text.slurm_text import time_span
from slurm_plugin.protocol.reasons import WORDS
from slurm_plugin.protocol.status_messages import PartitionWait, QueueOutlook
from slurm_plugin.reports import page
from slurm_plugin.reports.chart import Chart, waits
from slurm_plugin.reports.headline import headline, proven_lines, title_of
from slurm_plugin.reports.sheets import find, sheets_of
from slurm_plugin.text.formatting import clock, count, limit_text, percent
from slurm_plugin.text.table_columns import SECONDS, Column, Table, text_column
from slurm_plugin.web.view import OLD_S, PageMissing, View

_DAYS = (7, 30, 90)
_REPORT_ROWS = 20  #: of one table; CSV has all
_SENTENCE = re.compile(r"(?<=\.) (?=[A-Z])")
#: Columns that are links to decisions: the filter of that page which takes them.
_FILTERS = {"job_id": "job", "user": "user", "reason": "reason"}
_OUTLOOK = (
    text_column("partition", "partition"),
    Column("waiting", "jobs in the queue"),
    Column("nodes", "nodes"),
    Column("wait_s", "median wait", as_text=SECONDS),
    Column("low_s", "90 %: from", as_text=SECONDS),
    Column("high_s", "to", as_text=SECONDS),
)
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

    links = {"application": application} | {name: decisions(name) for name in _FILTERS}
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


@dataclass(frozen=True, slots=True)
class ClusterOutlook:
    """The outlook of one cluster."""

    cluster: str
    age_s: float
    limits: frozenset[float]  #: of jobs that there are waits for
    record: str
    charts: list[Chart]
    idle: str  #: partitions where every job starts at once: there is nothing to draw
    table: Table


def queue(view: View) -> str:
    """Show what new jobs have to expect in each partition."""
    limit = view.choice("limit", ("1", "4", "12", "24"), "1")
    made = outlooks(
        view.site.store.records.of_level(OUTLOOK),
        counts=view.viewer.everything,
        now_s=time.time(),
        limit_s=3600.0 * int(limit),
    )
    oldest_s = max((one.age_s for one in made), default=0.0)
    limits = sorted({f"{one_s / 3600:.0f}" for one in made for one_s in one.limits}, key=int)
    return view.render(
        "queue.html.j2",
        "Queue",
        outlooks=made,
        age=time_span(oldest_s),
        now=oldest_s <= OLD_S,
        limit=limit,
        limits=[
            (f"{n} h", view.link("/queue", limit="" if n == "1" else n), n == limit) for n in limits
        ],
    )


def largest_cluster(view: View) -> int | None:
    """Nodes of the largest partition, by the outlook that nimod left; None: there is none."""
    outlooks = _outlooks(view.site.store.records.of_level(OUTLOOK))
    return max((row.nodes for _, one in outlooks for row in one.partitions), default=None)


def outlooks(
    payloads: Mapping[str, str], *, counts: bool, now_s: float, limit_s: float = 3600.0
) -> list[ClusterOutlook]:
    """Read the outlook of each cluster; what cannot be read is left out.

    payloads: what nimod left, by cluster.
    now_s: seconds since the epoch.
    limit_s: time limit of the jobs.
    counts: whether to say how many jobs wait: only to those who may see everybody's.
    """
    made = []
    for cluster, one in _outlooks(payloads):
        if not counts:
            for row in one.partitions:
                row.waiting = None
        made.append(_outlook(cluster, one, now_s, limit_s))
    return made


def _outlooks(payloads: Mapping[str, str]) -> Iterator[tuple[str, QueueOutlook]]:
    for cluster, payload in sorted(payloads.items()):
        with suppress(msgspec.DecodeError):
            yield cluster, msgspec.json.decode(payload, type=QueueOutlook)


def _outlook(cluster: str, one: QueueOutlook, now_s: float, limit_s: float) -> ClusterOutlook:
    shown = [row for row in one.partitions if row.limit_s == limit_s]
    groups = [(name, list(rows)) for name, rows in groupby(shown, key=lambda row: row.partition)]
    most_s = max((row.high_s for row in shown), default=0.0)
    idle = [name for name, rows in groups if all(row.high_s == 0 for row in rows)]
    inside = "" if one.inside is None else f", {percent(one.inside)} of them inside their interval"
    starts = f"{count(one.recorded, 'start')} recorded{inside}."

    def chart(name: str, rows: list[PartitionWait]) -> Chart:
        queued = rows[0].waiting
        jobs = "" if queued is None else f": {count(queued, 'job')} in the queue"
        return waits(f"Wait in {name}{jobs}", rows, most_s=most_s)

    return ClusterOutlook(
        cluster=cluster,
        age_s=max(now_s - one.made_s, 0.0),
        limits=frozenset(row.limit_s for row in one.partitions),
        record=starts if one.recorded else "No job start recorded yet, so intervals are wide.",
        charts=[chart(name, rows) for name, rows in groups if name not in idle],
        idle=", ".join(idle),
        table=Table(
            _OUTLOOK, shown, "outlook", f"Waits of jobs with a limit of {limit_text(limit_s)}"
        ),
    )
