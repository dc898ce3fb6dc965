"""The store as a whole: opening, migrating, the small tables."""

import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text

import sacct_ingest.store
from sacct_ingest.errors import StoreError
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import FitRow, RejectRow, Store, counters
from sacct_ingest.store.ingests import MOST
from sacct_ingest.store.schema import HEAD, metadata
from tests.conftest import scratch_directory
from tests.sacct_ingest.records import run

MIGRATIONS = Path(sacct_ingest.store.__file__).parent / "migrations"
NOBODY = 65534  # on Debian, as a user and as a group


def fit(key="a", **given):
    fields = {
        "level": KeyLevel.LINE,
        "key": key,
        "label": "ada/wrf",
        "verdict": "reliable",
        "model": "adept",
        "fitted_s": 1.5,
        "payload": "{}",
    }
    return FitRow(**fields | given)


def test_migrations_make_the_schema(new_url):
    Store.open(new_url).close()
    engine = create_engine(new_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_the_newest_migration_is_the_one_that_is_expected():
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [HEAD]


def test_opening_again_finds_what_was_there(new_url):
    with Store.open(new_url) as store:
        store.runs.add([run()])
    with Store.open(new_url, create=False) as store:
        assert store.runs.count() == 1


def test_a_migration_that_was_killed_is_done_once_more(new_url, monkeypatch):
    """MariaDB keeps the tables that were changed before; the others roll back."""
    with monkeypatch.context() as patch:
        patch.setattr(counters, "start", lambda *_: sys.exit("killed"))
        with pytest.raises(SystemExit):
            Store.open(new_url)
    with Store.open(new_url) as store:
        assert store.runs.add([run()]).new == 1


def test_a_store_of_a_newer_release_is_left_alone(new_url):
    Store.open(new_url).close()
    engine = create_engine(new_url)
    with engine.begin() as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    engine.dispose()
    with pytest.raises(StoreError, match=r"schema 9999.*newer release"):
        Store.open(new_url)


def together(call, count):
    """Errors of the store of as many threads that call at once, each with its number."""
    failures = []

    def each(number):
        try:
            call(number)
        except StoreError as error:
            failures.append(error)

    with ThreadPoolExecutor(count) as threads:
        list(threads.map(each, range(count)))
    return failures


def test_processes_may_make_the_same_store_at_once(new_url):
    def open_it(_):
        for _ in range(10):  # opened and closed: the last to leave removes SQLite's log
            Store.open(new_url).close()

    assert together(open_it, 6) == []


def test_writers_take_turns(new_url):
    Store.open(new_url).close()

    def write(number):
        first = 30 * number
        with Store.open(new_url) as store:
            for i in range(first, first + 60, 20):
                store.runs.add([run(job_id=j) for j in range(i, i + 20)])

    assert together(write, 4) == []
    with Store.open(new_url) as store:
        assert store.runs.count() == 150


def test_a_store_that_is_not_there(tmp_path):
    with pytest.raises(StoreError, match=r"no store at .*nimo ingest"):
        Store.open(str(tmp_path / "no.db"), create=False)
    assert not (tmp_path / "no.db").exists()


def test_folders_are_made(tmp_path):
    Store.open(f"sqlite:///{tmp_path}/a/b/nimo.db").close()
    assert (tmp_path / "a/b/nimo.db").exists()


@pytest.mark.parametrize("url", ["nonsense://x", "://", "postgresql+nodriver://x/y"])
def test_urls_that_make_no_sense(url):
    with pytest.raises(StoreError, match="not a database URL"):
        Store.open(url)


def test_a_url_without_its_driver_names_the_fix():
    fix = r"have mysql\+pymysql://… in the URL; to install .* -m pip install 'pymysql>="
    with pytest.raises(StoreError, match=fix):
        Store.open("mysql://nimo@db.example/nimo")


def test_errors_do_not_tell_the_password():
    with pytest.raises(StoreError) as caught:
        Store.open("postgresql+psycopg://nimo:secret@127.0.0.1:1/nimo")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "nimo.db"
    path.write_text("JobID|State\n" * 100)
    with pytest.raises(StoreError, match="not a database"):
        Store.open(str(path))


def test_sqlite_lets_readers_in_beside_a_writer(tmp_path):
    Store.open(str(tmp_path / "nimo.db")).close()
    with sqlite3.connect(tmp_path / "nimo.db") as connection:
        assert connection.execute("pragma journal_mode").fetchone() == ("wal",)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("in_use", [True, False])
def test_users_of_its_group_may_read_a_store_that_is_not_theirs(in_use):
    with scratch_directory("nimo-read-only-") as folder:
        path = folder / "the site's.db"
        with Store.open(str(path)) as store:
            store.fits.replace([fit()])
            for file in folder.iterdir():
                os.chown(file, -1, NOBODY)
            if in_use:
                assert in_another_account(path) == "1 readonly"
        if not in_use:
            assert in_another_account(path) == "1 readonly"


def in_another_account(path):
    """Read and try to write a store as nobody; a fork, since nobody may not read our Python."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        reported = "died"
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with Store.open(str(path), create=False) as store:
                reported = str(len(store.fits.all()))
                store.watermarks.set("x", 1)
        except StoreError as error:
            reported += " readonly" if "readonly" in str(error) else f" {error}"
        finally:
            os.write(writer, reported.encode())
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        return pipe.read()


def test_a_new_file_is_not_for_everybody(tmp_path):
    """Whoever may read it sees all users' jobs."""
    before = os.umask(0o022)
    try:
        with Store.open(str(tmp_path / "nimo.db")) as store:
            store.runs.add([run()])
            modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert set(modes) >= {"nimo.db", "nimo.db-wal"}
    assert set(modes.values()) == {0o640}


def test_opening_loads_nothing_but_what_it_needs(tmp_path):
    """All that users wait for opens the store: no migrations, no dialect but its own."""
    Store.open(str(tmp_path / "nimo.db")).close()
    code = (
        "import sys; from sacct_ingest.store import Store;"
        f"Store.open({str(tmp_path / 'nimo.db')!r}).close();"
        "heavy = {'alembic', 'multiprocessing', *(f'sqlalchemy.dialects.{d}' for d in"
        " ('mysql', 'postgresql'))};"
        "print(*heavy & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_fits_are_replaced_as_a_whole(store):
    before = store.fits.version()
    store.fits.replace([fit("a"), fit("b", payload="x" * 200_000)])
    assert store.fits.version() > before
    assert [row.key for row in store.fits.all()] == ["a", "b"]
    store.fits.replace([fit("c")])
    assert store.fits.all() == [fit("c")]


def test_fits_of_others_can_be_retained(store):
    store.fits.replace([fit("a"), fit("b"), fit("a", level=KeyLevel.TAG)])
    store.fits.replace([fit("b", model="usl")], keep_others=True)
    result = {(row.level, row.key): row.model for row in store.fits.all()}
    assert result == {
        (KeyLevel.LINE, "a"): "adept",
        (KeyLevel.LINE, "b"): "usl",
        (KeyLevel.TAG, "a"): "adept",
    }


def test_many_fits(store):
    rows = [fit(f"{i:05}") for i in range(1234)]
    store.fits.replace(rows)
    store.fits.replace(rows[:700], keep_others=True)
    assert store.fits.all() == rows


def test_watermarks(store):
    assert store.watermarks.get("sacct:") is None
    store.watermarks.set("sacct:", 5)
    store.watermarks.set("sacct:pine", 7)
    store.watermarks.set("sacct:", 2**33)
    assert store.watermarks.get("sacct:") == 2**33
    assert store.watermarks.get("sacct:pine") == 7


def reject(i):
    return RejectRow(source="file", reason="odd\0", text=f"row {i}\0", read_s=i)


def test_rejected_rows_are_retained_once_and_only_the_newest(store):
    store.rejects.add([reject(i) for i in range(10)])
    store.rejects.add([reject(i) for i in range(10)])
    assert [row.text for row in store.rejects.all()] == [f"row {i}" for i in range(10)]
    store.rejects.add([reject(i) for i in range(10, MOST + 5)])
    remaining = store.rejects.all()
    assert len(remaining) == MOST
    assert remaining[0].read_s == 5
