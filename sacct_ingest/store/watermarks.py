"""How far each source has been read."""

from sqlalchemy import Connection, Engine, delete, insert, select

from sacct_ingest.store.engine import reading, writing
from sacct_ingest.store.schema import watermarks


class Watermarks:
    """The table ``watermarks``: source to seconds since the epoch."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def get(self, source: str) -> int | None:
        """Time up to which ``source`` is known to have been read; None: never."""
        query = select(watermarks.c.epoch_s).where(watermarks.c.source == source)
        with reading(self._engine) as connection:
            found = connection.execute(query).scalar()
            return None if found is None else int(found)

    def set(self, source: str, epoch_s: int) -> None:
        """Remember that ``source`` has been read up to ``epoch_s``."""
        with writing(self._engine) as connection:
            _set(connection, source, epoch_s)


def _set(connection: Connection, source: str, epoch_s: int) -> None:
    connection.execute(delete(watermarks).where(watermarks.c.source == source))
    connection.execute(insert(watermarks), {"source": source, "epoch_s": epoch_s})
