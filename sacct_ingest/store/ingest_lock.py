"""One ingest at a time asks the accounting, of all processes that share a store.

The lock ends with the process that holds it, however it ends.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from sacct_ingest.errors import StoreError
from sacct_ingest.files.atomic_file import locked
from sacct_ingest.store.engine import translated

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


@contextmanager
def ingest_lock(engine: Engine, waiting: Callable[[], None]) -> Iterator[None]:
    """Wait until no other process has the lock, and take it.

    waiting: called once if another process has it.
    Raises StoreError: the database cannot be reached or does not give the lock, or the lock beside
        an SQLite file cannot be made.
    """
    if engine.dialect.name in SERVERS:
        yield from _on_server(engine, waiting)
    else:
        yield from _beside_file(engine, waiting)


def _on_server(engine: Engine, waiting: Callable[[], None]) -> Iterator[None]:
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
                connection.execute(text(release))


def _takes(connection: Connection, attempt: str) -> bool:
    return bool(connection.execute(text(attempt)).scalar())


def _beside_file(engine: Engine, waiting: Callable[[], None]) -> Iterator[None]:
    database = engine.url.database
    if not database or database == ":memory:":
        yield  # no one else can see it
        return
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(Path(database), suffix="-ingest", waiting=waiting))
        except OSError as error:
            raise StoreError(f"store {database}-ingest: {error.strerror or error}") from error
        yield
