"""The other clusters of one slurmdbd, looked at when somebody asks about them.

Nothing is asked of them otherwise, and nothing is ever changed there.  A cluster that does not
answer is left alone for a minute: no answer waits for it in that time.
"""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from math import inf
from threading import Lock

from sacct_ingest.errors import SlurmError
from slurm_plugin.config.settings import Snapshot
from slurm_plugin.service.accountant import Accountant
from slurm_plugin.slurm import commands, sources
from slurm_plugin.slurm.cluster_state import Cluster, ClusterViews, RawState
from slurm_plugin.slurm.poller import LimitPoller, Runner
from slurm_plugin.slurm.slurm_conf import CONFIG, SlurmConf, may_update, read_settings
from slurm_plugin.slurm.snapshot import build
from slurm_plugin.slurm.view_texts import ViewTexts

_log = logging.getLogger(__name__)
#: Cluster and where its slurmctld runs; empty: it has not registered, or has ended.
CLUSTERS = ("sacctmgr", "-nP", "show", "cluster", "format=Cluster,ControlHost")
#: Words of ``AccountingStorageEnforce`` with which a user needs an association.
_CLOSED = frozenset({"associations", "limits", "qos", "safe", "wckeys", "all"})
_LIST_S = 600.0  #: between questions to slurmdbd which clusters there are, and who may use one
_REST_S = 60.0  #: a cluster that did not answer is left alone for so long
_WAIT_S = 2.0  #: longest that answers wait for a look, from its begin on
_COMMAND_S = 5.0  #: longest that one command may take
_AT_ONCE = 4  #: clusters looked at


#: Gives the partitions of a view their forecasts of waits: of the view, and what it was made of.
AddForecasts = Callable[[Cluster, RawState, SlurmConf], Cluster]


@dataclass(slots=True, eq=False)
class _Watched:
    """One cluster, and the look at it that is under way."""

    limits: LimitPoller
    texts: ViewTexts = field(default_factory=lambda: ViewTexts(Accountant()))
    view: Cluster | None = None
    users: frozenset[str] | None = None  #: who may use it; None: everybody, or it is not known
    users_s: float = -inf  #: when slurmdbd was asked for them
    trouble: str = ""  #: why the last look failed
    next_s: float = -inf  #: when it may be looked at again
    look: Future[None] | None = None
    began_s: float = -inf  #: when the look began, by the monotonic clock


class OtherClusters:
    """The clusters beside the own one.

    add_forecasts: makes forecasts of waits for the cluster of this name.
    how: the site's settings of looks: a view of the least age is not renewed, and one of the
        greatest is not believed.
    run: runs a command.
    clock: seconds since the epoch.
    """

    def __init__(
        self,
        add_forecasts: Callable[[str], AddForecasts],
        *,
        how: Snapshot,
        run: Runner = commands.run,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._add_forecasts = add_forecasts
        self._how = how
        self._run = run
        self._clock = clock
        self._pool = ThreadPoolExecutor(_AT_ONCE, "clusters")
        self._lock = Lock()
        self._listing: Future[None] | None = None
        self._listed_s = -inf
        self._watched: dict[str, _Watched] = {}
        self._down: frozenset[str] = frozenset()

    def close(self) -> None:
        """Look at none any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def views(self, own: str, user: str) -> ClusterViews:
        """Give what is known of the clusters beside the own one, after 2 s at most.

        user: whose job may go there.
        """
        until_s = time.monotonic() + _WAIT_S
        with self._lock:
            if self._listing is None and self._clock() - self._listed_s >= _LIST_S:
                self._listing = self._pool.submit(self._list, own)
            listing = self._listing
        if listing is not None and not self._watched:
            wait([listing], timeout=_WAIT_S)
        with self._lock:
            watched = dict(self._watched)
            for name, one in watched.items():
                if one.look is None and self._clock() >= one.next_s:
                    one.began_s = time.monotonic()
                    one.look = self._pool.submit(self._look, name, one)
            looks = {one.look: one.began_s for one in watched.values() if one.look is not None}
        until_s = min(until_s, max(looks.values(), default=-inf) + _WAIT_S)
        wait(looks, timeout=max(until_s - time.monotonic(), 0.0))
        views: dict[str, Cluster] = {}
        silent: dict[str, str] = {}
        for name, one in watched.items():
            if one.users is not None and user not in one.users:
                continue
            if one.view is not None and self._seen(one):
                views[name] = one.view
            else:
                silent[name] = one.trouble or "no answer yet"
        return ClusterViews(views, silent)

    def _seen(self, one: _Watched) -> bool:
        return one.view is not None and self._clock() - one.view.taken_s <= self._how.max_age_s

    # --- in the threads of the pool --------------------------------------------------------------

    def _list(self, own: str) -> None:
        """Find out which clusters there are; those that end later stay, as they may come back."""
        try:
            rows = [line.split("|") for line in self._ask(CLUSTERS).splitlines() if "|" in line]
            names = {name for name, host, *_ in rows if name and host} - {own}
        except SlurmError as error:
            _log.info("other clusters: %s", error)
            names = set[str]()
        with self._lock:
            for name in sorted(names - self._watched.keys()):
                limits = LimitPoller(self._clock, partial(self._ask_of, name))
                self._watched[name] = _Watched(limits)
            self._listed_s = self._clock()
            self._listing = None

    def _look(self, name: str, one: _Watched) -> None:
        try:
            view = self._view(name, one)
            trouble = ""
        except SlurmError as error:
            view = None
            trouble = _reason(error)
            if trouble != one.trouble:
                _log.info("cluster %s: %s", name, error)
        except Exception as error:
            view = None
            trouble = "its answers cannot be read"
            if trouble != one.trouble:
                _log.exception("cluster %s: %s", name, error)
        with self._lock:
            one.view = view
            one.trouble = trouble
            one.next_s = self._clock() + (_REST_S if trouble else self._how.interval_s)
            one.look = None

    def _view(self, name: str, one: _Watched) -> Cluster:
        ask = partial(self._ask_of, name)
        settings = read_settings(ask(CONFIG))
        if settings.cluster != name:
            raise SlurmError(f"scontrol show config: it is of the cluster {settings.cluster!r}")
        if settings.private and not may_update(settings.slurm_user, ask):
            raise SlurmError("it hides its queue from NIMO")
        taken_s = self._clock()
        with one.texts.look():
            raw = sources.ask_text(ask, settings.release, of_job=one.texts.of_job)
        self._ask_users(name, one, settings)
        limits = one.limits.look(name, settings.enforced)
        view = build(raw, settings, limits, cluster=name, taken_s=taken_s, previous=one.view)
        return self._add_forecasts(name)(view, raw, settings)

    def _ask_users(self, name: str, one: _Watched, settings: SlurmConf) -> None:
        """Find out who may use a cluster; where slurmdbd is silent, that is not known."""
        if self._clock() - one.users_s < _LIST_S:
            return
        one.users_s = self._clock()
        if _CLOSED.isdisjoint(word.strip().lower() for word in settings.enforced):
            one.users = None
            return
        try:
            show = ("sacctmgr", "-nP", "show", "assoc", f"cluster={name}", "format=User")
            listed = self._ask(show)
            one.users = frozenset(filter(None, (line.strip() for line in listed.splitlines())))
        except SlurmError as error:
            _log.info("users of cluster %s: %s", name, error)

    def _ask(self, argv: Sequence[str]) -> str:
        return self._run(argv, timeout_s=_COMMAND_S)

    def _ask_of(self, name: str, argv: Sequence[str]) -> str:
        return run_on(name, argv, timeout_s=_COMMAND_S, run=self._run)


def run_on(
    cluster: str, argv: Sequence[str], *, timeout_s: float, run: Runner = commands.run
) -> str:
    """Run a command of Slurm's for a cluster; empty: the one that is near.

    Raises SlurmError: as of `slurm_plugin.slurm.commands.run`.
    """
    # sacctmgr asks about all clusters.
    where = [f"--clusters={cluster}"] if cluster and argv[0] != "sacctmgr" else []
    return run([argv[0], *where, *argv[1:]], timeout_s=timeout_s)


def _reason(error: SlurmError) -> str:
    """Say in a few words why a cluster was not seen."""
    text = str(error)
    if "hides its queue" in text:
        return text
    if commands.may_pass(error) or "can't be reached" in text:
        return "no answer"
    return "its answers cannot be read"
