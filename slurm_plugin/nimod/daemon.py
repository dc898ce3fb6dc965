"""nimod: answers the hooks and nimo-advise on a Unix socket.

The loop only looks things up.  Slurm is asked in a worker thread, the store has a thread of
its own, and neither of them needs to be there for nimod to answer.
"""

import gc
import logging
import os
import pwd
import signal
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from sacct_ingest.errors import ConfigError, SlurmError
from sacct_ingest.store.fits import CLOSED_COUNTS, CLOSED_LIMITS
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.decision.soft_plans import quantiles_of
from slurm_plugin.nimod import supervision
from slurm_plugin.nimod.access import ConnectionLimiter, UserNames, reserved_socket
from slurm_plugin.nimod.answering.process import AnswerProcess
from slurm_plugin.nimod.answering.questions import StateSender
from slurm_plugin.nimod.loop import Loop
from slurm_plugin.nimod.request_handler import ReadyDecisions, RemoteRequests, RequestHandler
from slurm_plugin.nimod.store_link import StoreLink
from slurm_plugin.protocol.status_messages import Refused, Status
from slurm_plugin.service.accountant import Accountant, spare_descriptors
from slurm_plugin.service.listening import bound_socket, let_in, notify
from slurm_plugin.slurm.operator_updates import ClosedFields
from slurm_plugin.slurm.other_clusters import AddForecasts, OtherClusters
from slurm_plugin.slurm.poller import ClusterPoller
from slurm_plugin.slurm.queue_heads import QueueHeads
from slurm_plugin.wait_forecasts.forecasts import Outlooks, QueueRunTimes

if TYPE_CHECKING:
    from slurm_plugin.nimod.relay.gateway import Gateway

_log = logging.getLogger(__name__)

_FIRST_LOOK_S = 5.0  #: for the store, before nimod calls itself ready
_STORE_S = 1.0  #: between looks for new tables
_STOP_S = 10.0
#: Settings that nimod only looks at when it starts.
_FIXED = ("store", "socket", "cluster", "snapshot", "access", "relay")
#: Longest that a background thread may keep the interpreter from answering, seconds.
_SWITCH_S = 0.0001


def serve(config: Config, reread: Callable[[], Config]) -> None:
    """Run nimod until SIGTERM or SIGINT.

    reread: reads the settings anew at SIGHUP; raises ConfigError.
    Raises ConfigError: the socket cannot be made, or another nimod has it.
    """
    sys.setswitchinterval(_SWITCH_S)
    supervision.enter_real_time_class()
    Daemon(config, reread).run()


class Daemon:
    """The process: what it listens to, what runs in the background, how it ends."""

    def __init__(self, config: Config, reread: Callable[[], Config]) -> None:
        self._config = config
        self._reread = reread
        self._accountant = Accountant(
            requests_per_s=config.access.requests_per_s,
            connections=config.access.connections,
            descriptors=spare_descriptors(),
        )
        self._errands = ThreadPoolExecutor(1, "errands")
        self._ready = ReadyDecisions(Path(config.socket))
        self._service = DecisionService(
            config,
            new_id=lambda: os.urandom(6).hex(),
            later=self._later,
            publish=self._ready.publish,
            cpu_clock=time.thread_time,
        )
        self._poller = ClusterPoller(
            time.time,
            cluster=config.cluster,
            how=config.snapshot,
            kill_switch=config.kill_switch,
            accountant=self._accountant,
            closed_limits=ClosedFields(restored=False),
            closed_counts=ClosedFields(restored=False),
        )
        self._heads = QueueHeads()
        self._outlooks = Outlooks(QueueRunTimes(lambda: self._service.tables))
        self._outlooks_elsewhere: dict[str, Outlooks] = {}
        self._others = OtherClusters(self._forecasts_of, how=config.snapshot)
        self._link = StoreLink(
            url=config.store_url,
            publish=self._publish,
            publish_waits=partial(setattr, self._service, "waits"),
            publish_outlasted=self._adapt,
            publish_links=partial(setattr, self._service, "links"),
            copy_hosts=lambda: self._service.config.advise.copy_hosts,
            wait_record=self._outlooks,
            elsewhere=self._outlooks_elsewhere,
            closed={
                CLOSED_LIMITS: self._poller.closed_limits,
                CLOSED_COUNTS: self._poller.closed_counts,
            },
            clock=time.time,
            cluster=lambda: self._service.cluster.name if self._service.cluster else "",
            view=lambda: self._service.cluster,
        )
        self._answers = AnswerProcess(
            partial(StateSender, self._service, self._outlooks, self._others.views)
        )
        self._background = (
            supervision.Periodic("store", self._link.visit, pause_s=lambda: _STORE_S),
            supervision.Periodic("slurm", self._look, pause_s=self._poller.pause_s),
        )
        self._own_trusted = frozenset({0, os.geteuid(), *_slurm_account()})
        self._reserved = reserved_socket(config.socket)
        self._let_in = self._own_trusted
        # Nobody asks for the names of those that are served at once.
        self._names = UserNames(
            own={uid: _name_of(uid) for uid in self._own_trusted}, accountant=self._accountant
        )
        self.requests = RequestHandler(
            service=self._service,
            poller=self._poller,
            pending=self._answers.pending,
            names=self._names,
            trusted=self._own_trusted,
            record=self._link.record,
            status=self._status,
            reload=self._reload,
        )
        self._loop: Loop | None = None
        self._gateway: Gateway | None = None
        self._loaded_s: float | None = None
        self._complaint = ""

    def run(self) -> None:
        """Start, answer until a signal, stop."""
        with (
            bound_socket(self._config.socket) as channel,
            bound_socket(self._reserved, only=self._own_trusted) as reserved,
        ):
            self._ready.open()
            loop = self._start(channel, reserved)
            try:
                supervision.answer_until_stopped(loop, self._config.socket)
            finally:
                if self._gateway is not None:
                    self._gateway.close()
                self._ready.close()
                self._errands.shutdown(cancel_futures=True)
                self._answers.close()
                self._others.close()
                loop.close()
                notify("STOPPING=1")
                store, slurm = self._background
                slurm.stop(0.0)
                if store.stop(_STOP_S, once_more=True):
                    self._link.close()
                if self._link.pending:
                    _log.error("%d decisions could not be written", self._link.pending)

    def _start(self, channel: socket.socket, reserved: socket.socket) -> Loop:
        limiter = ConnectionLimiter(
            trusted=self.requests.trusts, respond=self.requests.respond, names=self._names
        )
        loop = self._loop = Loop(channel, limiter, clock=time.monotonic, reserved=reserved)
        supervision.stop_at_signals(loop)
        if self._config.relay.listen:
            self._gateway = self._take_relays(loop, limiter)
        signal.signal(signal.SIGHUP, lambda *_: loop.call_soon(self._hang_up))
        self._answers.start()
        for periodic in self._background:
            periodic.start()
        self._background[0].tried(_FIRST_LOOK_S)
        return loop

    def _take_relays(self, loop: Loop, limiter: ConnectionLimiter) -> "Gateway":
        """Take requests from relays on login nodes."""
        from slurm_plugin.nimod.relay.gateway import Gateway  # noqa: PLC0415 - only where listened

        respond = partial(self.requests.respond, remote=True)
        requests = RemoteRequests(loop, limiter, self._names, respond)
        gateway = Gateway(
            self._config.relay,
            submit=requests.submit,
            asked_s=self._since_asked_s,
            accountant=self._accountant,
        )
        gateway.start()
        return gateway

    def _since_asked_s(self) -> float | None:
        asked_s = self.requests.asked_s
        return None if asked_s is None else time.monotonic() - asked_s

    def _later(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        """Do work in the background, and afterwards ``then`` in the loop."""

        def done(errand: Future[None]) -> None:
            if error := errand.exception():
                _log.error("counting nodes failed", exc_info=error)
            elif self._loop is not None:
                self._loop.call_soon(then)

        self._errands.submit(work).add_done_callback(done)

    def _status(self) -> Status:
        cluster = self._service.cluster
        made_s = self._outlooks.made_s
        return Status(
            release=version("nimo-slurm"),
            identities=len(self._service.tables),
            outdated=self._service.tables.outdated,
            loaded_s=self._loaded_s,
            snapshot_age_s=time.time() - cluster.taken_s if cluster else None,
            answered=self.requests.answered,
            failed=self.requests.failed,
            decisions_pending=self._link.pending,
            outlook_age_s=None if made_s is None else time.time() - made_s,
            waits=self._outlooks.partition_waits(),
            waits_recorded=len(self._outlooks.corrections.record),
            waits_inside=self._outlooks.corrections.record.inside(),
            store_trouble=self._link.trouble,
            store_changed_s=self._link.changed_s,
            counts=self.requests.counts,
            relays=self._gateway.relays if self._gateway else [],
            longest_s=self._loop.longest_s if self._loop else 0.0,
            refused=[
                Refused(principal=kind, resource=resource, count=times)
                for kind, resource, times in self._accountant.refusals()
            ],
        )

    def _hang_up(self) -> None:
        """Take the settings that say how to decide; the others hold from the next start on."""
        try:
            config = self._reread()
        except ConfigError as error:
            _log.error("%s; the settings stay as they were", error)
        else:
            for name in _FIXED:
                if getattr(config, name) != getattr(self._config, name):
                    _log.warning("%s was changed: that needs a restart", name)
            self._service.config, self.requests.quiet = config, config.changes_nothing
            if self._loop is not None and not self.requests.quiet:
                ended = self._loop.hang_up_on_quiet()
                _log.info("hung up on %d that waited for no answers", ended)
            _log.info("settings read")
        self._reload()

    def _reload(self) -> None:
        self._link.forget()
        self._poller.forget()
        for periodic in self._background:
            periodic.wake()

    def _publish(self, tables: PredictionLookup) -> None:
        """Exchange the tables; called by the store's thread."""
        self._service.tables = tables
        self._loaded_s = time.time()
        # What lives as long as nimod does no later collection has to walk through.
        gc.freeze()

    def _adapt(self, outlasted: list[tuple[str, bool]]) -> None:
        """Plan jobs so that few outlast their plan; called by the store's thread."""
        share = self._service.config.time_limit.outlasted_share
        self._service.plans.quantiles = quantiles_of(outlasted, share)

    def _look(self) -> None:
        """Get a new view of the cluster; called by its own thread."""
        try:
            cluster = self._poller.look()
        except SlurmError as error:
            if str(error) != self._complaint:
                _log.warning("%s; jobs pass unchanged until it works", error)
            self._complaint = str(error)
            return
        self._complaint = ""
        self._reserve()
        self._service.plans.resting = self._heads.look(self._poller.raw.jobs, cluster.taken_s)
        cluster = self._outlooks.add_wait_forecasts(
            cluster, self._poller.raw, self._poller.settings
        )
        # What was promised since is taken off in the loop, where promises are made.
        if self._loop is not None:
            self._loop.call_soon(partial(setattr, self._service, "cluster", cluster))

    def _forecasts_of(self, cluster: str) -> AddForecasts:
        """Give what makes forecasts of waits for another cluster."""
        if cluster not in self._outlooks_elsewhere:
            run_times = QueueRunTimes(lambda: self._service.tables)
            self._outlooks_elsewhere[cluster] = Outlooks(run_times)
        return self._outlooks_elsewhere[cluster].add_wait_forecasts

    def _reserve(self) -> None:
        """Let slurmctld's user connect where others may not: Slurm says for sure who that is."""
        trusted = self._own_trusted | self._poller.slurm_users
        if trusted != self._let_in:
            self._let_in = trusted
            try:
                let_in(self._reserved, trusted)
            except OSError as error:
                _log.warning("%s: %s; slurmctld uses the other socket", self._reserved, error)


def _slurm_account() -> set[int]:
    """Look up who slurmctld usually runs as; the first query of Slurm confirms it."""
    try:
        return {pwd.getpwnam("slurm").pw_uid}
    except KeyError:
        return set()


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""
