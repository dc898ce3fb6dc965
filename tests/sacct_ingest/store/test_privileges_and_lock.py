"""The rights of docs/ingest.md are enough, and what is missing is said."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sacct_ingest.errors import StoreError
from sacct_ingest.store import Store, ingests
from sacct_ingest.store.rows import RetentionTimes
from tests.databases import MariaDB, Server
from tests.processes import wait_until
from tests.sacct_ingest.records import SUBMIT_S, decision, run, step

DOCS = Path(__file__).parents[3] / "docs" / "ingest.md"
_numbers = count()


def statements(kind: str, who: str) -> list[str]:
    """Statements of the documentation's block for a kind of server and a user."""
    (block,) = re.findall(rf"```sql\n-- {kind}: {who}\n(.*?)```", DOCS.read_text(), re.DOTALL)
    return [line for line in block.splitlines() if line.strip()]


@pytest.fixture(params=["mariadb", "postgresql"])
def granted(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """URL for each user of the documentation, made with just its statements."""
    kind: str = request.param
    server: Server = request.getfixturevalue(f"{kind}_server")
    number = next(_numbers)
    database = f"granted_{number}"
    urls: dict[str, str] = {}

    def url(who: str) -> str:
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


def execute(server: Any, database: str, sql: str) -> None:
    if isinstance(server, MariaDB):
        server.execute(sql)
    elif not sql.startswith("CREATE DATABASE"):
        from sqlalchemy import create_engine, text  # noqa: PLC0415

        url = f"postgresql+psycopg://nimo@/{database}?host={server.directory}"
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(sql))
        engine.dispose()


def as_user(server: Any, url: str, user: str) -> str:
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
    order: list[str] = []
    waits = threading.Event()

    def second() -> None:
        with Store.open(store_url) as store, store.ingest_lock(waits.set):
            order.append("second")

    with Store.open(store_url) as store:
        with store.ingest_lock(lambda: None):
            thread = threading.Thread(target=second)
            thread.start()
            assert waits.wait(30)
            order.append("first")
        thread.join(30)
    assert order == ["first", "second"]


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_a_turn_ends_with_its_process(store_url, ending):
    with Store.open(store_url) as store:
        holder = subprocess.Popen(
            [sys.executable, "-c", _HOLDER, store_url], stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout.readline() == "mine\n"
        waits, had = threading.Event(), threading.Event()

        def wait() -> None:
            with store.ingest_lock(waits.set):
                had.set()

        thread = threading.Thread(target=wait)
        thread.start()
        assert waits.wait(30)
        assert not had.is_set()
        os.kill(holder.pid, ending)
        holder.wait(30)
        wait_until(had.is_set, what="the turn")
        thread.join(30)
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
