"""nimod: answers the hooks and nimo-advise on a Unix socket.

The loop only looks things up.  Slurm is asked in a worker thread, the store has a thread of
its own, and neither of them needs to be there for nimod to answer.
"""

import gc
import logging
import os
import pwd
import secrets
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

import msgspec

from sacct_ingest.errors import ConfigError, ScriptError, SlurmError
from slurm_plugin.config import Config
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.decision.service import Book, DecisionService
from slurm_plugin.decision.tickets import job_of
from slurm_plugin.listening import Listening, Rates, let_in
from slurm_plugin.nimod.access import ConnectionLimiter, UserNames, reserved_socket
from slurm_plugin.nimod.answer_counts import AnswerCounts
from slurm_plugin.nimod.connection import Connection, Reply
from slurm_plugin.nimod.loop import Loop
from slurm_plugin.nimod.outlooks import Outlooks
from slurm_plugin.nimod.periodic import Periodic
from slurm_plugin.nimod.queries import StoreQueries
from slurm_plugin.nimod.queue_run_times import QueueRunTimes
from slurm_plugin.nimod.ready_decisions import ReadyDecisions, is_ticket
from slurm_plugin.nimod.remote_requests import RemoteRequests
from slurm_plugin.nimod.store_link import StoreLink
from slurm_plugin.nimod.supervision import answer_until_stopped, stop_at_signals
from slurm_plugin.protocol import (
    VERSION,
    Advice,
    Answer,
    Ask,
    Status,
    Waits,
    decode_ask,
    encode,
)
from slurm_plugin.slurm.poller import ClusterPoller
from slurm_plugin.systemd import notify

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

    Parameters
    ----------
    reread
        Reads the settings anew at SIGHUP; raises ConfigError.

    Raises
    ------
    ConfigError
        The socket cannot be made, or another nimod has it.
    """
    sys.setswitchinterval(_SWITCH_S)
    Daemon(config, reread).run()


class Daemon:
    """The process: what it listens to, what runs in the background, how it ends."""

    def __init__(self, config: Config, reread: Callable[[], Config]) -> None:
        self._config = config
        self._reread = reread
        self._errands = ThreadPoolExecutor(1, "errands")
        self._ready = ReadyDecisions(Path(config.socket))
        self._advisor = DecisionService(
            config,
            new_id=lambda: secrets.token_hex(6),
            later=self._later,
            publish=self._ready.publish,
        )
        self._watch = ClusterPoller(time.time, cluster=config.cluster, how=config.snapshot)
        self._outlooks = Outlooks(QueueRunTimes(lambda: self._advisor.tables))
        self._link = StoreLink(
            config.store_url,
            publish=self._publish,
            publish_waits=partial(setattr, self._advisor, "waits"),
            wait_record=self._outlooks,
            clock=time.time,
            cluster=self._cluster_name,
        )
        self._queries = StoreQueries(config.store_url)
        self._background = (
            Periodic("store", self._link.visit, pause_s=lambda: _STORE_S),
            Periodic("slurm", self._look, pause_s=self._watch.pause_s),
        )
        self._own_trusted = frozenset({0, os.geteuid(), *_slurm_account()})
        self._reserved = reserved_socket(config.socket)
        self._let_in = self._own_trusted
        # Nobody asks for the names of those that are served at once.
        self._own_names = {uid: _name_of(uid) for uid in self._own_trusted}
        self._rates = Rates(config.access.requests_per_s)
        self._names = UserNames()
        self._loop: Loop | None = None
        self._gateway: Gateway | None = None
        self._asked_s: float | None = None  # when slurmctld asked last
        self._loaded_s: float | None = None
        self._answered = self._failed = 0
        self._counts = AnswerCounts(time.time())
        self._complaint = ""
        self._quiet = config.changes_nothing

    def run(self) -> None:
        """Start, answer until told to stop, stop."""
        with (
            Listening(self._config.socket) as channel,
            Listening(self._reserved, only=self._own_trusted) as reserved,
        ):
            self._ready.open()
            loop = self._start(channel, reserved)
            try:
                answer_until_stopped(loop, self._config.socket)
            finally:
                if self._gateway is not None:
                    self._gateway.close()
                self._ready.close()
                self._errands.shutdown(cancel_futures=True)
                self._queries.close()
                loop.close()
                self._stop()

    def _start(self, channel: socket.socket, reserved: socket.socket) -> Loop:
        limiter = ConnectionLimiter(
            self._config.access,
            trusted=self._trusts,
            respond=self.respond,
            names=self._names,
            later=self._adopt,
        )
        loop = self._loop = Loop(channel, limiter, clock=time.monotonic, reserved=reserved)
        stop_at_signals(loop)
        if self._config.relay.listen:
            self._gateway = self._take_relays(loop, limiter)
        signal.signal(signal.SIGHUP, lambda *_: loop.call_soon(self._hang_up))
        for periodic in self._background:
            periodic.start()
        self._background[0].tried(_FIRST_LOOK_S)
        return loop

    def _take_relays(self, loop: Loop, limiter: ConnectionLimiter) -> "Gateway":
        """Take requests from relays on login nodes."""
        from slurm_plugin.nimod.relay.gateway import Gateway  # noqa: PLC0415 - only where listened

        respond = partial(self.respond, remote=True)
        requests = RemoteRequests(loop, limiter, self._names, respond)
        gateway = Gateway(self._config.relay, submit=requests.submit, asked_s=self._since_asked_s)
        gateway.start()
        return gateway

    def _since_asked_s(self) -> float | None:
        return None if self._asked_s is None else time.monotonic() - self._asked_s

    def _adopt(self, connection: Connection) -> None:
        """Serve a peer whose name is known by now; called by the thread that found it."""
        if self._loop is not None:
            self._loop.call_soon(partial(self._loop.adopt, connection))

    def _later(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        """Do work in the background, and afterwards ``then`` in the loop."""

        def done(errand: Future[None]) -> None:
            if error := errand.exception():
                _log.error("counting nodes failed", exc_info=error)
            elif self._loop is not None:
                self._loop.call_soon(then)

        self._errands.submit(work).add_done_callback(done)

    def _trusts(self, uid: int) -> bool:
        return uid in self._own_trusted or uid in self._watch.slurm_users

    def _stop(self) -> None:
        notify("STOPPING=1")
        store, slurm = self._background
        slurm.stop(0.0)
        if store.stop(_STOP_S, once_more=True):
            self._link.close()
        if self._link.pending:
            _log.error("%d decisions could not be written", self._link.pending)

    def respond(self, line: bytes, uid: int, *, remote: bool = False) -> Reply:
        """Answer one request line of a peer; never raises.

        An empty one says that slurmctld is about to ask.

        Parameters
        ----------
        remote
            It comes from a login node, where nobody may do more than a user.
        """
        trusted = not remote and self._trusts(uid)
        if not trusted and not self._rates.allow(uid, time.monotonic()):
            self._failed += 1
            most = self._config.access.requests_per_s
            error = f"more than {most:g} requests a second from user {uid}; wait a moment"
            return Reply(encode(Answer(ok=False, error=error)), last=True)
        if line.isspace():
            return Reply(awake=trusted)
        try:
            ask = decode_ask(line)
        except msgspec.DecodeError as error:
            self._failed += 1
            return Reply(encode(Answer(ok=False, error=str(error))))
        if ask.op == "prepare" and ask.tell:
            # At once: slurmctld is about to look for it.
            self._reply(ask, uid, trusted=trusted)
            return Reply()
        if ask.tell and trusted:
            return Reply(afterwards=partial(self._handle_notice, ask, uid))
        return self._reply(ask, uid, trusted=trusted)

    def _query(self, ask: Ask, uid: int, *, trusted: bool) -> Reply:
        """Have a question about the store answered: about everybody's jobs, or one's own."""
        # None asks about everybody's jobs: a name that is not known must not become that.
        user = None if trusted else self._names.cached(uid) or ""
        if user == "":
            return Reply(encode(Answer(ok=False, error=f"user {uid} has no name")))
        self._answered += 1
        private = self._watch.private
        query = partial(self._queries.answer, ask, user, private=private)
        return Reply(query=partial(self._queries.submit, query))

    def _handle_notice(self, ask: Ask, uid: int) -> None:
        """Decide of a job that slurmctld told of, and waits for no answer to."""
        reply = self._reply(ask, uid, trusted=True)
        if reply.afterwards is not None:
            reply.afterwards()

    def _reply(self, ask: Ask, uid: int, *, trusted: bool) -> Reply:
        if ask.op in ("applications", "explain") and ask.v == VERSION:
            return self._query(ask, uid, trusted=trusted)
        began, book = time.perf_counter(), None
        message: Answer | Advice | Status | Waits
        try:
            message, book = self._answer(ask, uid, trusted=trusted)
        except Exception as error:
            _log.exception("a request could not be answered")
            message = Answer(ok=False, error=f"{type(error).__name__} in nimod; see its log")
        self._answered += message.ok
        self._failed += not message.ok
        if book is None:
            return Reply(encode(message))
        if isinstance(message, Answer):
            message.quiet = self._quiet
        data = encode(message)
        self._counts.took(time.perf_counter() - began)
        return Reply(data, partial(self._book, book), quiet=self._quiet)

    def _answer(
        self, ask: Ask, uid: int, *, trusted: bool
    ) -> tuple[Answer | Advice | Status | Waits, Book | None]:
        if ask.v != VERSION:
            return Answer(ok=False, error=f"version {ask.v}; nimod speaks {VERSION}"), None
        if ask.op == "decide" and trusted:
            self._asked_s = time.monotonic()
        if ask.op == "decide" and trusted and ask.taken:
            # Of a nimod before this one: nobody knows what was decided but the job's note.
            return self._advisor.redeem(ask.job, now_s=time.time()) or (Answer(), None)
        if ask.op == "decide" and trusted:
            return self._advisor.answer(ask.job, via=ask.via, now_s=time.time())
        for_all: dict[str, Callable[[], Answer | Advice | Status | Waits]] = {
            "status": self._status,
            "links": lambda: Answer(ok=False, error="this is no relay"),
            "advise": lambda: self._advice(ask, uid, trusted=trusted),
            "waits": lambda: self._waits(ask, uid, trusted=trusted),
            "prepare": lambda: self._prepare(ask, uid, trusted=trusted),
        }
        if ask.op in for_all:
            return for_all[ask.op](), None
        if not trusted:
            return Answer(ok=False, error=f"{ask.op} is not for user {uid}"), None
        self._reload()
        return self._status(), None

    def _waits(self, ask: Ask, uid: int, *, trusted: bool) -> Waits:
        """When jobs in the queue start: of others as far as squeue shows them to this user."""
        own = self._own_names.get(uid) or self._names.cached(uid)
        if not own:
            return Waits(ok=False, error=f"user {uid} has no name")
        user = None if trusted or not self._watch.private else own
        rows = self._outlooks.queued(ask.job_ids, user=user, own=own)
        shown = {row.job_id for row in rows}
        return Waits(
            made_s=self._outlooks.made_s,
            recorded=len(self._outlooks.record),
            rows=rows,
            missing=[one for one in ask.job_ids if one not in shown],
        )

    def _advice(self, ask: Ask, uid: int, *, trusted: bool) -> Advice:
        job, confidence = ask.job, ask.confidence
        if trusted:
            return self._advisor.advise(job, now_s=time.time(), confidence=confidence)
        own = self._names.cached(uid)
        if not own or job.user_name not in ("", own) or job.user_id not in (None, uid):
            whose = job.user_name or job.user_id
            return Advice(ok=False, error=f"jobs of user {whose!r} are not for user {uid}")
        job.user_name, job.user_id = own, uid
        return self._advisor.advise(
            job, now_s=time.time(), private=self._watch.private, confidence=confidence
        )

    def _prepare(self, ask: Ask, uid: int, *, trusted: bool) -> Answer:
        """Decide on what a peer is about to submit, always as itself."""
        user, now_s = self._own_names.get(uid) or self._names.cached(uid), time.time()
        if ask.tell and not is_ticket(ask.ticket):
            return Answer(ok=False, error=f"no ticket: {ask.ticket!r}")
        try:
            command = ask.command.resolved()
            job = job_of(command, user=user, uid=uid, now_s=now_s) if user else None
        except (ScriptError, msgspec.DecodeError) as error:
            return Answer(ok=False, error=str(error))
        private = not trusted and self._watch.private
        ticket = ask.ticket if ask.tell else ""
        if job is None:
            return Answer()
        comes = "test-only" not in command.options
        return self._advisor.prepare(job, now_s=now_s, private=private, ticket=ticket, comes=comes)

    def _book(self, book: Book) -> None:
        """Do what could wait until the answer was sent."""
        try:
            row = book()
        except Exception:
            _log.exception("a decision could not be recorded")
            return
        if row is not None:
            self._counts.decided(row)
            self._link.record(row)

    def _status(self) -> Status:
        cluster, made_s = self._advisor.cluster, self._outlooks.made_s
        return Status(
            release=version("nimo-slurm"),
            identities=len(self._advisor.tables),
            loaded_s=self._loaded_s,
            snapshot_age_s=time.time() - cluster.taken_s if cluster else None,
            answered=self._answered,
            failed=self._failed,
            decisions_pending=self._link.pending,
            outlook_age_s=None if made_s is None else time.time() - made_s,
            waits=self._outlooks.partition_waits(),
            waits_recorded=len(self._outlooks.record),
            waits_inside=self._outlooks.record.inside(),
            store_trouble=self._link.trouble,
            store_changed_s=self._link.changed_s,
            counts=self._counts.counts(),
            relays=self._gateway.relays if self._gateway else [],
            longest_s=self._loop.longest_s if self._loop else 0.0,
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
            self._advisor.config, self._quiet = config, config.changes_nothing
            if self._loop is not None and not self._quiet:
                ended = self._loop.hang_up_on_quiet()
                _log.info("hung up on %d that waited for no answers", ended)
            _log.info("settings read")
        self._reload()

    def _reload(self) -> None:
        self._link.forget()
        self._watch.forget()
        for periodic in self._background:
            periodic.wake()

    def _publish(self, tables: PredictionLookup) -> None:
        """Exchange the tables; called by the store's thread."""
        self._advisor.tables = tables
        self._loaded_s = time.time()
        # What lives as long as nimod does no later collection has to walk through.
        gc.freeze()

    def _cluster_name(self) -> str:
        cluster = self._advisor.cluster
        return cluster.name if cluster else ""

    def _look(self) -> None:
        """Get a new view of the cluster; called by its own thread."""
        try:
            cluster = self._watch.look()
        except SlurmError as error:
            if str(error) != self._complaint:
                _log.warning("%s; jobs pass unchanged until it works", error)
            self._complaint = str(error)
            return
        self._complaint = ""
        self._reserve()
        cluster = self._outlooks.attach(cluster, self._watch.raw, self._watch.settings)
        # What was promised since is taken off in the loop, where promises are made.
        if self._loop is not None:
            self._loop.call_soon(partial(setattr, self._advisor, "cluster", cluster))

    def _reserve(self) -> None:
        """Let slurmctld's user connect where others may not: Slurm says for sure who that is."""
        trusted = self._own_trusted | self._watch.slurm_users
        if trusted != self._let_in:
            self._let_in = trusted
            try:
                let_in(self._reserved, trusted)
            except OSError as error:
                _log.warning("%s: %s; slurmctld uses the other socket", self._reserved, error)


def _slurm_account() -> set[int]:
    """Look up who slurmctld usually runs as; the first look at Slurm tells it for sure."""
    try:
        return {pwd.getpwnam("slurm").pw_uid}
    except KeyError:
        return set()


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""
