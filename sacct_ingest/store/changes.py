"""Identities whose tables are out of date: a refit reads these and no others.

New runs are those above the id that the last refit came to.  What changes runs that are stored, or
what was decided of them, marks their identities in the same transaction.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from sacct_ingest.records import PART, KeyLevel
from sacct_ingest.store import counters
from sacct_ingest.store.engine import StoreTable, parts, put, writing
from sacct_ingest.store.schema import changed, decisions, fits, records, runs

#: Level, in `records`, of sums over all decisions before a time, which is the key.
SUMS = "sums"
#: A level and a key.
Named = tuple[KeyLevel, str]
#: Marks go where they were read and no later one came; see `Changes.done`.
_DONE = sa.delete(changed).where(
    changed.c.level == sa.bindparam("level_"),
    changed.c.key == sa.bindparam("key_"),
    changed.c.id <= sa.bindparam("until_"),
)


def key_columns(level: KeyLevel) -> list[sa.Column[Any]]:
    """Columns of ``runs`` that make the key of a level, with a slash between them."""
    if level is KeyLevel.NAME:
        return [runs.c.user, runs.c.name]
    return [runs.c[level.value]]


def mark(connection: sa.Connection, which: sa.ColumnElement[bool]) -> None:
    """Have the identities of these runs fitted anew, as they are now."""
    for level in KeyLevel:
        first, *more = columns = key_columns(level)
        key: sa.ColumnElement[str] = first
        for column in more:
            key = key + "/" + column
        chosen = sa.select(sa.literal(level.value), key).where(
            which, *(one > "" for one in columns)
        )
        connection.execute(sa.insert(changed).from_select(["level", "key"], chosen.distinct()))


def mark_runs(connection: sa.Connection, run_ids: Collection[int]) -> None:
    """Have the identities of the runs with these ids fitted anew, as they are now."""
    for among in parts(sorted(run_ids)):
        mark(connection, runs.c.id.in_(among))
        # PostgreSQL would look for the least among all decisions, the oldest first.
        decided = sa.select(decisions.c.at_s).where(decisions.c.run_id.in_(among))
        revoke_sums(connection, min(connection.execute(decided).scalars(), default=None))


def sums_key(before_s: float) -> str:
    """Key of the sums over what was decided before then, whole seconds since the epoch."""
    return f"{int(before_s):012d}"


def revoke_sums(connection: sa.Connection, at_s: float | None) -> None:
    """Delete sums that contain decisions made then; None: there is no such decision."""
    if at_s is not None:
        since = records.c.key > sums_key(at_s)
        connection.execute(sa.delete(records).where(records.c.level == SUMS, since))


def mark_decided(connection: sa.Connection, decision_ids: Sequence[str]) -> None:
    """Have the identities of the runs of these decisions fitted anew."""
    query = sa.select(decisions.c.run_id, decisions.c.at_s)
    about = connection.execute(query.where(decisions.c.decision_id.in_(decision_ids))).all()
    mark_runs(connection, [row.run_id for row in about if row.run_id is not None])
    revoke_sums(connection, min((row.at_s for row in about), default=None))


def mark_identities(connection: sa.Connection, identities: Iterable[Named]) -> None:
    """Have these identities fitted anew."""
    put(connection, changed, [{"level": level, "key": key} for level, key in identities])


class Changes(StoreTable):
    """The table ``changed``."""

    def collect(self) -> int:
        """Mark the identities of new runs; gives how many identities wait to be fitted."""
        with writing(self._engine) as connection:
            # Who adds runs has this lock until they can be seen.
            counters.lock(connection, "runs")
            first = counters.read(connection, "fitted")
            end = counters.read(connection, "runs")
            if end > first:
                mark(connection, runs.c.id.between(first, end - 1))
                counters.increase(connection, "fitted", end - first)
            identities = sa.select(changed.c.level, changed.c.key).distinct().subquery()
            counted = sa.select(sa.func.count()).select_from(identities)
            return int(connection.execute(counted).scalar_one())

    def mark_all(self) -> None:
        """Have all identities fitted anew, those that have nothing but a table too."""
        with writing(self._engine) as connection:
            connection.execute(sa.delete(changed))
            mark(connection, sa.true())
            stored = sa.select(fits.c.level, fits.c.key)
            connection.execute(sa.insert(changed).from_select(["level", "key"], stored))

    def mark(self, identities: Iterable[Named]) -> None:
        """Have these identities fitted anew."""
        with writing(self._engine) as connection:
            mark_identities(connection, identities)

    def pages(
        self, level: KeyLevel, size: int, only: Collection[Named] | None = None
    ) -> Iterator[list[tuple[str, int]]]:
        """Give the keys of a level that wait, in order, each with its last mark.

        size: most in one page; a page is read when it is asked for.
        only: identities among which to look.
        """
        key = changed.c.key
        query = sa.select(key, sa.func.max(changed.c.id)).where(changed.c.level == level.value)
        query = query.group_by(key).order_by(key).limit(size)
        if only is not None:
            query = query.where(key.in_([name for its, name in only if its is level]))
        last = ""
        while page := [(str(k), int(i)) for k, i in self._rows(query.where(key > last))]:
            yield page
            last = page[-1][0]

    def done(self, fitted: Sequence[tuple[KeyLevel, str, int]]) -> None:
        """Take back marks: level, key, and the last mark that was there when its runs were read."""
        rows = [{"level_": level, "key_": key, "until_": last} for level, key, last in fitted]
        with writing(self._engine) as connection:
            if rows:
                connection.execute(_DONE, rows)


def of_identity(table: sa.Table) -> sa.ColumnElement[bool]:
    """Condition for the rows of an identity and of its parts, for `places`."""
    level = table.c.level
    key = table.c.key
    parts = sa.and_(key > sa.bindparam("part_"), key < sa.bindparam("end_"))
    return sa.and_(level == sa.bindparam("level_"), sa.or_(key == sa.bindparam("key_"), parts))


def places(identities: Iterable[Named]) -> list[dict[str, str]]:
    """Values for `of_identity`."""
    after = PART[:-1] + chr(ord(PART[-1]) + 1)
    return [
        {"level_": level, "key_": key, "part_": key + PART, "end_": key + after}
        for level, key in identities
    ]
