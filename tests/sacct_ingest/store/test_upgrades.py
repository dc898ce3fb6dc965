"""Stores of released schemas, with rows in them, become today's and lose nothing."""

import os
from functools import partial
from hashlib import blake2b
from itertools import count, takewhile
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.dialects.mysql import TINYINT

from sacct_ingest.errors import StoreError
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store, migrate
from sacct_ingest.store.engine import writing
from sacct_ingest.store.schema import counters, metadata
from tests.sacct_ingest.records import run, runs_with, to_first_schema

#: Statements that make the tables of revision 0013 on each kind of database; never changed.
FIRST = Path(__file__).parents[2] / "data" / "store-0013"
_ROWS = 3


def make(connection):
    """Make the tables as the first release did."""
    kind = connection.dialect.name.replace("mysql", "mariadb")
    statements = (FIRST / f"{kind}.sql").read_text()
    for statement in statements.split(";\n"):
        if statement.strip():
            connection.execute(sa.text(statement))


def tables(connection):
    result = sa.MetaData()
    result.reflect(connection)
    skipped = ("alembic_version", "counters")
    return [table for table in result.sorted_tables if table.name not in skipped]


def value(table, column, row):
    if table.name == "runs" and column.name == "state":
        return "COMPLETED"
    if column.name in ("run_id", "id"):
        return row
    if isinstance(column.type, sa.Boolean | TINYINT) or column.name in ("applied", "off"):
        return row % 2 == 1
    if isinstance(column.type, sa.Double | sa.Float):
        return row + 0.5
    if isinstance(column.type, sa.Integer):
        return 1000 + row
    return f"{column.name[:8]}-{row}"


def contents(connection, tables_):
    return {
        table.name: sorted(tuple(row) for row in connection.execute(sa.select(table)))
        for table in tables_
    }


def dies(url, statements):
    """Open a store in a process that dies after so many statements; whether it came to that."""
    if not (child := os.fork()):

        def counted(*_):
            nonlocal statements
            if not statements:
                os._exit(9)
            statements -= 1

        sa.event.listen(sa.Engine, "before_cursor_execute", counted)
        try:
            Store.open(url, create=False).close()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 9


def test_a_store_of_the_first_release_keeps_all_its_rows_though_the_upgrade_is_killed(new_url):
    engine = sa.create_engine(new_url)
    with writing(engine) as connection:
        make(connection)
    with writing(engine) as connection:
        before = tables(connection)
        for table in before:
            rows = [
                {column.name: value(table, column, row) for column in table.columns}
                for row in range(_ROWS)
            ]
            connection.execute(sa.insert(table), rows)
        connection.execute(sa.update(counters).values(value=1000))
        old = contents(connection, before)
    assert sum(1 for _ in takewhile(partial(dies, new_url), count())) > 10
    with Store.open(new_url, create=False) as store:
        assert store.runs.count() == _ROWS
        assert store.runs.add([run()]).new == 1
        assert runs_with(store, KeyLevel.USER, "user-1")[0].job_id == 1001
    with engine.connect() as connection:
        new = contents(connection, before)
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()
    assert all(len(rows) == _ROWS for rows in old.values())
    for name, rows in old.items():
        # One was added above.
        assert set(rows) <= set(new[name]), name


def test_runs_of_one_template_become_one_application_and_keep_their_other_keys(tmp_path):
    url = f"sqlite:///{tmp_path / 'nimo.db'}"
    dates = {"name": "run-2026-05-31", "submit_line": "sbatch run.sh 2026-05-31"}
    uuid = "5f0c954e-6a1a-4d1c-9f5e-0a1b2c3d4e5f"
    rule = {"name": uuid, "comment": "rule_align", "submit_line": "sbatch --wrap=x"}
    given = [run(job_id=1, **dates), run(job_id=2), run(job_id=3, **rule)]
    with Store.open(url) as store:
        store.runs.add(given)
        new = {row.job_id: row for row in runs_with(store, KeyLevel.USER, "ada")}
    old = blake2b(b"ada\0run-2026-05-31\0run.sh\0002026-05-31", digest_size=12).hexdigest()
    engine = sa.create_engine(url)
    with writing(engine) as connection:
        to_first_schema(connection)
        for job_id, line in ((1, old), (2, "of a decision")):
            connection.execute(sa.text(f"UPDATE runs SET line = '{line}' WHERE job_id = {job_id}"))
        connection.execute(sa.text("UPDATE runs SET tag = ''"))
    engine.dispose()
    with Store.open(url) as store:
        rows = {row.job_id: row for row in runs_with(store, KeyLevel.USER, "ada")}
    assert rows[1].line == new[1].line != old
    assert rows[2].line == "of a decision"
    assert rows[3].tag == new[3].tag == "ada/snakemake:align"


def test_a_store_from_before_the_first_release_is_left_alone(tmp_path):
    url = f"sqlite:///{tmp_path / 'nimo.db'}"
    engine = sa.create_engine(url)
    with writing(engine) as connection:
        make(connection)
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0007'"))
    engine.dispose()
    with pytest.raises(StoreError, match=r"schema 0007.*unreleased.*nimo ingest"):
        Store.open(url)


@pytest.mark.database
def test_tables_are_not_upgraded_by_two_processes_at_once(mariadb_url, monkeypatch):
    at_once = {kind: lock.replace("60", "0") for kind, lock in migrate.LOCKS.items()}
    monkeypatch.setattr(migrate, "LOCKS", at_once)
    engine = sa.create_engine(mariadb_url)
    with engine.connect() as other:
        other.execute(sa.text("SELECT GET_LOCK('nimo_migration', 0)"))
        with pytest.raises(StoreError, match="another process is upgrading"):
            Store.open(mariadb_url)
    engine.dispose()
    Store.open(mariadb_url).close()


def test_runs_from_before_what_was_asked_for_get_it_when_they_are_ingested_again(new_url):
    engine = sa.create_engine(new_url)
    with writing(engine) as connection:
        make(connection)
    with writing(engine) as connection:
        (runs,) = (table for table in tables(connection) if table.name == "runs")
        row = {c.name: value(runs, c, 1) for c in runs.columns if not c.nullable}
        key = {"cluster": "pine", "submit_s": run().submit_s, "job_id": 17, "user": "ada"}
        connection.execute(sa.insert(runs), row | key | {"gpu_types": ""})
        connection.execute(sa.update(counters).values(value=1000))
    engine.dispose()
    asked = {"gpus": 2, "gpu_types": "a100=2", "req_cpus": 4, "req_gpus": 2}
    with Store.open(new_url, create=False) as store:
        (before,) = runs_with(store, KeyLevel.USER, "ada")
        assert [getattr(before, name) for name in asked] == [None, "", None, None]
        assert store.runs.add([run(**asked)]).changed == 1
        (after,) = runs_with(store, KeyLevel.USER, "ada")
        assert {name: getattr(after, name) for name in asked} == asked
