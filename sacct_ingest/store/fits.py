"""Prediction tables: written by refits, read by nimod."""

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import ColumnElement, Engine, and_, delete, func, insert, or_, select

from sacct_ingest.records import KeyLevel
from sacct_ingest.store import counters
from sacct_ingest.store.engine import reading, writing
from sacct_ingest.store.rows import FitRow
from sacct_ingest.store.schema import fits

_COLUMNS = [column.name for column in fits.columns]
_BATCH = 500
_SHORTEST_KEY = 6  #: a key may be cut short, but not to where it says nothing


class Fits:
    """The table ``fits``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def replace(
        self,
        rows: Sequence[FitRow],
        *,
        keep_others: bool = False,
        begins: Iterable[tuple[KeyLevel, str]] = (),
    ) -> None:
        """Write ``rows`` in one transaction and raise the version.

        keep_others: leave the rows of other identities; otherwise they are deleted.
        begins: levels, and what keys begin with that are deleted all the same.
        """
        latest = {(row.level, row.key): row for row in rows}
        values = [{name: getattr(row, name) for name in _COLUMNS} for row in latest.values()]
        with writing(self._engine) as connection:
            counters.increase(connection, "fits", 1)
            if not keep_others:
                connection.execute(delete(fits))
            for level, begin in begins:
                part = func.substr(fits.c.key, 1, len(begin)) == begin
                connection.execute(delete(fits).where(fits.c.level == level, part))
            for start in range(0, len(values), _BATCH):
                batch = values[start : start + _BATCH]
                if keep_others:
                    same = (and_(fits.c.level == v["level"], fits.c.key == v["key"]) for v in batch)
                    connection.execute(delete(fits).where(or_(*same)))
                connection.execute(insert(fits), batch)

    def all(self) -> list[FitRow]:
        """All rows, ordered by level and key."""
        with reading(self._engine) as connection:
            rows = connection.execute(select(fits).order_by(fits.c.level, fits.c.key))
            return [_row(row._mapping) for row in rows]

    def each(self) -> Iterator[FitRow]:
        """Rows one after the other, a few of them in memory at a time."""
        with reading(self._engine) as connection:
            streaming = connection.execution_options(yield_per=_BATCH)
            for row in streaming.execute(select(fits)):
                yield _row(row._mapping)

    def payloads(self) -> Iterator[tuple[str, str, str]]:
        """Level, key and payload of one row after the other, a few in memory at a time."""
        with reading(self._engine) as connection:
            streaming = connection.execution_options(yield_per=_BATCH)
            for row in streaming.execute(select(fits.c.level, fits.c.key, fits.c.payload)):
                yield row.level, row.key, row.payload

    def verdicts(self) -> dict[str, tuple[int, float]]:
        """Give the number of rows of each verdict, and when the newest was made."""
        query = select(fits.c.verdict, func.count(), func.max(fits.c.fitted_s))
        with reading(self._engine) as connection:
            rows = connection.execute(query.group_by(fits.c.verdict))
            return {str(name): (int(count), float(newest)) for name, count, newest in rows}

    def find(self, keys: Sequence[tuple[KeyLevel, str]]) -> list[FitRow]:
        """Rows of these identities, without reading all others."""
        if not keys:
            return []
        any_key = or_(*(and_(fits.c.level == level, fits.c.key == key) for level, key in keys))
        with reading(self._engine) as connection:
            rows = connection.execute(select(fits).where(any_key))
            return [_row(row._mapping) for row in rows]

    def named(self, name: str) -> list[FitRow]:
        """Rows whose label is this name, or ends in it after a slash, or whose key begins so."""
        end = f"/{name}"
        tail = func.substr(fits.c.label, func.length(fits.c.label) - len(end) + 1)
        conditions = [fits.c.label == name, and_(func.length(fits.c.label) > len(end), tail == end)]
        if len(name) >= _SHORTEST_KEY:
            conditions.append(func.substr(fits.c.key, 1, len(name)) == name)
        return self._select(or_(*conditions))

    def of_user(self, user: str) -> list[FitRow]:
        """Rows that only runs of this user are in."""
        begin = f"{user}/"
        label = func.substr(fits.c.label, 1, len(begin)) == begin
        key = func.substr(fits.c.key, 1, len(begin)) == begin
        return self._select(
            or_(
                and_(fits.c.level.in_((KeyLevel.LINE, KeyLevel.SCRIPT)), label),
                and_(fits.c.level.in_((KeyLevel.TAG, KeyLevel.NAME)), key),
                and_(fits.c.level == KeyLevel.USER, fits.c.key == user),
            )
        )

    def _select(self, condition: ColumnElement[bool]) -> list[FitRow]:
        query = select(fits).where(condition).order_by(fits.c.level, fits.c.key)
        with reading(self._engine) as connection:
            return [_row(row._mapping) for row in connection.execute(query)]

    def newest_s(self) -> float | None:
        """When the newest row was fitted; None: there are none."""
        with reading(self._engine) as connection:
            newest = connection.execute(select(func.max(fits.c.fitted_s))).scalar()
        return None if newest is None else float(newest)

    def version(self) -> int:
        """Give the number that every `replace` raises."""
        with reading(self._engine) as connection:
            return counters.read(connection, "fits")


def _row(values: object) -> FitRow:
    given = dict(values)  # type: ignore[call-overload]
    return FitRow(**given | {"level": KeyLevel(given["level"])})
