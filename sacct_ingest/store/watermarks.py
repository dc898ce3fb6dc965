"""How far each source has been read."""

from sqlalchemy import Connection, Engine, delete, insert, select, update

from sacct_ingest.store import counters
from sacct_ingest.store.engine import reading, writing
from sacct_ingest.store.schema import watermarks


class Watermarks:
    """The table ``watermarks``: source to seconds since the epoch."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def get(self, source: str) -> int | None:
        """Time up to which ``source`` was read completely; None: never."""
        with reading(self._engine) as connection:
            return _get(connection, source)

    def all(self) -> dict[str, int]:
        """All marks by their source."""
        with reading(self._engine) as connection:
            rows = connection.execute(select(watermarks.c.source, watermarks.c.epoch_s))
            return {str(row.source): int(row.epoch_s) for row in rows}

    def set(self, source: str, epoch_s: int) -> None:
        """Remember that ``source`` has been read up to ``epoch_s``."""
        with writing(self._engine) as connection:
            counters.lock(connection, "runs")
            _set(connection, source, epoch_s)

    def advance(self, source: str, epoch_s: int) -> None:
        """Like `set`, but never back: another ingest may have come further."""
        with writing(self._engine) as connection:
            counters.lock(connection, "runs")
            before = _get(connection, source)
            if before is None or before < epoch_s:
                _set(connection, source, epoch_s)

    def forget(self, source: str) -> None:
        """Remove a mark."""
        with writing(self._engine) as connection:
            connection.execute(delete(watermarks).where(watermarks.c.source == source))


def _get(connection: Connection, source: str) -> int | None:
    epoch = connection.execute(
        select(watermarks.c.epoch_s).where(watermarks.c.source == source)
    ).scalar()
    return None if epoch is None else int(epoch)


def _set(connection: Connection, source: str, epoch_s: int) -> None:
    chosen = watermarks.c.source == source
    if _get(connection, source) is None:
        connection.execute(insert(watermarks), {"source": source, "epoch_s": epoch_s})
    else:
        connection.execute(update(watermarks).where(chosen).values(epoch_s=epoch_s))
