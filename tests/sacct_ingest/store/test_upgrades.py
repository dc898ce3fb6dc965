"""Stores of every earlier schema, with rows in them, become today's and lose nothing."""

from functools import partial
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
    text,
    update,
)
from sqlalchemy.dialects.mysql import TINYINT

import sacct_ingest.store
from sacct_ingest.errors import StoreError
from sacct_ingest.records import KeyLevel
from sacct_ingest.scripts.signature import owned_script, owned_tag
from sacct_ingest.store import Store, migrate
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
    result = MetaData()
    result.reflect(connection)
    skipped = ("alembic_version", "counters")
    return [table for table in result.sorted_tables if table.name not in skipped]


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
    if revision < "0007":
        old = {name: owned(name, rows, before) for name, rows in old.items()}
    for name, rows in old.items():
        # One was added above.
        assert set(rows) <= set(new[name]), name


def owned(name: str, rows: list[tuple[Any, ...]], before: list[Table]) -> list[tuple[Any, ...]]:
    """Rows as of revision 0007: the user is part of keys of tags and scripts."""
    columns = next(list(table.columns.keys()) for table in before if table.name == name)
    if name not in ("runs", "decisions"):
        return rows
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    for row in named:
        row["tag"] = owned_tag(row["user"], row["tag"])
        row["script"] = owned_script(row["user"], row["script"])
    return [tuple(row.values()) for row in named]


def test_what_several_users_shared_by_tag_or_script_becomes_each_users_own(new_url: str) -> None:
    engine = create_engine(new_url)
    with writing(engine) as connection:
        make(connection, "0006")
        made = {table.name: table for table in tables(connection)}
        for number, (user, tag) in enumerate(
            [("ada", "wrf"), ("bob", "wrf"), ("ada", "ada/wrf"), ("", "wrf"), ("eve", "")]
        ):
            fields = {"user": user, "tag": tag, "script": "5c41", "key_level": "tag", "key": tag}
            fields["job_id"] = number
            for name in ("runs", "decisions"):
                row = {c.name: value(made[name], c, number) for c in made[name].columns}
                recorded = {field: of for field, of in fields.items() if field in row}
                connection.execute(insert(made[name]), row | recorded)
        for name in ("fits", "standings"):
            for level in ("tag", "script", "line"):
                row = {c.name: value(made[name], c, 1) for c in made[name].columns}
                connection.execute(insert(made[name]), row | {"level": level})
        marks = made["watermarks"]
        connection.execute(insert(marks), [{"source": s, "epoch_s": 5} for s in ("a", "standings")])
    with Store.open(new_url, create=False) as store:
        result = {
            key: [row.job_id for row in rows] for key, rows in store.runs.by_key(KeyLevel.TAG)
        }
        assert result == {"ada/wrf": [0], "bob/wrf": [1], "ada/ada/wrf": [2]}
        scripts = [len(rows) for _, rows in store.runs.by_key(KeyLevel.SCRIPT)]
        assert sorted(scripts) == [1, 1, 2]
        remaining = [(one.tag, one.key, one.label) for one, _ in store.decisions.with_outcomes()]
        assert remaining == [
            *((key, key, key) for key in ("ada/wrf", "bob/wrf", "ada/ada/wrf")),
            ("", "", ""),
            ("", "", ""),
        ]
        assert [row.level for row in store.fits.all()] == [KeyLevel.LINE]
        assert [row.level for row in store.standings.all()] == [KeyLevel.LINE]
        assert (store.watermarks.get("standings"), store.watermarks.get("a")) == (None, 5)
    engine.dispose()


def test_the_cost_of_keys_of_a_user_grows_as_the_users_decisions_do(tmp_path: Path) -> None:
    steps = []
    for count in (250, 1000):
        engine = create_engine(f"sqlite:///{tmp_path / str(count)}")
        with writing(engine) as connection:
            make(connection, "0006")
            made = next(table for table in tables(connection) if table.name == "decisions")
            row = {column.name: value(made, column, 1) for column in made.columns}
            own = ({"decision_id": f"{n}", "script": f"{n}", "run_id": None} for n in range(count))
            connection.execute(insert(made), [row | each for each in own])
            driver: Any = connection.connection.driver_connection
            driver.set_progress_handler(partial(steps.append, count), 100)
            make(connection, "0007")
        engine.dispose()
    assert steps.count(1000) < 6 * steps.count(250)


@pytest.mark.database
def test_tables_are_not_upgraded_by_two_processes_at_once(
    mariadb_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(migrate.LOCKS, "mariadb", "SELECT GET_LOCK('nimo_migration', 0)")
    engine = create_engine(mariadb_url)
    with engine.connect() as other:
        other.execute(text("SELECT GET_LOCK('nimo_migration', 0)"))
        with pytest.raises(StoreError, match="another process is upgrading"):
            Store.open(mariadb_url)
    engine.dispose()
    Store.open(mariadb_url).close()


def with_a_run(url: str, revision: str) -> None:
    """Make a store of a revision that holds one run of ada."""
    engine = create_engine(url)
    with writing(engine) as connection:
        make(connection, revision)
        made = next(table for table in tables(connection) if table.name == "runs")
        row = {column.name: value(made, column, 1) for column in made.columns}
        key = {"cluster": "pine", "submit_s": run().submit_s, "job_id": 17, "user": "ada"}
        connection.execute(insert(made), row | key)
        connection.execute(update(counters).values(value=1000))
    engine.dispose()


def test_runs_from_before_gpus_get_them_when_they_are_ingested_again(new_url: str) -> None:
    with_a_run(new_url, "0008")
    with Store.open(new_url, create=False) as store:
        assert [row.gpus for row in runs_with(store, KeyLevel.USER, "ada")] == [None]
        assert store.runs.add([run(gpus=8)]).changed == 1
        assert [row.gpus for row in runs_with(store, KeyLevel.USER, "ada")] == [8]


def test_runs_from_before_what_was_asked_for_get_it_when_they_are_ingested_again(
    new_url: str,
) -> None:
    with_a_run(new_url, "0012")
    asked = {"gpu_types": "a100=2", "req_cpus": 4, "req_gpus": 2, "req_gpu_types": "a100=2"}
    with Store.open(new_url, create=False) as store:
        (before,) = runs_with(store, KeyLevel.USER, "ada")
        assert [getattr(before, name) for name in asked] == ["", None, None, ""]
        assert store.runs.add([run(**asked)]).changed == 1
        (after,) = runs_with(store, KeyLevel.USER, "ada")
        assert {name: getattr(after, name) for name in asked} == asked
