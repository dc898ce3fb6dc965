"""The prediction tables in memory: looked up at every submission, exchanged as a whole.

They stay as the store has them, in JSON, and are decoded when a job first asks for one: most of a
hundred thousand are not asked for between two refits, as text they take a quarter of the memory,
and the garbage collector does not walk through text.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce

import msgspec

from predictor.table import at, covers, decode, for_layout, part_for, worse
from predictor.types import Point, PredictionTable, Verdict
from sacct_ingest.layout import Layout
from sacct_ingest.records import Identity, KeyLevel

_log = logging.getLogger(__name__)
_DECODED = 2048  #: most tables that are kept decoded


class PredictionLookup:
    """All prediction tables of one state of the store; never changed once made.

    Parameters
    ----------
    payloads
        Level and key of each identity, with the text of its table.
    off
        Level and key of the identities that are switched off for what their predictions missed.
    node_types
        Type of each node that was measured, by cluster and name.
    """

    def __init__(
        self,
        payloads: Iterable[tuple[str, str, str]] = (),
        *,
        version: int | None = None,
        off: Iterable[tuple[str, str]] = (),
        node_types: Mapping[tuple[str, str], str] | None = None,
    ) -> None:
        # By level and then by key: a key of both would be one more object for the collector.
        self._payloads: dict[str, dict[str, str]] = defaultdict(dict)
        for level, key, payload in payloads:
            self._payloads[level][key] = payload
        self._off = frozenset(off)
        self.node_types = node_types or {}
        self.version = version  #: of the store's tables; None: not read yet

    def __len__(self) -> int:
        return sum(map(len, self._payloads.values()))

    def with_off(self, off: Iterable[tuple[str, str]]) -> "PredictionLookup":
        """Make the same tables with other identities switched off."""
        made = PredictionLookup(version=self.version, off=off, node_types=self.node_types)
        made._payloads = self._payloads
        return made

    def is_off(self, table: PredictionTable) -> bool:
        """Whether what came of this table's predictions switched it off."""
        return (table.level, table.key) in self._off

    def dismantle(self) -> Iterator[str]:
        """Give the memory back table by table, key by key: all at once holds up other threads."""
        for tables in self._payloads.values():
            while tables:
                yield tables.popitem()[0]

    def parts(self) -> list[tuple[KeyLevel, str]]:
        """List where the tables of the parts of these tables are."""
        all_keys = ((level, key) for level, tables in self._payloads.items() for key in tables)
        stored = ((level, self._table(level, key)) for level, key in all_keys)
        return [
            (KeyLevel(level), part.key) for level, table in stored if table for part in table.parts
        ]

    def find(
        self,
        identity: Identity,
        layouts: tuple[Layout, ...] | None = None,
        *,
        shared: Sequence[str] = (),
    ) -> PredictionTable | None:
        """Find the table that says most about an application.

        The most specific one that holds a curve, unless a broader one says the same with more
        behind it; else the most specific one.  A script that was edited has no curve of its own
        yet, or one of few node counts, where its command line may have one of many.

        Parameters
        ----------
        layouts
            How the job spreads over its nodes (:func:`slurm_plugin.decision.layout.layouts_of`);
            None: that is left open.
        shared
            Keys of tags that the user shares with others: looked at where the user's own runs
            make no curve.
        """
        candidates = [
            table
            for level in KeyLevel
            if (key := identity.key(level))
            and (table := self._for_layout(level.value, key, layouts)) is not None
        ]
        curves = [t for t in candidates if t.is_curve and t.verdict is not Verdict.REFUSED]
        if curves:
            return reduce(_broader, curves)
        others = (self._for_layout(KeyLevel.TAG.value, key, layouts) for key in shared)
        return next(
            (t for t in others if t is not None and t.is_curve), next(iter(candidates), None)
        )

    def _for_layout(
        self, level: str, key: str, layouts: tuple[Layout, ...] | None
    ) -> PredictionTable | None:
        table = self._table(level, key)
        if table is None or layouts is None:
            return table
        part = part_for(table, layouts)
        own = self._table(level, part.key) if part else None
        return own or for_layout(table, layouts)

    def _table(self, level: str, key: str) -> PredictionTable | None:
        payload = self._payloads.get(level, {}).get(key)
        return None if payload is None else _decoded(payload, key)


@lru_cache(maxsize=_DECODED)
def _broader(narrow: PredictionTable, broad: PredictionTable) -> PredictionTable:
    """Give the broader curve where it knows more node counts and holds all that is known of both.

    What was seen of the narrow one then lies within the intervals of the broad one, so that nothing
    says that they are two applications.
    """
    knows_more = (
        len(broad.observed) > len(narrow.observed)
        and broad.node_type == narrow.node_type
        and worse(broad.verdict, narrow.verdict) is narrow.verdict
    )
    return (
        broad if knows_more and all(_holds(broad, point) for point in narrow.observed) else narrow
    )


def _holds(table: PredictionTable, point: Point) -> bool:
    if not covers(table, point.nodes):
        return False
    predicted = at(table, point.nodes)
    return predicted.low_s <= point.time_s <= predicted.high_s


@lru_cache(maxsize=_DECODED)
def _decoded(payload: str, key: str) -> PredictionTable | None:
    try:
        return decode(payload)
    except msgspec.DecodeError as error:
        _log.warning("table of %s skipped: %s; 'nimo fit' makes it anew", key, error)
        return None
