"""What became of predictions: written by refits, of each identity and pooled for the site."""

from collections.abc import Iterable

from sqlalchemy import delete, select

from sacct_ingest.store.engine import StoreTable, put, writing
from sacct_ingest.store.rows import RecordRow
from sacct_ingest.store.schema import records

#: Level and key of what is pooled over all identities.
SITE = ("site", "")
#: Levels of what no refit replaces, by cluster: errors of estimated waits, how jobs came to the
#: queue, and what new jobs have to expect; and which runs each identity was fitted with.
WAITS, QUEUE, OUTLOOK = "waits", "queue", "outlook"
_LASTING = (WAITS, QUEUE, OUTLOOK, "fitted")


class Records(StoreTable):
    """The table ``records``."""

    def replace(self, rows: Iterable[RecordRow], *, keep_others: bool = False) -> None:
        """Write ``rows`` in place of all that refits made, in one transaction.

        keep_others: leave the rows of other identities.
        """
        values = [{"level": r.level, "key": r.key, "payload": r.payload} for r in rows]
        with writing(self._engine) as connection:
            if not keep_others:
                connection.execute(delete(records).where(records.c.level.not_in(_LASTING)))
            put(connection, records, values, *(("level", "key") if keep_others else ()))

    def put(self, row: RecordRow) -> None:
        """Write one row, in place of that with its level and key."""
        self.replace([row], keep_others=True)

    def of_level(self, level: str) -> dict[str, str]:
        """Give the payloads of a level by key."""
        query = select(records.c.key, records.c.payload).where(records.c.level == level)
        return {str(row.key): str(row.payload) for row in self._rows(query)}

    def find(self, level: str, key: str) -> str | None:
        """Give the payload of one identity; None where there is none."""
        query = select(records.c.payload).where(records.c.level == level, records.c.key == key)
        payload = self._value(query)
        return None if payload is None else str(payload)
