"""Stored runs that were read by earlier rules are read anew, from the texts and steps stored.

A new release may tell identities, attributes, or which rows are one job in another way: its `RULES`
are then others.  Runs are read anew in the order of their ids, some in each transaction, and a
counter says how far that is.  Whoever is stopped anywhere has lost nothing: the next one goes on
from there.  Runs that are stored meanwhile are read by today's rules already.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from sacct_ingest.runs.evidence import ADDED_STEP, FAILED
from sacct_ingest.runs.reading import resolved
from sacct_ingest.runs.submission import RULES
from sacct_ingest.store import counters
from sacct_ingest.store.changes import mark_runs
from sacct_ingest.store.engine import put, reading, writing
from sacct_ingest.store.runs_of_job import PIECE_COLUMNS, link_stored
from sacct_ingest.store.schema import counters as counter_table
from sacct_ingest.store.schema import runs, steps

#: Runs of one transaction.
BATCH: Final = 2000
_TEXTS = ("user", "name", "comment", "submit_line", "work_dir")
_READ_BEFORE = ("tag", "script", "line", "failed_steps", "rules")
_COLUMNS = [runs.c[name] for name in (*PIECE_COLUMNS, *_TEXTS, *_READ_BEFORE)]
_READ = (
    sa.update(runs)
    .where(runs.c.id == sa.bindparam("id_"))
    .values(
        tag=sa.bindparam("tag_"),
        line=sa.bindparam("line_"),
        submission=sa.bindparam("submission_"),
        failed_steps=sa.bindparam("failed_steps_"),
        rules=RULES,
    )
)


class Resolved(NamedTuple):
    """How far it is: runs that were looked at, and all that there are."""

    runs: int
    of: int


def progress_of(engine: sa.Engine) -> Resolved | None:
    """Say how far a store is read by today's rules; None: all of it is."""
    with reading(engine) as connection:
        place = counters.find(connection, counters.RULES_PLACE) or 0
        end = counters.read(connection, "runs")
    return Resolved(place, end) if place < end else None


def resolve(engine: sa.Engine, report: Callable[[Resolved], object] | None = None) -> None:
    """Read all stored runs by today's rules that were read by earlier ones.

    report: called after each transaction.
    Raises sacct_ingest.errors.StoreError: the store cannot be written.
    """
    if progress_of(engine) is None:
        return
    while (done := _resolve_some(engine)) is not None:
        if report:
            report(done)


def _resolve_some(engine: sa.Engine) -> Resolved | None:
    """Read some runs anew; None: none is left."""
    with writing(engine) as connection:
        counters.lock(connection, "runs")
        place = counters.find(connection, counters.RULES_PLACE) or 0
        if place == counters.DONE:
            return None
        query = sa.select(*_COLUMNS).where(runs.c.id >= place).order_by(runs.c.id).limit(BATCH)
        rows = connection.execute(query).all()
        if rows:
            _read(connection, [row for row in rows if row.rules != RULES])
        end = counters.read(connection, "runs")
        place = rows[-1].id + 1 if rows else counters.DONE
        put(connection, counter_table, [{"name": counters.RULES_PLACE, "value": place}], "name")
    return Resolved(min(place, end), end) if rows else None


def _read(connection: sa.Connection, rows: list[sa.Row[Any]]) -> None:
    if not rows:
        return
    values: list[dict[str, Any]] = []
    differing: list[int] = []
    failed_steps = _failed_steps(connection, rows[0].id, rows[-1].id)
    for row in rows:
        identity, text = resolved(*(getattr(row, name) for name in _TEXTS))
        tag = identity.tag
        line = identity.line
        # Keys of a decision stay: it saw the script.
        if row.script:
            tag = row.tag
            line = row.line
        failed = failed_steps.get(row.id, row.failed_steps)
        if (tag, line) != (row.tag, row.line) or (failed and not row.failed_steps):
            differing.append(row.id)
        keys = {"tag_": tag, "line_": line}
        values.append({"id_": row.id, "submission_": text, "failed_steps_": failed, **keys})
    mark_runs(connection, differing)
    connection.execute(_READ, values)
    mark_runs(connection, differing)
    link_stored(connection, {n: [getattr(row, n) for row in rows] for n in PIECE_COLUMNS})


def _failed_steps(connection: sa.Connection, first: int, last: int) -> dict[int, int]:
    """Count failed steps of the runs with these ids and those between, as far as steps are kept."""
    failed = sa.and_(steps.c.state.in_(FAILED), steps.c.step != ADDED_STEP)
    query = sa.select(steps.c.run_id, sa.func.sum(sa.case((failed, 1), else_=0)))
    query = query.where(steps.c.run_id.between(first, last)).group_by(steps.c.run_id)
    return {run_id: int(count) for run_id, count in connection.execute(query)}
