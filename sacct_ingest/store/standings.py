"""Whether applications' predictions still hold: written when outcomes arrive, read by nimod."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Engine, and_, delete, insert, or_, select

from sacct_ingest.records import KeyLevel, StandingRow
from sacct_ingest.store import counters
from sacct_ingest.store.engine import reading, writing
from sacct_ingest.store.schema import standings

_COLUMNS = [column.name for column in standings.columns]
_BATCH = 200


class Standings:
    """The table ``standings``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def put(self, rows: Sequence[StandingRow]) -> None:
        """Write rows in place of those of the same identities, and raise the version."""
        values = [{name: getattr(row, name) for name in _COLUMNS} for row in rows]
        with writing(self._engine) as connection:
            counters.increase(connection, "standings", 1)
            for start in range(0, len(values), _BATCH):
                batch = values[start : start + _BATCH]
                same = (_is(v["level"], v["key"]) for v in batch)
                connection.execute(delete(standings).where(or_(*same)))
                connection.execute(insert(standings), batch)

    def all(self) -> list[StandingRow]:
        """All rows, ordered by level and key."""
        query = select(standings).order_by(standings.c.level, standings.c.key)
        with reading(self._engine) as connection:
            return [
                StandingRow(**dict(row._mapping) | {"level": KeyLevel(row.level)})
                for row in connection.execute(query)
            ]

    def off(self) -> list[tuple[str, str]]:
        """Level and key of the identities that are switched off."""
        query = select(standings.c.level, standings.c.key).where(standings.c.off)
        with reading(self._engine) as connection:
            return [(str(row.level), str(row.key)) for row in connection.execute(query)]

    def version(self) -> int:
        """Give the number that every :meth:`put` raises."""
        with reading(self._engine) as connection:
            return counters.read(connection, "standings")


def _is(level: str, key: str) -> ColumnElement[bool]:
    return and_(standings.c.level == level, standings.c.key == key)
