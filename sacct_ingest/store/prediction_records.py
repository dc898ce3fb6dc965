"""What became of predictions: written by refits, of each identity and pooled for the site."""

from collections.abc import Iterable

from sqlalchemy import Engine, bindparam, delete, insert, select

from sacct_ingest.store.engine import reading, writing
from sacct_ingest.store.rows import RecordRow
from sacct_ingest.store.schema import records

_BATCH = 500
#: Level and key of what is pooled over all identities.
SITE = ("site", "")
#: Levels of what no refit replaces, by cluster: errors of estimated waits, how jobs came to the
#: queue, and what new jobs have to expect; and which runs each identity was fitted with.
WAITS, QUEUE, OUTLOOK = "waits", "queue", "outlook"
_LASTING = (WAITS, QUEUE, OUTLOOK, "fitted")


class Records:
    """The table ``records``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def replace(self, rows: Iterable[RecordRow], *, keep_others: bool = False) -> None:
        """Write ``rows`` in place of all that refits made, in one transaction.

        keep_others: leave the rows of other identities.
        """
        values = [{"level": r.level, "key": r.key, "payload": r.payload} for r in rows]
        with writing(self._engine) as connection:
            if keep_others:
                same = (records.c.level == bindparam("of")) & (records.c.key == bindparam("its"))
                places = [{"of": one["level"], "its": one["key"]} for one in values]
                connection.execute(delete(records).where(same), places)
            else:
                connection.execute(delete(records).where(records.c.level.not_in(_LASTING)))
            for start in range(0, len(values), _BATCH):
                connection.execute(insert(records), values[start : start + _BATCH])

    def put(self, row: RecordRow) -> None:
        """Write one row, in place of that with its level and key."""
        place = (records.c.level == row.level) & (records.c.key == row.key)
        values = {"level": row.level, "key": row.key, "payload": row.payload}
        with writing(self._engine) as connection:
            connection.execute(delete(records).where(place))
            connection.execute(insert(records), [values])

    def of_level(self, level: str) -> dict[str, str]:
        """Give the payloads of a level by key."""
        query = select(records.c.key, records.c.payload).where(records.c.level == level)
        with reading(self._engine) as connection:
            return {str(row.key): str(row.payload) for row in connection.execute(query)}

    def find(self, level: str, key: str) -> str | None:
        """Give the payload of one identity; None where there is none."""
        query = select(records.c.payload).where(records.c.level == level, records.c.key == key)
        with reading(self._engine) as connection:
            payload = connection.execute(query).scalar()
        return None if payload is None else str(payload)
