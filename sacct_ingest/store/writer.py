"""Writing runs in a process of its own, while the caller reads the next ones.

Both take about the same time: with two processors a million rows took 9.8 s for 15 s of CPU.  The
process is a fork: it is there in five milliseconds, where a program that loads SQLAlchemy would
take as long as ten thousand rows.
"""

import gc
import os
import pickle
import select
import signal
import socket
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NoReturn

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from sacct_ingest.errors import StoreError
from sacct_ingest.job_run import JobRun
from sacct_ingest.store.add_runs import add_packed
from sacct_ingest.store.engine import file_of, make_engine, path_of, translated
from sacct_ingest.store.packed_runs import PackedRuns, decode_packed, encode, pack_runs
from sacct_ingest.store.rows import Stored

#: Runs from which on there is a process: it opens the store while the next ones are read.
FIRST = 200
#: Runs of each later batch at least: of small ones the statements cost as much as the rows.
BATCH = 1000
#: Runs that wait for the process at most; it gets them as soon as it is idle.
MOST_WAITING = 2000


class RunWriter:
    """Takes runs, writes them in batches of one transaction each; ``stored`` is what came of it.

    A batch is what has come since the process began with the one before: neither waits for the
    other for long, and little is left to write once all is read.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._packed: list[PackedRuns] = []
        self._begun = False
        self._process: _Process | None = None
        self._asked = False
        self.stored = Stored()

    @property
    def pid(self) -> int | None:
        """Process that writes; None: this one does."""
        return self._process.pid if self._process else None

    def add(self, given: Iterable[JobRun]) -> None:
        """Take runs; where many wait to be written, wait until the batch before is stored.

        Raises StoreError: this batch or the one before could not be stored.
        """
        self._packed += pack_runs(given)
        count = sum(map(len, self._packed))
        if count < (BATCH if self._begun else FIRST):
            return
        if not self._begun:
            self._begun, self._process = True, _forked(self._engine)
        waits = self._asked and self._process is not None and not self._process.idle()
        if count >= MOST_WAITING or not waits:
            self._write()

    def hand_over(self) -> None:
        """Hand over all that was given, without waiting for what becomes of it."""
        if self._packed:
            self._write()

    def wait(self) -> None:
        """Wait until all that was given is stored."""
        self.hand_over()
        self._wait()

    def close(self) -> None:
        """End the process, after the batch that it has begun."""
        if self._process is not None:
            self._process.close()

    def _write(self) -> None:
        batch = self._packed
        self._packed = []
        if self._process is not None:
            self._wait()
            self._process.ask(encode(batch))
            self._asked = True
        else:
            self.stored += add_packed(self._engine, batch)

    def _wait(self) -> None:
        if self._asked and self._process is not None:
            self._asked = False
            self.stored += self._process.answer()


@contextmanager
def writer(engine: sa.Engine) -> Iterator[RunWriter]:
    """Give what takes batches of runs; all of them are stored when the context is left."""
    made = RunWriter(engine)
    try:
        with _rare_collections():
            yield made
            made.hand_over()
        # From here on while the other process writes the last batch.
        if made.pid is not None and path_of(engine) is not None:
            # The last to leave an SQLite file has to write its log back: it is opened here.
            with translated(engine), engine.connect():
                pass
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


def _forked(engine: sa.Engine) -> "_Process | None":
    """Start the process; None where this one must not be forked, and writes itself.

    Another thread may hold a lock that the fork would wait for for ever.  And an SQLite database
    that is open must not be taken along: all connections are given back first.
    """
    if isinstance(engine.pool, StaticPool) or threading.active_count() > 1:
        return None
    engine.dispose()
    return None if _is_open(path_of(engine)) else _Process(engine.url)


def _is_open(path: Path | None) -> bool:
    """Whether this process has an SQLite file open, by another store for one."""
    if path is None:
        return False
    beside = (path, Path(f"{path}-wal"), Path(f"{path}-shm"))
    files = {file_of(one) for one in beside} - {None}
    # The descriptor of the folder itself is gone by now.
    return any(file_of(one) in files for one in Path("/proc/self/fd").iterdir())


class _Process:
    """The other process; it ends with the channel, and so with the process that holds that.

    Messages are pickles: to load :mod:`multiprocessing` takes as long as to read 500 rows.
    """

    def __init__(self, url: URL) -> None:
        self._channel, theirs = socket.socketpair()
        with warnings.catch_warnings():
            # Python warns of threads of libraries, too, which sleep.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            _serve_and_exit(url, theirs, self._channel)
        theirs.close()
        self._received, self._sent = self._channel.makefile("rb"), self._channel.makefile("wb")

    def ask(self, message: bytes) -> None:
        """Give it a batch."""
        try:
            _send(self._sent, message)
        except OSError as error:
            raise StoreError("the process that writes the store is gone") from error

    def idle(self) -> bool:
        """Whether it has written the batch that it was given: there is an answer, or an end."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        return bool(poll.poll(0))

    def answer(self) -> Stored:
        """Wait for what became of the batch."""
        try:
            answer = pickle.load(self._received)  # noqa: S301 - of our own process
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise StoreError("the process that writes the store is gone") from error
        if isinstance(answer, Stored):
            return answer
        raise StoreError(answer)

    def close(self) -> None:
        """Wait for its end."""
        for one in (self._sent, self._received, self._channel):
            with suppress(OSError):  # it is gone already, and does not take what was left
                one.close()
        os.waitpid(self.pid, 0)


def _send(file: IO[bytes], message: object) -> None:
    pickle.dump(message, file, pickle.HIGHEST_PROTOCOL)
    file.flush()


def _serve_and_exit(url: URL, channel: socket.socket, other_end: socket.socket) -> NoReturn:
    """Be the other process.

    It leaves without a farewell: what it has from the first process is not its own to close.
    """
    try:
        other_end.close()
        # Ctrl-C is for the process that reads: it closes the channel.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with suppress(EOFError, OSError, pickle.UnpicklingError):
            _serve(url, channel.makefile("rb"), channel.makefile("wb"))
    finally:
        os._exit(0)


def _serve(url: URL, received: IO[bytes], sent: IO[bytes]) -> None:
    """Write what comes, until the other end is closed."""
    engine = make_engine(url.render_as_string(hide_password=False), create=False)
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _trust_own_keys)
    try:
        with suppress(SQLAlchemyError), engine.connect():
            pass  # while the first batch is read; errors are those of the batch
        while True:
            batch = decode_packed(pickle.load(received))  # noqa: S301 - of our own process
            _send(sent, _stored(engine, batch))
    finally:
        engine.dispose()


def _trust_own_keys(connection: Any, record: object) -> None:  # noqa: ARG001 - SQLAlchemy gives it
    # Steps are written with their runs, in one transaction: to look each run up again costs 6 %.
    connection.execute("PRAGMA foreign_keys=OFF")


def _stored(engine: sa.Engine, batch: list[PackedRuns]) -> Stored | str:
    try:
        return add_packed(engine, batch)
    except Exception as error:
        return str(error) or repr(error)
