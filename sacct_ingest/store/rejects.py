"""Rows of accounting text that could not be read."""

from collections.abc import Sequence
from hashlib import blake2b

from sqlalchemy import Connection, Engine, delete, func, insert, select

from sacct_ingest.store.column_types import prose
from sacct_ingest.store.engine import reading, writing
from sacct_ingest.store.rows import RejectRow
from sacct_ingest.store.schema import rejects

MOST = 1000  #: rows; the oldest go first
_TEXT_LENGTH = 4000


class Rejects:
    """The table ``rejects``; a row that is read again is not stored twice."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, rows: Sequence[RejectRow]) -> None:
        """Keep rows, and of all the newest `MOST`."""
        if not rows:
            return
        latest = {_digest(row): row for row in rows[-MOST:]}
        with writing(self._engine) as connection:
            connection.execute(delete(rejects).where(rejects.c.digest.in_(latest)))
            connection.execute(insert(rejects), [_values(d, row) for d, row in latest.items()])
            _prune(connection)

    def all(self) -> list[RejectRow]:
        """Rows, oldest first."""
        query = select(rejects).order_by(rejects.c.seen_s, rejects.c.digest)
        with reading(self._engine) as connection:
            return [
                RejectRow(source=row.source, reason=row.reason, text=row.text, read_s=row.seen_s)
                for row in connection.execute(query)
            ]


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


def _prune(connection: Connection) -> None:
    excess = int(connection.execute(select(func.count()).select_from(rejects)).scalar_one()) - MOST
    if excess <= 0:
        return
    oldest = select(rejects.c.digest).order_by(rejects.c.seen_s, rejects.c.digest).limit(excess)
    digests = list(connection.execute(oldest).scalars())
    connection.execute(delete(rejects).where(rejects.c.digest.in_(digests)))
