"""Who may write to a store and when: privileges, the lock of an ingest, the writer's process."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from sacct_ingest.errors import StoreError
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store, Stored, ingests
from sacct_ingest.store import writer as module
from sacct_ingest.store.rows import RetentionTimes
from sacct_ingest.store.writer import RunWriter
from tests.databases import MariaDB
from tests.processes import LONGEST_WAIT_S, wait_until
from tests.sacct_ingest.records import SUBMIT_S, decision, run, runs_with, step

DOCS = Path(__file__).parents[3] / "docs" / "ingest.md"
_numbers = count()


def statements(kind, who):
    """Statements of the documentation's block for a kind of server and a user."""
    (block,) = re.findall(rf"```sql\n-- {kind}: {who}\n(.*?)```", DOCS.read_text(), re.DOTALL)
    return [line for line in block.splitlines() if line.strip()]


@pytest.fixture(params=["mariadb", "postgresql"])
def granted(request):
    """URL for each user of the documentation, made with just its statements."""
    kind = request.param
    server = request.getfixturevalue(f"{kind}_server")
    number = next(_numbers)
    database = f"granted_{number}"
    urls = {}

    def url(who):
        if database not in urls:
            urls[database] = server.create(database)
        user = {"owner": "nimo_owner", "reader": "nimo_reader"}[who] + str(number)
        text = "\n".join(statements(kind, who))
        text = text.replace("nimo_reader", "READER").replace("nimo_owner", "OWNER")
        text = re.sub(r"@'[^']*'", "@'localhost'", text)
        text = re.sub(r"\bnimo\b", database, text)
        text = text.replace("READER", f"nimo_reader{number}").replace(
            "OWNER", f"nimo_owner{number}"
        )
        for line in text.splitlines():
            execute(server, database, line)
        return as_user(server, urls[database], user)

    return url


def execute(server, database, sql):
    if isinstance(server, MariaDB):
        server.execute(sql)
    elif not sql.startswith("CREATE DATABASE"):
        from sqlalchemy import create_engine, text  # noqa: PLC0415

        url = f"postgresql+psycopg://nimo@/{database}?host={server.directory}"
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(sql))
        engine.dispose()


def as_user(server, url, user):
    if isinstance(server, MariaDB):
        return re.sub(r"//[^@]*@", f"//{user}:secret@", url)
    return url.replace("//nimo@", f"//{user}@")


def test_the_documented_rights_are_enough(granted):
    with Store.open(granted("owner")) as store:
        with store.ingest_lock(pytest.fail):
            store.runs.add([run(steps=(step(),))])
            store.watermarks.advance("sacct:", 5)
        store.decisions.add([decision()])
        assert store.decisions.join_outcomes() == 1
        store.fits.replace([])
        store.prune(RetentionTimes(runs=SUBMIT_S + 10**6, decisions=SUBMIT_S + 10**6))
    with Store.open(granted("reader"), create=False) as reports:
        assert reports.runs.count() == 1
        assert list(reports.decisions.with_outcomes()) == []
        with pytest.raises(StoreError, match=r"docs/ingest\.md"):
            reports.watermarks.set("sacct:", 7)


_HOLDER = """
import sys, time
from sacct_ingest.errors import StoreError
from sacct_ingest.store import Store, ingests
with Store.open(sys.argv[1]) as store, store.ingest_lock(lambda: None):
    print("mine", flush=True)
    time.sleep(300)
"""


def test_turns_are_taken_one_after_the_other(store_url):
    order = []
    waits = threading.Event()

    def second():
        with Store.open(store_url) as store, store.ingest_lock(waits.set):
            order.append("second")

    with Store.open(store_url) as store:
        with store.ingest_lock(lambda: None):
            thread = threading.Thread(target=second)
            thread.start()
            assert waits.wait(LONGEST_WAIT_S)
            order.append("first")
        thread.join(LONGEST_WAIT_S)
    assert order == ["first", "second"]


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_a_turn_ends_with_its_process(store_url, ending):
    with Store.open(store_url) as store:
        holder = subprocess.Popen(
            [sys.executable, "-c", _HOLDER, store_url], stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout.readline() == "mine\n"
        waits, had = threading.Event(), threading.Event()

        def wait():
            with store.ingest_lock(waits.set):
                had.set()

        thread = threading.Thread(target=wait)
        thread.start()
        assert waits.wait(LONGEST_WAIT_S)
        assert not had.is_set()
        os.kill(holder.pid, ending)
        holder.wait(LONGEST_WAIT_S)
        wait_until(had.is_set, what="the turn")
        thread.join(LONGEST_WAIT_S)
        holder.stdout.close()


@pytest.mark.database
def test_a_lock_that_mariadb_does_not_give_is_an_error(mariadb_url, monkeypatch):
    attempt, _, release = ingests.SERVERS["mysql"]
    monkeypatch.setitem(ingests.SERVERS, "mysql", (attempt, attempt, release))
    with (
        Store.open(mariadb_url) as store,
        store.ingest_lock(pytest.fail),
        pytest.raises(StoreError, match="not to be had"),
        store.ingest_lock(str),
    ):
        pytest.fail("two have the lock")


def test_a_turn_comes_back_after_an_error(store):
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), store.ingest_lock(pytest.fail):
            raise ZeroDivisionError


BATCHES = [
    [run(job_id=100 * i + j, steps=(step(), step(step="1", name="名前 😀"))) for j in range(5)]
    for i in range(4)
]


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(module, "FIRST", 5)
    monkeypatch.setattr(module, "BATCH", 5)
    # pytest's plug-ins have threads of their own, which sleep.
    count, asleep = threading.active_count, threading.active_count() - 1
    monkeypatch.setattr(module.threading, "active_count", lambda: count() - asleep)


def test_a_process_writes_what_the_store_itself_would(store, at_once):
    with store.writer() as writer:
        for batch in BATCHES:
            writer.add(batch)
        child = _process_of(writer)
        assert child.exists()
    assert writer.stored == Stored(new=20)
    assert not child.exists()
    assert store.runs.add([one for batch in BATCHES for one in batch]) == Stored(same=20)
    ids = [row.run_id for row in runs_with(store, KeyLevel.USER, "ada")]
    assert {len(steps) for steps in store.runs.steps_of(ids).values()} == {2}


def test_batches_larger_than_what_the_kernel_holds_arrive(sqlite_store, at_once):
    line = "sbatch " + "x" * 10**6
    with sqlite_store.writer() as writer:
        for batch in BATCHES:
            writer.add([run(job_id=one.job_id, submit_line=line) for one in batch])
        assert writer.pid is not None
    assert writer.stored == Stored(new=20)


def test_the_process_is_not_the_last_to_leave_the_file(tmp_path, at_once, monkeypatch):
    """The last writes the log back into the file, and whoever comes next begins a new one."""
    path, logs = tmp_path / "nimo.db", []
    close = RunWriter.close

    def closed(writer):
        close(writer)
        logs.append(Path(f"{path}-wal").exists())

    monkeypatch.setattr(RunWriter, "close", closed)
    with Store.open(str(path)) as store, store.writer() as writer:
        writer.add(BATCHES[0])
        assert writer.pid is not None
    assert logs == [True]


def test_a_busy_process_is_not_waited_for(store, at_once, monkeypatch):
    """The process begins with a batch once a byte comes through the pipe."""
    add_packed = module.add_packed
    waiting, release = os.pipe()

    def slow(engine, batch):
        os.read(waiting, 1)
        return add_packed(engine, batch)

    monkeypatch.setattr(module, "add_packed", slow)
    with store.writer() as writer:
        for batch in BATCHES:
            writer.add(batch)
        assert writer.stored == Stored()
        monkeypatch.setattr(module, "MOST_WAITING", 20)
        os.write(release, b"now")
        writer.add(BATCHES[0])
        assert writer.stored == Stored(new=5)
    assert writer.stored == Stored(new=20, same=5)
    os.close(waiting)
    os.close(release)


def test_later_batches_are_larger_than_the_first(sqlite_store, at_once, monkeypatch):
    """Of small ones the statements would cost as much as the rows."""
    monkeypatch.setattr(module, "BATCH", 15)
    monkeypatch.setattr(module, "MOST_WAITING", 15)
    with sqlite_store.writer() as writer:
        writer.add(BATCHES[0])
        writer.add(BATCHES[1])
        writer.add(BATCHES[2])
        # What came of the first one is asked for when the next one is given.
        assert writer.stored == Stored()
        writer.add(BATCHES[3])
        assert writer.stored == Stored(new=5)
    assert writer.stored == Stored(new=20)


def test_few_batches_need_no_process(store):
    with store.writer() as writer:
        writer.add(BATCHES[0])
        writer.wait()
        assert writer.pid is None
    assert writer.stored == Stored(new=5)


def test_beside_another_thread_it_writes_itself(store, at_once):
    """A fork would take along a lock that the other thread may hold, and nobody gives back."""
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        with store.writer() as writer:
            writer.add(BATCHES[0])
            assert writer.pid is None
            assert writer.stored == Stored(new=5)
    finally:
        ended.set()
        thread.join()


def test_an_open_file_is_not_taken_along(tmp_path, at_once):
    """SQLite's locks belong to a process: a fork that has the file open would undo them."""
    path = str(tmp_path / "nimo.db")
    with Store.open(path) as store, Store.open(path) as other:
        assert other.runs.count() == 0
        with store.writer() as writer:
            writer.add(BATCHES[0])
            assert writer.pid is None
        other.close()
        with store.writer() as writer:
            writer.add(BATCHES[1])
            assert writer.pid is not None
        assert store.runs.count() == 10


def test_what_the_process_did_not_expect_reaches_the_caller(store, at_once, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("odd")

    monkeypatch.setattr(module, "add_packed", broken)
    with store.writer() as writer:
        writer.add(BATCHES[0])
        with pytest.raises(StoreError, match="odd"):
            writer.wait()


def test_of_a_run_given_twice_the_last_counts(store):
    with store.writer() as writer:
        writer.add([run(job_id=1, elapsed_s=1.0)])
        writer.add([run(job_id=1, elapsed_s=2.0), run(job_id=1, elapsed_s=3.0)])
    assert writer.stored == Stored(new=1)
    assert [row.elapsed_s for row in runs_with(store, KeyLevel.USER, "ada")] == [3.0]


def test_a_writer_that_is_killed_loses_no_more_than_its_batch(sqlite_store, at_once):
    with pytest.raises(StoreError, match="is gone"), sqlite_store.writer() as writer:
        writer.add(BATCHES[0])
        writer.wait()
        os.kill(writer.pid, signal.SIGKILL)
        writer.add(BATCHES[1])
        writer.add(BATCHES[2])
    assert sqlite_store.runs.count() >= 5
    with sqlite_store.writer() as again:
        for batch in BATCHES:
            again.add(batch)
    assert sqlite_store.runs.count() == 20


def test_what_the_database_says_reaches_the_caller(sqlite_store, at_once, tmp_path):
    with sqlite_store.writer() as writer:
        writer.add(BATCHES[0])
        writer.wait()
        with closing(sqlite3.connect(tmp_path / "nimo.db")) as connection, connection:
            connection.execute("drop table steps")
        writer.add(BATCHES[1])
        with pytest.raises(StoreError, match="no such table"):
            writer.wait()


#: Without a guard of its main part, as newcomers write it.
HOLDER = """
import sys, time
from sacct_ingest.store import Store, writer as module
from tests.sacct_ingest.store.test_writer import BATCHES
module.FIRST = module.BATCH = 5
with Store.open(sys.argv[1]) as store, store.writer() as writer:
    writer.add(BATCHES[0])
    print(writer.pid, flush=True)
    writer.add(BATCHES[1])
    time.sleep(300)
"""


def _process_of(writer):
    return Path(f"/proc/{writer.pid}")


def test_the_writer_ends_when_the_ingest_is_killed(tmp_path):
    script = tmp_path / "holder.py"
    script.write_text(HOLDER)
    argv = [sys.executable, script, tmp_path / "nimo.db"]
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(root)}
    ) as holder:
        child = Path(f"/proc/{int(holder.stdout.readline())}")
        assert child.exists()
        holder.kill()
    wait_until(lambda: not child.exists(), what="the end of the writer")
    with Store.open(str(tmp_path / "nimo.db")) as store:
        assert store.runs.count() in (0, 5, 10)
