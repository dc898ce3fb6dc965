"""The prediction tables in memory: looked up at every submission, exchanged as a whole."""

from collections.abc import Iterable, Mapping

from predictor.types import PredictionTable, Verdict
from sacct_ingest.records import Identity, KeyLevel

_HISTORY = "history"


class Tables:
    """All prediction tables of one state of the store; never changed once made.

    Parameters
    ----------
    off
        Level and key of the identities that are switched off for what their predictions missed.
    node_types
        Type of each node that was measured, by cluster and name.
    """

    def __init__(
        self,
        tables: Iterable[PredictionTable] = (),
        *,
        version: int | None = None,
        off: Iterable[tuple[str, str]] = (),
        node_types: Mapping[tuple[str, str], str] | None = None,
    ) -> None:
        self._tables = {(table.level, table.key): table for table in tables}
        self._off = frozenset(off)
        self.node_types = node_types or {}
        self.version = version  #: of the store's tables; None: not read yet

    def __len__(self) -> int:
        return len(self._tables)

    def with_off(self, off: Iterable[tuple[str, str]]) -> "Tables":
        """Make the same tables with other identities switched off."""
        made = Tables(version=self.version, off=off, node_types=self.node_types)
        made._tables = self._tables
        return made

    def is_off(self, table: PredictionTable) -> bool:
        """Whether what came of this table's predictions switched it off."""
        return (table.level, table.key) in self._off

    def dismantle(self) -> None:
        """Give the memory back table by table: all at once would hold up other threads."""
        while self._tables:
            self._tables.popitem()

    def find(self, identity: Identity) -> PredictionTable | None:
        """Find the table that says most about an application.

        The most specific one that holds a curve, else the most specific one: a script that was
        edited has no curve of its own yet, where its command line may have one.
        """
        found = [
            table
            for level in KeyLevel
            if (key := identity.key(level))
            and (table := self._tables.get((level.value, key))) is not None
        ]
        curves = (t for t in found if is_curve(t) and t.verdict is not Verdict.REFUSED)
        return next(curves, next(iter(found), None))


def is_curve(table: PredictionTable) -> bool:
    """Whether run time is known over node counts, not only from runs as they were."""
    return table.model != _HISTORY
