"""Writing runs in a process of its own, while the caller reads the next ones."""

import gc
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import msgspec
from sqlalchemy import Engine
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool

from sacct_ingest.errors import StoreError
from sacct_ingest.records import JobRun
from sacct_ingest.store.engine import make_engine, writing
from sacct_ingest.store.rows import Stored
from sacct_ingest.store.runs import Rows, add_batch, rows_of

#: Batches written without a process, which takes about as long to start.
_ALONE = 2
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[tuple[tuple[Any, ...], list[tuple[Any, ...]]]]).decode


class RunWriter:
    """Takes runs in batches, each of them one transaction; ``stored`` is what became of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._batches = 0
        self._process: _Process | None = None
        self._asked = False
        self.stored = Stored()

    def add(self, given: Sequence[JobRun]) -> None:
        """Hand a batch over, once the one before is stored.

        Raises
        ------
        StoreError
            This batch or the one before could not be stored.
        """
        rows = rows_of(given)
        self._batches += 1
        # A database in memory is this process's own.
        if self._batches > _ALONE and not isinstance(self._engine.pool, StaticPool):
            self._hand_over(rows)
        else:
            with writing(self._engine) as connection:
                self.stored += add_batch(connection, rows)

    def wait(self) -> None:
        """Wait until all that was handed over is stored."""
        if self._asked and self._process is not None:
            self._asked = False
            self.stored += self._process.answer()

    def close(self) -> None:
        """End the process, after the batch that it has begun."""
        if self._process is not None:
            self._process.close()

    def _hand_over(self, rows: list[Rows]) -> None:
        packed = _pack(rows)
        if self._process is None:
            self._process = _Process(self._engine.url)
        self.wait()
        self._process.ask(packed)
        self._asked = True


@contextmanager
def writer(engine: Engine) -> Iterator[RunWriter]:
    """Give what takes batches of runs; all of them are stored when the context is left."""
    made = RunWriter(engine)
    try:
        with _rare_collections():
            yield made
            made.wait()
    finally:
        made.close()


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let Python look for cycles seldom: millions of records have none, and it costs a fifth."""
    usual = gc.get_threshold()
    gc.set_threshold(200_000, 100, 100)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


class _Process:
    """The other process; it ends with the pipe, and so with whoever holds the pipe."""

    def __init__(self, url: URL) -> None:
        # Spawned, not forked: this process may hold threads and an open database.
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(url, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, packed: bytes) -> None:
        """Give it a batch."""
        try:
            self._pipe.send_bytes(packed)
        except OSError as error:
            raise StoreError("the process that writes the store is gone") from error

    def answer(self) -> Stored:
        """Wait for what became of the batch."""
        try:
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise StoreError("the process that writes the store is gone") from error
        if isinstance(answer, Stored):
            return answer
        raise StoreError(answer)

    def close(self) -> None:
        """Wait for its end."""
        self._pipe.close()
        self._process.join()


def _serve(url: URL, pipe: "Connection[Any, Any]") -> None:
    # Ctrl-C is for the process that reads: it closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    engine = make_engine(url.render_as_string(hide_password=False), create=False)
    try:
        with _rare_collections():
            while True:
                pipe.send(_stored(engine, _unpack(pipe.recv_bytes())))
    except (EOFError, OSError):
        return
    finally:
        engine.dispose()


def _stored(engine: Engine, rows: list[Rows]) -> Stored | str:
    try:
        with writing(engine) as connection:
            return add_batch(connection, rows)
    except StoreError as error:
        return str(error)
