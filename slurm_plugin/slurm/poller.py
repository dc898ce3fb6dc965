"""Looking at the cluster again and again: a few questions each time, never one for each job."""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from sacct_ingest.errors import SlurmError
from slurm_plugin.config import settings as config
from slurm_plugin.config.setting_types import Source
from slurm_plugin.service.accountant import Accountant
from slurm_plugin.slurm import commands, sources
from slurm_plugin.slurm.cluster_state import Cluster, RawState
from slurm_plugin.slurm.limit_guard import LimitGuard
from slurm_plugin.slurm.limits import ASSOC_MGR, ASSOC_TABLE, QOS_TABLE, LimitTables, read_limits
from slurm_plugin.slurm.operator_updates import ClosedFields
from slurm_plugin.slurm.pinned_counts import PinnedCounts
from slurm_plugin.slurm.slurm_conf import CONFIG, NO_RIGHTS, SlurmConf, may_update, read_settings
from slurm_plugin.slurm.snapshot import build
from slurm_plugin.slurm.view_texts import ViewTexts

_log = logging.getLogger(__name__)

_DEFAULT = config.Snapshot()
#: Between looks at slurm.conf: slurmctld may be another one by then, and hide jobs.
_SETTINGS_S = 40.0
#: Between questions whether others' jobs may be changed, where no limit to plan with needs it.
_RIGHTS_S = 600.0
#: Share of the greatest age that a view has at most when the next one takes its place.
_FRESH = 0.9


#: Runs a command within ``timeout_s`` and gives its text; raises SlurmError.
Runner = Callable[..., str]
_USE_S = 60.0  #: what is used of limits: slurmctld's memory
_RULES_S = 600.0  #: what slurmctld does not show: a question to slurmdbd


@dataclass
class ClusterPoller:
    """The latest view of the cluster, and how to get a new one."""

    clock: Callable[[], float]  #: seconds since the epoch
    _: KW_ONLY
    cluster: str = ""  #: its name; empty: Slurm is asked
    #: the site's settings.  Where looks take more than their share of the time, pauses grow as far
    #: as the view stays believable, and text takes the place of JSON
    how: config.Snapshot = _DEFAULT
    kill_switch: str = ""  #: file that switches NIMO off
    run: InitVar[Runner] = commands.run  #: runs a command
    stopwatch: Callable[[], float] = time.monotonic  #: seconds from any moment on
    #: changes what was seen before a view is made of it
    adapt: Callable[[RawState], RawState] = lambda raw: raw
    accountant: Accountant = field(default_factory=Accountant)  #: of users' texts in the view
    #: fields of users' jobs that stay as they are, as far as an earlier nimod has left them alone
    closed_limits: ClosedFields = field(default_factory=ClosedFields)
    closed_counts: ClosedFields = field(default_factory=ClosedFields)
    source: Source = field(init=False)  #: who is asked
    raw: RawState = field(default_factory=RawState, init=False)  #: the last answers
    slurm_users: frozenset[int] = field(default=frozenset(), init=False)  #: who slurmctld runs as
    #: whether PrivateData hides users' jobs from each other; so until Slurm was asked
    private: bool = field(default=True, init=False)

    def __post_init__(self, run: Runner) -> None:
        self.source = self.how.source
        self._run: sources.Run = lambda argv: run(argv, timeout_s=self.how.timeout_s)
        self._records: sources.Records | None = None
        if run is commands.run:
            self._records = partial(commands.records, timeout_s=self.how.timeout_s)
        self._texts = ViewTexts(self.accountant)
        self._latest: Cluster | None = None
        self._guard = LimitGuard(self.closed_limits)
        self._pins = PinnedCounts(self.closed_counts)
        self._settings: SlurmConf | None = None
        self._settings_s = self._took_s = 0.0
        self._may_update = False
        self._rights_s = -inf  # when they were asked for
        self._limits = LimitPoller(self.clock, self._run)
        self._pyslurm: Any = None

    @property
    def settings(self) -> SlurmConf:
        """What slurm.conf says; defaults until Slurm was asked."""
        return self._settings or SlurmConf()

    def pause_s(self) -> float:
        """Seconds to wait until the next look.

        Slow looks make it longer, but not so long that the view becomes too old to be believed
        before there is the next one: this one was taken a look ago, and the next takes as long.
        """
        sparing_s = self._took_s * (1.0 / self.how.share - 1.0)
        fresh_s = _FRESH * self.how.max_age_s - 2.0 * self._took_s
        # Where looks take half of that age themselves, Slurm has as much rest as each took.
        longest_s = max(fresh_s, self._took_s)
        return max(self.how.interval_s, min(sparing_s, longest_s))

    def forget(self) -> None:
        """Make the next look read slurm.conf, too."""
        self._settings_s = -inf

    def look(self) -> Cluster:
        """Ask Slurm; takes as long as its answers.

        Raises SlurmError: a command failed, or its output cannot be read.
        """
        began = self.stopwatch()
        try:
            settings = self._ask_settings()
            taken_s = self.clock()
            with self._texts.look():
                self.raw = raw = self.adapt(self._ask(settings))
            off = bool(self.kill_switch) and Path(self.kill_switch).exists()
            self._guard.look(self._run, raw, settings, off=off, now_s=taken_s)
            if settings.may_update:
                self._pins.look(self._run, raw.jobs, taken_s, off=off)
            limits = self._limits.look(self.cluster, settings.enforced)
            self._latest = build(
                raw, settings, limits, cluster=self.cluster, taken_s=taken_s, previous=self._latest
            )
            return self._latest
        finally:
            self._took_s = self.stopwatch() - began
            # Turn to text, which costs Slurm and us less, where JSON takes more than its share.
            if self.source is Source.JSON and self._took_s > self.how.share * self.how.interval_s:
                text = "a look as JSON took %.1f s; asking for text from now on"
                _log.warning(text, self._took_s)
                self.source = Source.TEXT

    def _ask(self, settings: SlurmConf) -> RawState:
        if self.source is Source.AUTO:
            try:
                self._pyslurm = sources.load_pyslurm(settings.release)
                self.source = Source.PYSLURM
            except SlurmError as error:
                self.source = Source.TEXT
                _log.info("%s; Slurm's commands are asked", error)
        if self.source is Source.PYSLURM:
            try:
                self._pyslurm = self._pyslurm or sources.load_pyslurm(settings.release)
                return sources.ask_pyslurm(self._pyslurm, self._run, of_job=self._texts.of_job)
            except SlurmError as error:
                self.source = Source.TEXT
                _log.warning("%s; Slurm's commands are asked instead", error)
        how: dict[str, Any] = {"records": self._records, "of_job": self._texts.of_job}
        if self.source is Source.JSON and sources.has_json(settings.release):
            try:
                return sources.ask_json(self._run, settings.release, **how)
            except SlurmError as error:
                self.source = Source.TEXT
                _log.warning("%s; asking for text from now on", error)
        return sources.ask_text(self._run, settings.release, **how)

    def _ask_settings(self) -> SlurmConf:
        now_s = self.clock()
        # What is written by the word of an option is written by a fresh one.
        pause_s = 0.0 if self.settings.plans_softly else _SETTINGS_S
        if self._settings is None or now_s - self._settings_s >= pause_s:
            slurm_conf = read_settings(self._run(CONFIG))
            if not (self.cluster or slurm_conf.cluster):
                raise SlurmError("scontrol show config: no ClusterName")
            self.cluster = self.cluster or slurm_conf.cluster
            if slurm_conf.slurm_user is not None:
                self.slurm_users = frozenset({slurm_conf.slurm_user})
            self.private = slurm_conf.private
            self._ask_rights(slurm_conf, now_s)
            slurm_conf = replace(slurm_conf, may_update=self._may_update)
            self._settings = slurm_conf
            self._settings_s = now_s
        return self._settings

    def _ask_rights(self, slurm_conf: SlurmConf, now_s: float) -> None:
        """Find out whether others' jobs may be changed; again and again until they may."""
        pause_s = 0.0 if slurm_conf.plans_softly else _RIGHTS_S
        if self._may_update or now_s - self._rights_s < pause_s:
            return
        self._rights_s = now_s
        self._may_update = may_update(slurm_conf.slurm_user, self._run)
        if slurm_conf.plans_softly and not self._may_update:
            _log.warning("no limits to plan with: %s", NO_RIGHTS)


@dataclass(slots=True)
class LimitPoller:
    """The limits of a cluster, as new as each of their sources is cheap.

    A source that does not answer is tried again at its next turn; until then the limits read
    before hold.
    """

    clock: Callable[[], float]  #: seconds since the epoch
    run: sources.Run
    _texts: dict[tuple[str, ...], tuple[float, str]] = field(default_factory=dict)
    _tables: LimitTables = field(default_factory=LimitTables)

    def look(self, cluster: str, enforced: Collection[str]) -> LimitTables:
        """Limits of a cluster that enforces what ``enforced`` says (AccountingStorageEnforce)."""
        if not {word.lower() for word in enforced} & {"limits", "safe", "all"}:
            return LimitTables()
        due = [self._ask(ASSOC_MGR, _USE_S)]
        due += [self._ask(argv, _RULES_S) for argv in (QOS_TABLE, ASSOC_TABLE)]
        if any(due):
            texts = [self._texts[argv][1] for argv in (ASSOC_MGR, QOS_TABLE, ASSOC_TABLE)]
            try:
                self._tables = read_limits(*texts, cluster=cluster, enforced=enforced)
            except SlurmError as error:
                _log.warning("%s; the limits read before stay in use", error)
        return self._tables

    def _ask(self, argv: tuple[str, ...], every_s: float) -> bool:
        """Ask again when it is time; return whether it was."""
        now_s = self.clock()
        asked_s, text = self._texts.get(argv, (-every_s, ""))
        if now_s - asked_s < every_s:
            return False
        try:
            text = self.run(argv)
        except SlurmError as error:
            _log.info("limits: %s", error)
        self._texts[argv] = now_s, text
        return True
