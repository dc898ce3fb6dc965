"""What became of predictions: written by refits, of each identity and pooled for the site."""

from collections.abc import Iterable
from dataclasses import asdict

from sqlalchemy import delete, select

from sacct_ingest.records import KeyLevel
from sacct_ingest.store.changes import of_identity, places
from sacct_ingest.store.engine import StoreTable, put, reading, writing
from sacct_ingest.store.rows import RecordRow
from sacct_ingest.store.schema import records

_OF_IDENTITY = of_identity(records)
#: Level and key of what is pooled over all identities.
SITE = ("site", "")
#: The part of that which all tables rest on.
BASIS = ("site", "basis")
#: Levels of what is held by cluster: errors of estimated waits, how jobs came to the queue, and
#: what new jobs have to expect.
WAITS, QUEUE, OUTLOOK = "waits", "queue", "outlook"


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
                connection.execute(delete(records).where(_OF_IDENTITY), gone)
            put(connection, records, [asdict(row) for row in rows], "level", "key")

    def put(self, row: RecordRow) -> None:
        """Write one row, in place of that with its level and key."""
        self.replace([row])

    def of_level(self, level: str) -> dict[str, str]:
        """Give the payloads of a level by key."""
        query = select(records.c.key, records.c.payload).where(records.c.level == level)
        return {str(row.key): str(row.payload) for row in self._rows(query)}

    def of_identity(self, level: KeyLevel, key: str) -> dict[str, str]:
        """Give the payloads of an identity and of its parts, by key."""
        query = select(records.c.key, records.c.payload).where(_OF_IDENTITY)
        with reading(self._engine) as connection:
            rows = connection.execute(query, places([(level, key)])[0])
            return {str(row.key): str(row.payload) for row in rows}

    def find(self, level: str, key: str) -> str | None:
        """Give the payload of one identity; None where there is none."""
        query = select(records.c.payload).where(records.c.level == level, records.c.key == key)
        payload = self._value(query)
        return None if payload is None else str(payload)
