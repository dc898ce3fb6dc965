"""What the pages are made of: the store, the catalogue, reports and whose jobs who sees."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from sacct_ingest.store import DecisionSelection, Store
from slurm_plugin.config.setting_types import Shown
from slurm_plugin.config.settings import Config
from slurm_plugin.evaluation.outcomes import OutcomeReport, Pair
from slurm_plugin.evaluation.report_data import collect
from slurm_plugin.protocol.status_messages import Waits
from slurm_plugin.slurm.privacy import PrivateDataRules
from slurm_plugin.web.cache import RefreshingCache
from slurm_plugin.web.catalogue import Catalogue, CatalogueEntry, entry_of, may_see
from slurm_plugin.web.viewer import User, Viewer, with_admins

_log = logging.getLogger(__name__)
_DAY_S = 86_400.0
_STORE_S = 60.0  #: a read-only file shows its changes only when opened anew
_CATALOGUE_S = 5.0  #: between looks whether a refit has written
_OLDEST_CATALOGUE_S = 3600.0
_REPORT_S, _OLDEST_REPORT_S = 60.0, 3600.0
_VISIBILITY_S = 120.0
_CHECKS_S, _OLDEST_CHECKS_S = 5.0, 60.0


class Check(Protocol):
    """One finding about nimod or the store."""

    @property
    def state(self) -> str: ...  # noqa: D102
    @property
    def message(self) -> str: ...  # noqa: D102
    @property
    def fix(self) -> str: ...  # noqa: D102


def _no_waits(user: str) -> Waits:
    del user
    return Waits(error="nimod was not asked")


@dataclass(frozen=True, slots=True)
class Service:
    """What is asked outside of the store.

    checks: looks at nimod, the last ingest and the last fit.
    waits: asks nimod when the jobs of a user start; an answer with an error where it has none.
    """

    checks: Callable[[], Sequence[Check]] = tuple
    waits: Callable[[str], Waits] = _no_waits


class PageData:
    """Data for the pages, cached because it takes long to compute.

    config: the settings.
    open_store: opens the store; raises StoreError.
    visibility: returns whose jobs a user (uid, name) may see; runs Slurm commands.
    service: what nimod and checks say.
    """

    def __init__(
        self,
        config: Config,
        open_store: Callable[[], Store],
        visibility: Callable[[User], PrivateDataRules],
        service: Service | None = None,
    ) -> None:
        self.config = config
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
        self._reports = RefreshingCache(self._report, keep_s=_REPORT_S, serve_s=_OLDEST_REPORT_S)
        self.service = service or Service()
        self._checks: RefreshingCache[None, tuple[float, Sequence[Check]]] = RefreshingCache(
            lambda _: (time.time(), self.service.checks()),
            keep_s=_CHECKS_S,
            serve_s=_OLDEST_CHECKS_S,
        )

    @property
    def store(self) -> Store:
        """The store, opened now and then.

        Raises StoreError: it cannot be opened.
        """
        with self._lock:
            if self._store is None or time.monotonic() - self._opened_s > _STORE_S:
                opened, old = self._open(), self._store
                self._store, self._opened_s = opened, time.monotonic()
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
        self.report(Viewer("", PrivateDataRules()))

    def viewer(self, user: User) -> Viewer:
        """Return a user with the jobs that the user may see."""
        rules = self._visibility.get(user)
        return Viewer(user.name, with_admins(rules, user.name, self.config.web.admins))

    def catalogue(self) -> Catalogue:
        """All applications."""
        return self._catalogues.get(None)

    def may_see(self, viewer: Viewer) -> Callable[[CatalogueEntry], bool]:
        """Return a filter for the applications that a user may see."""
        return may_see(viewer.visibility)

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

    def checks(self) -> tuple[float, Sequence[Check]]:
        """Look at nimod, the last ingest and the last fit; the time is when that was done."""
        return self._checks.get(None)

    def decided_before(self, at_s: float) -> bool:
        """Whether there are decisions, of anybody, from before then."""
        return bool(self.store.decisions.newest(DecisionSelection(until_s=at_s), most=1))

    def report(self, viewer: Viewer, days: int = 0) -> OutcomeReport:
        """Sum up the last days, for what a user sees; 0: as many as the site says."""
        return self._reports.get((viewer.visibility, days or self.config.web.days))

    def _report(self, asked: tuple[PrivateDataRules, int]) -> OutcomeReport:
        visibility, days = asked
        chosen = DecisionSelection(since_s=time.time() - days * _DAY_S)
        confidence = self.config.fit.confidence
        return collect(self.store, _visible(chosen, visibility), confidence=confidence)

    def _read(self) -> Catalogue:
        store = self.store
        version = (store.fits.version(), store.standings.version())
        if version != self._version:
            self._catalogue = Catalogue(_entries(store))
            self._version = version
            _log.info("%d applications", len(self._catalogue))
        return self._catalogue


def own_only(config: Config) -> bool:
    """Whether others' jobs are hidden also where Slurm would show them."""
    return config.web.shows is Shown.OWN


def _visible(chosen: DecisionSelection, visibility: PrivateDataRules) -> DecisionSelection:
    return replace(chosen, only_user=visibility.only_user, only_accounts=visibility.accounts)


def _entries(store: Store) -> Iterator[CatalogueEntry]:
    off = set(store.standings.off())
    for row in store.fits.each():
        # One row that cannot be read does not take the others away.
        with suppress(msgspec.DecodeError):
            yield entry_of(row, off=(row.level.value, row.key) in off)
