"""The applications of a store in memory, for search, order and pages without another query."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from predictor.types import Verdict
from sacct_ingest.records import CURVE_LEVELS, KeyLevel
from sacct_ingest.runs.layout import ANY, Layout, Unit
from sacct_ingest.store import FitRow
from slurm_plugin.reports.listing import Listed, TableKey, distinctions, repeated
from slurm_plugin.slurm.slurm_conf import PrivateDataRules, is_own


class _Point(msgspec.Struct):
    nodes: int


class _Table(msgspec.Struct):
    """What a list needs of a prediction table: reading all of it takes four times as long."""

    observed: list[_Point]
    runs: int
    knee: int | None
    command: str = ""
    layout: Layout = ANY
    parts: list[Any] = []
    owner: str = ""
    last_s: float = 0.0
    unit: Unit = Unit.NODES


_decoder = msgspec.json.Decoder(_Table)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry(Listed):
    """One application, as a list has it."""

    verdict: str
    model: str
    unit: str  #: what its counts are of, in the plural
    knee: int | None
    off: bool
    fitted_s: float


def entry_of(row: FitRow, *, off: bool) -> CatalogueEntry:
    """Make an entry of a row of the store.

    Raises msgspec.DecodeError: the row holds no prediction table.
    """
    table = _decoder.decode(row.payload)
    return CatalogueEntry.of(
        table,
        row,
        verdict=row.verdict,
        model=row.model,
        unit=table.unit.plural,
        knee=table.knee,
        off=off,
        fitted_s=row.fitted_s,
    )


_VERDICTS = {verdict.value: place for place, verdict in enumerate(Verdict)}

#: What a list may be ordered by: what is compared, and whether the largest come first.
ORDERS: dict[str, tuple[Callable[[CatalogueEntry], Any], bool]] = {
    "application": (lambda entry: entry.label.casefold(), False),
    "runs": (lambda entry: entry.runs, True),
    "nodes": (lambda entry: max(entry.nodes, default=0), True),
    "knee": (lambda entry: entry.knee or 0, True),
    "verdict": (lambda entry: (_VERDICTS.get(entry.verdict, 9), -entry.runs), False),
    "fitted": (lambda entry: entry.fitted_s, True),
}

#: Which identities a list shows.
GROUPS: dict[str, tuple[str, Collection[str]]] = {
    "curves": ("recognised by tag, script or command line", [one.value for one in CURVE_LEVELS]),
    "histories": ("by user or job name only", [KeyLevel.NAME.value, KeyLevel.USER.value]),
    "all": ("all", [one.value for one in KeyLevel]),
}

#: Which verdicts it shows.
VERDICTS: dict[str, tuple[str, Callable[[CatalogueEntry], bool]]] = {
    "any": ("any", lambda _: True),
    "reliable": ("reliable", lambda entry: entry.verdict == Verdict.RELIABLE),
    "doubtful": ("doubtful", lambda entry: entry.verdict == Verdict.DOUBTFUL),
    "refused": ("refused", lambda entry: entry.verdict == Verdict.REFUSED),
    "off": ("switched off", lambda entry: entry.off),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueQuery:
    """Filters and order of a list: names of `ORDERS`, `GROUPS` and `VERDICTS`."""

    text: str = ""  #: words that all have to be in the label
    group: str = "curves"
    verdict: str = "any"
    order: str = "verdict"
    reverse: bool = False


class Catalogue:
    """All applications at one moment."""

    def __init__(self, entries: Iterable[CatalogueEntry]) -> None:
        self._entries = tuple(entries)
        self._ordered: dict[str, Sequence[CatalogueEntry]] = {}
        curves = [one for one in self._entries if one.level in GROUPS["curves"][1]]
        self._repeated = repeated(curves)
        self._apart = distinctions(one for one in curves if one.table_key not in self._repeated)

        self._by_key = {entry.table_key: entry for entry in self._entries}
        self._by_label = {one.label: one for one in sorted(self._entries, key=lambda one: one.runs)}

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: TableKey) -> CatalogueEntry | None:
        """Find one application."""
        return self._by_key.get(key)

    def details(self, entry: CatalogueEntry) -> str:
        """Say how an application differs from others of its name; empty if the name is unique."""
        return self._apart.get(entry.table_key, "")

    def named(self, label: str) -> CatalogueEntry | None:
        """Find an application by its label, the one of most runs."""
        return self._by_label.get(label)

    def select(
        self, query: CatalogueQuery, may_see: Callable[[CatalogueEntry], bool]
    ) -> list[CatalogueEntry]:
        """List the applications that match a query and that the user may see, in its order.

        In the group of curves each is there once: by its script or by its command line.
        """
        words = query.text.casefold().split()
        if query.order not in self._ordered:
            by, largest_first = ORDERS[query.order]
            named = sorted(self._entries, key=lambda one: (one.label.casefold(), one.table_key))
            self._ordered[query.order] = sorted(named, key=by, reverse=largest_first)
        levels, holds = GROUPS[query.group][1], VERDICTS[query.verdict][1]
        matches = [
            entry
            for entry in self._ordered[query.order]
            if entry.level in levels
            and (query.group != "curves" or entry.table_key not in self._repeated)
            and all(word in entry.label.casefold() for word in words)
            and holds(entry)
            and may_see(entry)
        ]
        return matches[::-1] if query.reverse else matches


def may_see(rules: PrivateDataRules) -> Callable[[CatalogueEntry], bool]:
    """Return a filter for the applications that a user may see: those of the user's own runs.

    Where the key does not begin with the user, the label does.
    """
    user = rules.only_user
    return lambda one: user is None or is_own(KeyLevel(one.level), one.key, one.label, user)
