"""Of all processes that share a store one at a time asks the accounting."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from sacct_ingest.errors import StoreError
from sacct_ingest.store import Store, ingests
from tests.processes import wait_until

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
