"""Prediction tables, and whether they still hold: written by refits and ingests, read by nimod.

Refits also write what became of predictions, of each identity and pooled for the site.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from sacct_ingest.records import PART, KeyLevel, StandingRow
from sacct_ingest.store import counters
from sacct_ingest.store.changes import Named, of_identity, places
from sacct_ingest.store.engine import StoreTable, any_of, put, reading, writing
from sacct_ingest.store.rows import FitRow, RecordRow
from sacct_ingest.store.schema import fits, records, standings

_COLUMNS = [fits.c[name] for name in FitRow.__slots__]
_OF_IDENTITY = sa.delete(fits).where(of_identity(fits))
_BATCH = 500  #: rows in memory at a time
_SHORTEST_KEY = 6  #: a key may be cut short, but not to where it says nothing
_OF_RECORDED = of_identity(records)
#: Level and key of what is pooled over all identities.
SITE = ("site", "")
#: The part of that which all tables rest on.
BASIS = ("site", "basis")
#: The past jobs that commands without runs are compared with, as JSON.
NEIGHBOURS = ("site", "neighbours")
#: When the pasts of the queues were made, seconds since the epoch, and of how many runs, as JSON.
PASTS_MADE = ("site", "pasts made")
#: Levels of what is held by cluster: errors of estimated waits, how jobs came to the queue, and
#: what new jobs have to expect.
WAITS, QUEUE, OUTLOOK = "waits", "queue", "outlook"
#: Likewise: the nodes of each partition as Slurm has them, and as far as runs show them.
NODES, SEEN_NODES = "nodes", "seen_nodes"
#: Fields of jobs that nimod leaves alone for good: limits to plan with, node counts.
CLOSED_LIMITS, CLOSED_COUNTS = "closed_limits", "closed_counts"


class Fits(StoreTable):
    """The table ``fits``."""

    def replace(
        self,
        rows: Sequence[FitRow],
        *,
        keep_others: bool = False,
        of: Iterable[tuple[KeyLevel, str]] = (),
        basis: int = 0,
    ) -> None:
        """Write ``rows`` in one transaction and raise the version.

        keep_others: leave the rows of other identities and parts; otherwise they are deleted.
        of: identities whose rows, and those of their parts, are deleted all the same.
        basis: number of the site's record that they rest on.
        """
        latest = {(row.level, row.key): row for row in rows}
        with writing(self._engine) as connection:
            version = counters.increase(connection, "fits", 1) + 1
            if not keep_others:
                connection.execute(sa.delete(fits))
            gone = places(of)
            if gone:
                connection.execute(_OF_IDENTITY, gone)
            new = {"basis": basis, "version": version}
            values = [asdict(row) | new for row in latest.values()]
            put(connection, fits, values, *(("level", "key") if keep_others and not gone else ()))

    def all(self) -> list[FitRow]:
        """All rows, ordered by level and key."""
        return self._select(sa.true())

    def each(self, levels: Iterable[KeyLevel] = KeyLevel) -> Iterator[FitRow]:
        """Rows of these levels one after the other, a few of them in memory at a time."""
        query = sa.select(*_COLUMNS).where(fits.c.level.in_([level.value for level in levels]))
        yield from map(_fit, self._each(query, _BATCH))

    def payloads(self, since: int | None = None) -> Iterator[tuple[str, str, str]]:
        """Level, key and payload of one row after the other, a few in memory at a time.

        since: version after which they were written.
        """
        query = sa.select(fits.c.level, fits.c.key, fits.c.payload)
        if since is not None:
            query = query.where(fits.c.version > since)
        for row in self._each(query, _BATCH):
            yield row.level, row.key, row.payload

    def count(self) -> int:
        """Count the rows."""
        return int(self._value(sa.select(sa.func.count(fits.c.version))))

    def count_without(self, beginning: str) -> int:
        """Count the rows whose payload begins otherwise."""
        start = sa.func.substr(fits.c.payload, 1, len(beginning))
        query = sa.select(sa.func.count(fits.c.version)).where(start != beginning)
        return int(self._value(query))

    def stale(self, basis: int, most: int) -> list[tuple[KeyLevel, str]]:
        """Give identities with rows that rest on an earlier record of the site, the oldest first.

        basis: number of the present one.
        most: rows to look at.
        """
        query = sa.select(fits.c.level, fits.c.key).where(fits.c.basis < basis)
        query = query.order_by(fits.c.basis, fits.c.level, fits.c.key).limit(most)
        rows = ((KeyLevel(level), key.partition(PART)[0]) for level, key in self._rows(query))
        return list(dict.fromkeys(rows))

    def counts(self) -> dict[tuple[str, str, str], int]:
        """Count the rows of each level, verdict and model."""
        names = fits.c.level, fits.c.verdict, fits.c.model
        rows = self._rows(sa.select(*names, sa.func.count()).group_by(*names))
        return {(level, verdict, model): number for level, verdict, model, number in rows}

    def find(self, keys: Sequence[tuple[KeyLevel, str]]) -> list[FitRow]:
        """Rows of these identities, without reading all others."""
        return self._select(any_of(fits.primary_key, keys))

    def named(self, name: str) -> list[FitRow]:
        """Rows whose label is this name, or ends in it after a slash, or whose key begins so."""
        end = f"/{name}"
        tail = sa.func.substr(fits.c.label, sa.func.length(fits.c.label) - len(end) + 1)
        conditions = [
            fits.c.label == name,
            sa.and_(sa.func.length(fits.c.label) > len(end), tail == end),
        ]
        if len(name) >= _SHORTEST_KEY:
            conditions.append(sa.func.substr(fits.c.key, 1, len(name)) == name)
        return self._select(sa.or_(*conditions))

    def of_user(self, user: str) -> list[FitRow]:
        """Rows that only runs of this user are in."""
        begin = f"{user}/"
        label = sa.func.substr(fits.c.label, 1, len(begin)) == begin
        key = sa.func.substr(fits.c.key, 1, len(begin)) == begin
        return self._select(
            sa.or_(
                sa.and_(fits.c.level.in_((KeyLevel.LINE, KeyLevel.SCRIPT)), label),
                sa.and_(fits.c.level.in_((KeyLevel.TAG, KeyLevel.NAME)), key),
                sa.and_(fits.c.level == KeyLevel.USER, fits.c.key == user),
            )
        )

    def _select(self, condition: sa.ColumnElement[bool]) -> list[FitRow]:
        query = sa.select(*_COLUMNS).where(condition).order_by(fits.c.level, fits.c.key)
        return [_fit(row) for row in self._rows(query)]

    def version(self) -> int:
        """Give the number that every `replace` raises."""
        with reading(self._engine) as connection:
            return counters.read(connection, "fits")


class Standings(StoreTable):
    """The table ``standings``: written when outcomes arrive."""

    def put(self, rows: Sequence[StandingRow]) -> None:
        """Write rows in place of those of the same identities, and raise the version."""
        values = [asdict(row) for row in rows]
        with writing(self._engine) as connection:
            counters.increase(connection, "standings", 1)
            put(connection, standings, values, "level", "key")

    def all(self, of: Iterable[Named] | None = None) -> list[StandingRow]:
        """All rows, or those of some identities, ordered by level and key."""
        query = sa.select(standings).order_by(standings.c.level, standings.c.key)
        rows = self._rows(query if of is None else query.where(any_of(standings.primary_key, of)))
        return [StandingRow(**{**row._mapping, "level": KeyLevel(row.level)}) for row in rows]

    def off(self) -> list[tuple[str, str]]:
        """Level and key of the identities that are switched off."""
        query = sa.select(standings.c.level, standings.c.key).where(standings.c.off)
        return [(str(row.level), str(row.key)) for row in self._rows(query)]

    def version(self) -> int:
        """Give the number that every :meth:`put` raises."""
        with reading(self._engine) as connection:
            return counters.read(connection, "standings")


def _fit(row: sa.Row[Any]) -> FitRow:
    return FitRow(**{**row._mapping, "level": KeyLevel(row.level)})


class Records(StoreTable):
    """The table ``records``."""

    def replace(
        self, rows: Iterable[RecordRow], *, of: Iterable[tuple[KeyLevel, str]] = ()
    ) -> None:
        """Write rows in place of those of the same identities, in one transaction.

        of: identities whose rows, and those of their parts, are deleted all the same.
        """
        with writing(self._engine) as connection:
            if gone := places(of):
                connection.execute(sa.delete(records).where(_OF_RECORDED), gone)
            put(connection, records, [asdict(row) for row in rows], "level", "key")

    def put(self, row: RecordRow) -> None:
        """Write one row, in place of that with its level and key."""
        self.replace([row])

    def keys(self, level: str) -> list[str]:
        """Give the keys of a level, in order."""
        query = sa.select(records.c.key).where(records.c.level == level).order_by(records.c.key)
        return [str(row.key) for row in self._rows(query)]

    def fill(self, row: RecordRow, *, instead_of: Collection[str] = ()) -> None:
        """Write the payload of a row that is still there, and delete others of its level."""
        level = records.c.level == row.level
        key = records.c.key
        with writing(self._engine) as connection:
            filled = sa.update(records).where(level, key == row.key).values(payload=row.payload)
            if connection.execute(filled).rowcount:
                connection.execute(sa.delete(records).where(level, key.in_(instead_of)))

    def delete(self, level: str, keys: Collection[str]) -> None:
        """Delete rows of a level."""
        among = records.c.key.in_(list(keys))
        with writing(self._engine) as connection:
            connection.execute(sa.delete(records).where(records.c.level == level, among))

    def of_level(self, level: str) -> dict[str, str]:
        """Give the payloads of a level by key."""
        query = sa.select(records.c.key, records.c.payload).where(records.c.level == level)
        return {str(row.key): str(row.payload) for row in self._rows(query)}

    def of_identity(self, level: KeyLevel, key: str) -> dict[str, str]:
        """Give the payloads of an identity and of its parts, by key."""
        query = sa.select(records.c.key, records.c.payload).where(_OF_RECORDED)
        with reading(self._engine) as connection:
            rows = connection.execute(query, places([(level, key)])[0])
            return {str(row.key): str(row.payload) for row in rows}

    def of(self, identities: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Give the payloads of these levels and keys, where there are any."""
        rows = self._rows(sa.select(records).where(any_of(records.primary_key, identities)))
        return {(str(row.level), str(row.key)): str(row.payload) for row in rows}

    def find(self, level: str, key: str) -> str | None:
        """Give the payload of one identity; None where there is none."""
        return self.of([(level, key)]).get((level, key))
