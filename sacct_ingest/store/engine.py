"""Connections: SQLite set up for one writer beside many readers, errors in our own words."""

import os
import re
import shutil
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import StaticPool

from sacct_ingest.errors import RowRefused, StoreError, how_to_install, system_errors

_One = TypeVar("_One")
#: Values in one list: of 1,000 MariaDB makes a table, for which it reads all runs.
LISTED = 900
#: Seconds that a writer waits for another to finish.
BUSY_S = 30
#: Rows whose predecessors one statement deletes; SQLite allows a thousand terms.
_PUT_AT_ONCE = 200
_WRITES = "nimo_writes"
_PRIVATE = 0o640
#: How much of an SQLite file a connection keeps: the ends of indexes that a load writes into.
_CACHE_KIB = 16_000
#: What PostgreSQL and MariaDB say to a user who lacks a right.
_DENIED = re.compile("permission denied|command denied|[Aa]ccess denied|must be owner")
#: What the three say when their disk is full.
_FULL = re.compile("disk I/O error|disk is full|is full|No space left", re.IGNORECASE)
#: What drivers raise for a value that is no number or text of a database; SQLAlchemy leaves them.
_OF_VALUES = (OverflowError, UnicodeEncodeError)
#: Database to how its URL begins, and the extra that has the driver.
_DRIVERS = {
    "postgresql": ("postgresql+psycopg://", "postgresql"),
    "mysql": ("mysql+pymysql://", "mariadb"),
    "mariadb": ("mariadb+pymysql://", "mariadb"),
}


def make_engine(url: str, *, create: bool) -> sa.Engine:
    """Engine for a SQLAlchemy URL or a path of an SQLite file.

    Raises StoreError: the URL makes no sense, its driver is not installed, or the file is not there
        and ``create`` is false.
    """
    try:
        parsed = make_url(url if "://" in url else f"sqlite:///{url}")
        if _is_sqlite(parsed):
            return _sqlite(parsed, create=create)
        # READ COMMITTED on both: MariaDB's default would show an ingest a snapshot from before it
        # waited for its turn.
        return sa.create_engine(parsed, pool_pre_ping=True, isolation_level="READ COMMITTED")
    except (exc.ArgumentError, exc.NoSuchModuleError) as error:
        raise StoreError(
            f"store {url!r} is not a database URL such as sqlite:///nimo.db"
        ) from error
    except ImportError as error:
        begins, extra = _DRIVERS.get(parsed.get_backend_name(), ("", ""))
        fix = f": have {begins}… in the URL; {how_to_install(extra)}" if extra else ""
        raise StoreError(f"{error}{fix}") from error


@contextmanager
def reading(engine: sa.Engine, at_once: int = 0) -> Iterator[sa.Connection]:
    """Connect for queries.

    at_once: rows in memory at a time, for large results: servers are asked for each so many.
    """
    with translated(engine), engine.connect() as connection:
        yield connection.execution_options(yield_per=at_once) if at_once else connection


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One transaction: committed as a whole or not at all."""
    with translated(engine), engine.connect() as connection:
        writer = connection.execution_options(**{_WRITES: True})
        with writer.begin():
            yield writer


class StoreTable:
    """A table of a store."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def _rows(self, query: sa.Select[Any], **values: Any) -> Sequence[Any]:
        """Give all rows of a query with these parameters; StoreError where it cannot be read."""
        with reading(self._engine) as connection:
            return connection.execute(query, values).all()

    def _each(self, query: sa.Select[Any], at_once: int = 2000) -> Iterator[Any]:
        """Give a query's rows one after the other, a few of them in memory at a time."""
        with reading(self._engine, at_once) as connection:
            yield from connection.execute(query)

    def _value(self, query: sa.Select[Any]) -> Any:
        """Give the first value of a query; None where it has no row."""
        with reading(self._engine) as connection:
            return connection.execute(query).scalar()


def parts(given: Sequence[_One], most: int = LISTED) -> Iterator[Sequence[_One]]:
    """Give a sequence in parts of at most so many."""
    return (given[first : first + most] for first in range(0, len(given), most))


def any_of(columns: Iterable[Any], keys: Iterable[Sequence[Any]]) -> sa.ColumnElement[bool]:
    """Condition for rows with one of these keys; of lists of keys SQLite would read all rows.

    Keys that differ in their last value only are listed by that: a condition for each would take
    longer to write than the rows to read.
    """
    *front, last = columns
    groups: defaultdict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for *beginning, end in keys:
        groups[tuple(beginning)].append(end)
    conditions = (
        sa.and_(*map(eq, front, beginning), last.in_(ends)) for beginning, ends in groups.items()
    )
    return sa.or_(sa.false(), *conditions)


def put(
    connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]], *same: str
) -> None:
    """Insert rows, in place of those that are the same in these columns (none: beside all)."""
    for batch in parts(rows, _PUT_AT_ONCE):
        if same:
            old = ([row[name] for name in same] for row in batch)
            connection.execute(sa.delete(table).where(any_of([table.c[n] for n in same], old)))
        connection.execute(sa.insert(table), batch)


@contextmanager
def translated(engine: sa.Engine) -> Iterator[None]:
    """Turn errors of the database into ours, without the SQL."""
    try:
        yield
    # The driver's own come from what goes past SQLAlchemy: see `bulk`.
    except (exc.SQLAlchemyError, engine.dialect.loaded_dbapi.Error, *_OF_VALUES) as error:
        cause = str(getattr(error, "orig", None) or error).splitlines()[0]
        name = engine.url.render_as_string(hide_password=True)
        made = (
            RowRefused
            if isinstance(error, (exc.DataError, exc.IntegrityError, *_OF_VALUES))
            else None
        )
        fix = "; docs/ingest.md lists the rights it needs" if _DENIED.search(cause) else ""
        if not fix and _FULL.search(cause):
            fix = _room(engine.url)
        raise (made or StoreError)(f"store {name}: {cause}{fix}") from error


def _room(url: URL) -> str:
    """Say how much room is left where the store is; SQLite calls a full disk an I/O error, too."""
    if not _is_sqlite(url):
        return "; make room on the disk of the database server"
    folder = Path(str(url.database)).resolve().parent
    while not folder.is_mount():
        folder = folder.parent
    try:
        left = shutil.disk_usage(folder).free / 2**20
    except OSError as error:
        return f"; the file system at {folder} cannot be read: {error.strerror}"
    return (
        f"; {left:.1f} MiB are left on the file system at {folder}: where that is little, make room"
    )


def _is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


def _sqlite(url: URL, *, create: bool) -> sa.Engine:
    # The URL may say otherwise: sqlite:////var/lib/nimo/nimo.db?timeout=60.
    busy_s = float(str(url.query.get("timeout", BUSY_S)))
    options: dict[str, Any] = {"connect_args": {"timeout": busy_s, "check_same_thread": False}}
    set_up: Callable[[Any, object], None] = partial(
        _set_up_writable, journal=str(url.query.get("journal", "WAL"))
    )
    url = url.difference_update_query(["journal"])
    if url.database in (None, "", ":memory:"):
        options["poolclass"] = StaticPool
    else:
        path = Path(str(url.database))
        _prepare(path, create=create)
        if path.exists() and not os.access(path, os.W_OK):
            url = _read_only(path)
            set_up = _set_up
    engine = sa.create_engine(url, **options)
    sa.event.listen(engine, "connect", set_up)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _read_only(path: Path) -> URL:
    """Open a file that is not ours to write: users may ask the site's store."""
    query = {"mode": "ro", "uri": "true"}
    if not path.with_name(f"{path.name}-wal").exists():
        # Without this SQLite wants to make the log that it thinks it needs.
        query["immutable"] = "1"
    return URL.create("sqlite", database=f"file:{quote(str(path.resolve()))}", query=query)


def path_of(engine: sa.Engine) -> Path | None:
    """Path of an SQLite file; None for servers and databases in memory."""
    database = engine.url.database
    if not _is_sqlite(engine.url) or not database or database == ":memory:":
        return None
    # As `_read_only` writes it.
    return Path(unquote(database.removeprefix("file:")) if "uri" in engine.url.query else database)


def file_of(path: Path | None) -> tuple[int, int] | None:
    """Device and inode of a file; None where it is not there."""
    try:
        status = path.stat() if path else None
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status else None


def _prepare(path: Path, *, create: bool) -> None:
    with system_errors(StoreError, f"store {path}"):
        if not create and not path.exists():
            raise StoreError(f"no store at {path}: 'nimo ingest' makes one")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # All users' jobs are in it: it is not everybody's, whatever the umask.  SQLite gives
            # the files beside it the same permissions.
            with suppress(FileExistsError):  # another process was first, or a link leads nowhere
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE))
        if not path.exists():
            raise StoreError(f"store {path}: a symbolic link that leads nowhere; remove it")


def _set_up(connection: Any, record: object) -> None:  # noqa: ARG001 - SQLAlchemy gives it
    # The driver's own transaction handling would begin too late for what is read first.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys=ON")


def _set_up_writable(connection: Any, record: object, *, journal: str) -> None:
    _set_up(connection, record)
    # Only of use before the first table is made: 'nimo prune' can give space back in small steps.
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    if journal == "WAL":
        _write_ahead(connection)
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")


def _write_ahead(connection: Any) -> None:
    """Have writes go to a log beside the file, so that readers need not wait.

    The first process to open a file changes its header, and the last to leave removes the log.
    SQLite answers "locked" to others at once meanwhile, without the wait of ``timeout``.
    """
    give_up = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.01)
        else:
            return


def _begin_sqlite(connection: sa.Connection) -> None:
    """Writers take their lock at once: a reader that turns writer cannot wait for it."""
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
