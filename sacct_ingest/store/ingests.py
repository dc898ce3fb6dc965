"""How far each source has been read, and its rows that could not be."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

from sqlalchemy import Select, delete, func, select

from sacct_ingest.store import counters
from sacct_ingest.store.column_types import prose
from sacct_ingest.store.engine import StoreTable, put, writing
from sacct_ingest.store.rows import RejectRow
from sacct_ingest.store.schema import rejects, watermarks

MOST = 1000  #: rejected rows; the oldest go first
_TEXT_LENGTH = 4000
#: Mark of the last refit, whether there was anything new or not.
REFITTED: Final = "refitted"


class Watermarks(StoreTable):
    """The table ``watermarks``: source to seconds since the epoch."""

    def get(self, source: str) -> int | None:
        """Time up to which ``source`` was read completely; None: never."""
        epoch_s = self._value(_mark_of(source))
        return None if epoch_s is None else int(epoch_s)

    def all(self) -> dict[str, int]:
        """All marks by their source."""
        return {str(row.source): int(row.epoch_s) for row in self._rows(select(watermarks))}

    def set(self, source: str, epoch_s: int) -> None:
        """Remember that ``source`` has been read up to ``epoch_s``."""
        with writing(self._engine) as connection:
            counters.lock(connection, "runs")
            put(connection, watermarks, [{"source": source, "epoch_s": epoch_s}], "source")

    def advance(self, source: str, epoch_s: int) -> None:
        """Like `set`, but never back: another ingest may have come further."""
        with writing(self._engine) as connection:
            counters.lock(connection, "runs")
            before = connection.execute(_mark_of(source)).scalar()
            if before is None or before < epoch_s:
                put(connection, watermarks, [{"source": source, "epoch_s": epoch_s}], "source")

    def forget(self, source: str) -> None:
        """Remove a mark."""
        with writing(self._engine) as connection:
            connection.execute(delete(watermarks).where(watermarks.c.source == source))


def _mark_of(source: str) -> Select[Any]:
    return select(watermarks.c.epoch_s).where(watermarks.c.source == source)


class Rejects(StoreTable):
    """The table ``rejects``; a row that is read again is not stored twice."""

    def add(self, rows: Sequence[RejectRow]) -> None:
        """Keep rows, and of all the newest `MOST`."""
        if not rows:
            return
        latest = {_digest(row): row for row in rows[-MOST:]}
        with writing(self._engine) as connection:
            put(connection, rejects, [_values(*one) for one in latest.items()], "digest")
            count = connection.execute(select(func.count()).select_from(rejects)).scalar_one()
            if count > MOST:
                oldest = select(rejects.c.digest).order_by(*_OLDEST_FIRST).limit(count - MOST)
                digests = list(connection.execute(oldest).scalars())
                connection.execute(delete(rejects).where(rejects.c.digest.in_(digests)))

    def all(self) -> list[RejectRow]:
        """Rows, oldest first."""
        return [
            RejectRow(source=row.source, reason=row.reason, text=row.text, read_s=row.seen_s)
            for row in self._rows(select(rejects).order_by(*_OLDEST_FIRST))
        ]


_OLDEST_FIRST = (rejects.c.seen_s, rejects.c.digest)


def _digest(row: RejectRow) -> str:
    return blake2b(f"{row.source}\0{row.text}".encode(), digest_size=16).hexdigest()


def _values(digest: str, row: RejectRow) -> dict[str, object]:
    return {
        "digest": digest,
        "source": prose(row.source),
        "reason": prose(row.reason),
        "text": prose(row.text[:_TEXT_LENGTH]),
        "seen_s": row.read_s,
    }
