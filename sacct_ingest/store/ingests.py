"""How far each source has been read, its rows that could not be, and one ingest at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from sacct_ingest.errors import StoreError, system_errors
from sacct_ingest.files.atomic_file import locked
from sacct_ingest.records import OddValue
from sacct_ingest.store import counters
from sacct_ingest.store.engine import StoreTable, put, reading, translated, writing
from sacct_ingest.store.rows import RejectRow
from sacct_ingest.store.schema import prose, rejects, watermarks

MOST = 1000  #: rejected rows; the oldest go first
_TEXT_LENGTH = 4000
#: Mark of the last refit, whether there was anything new or not.
REFITTED: Final = "refitted"
#: Rows of a kind from which on all its counts are halved: what is old fades.
MOST_COUNTED: Final = 2_000_000
_KINDS: Final = ("job", "step")
_BETWEEN: Final = ":"
_OLDEST_FIRST = (rejects.c.seen_s, rejects.c.digest)
#: What takes and gives back the lock; a database of its own on MariaDB, whose names are global.
SERVERS = {
    "postgresql": (
        "SELECT CASE WHEN pg_try_advisory_lock(5140612) THEN 1 ELSE 0 END",
        "SELECT 1 FROM pg_advisory_lock(5140612)",
        "SELECT pg_advisory_unlock(5140612)",
    ),
    "mysql": (
        "SELECT GET_LOCK(MD5(CONCAT('nimo ingest ', DATABASE())), 0)",
        # About a year.
        "SELECT GET_LOCK(MD5(CONCAT('nimo ingest ', DATABASE())), 31536000)",
        "SELECT RELEASE_LOCK(MD5(CONCAT('nimo ingest ', DATABASE())))",
    ),
}
SERVERS["mariadb"] = SERVERS["mysql"]


class Watermarks(StoreTable):
    """The table ``watermarks``: source to seconds since the epoch."""

    def get(self, source: str) -> int | None:
        """Time up to which ``source`` was read completely; None: never."""
        epoch_s = self._value(_mark_of(source))
        return None if epoch_s is None else int(epoch_s)

    def all(self) -> dict[str, int]:
        """All marks by their source."""
        return {str(row.source): int(row.epoch_s) for row in self._rows(sa.select(watermarks))}

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
            connection.execute(sa.delete(watermarks).where(watermarks.c.source == source))


def _mark_of(source: str) -> sa.Select[Any]:
    return sa.select(watermarks.c.epoch_s).where(watermarks.c.source == source)


class Rejects(StoreTable):
    """The table ``rejects``; a row that is read again is not stored twice."""

    def add(self, rows: Sequence[RejectRow]) -> None:
        """Keep rows, and of all the newest `MOST`."""
        if not rows:
            return
        latest = {_digest(row): row for row in rows[-MOST:]}
        with writing(self._engine) as connection:
            put(connection, rejects, [_values(*one) for one in latest.items()], "digest")
            count = connection.execute(sa.select(sa.func.count()).select_from(rejects)).scalar_one()
            if count > MOST:
                oldest = sa.select(rejects.c.digest).order_by(*_OLDEST_FIRST).limit(count - MOST)
                digests = list(connection.execute(oldest).scalars())
                connection.execute(sa.delete(rejects).where(rejects.c.digest.in_(digests)))

    def all(self) -> list[RejectRow]:
        """Rows, oldest first."""
        return [
            RejectRow(source=row.source, reason=row.reason, text=row.text, read_s=row.seen_s)
            for row in self._rows(sa.select(rejects).order_by(*_OLDEST_FIRST))
        ]


class ValueCounts(StoreTable):
    """How many rows were read, and which of their values could not be: counters by column.

    What is read again counts again, above and below: the shares stay.
    """

    def add(self, read: Mapping[str, int], odd: Mapping[OddValue, int]) -> None:
        """Count rows by kind (``job``, ``step``), and odd values by kind, column and fault."""
        added = {_counter_name(kind): count for kind, count in read.items() if count}
        added |= {_counter_name(*value): count for value, count in odd.items()}
        if not added:
            return
        with writing(self._engine) as connection:
            counters.lock(connection, "runs")
            for name, count in added.items():
                if counters.find(connection, name) is None:
                    counters.start(connection, {name: count})
                else:
                    counters.increase(connection, name, count)
            for kind in read:
                if (counters.find(connection, _counter_name(kind)) or 0) > MOST_COUNTED:
                    counters.halve(connection, _counter_name(kind))

    def shares(self) -> dict[tuple[str, str, str], float]:
        """Share of the rows of its kind in which a value was odd, by kind, column and fault."""
        counts: dict[str, int] = {}
        with reading(self._engine) as connection:
            for kind in _KINDS:
                counts |= counters.all_of(connection, _counter_name(kind))
        shares = {}
        for name, count in counts.items():
            letter, column, fault = (*name.split(_BETWEEN), "", "")[:3]
            rows = counts.get(f"{letter}{_BETWEEN}", 0)
            if column and rows and count:
                kind = next(kind for kind in _KINDS if kind[0] == letter)
                shares[kind, column, fault] = min(count / rows, 1.0)
        return shares


def _counter_name(kind: str, column: str = "", fault: str = "") -> str:
    """Name of a counter, within its 32 characters: ``s:TotalCPU:overflowed``, ``s:`` of rows."""
    return f"{kind[0]}{_BETWEEN}{column}" + (f"{_BETWEEN}{fault}" if fault else "")


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


@contextmanager
def ingest_lock(engine: sa.Engine, waiting: Callable[[], None]) -> Iterator[None]:
    """Wait until no other process has the lock, and take it.

    waiting: called once if another process has it.
    Raises StoreError: the database cannot be reached or does not give the lock, or the lock beside
        an SQLite file cannot be made.
    """
    if engine.dialect.name in SERVERS:
        yield from _on_server(engine, waiting)
    else:
        yield from _beside_file(engine, waiting)


def _on_server(engine: sa.Engine, waiting: Callable[[], None]) -> Iterator[None]:
    attempt, wait, release = SERVERS[engine.dialect.name]
    with translated(engine):
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    with closing(connection):
        with translated(engine):
            if not _takes(connection, attempt):
                waiting()
                if not _takes(connection, wait):
                    raise StoreError("the lock of ingests was not to be had: try again")
        try:
            yield
        finally:
            # Where the server is gone so is the lock.
            with suppress(SQLAlchemyError):
                connection.execute(sa.text(release))


def _takes(connection: sa.Connection, attempt: str) -> bool:
    return bool(connection.execute(sa.text(attempt)).scalar())


def _beside_file(engine: sa.Engine, waiting: Callable[[], None]) -> Iterator[None]:
    database = engine.url.database
    if not database or database == ":memory:":
        yield  # no one else can see it
        return
    with ExitStack() as stack:
        with system_errors(StoreError, f"store {database}-ingest"):
            stack.enter_context(locked(Path(database), suffix="-ingest", waiting=waiting))
        yield
