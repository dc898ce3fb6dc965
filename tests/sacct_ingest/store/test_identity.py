"""A store that is deleted or replaced while a process has it open."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, update

from sacct_ingest.store import Store
from sacct_ingest.store.schema import counters
from tests.sacct_ingest.records import run


def test_a_store_that_stays_has_not_changed(store):
    store.runs.add([run()])
    assert store.change() == ""


@pytest.mark.parametrize("remaining", [True, False])
def test_a_deleted_file_is_noticed(tmp_path, remaining):
    path = tmp_path / "nimo.db"
    with Store.open(str(path)) as store:
        for one in tmp_path.glob("nimo.db*"):
            one.rename(tmp_path / "away") if remaining else one.unlink()
        assert store.change() == "was deleted"
        with Store.open(str(path)) as other:
            assert other.change() == ""
            assert store.change() == "was replaced by another file"


def test_another_store_in_the_place_of_the_file_is_noticed(tmp_path):
    ours, theirs = tmp_path / "nimo.db", tmp_path / "other.db"
    Store.open(str(theirs)).close()
    with Store.open(str(ours)) as store:
        theirs.replace(ours)
        assert store.change() == "was replaced by another file"


def test_a_copy_of_a_backup_has_the_number_of_the_store(tmp_path):
    ours, backup = tmp_path / "nimo.db", tmp_path / "backup.db"
    Store.open(str(ours)).close()
    shutil.copy(ours, backup)
    assert number_in(ours) == number_in(backup) is not None


def test_a_database_that_was_made_anew_is_noticed(store, store_url):
    """Its number is another one, on a server as well as in a file that was written over."""
    engine = create_engine(store_url)
    with engine.begin() as connection:
        connection.execute(update(counters).where(counters.c.name == "store").values(value=7))
    engine.dispose()
    assert store.change() == "was replaced by another database"


def test_a_store_of_before_gets_a_number(tmp_path):
    path = tmp_path / "nimo.db"
    Store.open(str(path)).close()
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("DELETE FROM counters WHERE name = 'store'")
    with Store.open(str(path)) as store:
        assert number_in(path) is not None
        assert store.change() == ""


def number_in(path: Path) -> int | None:
    """Number by which a store is told from another one at its place."""
    with closing(sqlite3.connect(path)) as raw:
        row = raw.execute("SELECT value FROM counters WHERE name = 'store'").fetchone()
    return row and row[0]
