"""Bring a database to the schema of this release; forward only."""

import re
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from sacct_ingest.errors import StoreError
from sacct_ingest.store import counters
from sacct_ingest.store.engine import make_engine, reading, translated, writing
from sacct_ingest.store.schema import HEAD, OPTIONS, metadata

#: Locks that keep two processes from making the tables at once, which give 1 if taken; SQLite's
#: writer lock does it.
LOCKS = {
    "postgresql": "SELECT 1 FROM pg_advisory_xact_lock(5140611)",
    "mysql": "SELECT GET_LOCK('nimo_migration', 60)",
    "mariadb": "SELECT GET_LOCK('nimo_migration', 60)",
}
_UNLOCKS = {"mysql": "SELECT RELEASE_LOCK('nimo_migration')"}
_UNLOCKS["mariadb"] = _UNLOCKS["mysql"]
_TOO_OLD = 'an unreleased version: set it aside, then "nimo ingest" reads the history again'

#: MariaDB commits each change of a table by itself: a migration that was killed is done once more,
#: and what it had done already is left alone.
_REPEATABLE = tuple(
    (re.compile(rf"\b{words}\b(?! IF )"), f"{words} IF {condition}")
    for words, condition in (
        ("CREATE TABLE", "NOT EXISTS"),
        ("CREATE INDEX", "NOT EXISTS"),
        ("CREATE UNIQUE INDEX", "NOT EXISTS"),
        ("ADD COLUMN", "NOT EXISTS"),
        ("DROP TABLE", "EXISTS"),
        ("DROP INDEX", "EXISTS"),
        ("DROP COLUMN", "EXISTS"),
    )
)


def migrate(engine: sa.Engine) -> None:
    """Create or upgrade the tables.

    Raises StoreError: the store was made by a newer release or before the first one, or another
        process has been at it for a minute.
    """
    with reading(engine) as connection:
        if _revision(connection) == HEAD:
            return
    with translated(engine), writing(engine) as connection:
        if _execute(connection, LOCKS) != 1:
            raise StoreError("another process is upgrading the store: try again when it is done")
        if getattr(connection.dialect, "is_mariadb", False):
            sa.event.listen(connection, "before_cursor_execute", _repeatably, retval=True)
        try:
            if _revision(connection) is None:
                _create(connection)
            else:
                _upgrade(connection)
            if connection.dialect.name in _UNLOCKS:
                # Commit before the lock is released: the next process must find the tables.
                connection.execute(sa.text("COMMIT"))
        finally:
            _execute(connection, _UNLOCKS)


def revision(url: str) -> str | None:
    """Revision of a store's tables, which stay as they are; None: it has none yet.

    Raises StoreError: it is not there or cannot be reached.
    """
    engine = make_engine(url, create=False)
    try:
        with reading(engine) as connection:
            return _revision(connection)
    finally:
        engine.dispose()


def _create(connection: sa.Connection) -> None:
    """Make all tables; after the last one everything is one transaction on MariaDB, too."""
    kind = connection.dialect.name
    for table in metadata.sorted_tables:
        table.dialect_kwargs.update({key: OPTIONS[key] for key in OPTIONS if key.startswith(kind)})
    statement = "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"
    connection.execute(sa.text(statement))
    metadata.create_all(connection, checkfirst=False)
    counters.start(connection, {"runs": 1, "fitted": 1, "fits": 0, "standings": 0, "sums": 0})
    # There is nothing that was read by earlier rules.
    counters.start(connection, {counters.RULES_PLACE: counters.DONE})
    connection.execute(sa.text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})


def _upgrade(connection: sa.Connection) -> None:
    # Loaded here: opening a store that is up to date must not pay for it.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    revisions = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    revision = _revision(connection)
    if revision not in revisions:
        url = connection.engine.url.render_as_string()
        raise StoreError(
            f"store {url} has schema {revision}, this release has {HEAD}: it was made by "
            + ("a newer release, upgrade this one" if str(revision) > HEAD else _TOO_OLD)
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _repeatably(
    connection: object, cursor: object, statement: str, parameters: Any, *also: object
) -> tuple[str, Any]:
    del connection, cursor, also
    for words, instead in _REPEATABLE:
        statement = words.sub(instead, statement)
    return statement, parameters


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    revision = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return None if revision is None else str(revision)


def _execute(connection: sa.Connection, statements: dict[str, str]) -> Any:
    return connection.execute(sa.text(statements.get(connection.dialect.name, "SELECT 1"))).scalar()
