"""The store as a whole: opened once, closed once, one small object for each table.

What only an ingest or `nimo prune` does is imported there: users' commands open the store, too.
"""

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Final, Self

import sqlalchemy as sa

from sacct_ingest.errors import StoreError
from sacct_ingest.store import counters
from sacct_ingest.store.changes import Changes
from sacct_ingest.store.decisions import Decisions
from sacct_ingest.store.engine import file_of, make_engine, path_of, reading, writing
from sacct_ingest.store.fits import Fits, Records, Standings
from sacct_ingest.store.ingests import Rejects, ValueCounts, Watermarks
from sacct_ingest.store.inputs import Inputs
from sacct_ingest.store.migrate import migrate
from sacct_ingest.store.probes import Probes, Profiles
from sacct_ingest.store.rows import Pruned, RetentionTimes
from sacct_ingest.store.runs import Runs
from sacct_ingest.store.sums import NodeSums

if TYPE_CHECKING:
    from sacct_ingest.store.resolution import Resolved
    from sacct_ingest.store.writer import RunWriter

#: The counter with a store's random number, by which another in its place is noticed.
_NUMBER: Final = "store"
_BITS: Final = 62


class Store:
    """Runs, fits, decisions, watermarks, rejected rows, probes … in one SQL database.

    >>> with Store.open("sqlite://") as store:
    ...     store.watermarks.set("pine", 1_790_000_000)
    ...     store.watermarks.get("pine")
    1790000000
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._file = file_of(path_of(engine))
        self._number = _number_of(engine)
        self.runs = Runs(engine)
        self.inputs = Inputs(engine)
        self.changes = Changes(engine)
        self.fits = Fits(engine)
        self.records = Records(engine)
        self.decisions = Decisions(engine)
        self.standings = Standings(engine)
        self.watermarks = Watermarks(engine)
        self.rejects = Rejects(engine)
        self.value_counts = ValueCounts(engine)
        self.probes = Probes(engine)
        self.profiles = Profiles(engine)
        self.sums = NodeSums(engine)

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> Self:
        """Open a store, with its tables made or brought up to this release.

        url: SQLAlchemy URL (``sqlite:////var/lib/nimo/nimo.db``, ``postgresql+psycopg://…``,
            ``mariadb+pymysql://…``) or the path of an SQLite file.
        create: make an SQLite file that is not there; otherwise that is an error.
        Raises StoreError: it cannot be reached, or a newer release made it.
        """
        engine = make_engine(url, create=create)
        try:
            migrate(engine)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine)

    @property
    def read_only(self) -> bool:
        """Whether an SQLite file could not be written when it was opened: it stays so here."""
        return self._engine.url.query.get("mode") == "ro"

    def change(self) -> str:
        """Say what became of the database since it was opened: deleted, replaced; or nothing.

        An SQLite file that was deleted or replaced lives on for who has it open: what is written
        there is lost.  On a server a database may be dropped and made anew.  Who finds that has to
        open the store anew.

        Raises StoreError: it cannot be read.
        """
        file = file_of(path_of(self._engine))
        if self._file is not None and file != self._file:
            return "was deleted" if file is None else "was replaced by another file"
        with reading(self._engine) as connection:
            same = counters.find(connection, _NUMBER) == self._number
        return "" if same else "was replaced by another database"

    def ingest_lock(self, waiting: Callable[[], None]) -> AbstractContextManager[None]:
        """Keep other ingests out; see `sacct_ingest.store.ingests`.

        waiting: called once if another process has the lock.
        """
        from sacct_ingest.store.ingests import ingest_lock  # noqa: PLC0415

        return ingest_lock(self._engine, waiting)

    def prune(self, retention: RetentionTimes, *, dry_run: bool = False) -> list[Pruned]:
        """Delete what is older than its table keeps it; see `sacct_ingest.store.retention`."""
        from sacct_ingest.store.retention import prune  # noqa: PLC0415

        return prune(self._engine, retention, dry_run=dry_run)

    def resolve(self, report: "Callable[[Resolved], object] | None" = None) -> None:
        """Read runs anew that an earlier release stored; see `sacct_ingest.store.resolution`."""
        from sacct_ingest.store.resolution import resolve  # noqa: PLC0415

        resolve(self._engine, report)

    def unresolved(self) -> "Resolved | None":
        """Say how far that is; None: there is nothing to read anew."""
        from sacct_ingest.store.resolution import progress_of  # noqa: PLC0415

        return progress_of(self._engine)

    def writer(self) -> AbstractContextManager["RunWriter"]:
        """Give what stores runs while the caller reads the next ones."""
        from sacct_ingest.store.writer import writer  # noqa: PLC0415

        return writer(self._engine)

    def close(self) -> None:
        """Give back all connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _number_of(engine: sa.Engine) -> int | None:
    """Give a store's number; one without gets it, where this process may write."""
    with reading(engine) as connection:
        number = counters.find(connection, _NUMBER)
    if number is not None:
        return number
    # A user may read the site's store, not write to it; another process may be first.
    with suppress(StoreError), writing(engine) as connection:
        counters.start(connection, {_NUMBER: secrets.randbits(_BITS)})
    with reading(engine) as connection:
        return counters.find(connection, _NUMBER)
