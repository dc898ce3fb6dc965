"""Stores of every earlier schema, with rows in them, become today's and lose nothing."""

from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import (
    Boolean,
    Connection,
    Double,
    Float,
    Integer,
    MetaData,
    Table,
    create_engine,
    insert,
    select,
    update,
)
from sqlalchemy.dialects.mysql import TINYINT

import sacct_ingest.store
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store
from sacct_ingest.store.engine import writing
from sacct_ingest.store.schema import counters
from tests.sacct_ingest.records import run, runs_with

MIGRATIONS = Path(sacct_ingest.store.__file__).parent / "migrations"
REVISIONS = [each.revision for each in ScriptDirectory(str(MIGRATIONS)).walk_revisions()][::-1]
_ROWS = 3


def make(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def tables(connection: Connection) -> list[Table]:
    found = MetaData()
    found.reflect(connection)
    skipped = ("alembic_version", "counters")
    return [table for table in found.sorted_tables if table.name not in skipped]


def value(table: Table, column: Any, row: int) -> Any:
    if table.name == "runs" and column.name == "state":
        return "COMPLETED"
    if column.name in ("run_id", "id"):
        return row
    if isinstance(column.type, Boolean | TINYINT) or column.name in ("applied", "off"):
        return row % 2 == 1
    if isinstance(column.type, Double | Float):
        return row + 0.5
    if isinstance(column.type, Integer):
        return 1000 + row
    return f"{column.name[:8]}-{row}"


def contents(connection: Connection, tables_: list[Table]) -> dict[str, list[tuple[Any, ...]]]:
    return {
        table.name: sorted(tuple(row) for row in connection.execute(select(table)))
        for table in tables_
    }


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_store_of_an_earlier_schema_keeps_all_its_rows(new_url: str, revision: str) -> None:
    engine = create_engine(new_url)
    with writing(engine) as connection:
        make(connection, revision)
    with writing(engine) as connection:
        before = tables(connection)
        for table in before:
            rows = [
                {column.name: value(table, column, row) for column in table.columns}
                for row in range(_ROWS)
            ]
            connection.execute(insert(table), rows)
        connection.execute(update(counters).values(value=1000))
        old = contents(connection, before)
    with Store.open(new_url, create=False) as store:
        assert store.runs.count() == _ROWS
        assert store.runs.add([run()]).new == 1
        assert runs_with(store, KeyLevel.USER, "user-1")[0].job_id == 1001
    with engine.connect() as connection:
        new = contents(connection, before)
    engine.dispose()
    assert all(len(rows) == _ROWS for rows in old.values())
    for name, rows in old.items():
        # One was added above.
        assert set(rows) <= set(new[name]), name
