"""Why a user's own jobs wait, and what would start them sooner, as a table."""

import shlex
import time
from typing import NamedTuple

from slurm_plugin.reports.html import for_page
from slurm_plugin.reports.pending_text import (
    EditRow,
    PendingAnswer,
    edited_start,
    in_order,
    job_label,
)
from slurm_plugin.text.table_columns import MOMENT, Column, Table, text_column
from slurm_plugin.web.view import SOME, View


class _Row(NamedTuple):
    """A job that waits."""

    job: str
    name: str
    why: str
    start_s: float | None
    sooner: str  #: what would start it sooner, and by how much
    line: str  #: to paste


def reasons_table(view: View) -> Table | None:
    """Say why the viewer's own jobs wait; None: none does, or Slurm does not say."""
    found = [one for one in view.site.waiting(view.viewer.name) if one.may_change]
    if not found:
        return None
    now_s = time.time()
    rows = [_row(one, now_s) for one in in_order(found)]
    columns = [
        text_column("job", "job"),
        text_column("name", "name"),
        text_column("why", "why it waits"),
        Column("start_s", "starts", as_text=MOMENT),
        text_column("sooner", "what would help"),
        text_column("line", "line to paste", paste=lambda row: bool(row.line)),
    ]
    return for_page(Table(columns, rows, "reasons_of_jobs", "Why they wait"), SOME)


def _row(one: PendingAnswer, now_s: float) -> _Row:
    first = one.edits[0] if one.edits else None
    return _Row(
        job=job_label(one),
        name=one.name,
        why=one.sentence,
        start_s=one.start_s or one.slurm_start_s,
        sooner=_sooner(first, now_s) if first else one.change,
        line=shlex.join(first.argv) if first else "",
    )


def _sooner(first: EditRow, now_s: float) -> str:
    caution = f", {first.caution}" if first.caution else ""
    return f"{first.what}: {edited_start(first, now_s)}{caution}"
