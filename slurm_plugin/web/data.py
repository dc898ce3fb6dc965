"""What the pages are made of: the store, the catalogue, reports and whose jobs who sees.

The catalogue has the applications in memory, for search, order and pages without another query.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from predictor.stored_table import is_current
from predictor.types import Verdict
from sacct_ingest.records import CURVE_LEVELS, KeyLevel
from sacct_ingest.runs.layout import ANY, Layout, Unit
from sacct_ingest.store import DecisionSelection, FitRow, Store
from sacct_ingest.text.durations import duration_text
from slurm_plugin.config.settings import Config
from slurm_plugin.evaluation.outcomes import OutcomeReport, Pair
from slurm_plugin.evaluation.report_data import collect
from slurm_plugin.evaluation.stored_reports import decided_within, find_report
from slurm_plugin.evaluation.waste_data import collect as collect_waste
from slurm_plugin.evaluation.waste_report import WasteReport
from slurm_plugin.protocol.status_messages import Waits
from slurm_plugin.reports.application_list import Listed, TableKey, distinctions, repeated
from slurm_plugin.reports.pending_text import PendingAnswer
from slurm_plugin.slurm.slurm_conf import PrivateDataRules, is_own
from slurm_plugin.store_access import table_finder
from slurm_plugin.web.kept_reports import KeptReports
from slurm_plugin.web.refreshing_cache import RefreshingCache
from slurm_plugin.web.viewer import User, Viewer

_VERDICTS = {verdict.value: place for place, verdict in enumerate(Verdict)}
#: Which identities a list shows.
GROUPS: dict[str, tuple[str, Collection[str]]] = {
    "curves": ("by tag, script or command", [one.value for one in CURVE_LEVELS]),
    "histories": ("by user or job name only", [KeyLevel.NAME.value, KeyLevel.USER.value]),
    "all": ("all", [one.value for one in KeyLevel]),
}
_DAY_S = 86_400.0
_STORE_S = 60.0  #: a read-only file shows its changes only when opened anew
_CATALOGUE_S = 5.0  #: between looks whether a refit has written
_OLDEST_CATALOGUE_S = 3600.0
_REPORT_S, _OLDEST_REPORT_S = 60.0, 7 * _DAY_S
_FIRST_REPORT_S = 0.3  #: so long the first page waits for new sums in place of the last fit's
_OLD_REPORT_S = 3600.0  #: from this age on a page says how old its sums are
_WASTE_S = 1800.0
#: Days of a user's jobs whose waste a page says, and the most starts that it looks at.
_WASTE_DAYS, _WASTE_RUNS = 30, 20_000
_VISIBILITY_S = 120.0
_WAITING_S, _OLDEST_WAITING_S = 30.0, 120.0
_CHECKS_S, _OLDEST_CHECKS_S = 5.0, 60.0


class _Point(msgspec.Struct):
    nodes: int


class _Table(msgspec.Struct):
    """What a list needs of a prediction table: reading all of it takes four times as long."""

    observed: list[_Point]
    runs: int
    knee: int | None
    longest: list[_Point] = []
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
    current = is_current(row.payload)
    return CatalogueEntry.of(
        table,
        row,
        verdict=row.verdict if current else Verdict.REFUSED.value,
        model=row.model,
        unit=table.unit.plural,
        knee=table.knee if current else None,
        off=off,
        fitted_s=row.fitted_s,
    )


#: What a list may be ordered by: what is compared, and whether the largest come first.
ORDERS: dict[str, tuple[Callable[[CatalogueEntry], Any], bool]] = {
    "application": (lambda entry: entry.label.casefold(), False),
    "runs": (lambda entry: entry.runs, True),
    "nodes": (lambda entry: max(entry.nodes, default=0), True),
    "knee": (lambda entry: entry.knee or 0, True),
    "verdict": (lambda entry: (_VERDICTS.get(entry.verdict, 9), -entry.runs), False),
    "fitted": (lambda entry: entry.fitted_s, True),
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
        # Of as many runs, what makes curves before what the name alone recognises.
        known = sorted(self._entries, key=lambda one: (one.runs, one.level in GROUPS["curves"][1]))
        self._by_label = {one.label: one for one in known}

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
        levels = GROUPS[query.group][1]
        holds = VERDICTS[query.verdict][1]
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


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Service:
    """What is asked outside of the store.

    checks: looks at nimod, the last ingest and the last fit; findings have state, message and fix.
    waits: asks nimod when the jobs of a user start; an answer with an error where it has none.
    waiting: asks Slurm why the jobs of a user wait; none where it does not answer.
    """

    checks: Callable[[], Sequence[Any]] = tuple
    waits: Callable[[str], Waits] = lambda _: Waits(error="nimod was not asked")
    waiting: Callable[[str], Sequence[PendingAnswer]] = lambda _: ()


class PageData:
    """Data for the pages, cached because it takes long to compute.

    config: the settings.
    open_store: opens the store; raises StoreError.
    visibility: returns whose jobs a user (uid, name) may see; runs Slurm commands.
    service: what nimod and checks say.
    patience_s: for how long a page waits for the sums of a report; None: until they are there.
    folder: where reports are kept for the next start; None: nowhere.
    """

    def __init__(
        self,
        config: Config,
        open_store: Callable[[], Store],
        visibility: Callable[[User], PrivateDataRules],
        service: Service | None = None,
        *,
        patience_s: float | None = None,
        folder: Path | None = None,
    ) -> None:
        self.config = config
        self._patience_s = patience_s
        self._open = open_store
        self._lock = threading.Lock()
        self._store: Store | None = None
        self._opened_s = 0.0
        self._version: tuple[int, int] | None = None
        self._catalogue = Catalogue(())
        self._visibility = RefreshingCache(visibility, keep_s=_VISIBILITY_S, most=1000)
        self._catalogues: RefreshingCache[None, Catalogue] = RefreshingCache(
            lambda _: self._read(), keep_s=_CATALOGUE_S, serve_s=_OLDEST_CATALOGUE_S
        )
        kept = KeptReports(folder, config.store_url, _OLDEST_REPORT_S, self._stored)
        self._reports = RefreshingCache(
            self._report,
            keep_s=_REPORT_S,
            serve_s=_OLDEST_REPORT_S,
            shelf=kept,
            first_s=_FIRST_REPORT_S,
        )
        self._wastes = RefreshingCache(
            self._waste, keep_s=_WASTE_S, serve_s=_OLD_REPORT_S, most=1000
        )
        self.service = service or Service()
        self._checks: RefreshingCache[None, tuple[float, Sequence[Any]]] = RefreshingCache(
            lambda _: (time.time(), self.service.checks()),
            keep_s=_CHECKS_S,
            serve_s=_OLDEST_CHECKS_S,
        )
        self._waiting = RefreshingCache(
            self.service.waiting, keep_s=_WAITING_S, serve_s=_OLDEST_WAITING_S, most=1000
        )

    @property
    def store(self) -> Store:
        """The store, opened now and then. Raises StoreError: it cannot be opened."""
        with self._lock:
            if self._store is None or time.monotonic() - self._opened_s > _STORE_S:
                opened = self._open()
                old = self._store
                self._store = opened
                self._opened_s = time.monotonic()
                if old is not None:
                    old.close()
            return self._store

    def close(self) -> None:
        """Give back the store."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

    def warm_up(self) -> None:
        """Make what the first page would wait for."""
        self.catalogue()
        self.checks()
        self._reports.get((PrivateDataRules(), self.config.web.days))

    def viewer(self, user: User) -> Viewer:
        """Return a user with the jobs that the user may see."""
        rules = self._visibility.get(user)
        admin = user.name in self.config.web.admins
        return Viewer(user.name, PrivateDataRules() if admin else rules)

    def catalogue(self) -> Catalogue:
        """All applications."""
        return self._catalogues.get(None)

    def decisions(
        self,
        viewer: Viewer,
        selection: DecisionSelection,
        *,
        most: int,
        before: tuple[float, str] | None = None,
    ) -> list[Pair]:
        """Return the newest decisions of a selection that the user may see."""
        return self.store.decisions.newest(
            _visible(selection, viewer.visibility), most=most, before=before
        )

    def checks(self) -> tuple[float, Sequence[Any]]:
        """Look at nimod, the last ingest and the last fit; the time is when that was done."""
        return self._checks.get(None)

    def waiting(self, user: str) -> Sequence[PendingAnswer]:
        """Say why a user's own jobs wait."""
        return self._waiting.get(user) if user else ()

    def report(self, viewer: Viewer, days: int | None = None) -> OutcomeReport:
        """Sum up the last days, for what a user sees; None: as many as the site says, 0: all."""
        return self._reports.get(self._about(viewer, days), patience_s=self._patience_s)

    def report_age(self, viewer: Viewer, days: int | None = None) -> str:
        """Say how old the sums of a report are; empty where they are of the last hour."""
        age_s = self._reports.age_s(self._about(viewer, days))
        return duration_text(age_s) if age_s > _OLD_REPORT_S else ""

    def _about(self, viewer: Viewer, days: int | None) -> tuple[PrivateDataRules, int]:
        return viewer.visibility, self.config.web.days if days is None else days

    def _report(self, asked: tuple[PrivateDataRules, int]) -> OutcomeReport:
        visibility, days = asked
        chosen = decided_within(days, now_s=time.time())
        return collect(self.store, _visible(chosen, visibility), config=self.config)

    def _stored(self, asked: tuple[PrivateDataRules, int]) -> tuple[OutcomeReport, float] | None:
        """Give the report of the last fit; None: it is on more than the user may see."""
        visibility, days = asked
        if visibility.only_user is not None:
            return None
        return find_report(self.store, days, now_s=time.time())

    def waste(self, user: str) -> WasteReport | None:
        """Sum up what a user's last jobs had that bought nothing; None: they are too many."""
        return self._wastes.get(user)

    def _waste(self, user: str) -> WasteReport | None:
        chosen = DecisionSelection(since_s=time.time() - _WASTE_DAYS * _DAY_S, user=user)
        if self.store.runs.count_selected(chosen) > _WASTE_RUNS:
            return None
        return collect_waste(
            self.store,
            chosen,
            table_of=table_finder(self.store),
            margin=self.config.policy.memory_margin,
            own=True,
        )

    def _read(self) -> Catalogue:
        store = self.store
        version = (store.fits.version(), store.standings.version())
        if version != self._version:
            off = set(store.standings.off())
            entries = []
            for row in store.fits.each():
                # One row that cannot be read does not take the others away.
                with suppress(msgspec.DecodeError):
                    entries.append(entry_of(row, off=(row.level.value, row.key) in off))
            self._catalogue = Catalogue(entries)
            self._version = version
            _log.info("%d applications", len(self._catalogue))
        return self._catalogue


def _visible(chosen: DecisionSelection, visibility: PrivateDataRules) -> DecisionSelection:
    return replace(chosen, only_user=visibility.only_user, only_accounts=visibility.accounts)
