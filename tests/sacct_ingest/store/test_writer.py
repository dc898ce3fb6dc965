"""Runs written by a process of its own: the same rows, and nothing lost when one is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sacct_ingest.errors import StoreError
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store, Stored
from sacct_ingest.store import writer as module
from sacct_ingest.store.writer import RunWriter
from tests.processes import wait_until
from tests.sacct_ingest.records import run, runs_with, step

BATCHES = [
    [run(job_id=100 * i + j, steps=(step(), step(step="1", name="名前 😀"))) for j in range(5)]
    for i in range(4)
]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ALONE", 0)
    monkeypatch.setattr(module, "BATCH", 5)
    is_ready = module._Process.is_ready

    def wait(process: module._Process) -> bool:
        wait_until(lambda: is_ready(process), what="the start of the writer")
        return True

    monkeypatch.setattr(module._Process, "is_ready", wait)


def test_a_process_writes_what_the_store_itself_would(store: Store, at_once: None) -> None:
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


def test_few_batches_need_no_process(store: Store) -> None:
    with store.writer() as writer:
        writer.add(BATCHES[0])
        writer.wait()
        assert writer._process is None
    assert writer.stored == Stored(new=5)


def test_nothing_waits_for_the_process_to_start(
    store: Store, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module._Process, "is_ready", lambda _: False)
    with store.writer() as writer:
        for number, batch in enumerate(BATCHES, 1):
            writer.add(batch)
            assert writer.stored == Stored(new=5 * number)
        child = _process_of(writer)
    assert not child.exists()


def test_of_a_run_given_twice_the_last_counts(store: Store) -> None:
    with store.writer() as writer:
        writer.add([run(job_id=1, elapsed_s=1.0)])
        writer.add([run(job_id=1, elapsed_s=2.0), run(job_id=1, elapsed_s=3.0)])
    assert writer.stored == Stored(new=1)
    assert [row.elapsed_s for row in runs_with(store, KeyLevel.USER, "ada")] == [3.0]


def test_a_writer_that_is_killed_loses_no_more_than_its_batch(
    sqlite_store: Store, at_once: None
) -> None:
    with pytest.raises(StoreError, match="is gone"), sqlite_store.writer() as writer:
        writer.add(BATCHES[0])
        writer.wait()
        assert writer._process is not None
        os.kill(writer._process.pid, signal.SIGKILL)
        writer.add(BATCHES[1])
        writer.add(BATCHES[2])
    assert sqlite_store.runs.count() >= 5
    with sqlite_store.writer() as again:
        for batch in BATCHES:
            again.add(batch)
    assert sqlite_store.runs.count() == 20


def test_what_the_database_says_reaches_the_caller(sqlite_store: Store, at_once: None) -> None:
    with sqlite_store.writer() as writer:
        writer.add(BATCHES[0])
        writer.wait()
        with sqlite_store._engine.begin() as connection:
            connection.exec_driver_sql("drop table steps")
        writer.add(BATCHES[1])
        with pytest.raises(StoreError, match="no such table"):
            writer.wait()


#: Without a guard of its main part, as newcomers write it.
HOLDER = """
import sys, time
from sacct_ingest.store import Store, writer as module
from tests.sacct_ingest.store.test_writer import BATCHES
module._ALONE, module.BATCH = 0, 5
with Store.open(sys.argv[1]) as store, store.writer() as writer:
    writer.add(BATCHES[0])
    print(writer._process.pid, flush=True)
    writer.add(BATCHES[1])
    time.sleep(300)
"""


def _process_of(writer: RunWriter) -> Path:
    assert writer._process is not None
    return Path(f"/proc/{writer._process.pid}")


def test_the_writer_ends_when_the_ingest_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "holder.py"
    script.write_text(HOLDER)
    argv = [sys.executable, script, tmp_path / "nimo.db"]
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(root)}
    ) as holder:
        assert holder.stdout is not None
        child = Path(f"/proc/{int(holder.stdout.readline())}")
        assert child.exists()
        holder.kill()
    wait_until(lambda: not child.exists(), what="the end of the writer")
    with Store.open(str(tmp_path / "nimo.db")) as store:
        assert store.runs.count() in (0, 5, 10)
