"""Writing runs in a process of its own, while the caller reads the next ones."""

import gc
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import msgspec
from sqlalchemy import Engine, event
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool

from sacct_ingest.errors import StoreError
from sacct_ingest.records import JobRun
from sacct_ingest.store.add_runs import BATCH, add_batch
from sacct_ingest.store.engine import make_engine, writing
from sacct_ingest.store.packed import PackedRuns, encode, pack_runs
from sacct_ingest.store.rows import Stored

#: Batches after which a process is started; what comes before it is ready is written without it.
_ALONE = 2
_decode = msgspec.msgpack.Decoder(list[PackedRuns]).decode


class RunWriter:
    """Takes runs, writes them in batches of one transaction each; ``stored`` is what came of it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._packed: list[PackedRuns] = []
        self._batches = 0
        self._process: _Process | None = None
        self._asked = False
        self.stored = Stored()

    def add(self, given: Iterable[JobRun]) -> None:
        """Take runs; with those that make a batch, wait until the batch before is stored.

        Raises
        ------
        StoreError
            This batch or the one before could not be stored.
        """
        self._packed += pack_runs(given)
        if sum(map(len, self._packed)) >= BATCH:
            self._write()

    def wait(self) -> None:
        """Wait until all that was given is stored."""
        if self._packed:
            self._write()
        self._wait()

    def close(self) -> None:
        """End the process, after the batch that it has begun."""
        if self._process is not None:
            self._process.close()

    def _write(self) -> None:
        batch, self._packed = self._packed, []
        self._batches += 1
        # A database in memory is this process's own.
        own = isinstance(self._engine.pool, StaticPool)
        if self._process is None and self._batches > _ALONE and not own:
            self._process = _Process(self._engine.url)
        if self._process is not None and self._process.is_ready():
            self._hand_over(self._process, encode(batch))
        else:
            with writing(self._engine) as connection:
                self.stored += add_batch(connection, batch)

    def _hand_over(self, process: "_Process", batch: bytes) -> None:
        self._wait()
        process.ask(batch)
        self._asked = True

    def _wait(self) -> None:
        if self._asked and self._process is not None:
            self._asked = False
            self.stored += self._process.answer()


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


#: What the process is started with.  The path of this one first: it may have been changed.
_PROGRAM = "import sys; sys.path[:] = sys.argv[2:]; from {} import serve; serve(int(sys.argv[1]))"


class _Process:
    """The other process; it ends with the pipe, and so with whoever holds the pipe.

    A program of its own, not a fork: this process may hold threads and an open database.  Nor what
    `multiprocessing` spawns, which would run the main script of whoever uses this as a library.
    """

    def __init__(self, url: URL) -> None:
        self._pipe, theirs = Pipe()
        argv = [sys.executable, "-c", _PROGRAM.format(__name__), str(theirs.fileno()), *sys.path]
        self._ready = False
        with theirs:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
        # Not among the arguments: it may hold a password.
        self.ask(url.render_as_string(hide_password=False).encode())

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def is_ready(self) -> bool:
        """Whether it has started, and takes batches.

        Raises
        ------
        StoreError
            It ended before that.
        """
        if not self._ready and self._pipe.poll():
            self.answer()
            self._ready = True
        return self._ready

    def ask(self, message: bytes) -> None:
        """Give it a batch."""
        try:
            self._pipe.send_bytes(message)
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
        """Wait for its end; before it was ready it has written nothing."""
        self._pipe.close()
        if not self._ready:
            self._process.kill()
        self._process.wait()


def serve(descriptor: int) -> None:
    """Write what comes through the pipe, until its other end is closed."""
    # Ctrl-C is for the process that reads: it closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe: Connection[Any, bytes] = Connection(descriptor)
    with suppress(EOFError, OSError):
        engine = make_engine(pipe.recv_bytes().decode(), create=False)
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _trust_own_keys)
        try:
            with _rare_collections():
                pipe.send(Stored())
                while True:
                    pipe.send(_stored(engine, _decode(pipe.recv_bytes())))
        finally:
            engine.dispose()


def _trust_own_keys(connection: Any, record: object) -> None:  # noqa: ARG001 - SQLAlchemy gives it
    # Steps are written with their runs, in one transaction: to look each run up again costs 6 %.
    connection.execute("PRAGMA foreign_keys=OFF")


def _stored(engine: Engine, batch: list[PackedRuns]) -> Stored | str:
    try:
        with writing(engine) as connection:
            return add_batch(connection, batch)
    except StoreError as error:
        return str(error)
