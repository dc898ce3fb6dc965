"""The store as a whole: opened once, closed once, one small object for each table.

What only an ingest or `nimo prune` does is imported there: users' commands open the store, too.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sqlalchemy import Engine

from sacct_ingest.store.decisions import Decisions
from sacct_ingest.store.engine import make_engine, opened_read_only
from sacct_ingest.store.fits import Fits
from sacct_ingest.store.identity import change_since, identify
from sacct_ingest.store.migrate import migrate
from sacct_ingest.store.prediction_records import Records
from sacct_ingest.store.probes import Probes
from sacct_ingest.store.profiles import Profiles
from sacct_ingest.store.rejects import Rejects
from sacct_ingest.store.rows import ArrayRow, DecisionSelection, Pruned, RetentionTimes
from sacct_ingest.store.runs import Runs
from sacct_ingest.store.standings import Standings
from sacct_ingest.store.sums import NodeSums
from sacct_ingest.store.watermarks import Watermarks

if TYPE_CHECKING:
    from sacct_ingest.store.writer import RunWriter


class Store:
    """Runs, fits, decisions, watermarks, rejected rows, probes … in one SQL database.

    >>> with Store.open("sqlite://") as store:
    ...     store.watermarks.set("pine", 1_790_000_000)
    ...     store.watermarks.get("pine")
    1790000000
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._opened = identify(engine)
        self.runs = Runs(engine)
        self.fits = Fits(engine)
        self.records = Records(engine)
        self.decisions = Decisions(engine)
        self.standings = Standings(engine)
        self.watermarks = Watermarks(engine)
        self.rejects = Rejects(engine)
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
        return opened_read_only(self._engine)

    def change(self) -> str:
        """Say what became of the database since it was opened: deleted, replaced; or nothing.

        Who finds that has to open the store anew: what is written to this one is lost.

        Raises StoreError: it cannot be read.
        """
        return change_since(self._engine, self._opened)

    def arrays(self, chosen: DecisionSelection, most: int) -> list[ArrayRow]:
        """Give the job arrays that were submitted last; see `sacct_ingest.store.arrays`."""
        from sacct_ingest.store.arrays import newest_arrays  # noqa: PLC0415

        return newest_arrays(self._engine, chosen, most)

    def ingest_lock(self, waiting: Callable[[], None]) -> AbstractContextManager[None]:
        """Keep other ingests out; see `sacct_ingest.store.ingest_lock`.

        waiting: called once if another process has the lock.
        """
        from sacct_ingest.store.ingest_lock import ingest_lock  # noqa: PLC0415

        return ingest_lock(self._engine, waiting)

    def prune(self, retention: RetentionTimes, *, dry_run: bool = False) -> list[Pruned]:
        """Delete what is older than its table keeps it; see `sacct_ingest.store.retention`."""
        from sacct_ingest.store.retention import prune  # noqa: PLC0415

        return prune(self._engine, retention, dry_run=dry_run)

    def writer(self) -> AbstractContextManager["RunWriter"]:
        """Give what stores runs while the caller reads the next ones."""
        from sacct_ingest.store.writer import writer  # noqa: PLC0415

        return writer(self._engine)

    def close(self) -> None:
        """Give back all connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
