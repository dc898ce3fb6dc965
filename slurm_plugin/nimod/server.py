"""nimod: answers the hooks and nimo-advise on a Unix socket.

The event loop only looks things up.  Slurm is asked in a worker thread, the store has a thread of
its own, and neither of them needs to be there for nimod to answer.
"""

import asyncio
import gc
import logging
import os
import pwd
import secrets
import signal
import socket
import sys
import time
from contextlib import suppress
from importlib.metadata import version

import msgspec

from sacct_ingest.errors import SlurmError
from slurm_plugin.advisor import Advisor
from slurm_plugin.config import Config
from slurm_plugin.nimod.connection import Connection
from slurm_plugin.nimod.listening import Listening
from slurm_plugin.nimod.periodic import Periodic
from slurm_plugin.nimod.store_link import StoreLink
from slurm_plugin.nimod.systemd import notify, watchdog_s
from slurm_plugin.protocol import VERSION, Advice, Answer, Ask, Status, decode_ask, encode
from slurm_plugin.slurm.watch import Watch
from slurm_plugin.tables import Tables

_log = logging.getLogger(__name__)

_FIRST_LOOK_S = 5.0  #: for the store, before nimod calls itself ready
_STORE_S = 1.0  #: between looks for new tables
_STOP_S = 10.0
#: Longest that a background thread may keep the interpreter from answering, seconds.
_SWITCH_S = 0.0001


def serve(config: Config) -> None:
    """Run nimod until SIGTERM or SIGINT.

    Raises
    ------
    ConfigError
        The socket cannot be made, or another nimod has it.
    """
    sys.setswitchinterval(_SWITCH_S)
    asyncio.run(Daemon(config).run())


class Daemon:
    """The process: what it listens to, what runs in the background, how it ends."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._advisor = Advisor(config, new_id=lambda: secrets.token_hex(6))
        self._watch = Watch(time.time, timeout_s=config.snapshot.timeout_s, cluster=config.cluster)
        self._link = StoreLink(config.store_url, publish=self._publish, cluster=self._cluster_name)
        self._background = (
            Periodic("store", self._link.visit, interval_s=_STORE_S),
            Periodic("slurm", self._look, interval_s=config.snapshot.interval_s),
        )
        self._trusted = {0, os.geteuid(), *_slurm_account()}
        self._loaded_s: float | None = None
        self._answered = self._failed = 0
        self._complaint = ""

    async def run(self) -> None:
        """Start, answer until told to stop, stop."""
        with Listening(self._config.socket) as channel:
            server = await self._start(channel)
            try:
                await self._loop()
            finally:
                server.close()
                self._stop()

    async def _start(self, channel: socket.socket) -> asyncio.Server:
        self._events, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            self._events.add_signal_handler(name, self._stopping.set)
        self._events.add_signal_handler(signal.SIGHUP, self._reload)
        for periodic in self._background:
            periodic.start()
        await asyncio.to_thread(self._background[0].tried, _FIRST_LOOK_S)
        return await self._events.create_unix_server(lambda: Connection(self.respond), sock=channel)

    async def _loop(self) -> None:
        notify("READY=1")
        _log.info("answering on %s", self._config.socket)
        wanted = watchdog_s()
        while wanted is not None and not self._stopping.is_set():
            notify("WATCHDOG=1")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wanted / 3)
        await self._stopping.wait()

    def _stop(self) -> None:
        notify("STOPPING=1")
        store, slurm = self._background
        slurm.stop(0.0)
        if store.stop(_STOP_S, once_more=True):
            self._link.close()
        if self._link.pending:
            _log.error("%d decisions could not be written", self._link.pending)

    def respond(self, line: bytes, uid: int) -> bytes:
        """Answer one request line of a peer; never raises."""
        try:
            answer = self._answer(decode_ask(line), uid)
        except msgspec.DecodeError as error:
            answer = Answer(ok=False, error=str(error))
        except Exception as error:
            _log.exception("a request could not be answered")
            answer = Answer(ok=False, error=f"{type(error).__name__} in nimod; see its log")
        self._answered += answer.ok
        self._failed += not answer.ok
        return encode(answer)

    def _answer(self, ask: Ask, uid: int) -> Answer | Advice | Status:
        if ask.v != VERSION:
            return Answer(ok=False, error=f"version {ask.v}; nimod speaks {VERSION}")
        if ask.op == "advise":
            return self._advisor.advise(ask.job, now_s=time.time())
        if ask.op == "status":
            return self._status()
        if uid not in self._trusted | self._watch.slurm_users:
            return Answer(ok=False, error=f"{ask.op} is not for user {uid}")
        if ask.op == "reload":
            self._reload()
            return self._status()
        answer, row = self._advisor.submit(ask.job, via=ask.via, now_s=time.time())
        if row is not None:
            self._link.record(row)
        return answer

    def _status(self) -> Status:
        cluster = self._advisor.cluster
        return Status(
            release=version("nimo-slurm"),
            identities=len(self._advisor.tables),
            loaded_s=self._loaded_s,
            snapshot_age_s=time.time() - cluster.taken_s if cluster else None,
            answered=self._answered,
            failed=self._failed,
            decisions_pending=self._link.pending,
        )

    def _reload(self) -> None:
        self._link.forget()
        for periodic in self._background:
            periodic.wake()

    def _publish(self, tables: Tables) -> None:
        """Exchange the tables; called by the store's thread."""
        self._advisor.tables = tables
        self._loaded_s = time.time()
        # Tables hold no cycles: no later collection has to walk through all of them.
        gc.freeze()

    def _cluster_name(self) -> str:
        cluster = self._advisor.cluster
        return cluster.name if cluster else ""

    def _look(self) -> None:
        """Get a new view of the cluster; called by its own thread."""
        try:
            seen = self._watch.look()
        except SlurmError as error:
            if str(error) != self._complaint:
                _log.warning("%s; jobs pass unchanged until it works", error)
            self._complaint = str(error)
            return
        self._complaint = ""
        # What was promised since is taken off in the event loop, where promises are made.
        self._events.call_soon_threadsafe(setattr, self._advisor, "cluster", seen)


def _slurm_account() -> set[int]:
    """Look up who slurmctld usually runs as; the first look at Slurm tells it for sure."""
    try:
        return {pwd.getpwnam("slurm").pw_uid}
    except KeyError:
        return set()
