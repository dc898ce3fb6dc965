"""The relay of a login node: users ask it as they ask nimod, and nimod on the controller answers.

It stores nothing, reads no database, and interprets no job.  A link to each controller is made anew
in the background when it breaks.  Requests go to the controller whose slurmctld has asked its nimod
last, because what cli_filter has decided must lie ready there; where that says nothing, to the
first in the list.
"""

import asyncio
import logging
import random
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import inf

import msgspec

from sacct_ingest.errors import ConfigError
from slurm_plugin.config.setting_types import Address, Auth, address
from slurm_plugin.config.settings import Config, RelaySettings
from slurm_plugin.nimod.access import ConnectionLimiter, UserNames, refusal
from slurm_plugin.nimod.connection import Reply
from slurm_plugin.nimod.loop import Loop
from slurm_plugin.nimod.relay import handshake
from slurm_plugin.nimod.relay.frames import Frame, Kind, Link, LinkError, LoopThread
from slurm_plugin.nimod.relay.munge import Munge
from slurm_plugin.nimod.supervision import answer_until_stopped, stop_at_signals
from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.request_messages import LONG_ANSWERS, Ask, decode_ask
from slurm_plugin.protocol.status_messages import Uplinked, Uplinks
from slurm_plugin.protocol.version import VERSION
from slurm_plugin.service.accountant import (
    Account,
    Accountant,
    Principal,
    Resource,
    spare_descriptors,
)
from slurm_plugin.service.accountant import Kind as Principals
from slurm_plugin.service.listening import bound_socket, notify
from slurm_plugin.text.formatting import printable

_log = logging.getLogger(__name__)
ANSWER_S = 0.15  #: longest that a controller may say nothing about a request ...
PENDING_S = 10.0  #: ... and that an answer may take of which it said that it takes longer

Done = Callable[[bytes], None]

#: What is said of an error; the first that fits.
_WORDS: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    ((LinkError,), "{}"),
    ((socket.gaierror,), "{}; correct relay.controllers in nimo.yaml"),
    ((ssl.SSLError,), "{}; see relay.tls on both hosts"),
    (
        (ConnectionRefusedError,),
        "connection refused; start nimod there, with relay.listen in its nimo.yaml",
    ),
    ((EOFError, ConnectionError), "the link was cut; see the log of nimod there"),
    ((TimeoutError,), "no answer; see whether nimod runs there, and the firewall between"),
)
CONNECT_S = 2.0
PING_S = 1.0
SILENCE_S = 3.0  #: a controller that says nothing for so long is gone
_PAUSE_S = (0.25, 5.0)  #: between two attempts, at first and at most
#: What only slurmctld asks, on its own host.
_NOT_HERE = ("decide", "reload")


@dataclass(slots=True)
class _PendingRequest:
    """A request that was sent."""

    done: Done
    timer: asyncio.TimerHandle


@dataclass(slots=True)
class Controller:
    """One controller, and the link to it."""

    where: Address
    link: Link | None = None
    trouble: str = "not linked yet; try again in a moment"
    greeting: handshake.Greeting = field(default_factory=handshake.Greeting)
    offset_s: float = 0.0  #: its clock less ours
    asked_s: float | None = None  #: since slurmctld asked it; None: it has not
    slow: bool = False  #: did not answer in time, and has said nothing since
    waiting: dict[int, _PendingRequest] = field(default_factory=dict)


class RequestRouter:
    """Gives each request to a controller, and its answer to who asked.

    controllers: in the order of slurm.conf.
    call_later: the event loop's.
    accountant: has an account for each link.
    """

    def __init__(
        self,
        controllers: Sequence[Address],
        call_later: Callable[..., asyncio.TimerHandle],
        accountant: Accountant,
    ) -> None:
        self.controllers = [Controller(where) for where in controllers]
        self._accountant = accountant
        self._call_later = call_later
        self._numbers = count(1)

    def states(self, auth: Auth) -> list[Uplinked]:
        """Describe the links; from any thread."""
        used = self._used()
        return [
            Uplinked(
                controller=str(one.where),
                trouble="" if one.link else one.trouble,
                auth=str(auth),
                release=one.greeting.release,
                clock_offset_s=one.offset_s,
                used=one is used,
            )
            for one in self.controllers
        ]

    def ask(self, line: bytes, uid: int, done: Done) -> None:
        """Send a request; ``done`` gets the answer, or that there is none."""
        controller = self._used()
        if controller is None or controller.link is None:
            done(self._failure())
        elif not controller.link.has_room(len(line)):
            account = self._refused(controller)
            done(_answer(f"{account.error(Resource.BYTES_OUT)}; try again in a moment"))
        else:
            number = next(self._numbers)
            timer = self._call_later(ANSWER_S, self._late, controller, number, ANSWER_S)
            controller.waiting[number] = _PendingRequest(done, timer)
            controller.link.send(Frame(Kind.ASK, number, uid, line))

    def notify(self, line: bytes, uid: int) -> None:
        """Send a request that is not answered."""
        controller = self._used()
        if controller is None or controller.link is None:
            return
        if controller.link.has_room(len(line)):
            controller.link.send(Frame(Kind.NOTICE, 0, uid, line))
        else:
            self._refused(controller)

    def _refused(self, controller: Controller) -> Account:
        """Count that more waits to be sent than may; the link would be cut off, for all users."""
        account = self._accountant.of(Principal(Principals.LINK, str(controller.where)))
        account.refuse(Resource.BYTES_OUT)
        return account

    def linked(
        self, controller: Controller, link: Link, greeting: handshake.Greeting, now_s: float
    ) -> None:
        """Use a new link.

        now_s: seconds since the epoch, by the clock here.
        """
        controller.greeting = greeting
        controller.offset_s = greeting.now_s - now_s
        controller.asked_s = None
        controller.slow = False
        controller.link = link
        _log.info("linked to nimod on %s", controller.where)

    def received(self, controller: Controller, frame: Frame) -> None:
        """Take a controller's word about a request: its answer, or that it takes longer."""
        one = controller.waiting.get(frame.number)
        if one is None:
            return  # given up
        one.timer.cancel()
        if frame.kind is Kind.PENDING:
            late = partial(self._late, controller, frame.number, PENDING_S)
            one.timer = self._call_later(PENDING_S, late)
        else:
            del controller.waiting[frame.number]
            one.done(frame.data)

    def lost(self, controller: Controller, error: Exception) -> None:
        """Answer what waits on a broken link: there will be no answer."""
        controller.link = None
        text = printable(_words(error))
        if text != controller.trouble:
            _log.warning("no link to nimod on %s: %s", controller.where, text)
        controller.trouble = text
        for one in controller.waiting.values():
            one.timer.cancel()
            one.done(self._failure())
        controller.waiting.clear()

    def _used(self) -> Controller | None:
        """Choose the controller to which requests go."""
        up = [one for one in self.controllers if one.link is not None]
        return min(up, key=_rank, default=None)

    def _late(self, controller: Controller, number: int, after_s: float) -> None:
        controller.slow = True
        one = controller.waiting.pop(number)
        one.done(
            _answer(
                f"nimod on {controller.where} does not answer within {after_s:g} s; "
                "see 'nimo doctor' there and here",
                link_down=True,
            )
        )

    def _failure(self) -> bytes:
        """Say why there is no link."""
        each = [f"{one.where}: {one.trouble}" for one in self.controllers]
        return _answer(f"no link to nimod on {'; '.join(each)}", link_down=True)


def _rank(controller: Controller) -> tuple[bool, float]:
    return controller.slow, inf if controller.asked_s is None else controller.asked_s


def _answer(error: str, *, link_down: bool = False) -> bytes:
    return encode(Answer(ok=False, error=error, link_down=link_down))


def _words(error: Exception) -> str:
    """Say what is wrong, and what to do about it."""
    reason = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or error
    for kinds, words in _WORDS:
        if isinstance(error, kinds):
            return words.format(reason)
    return f"{reason}; see the network between"


class Uplink:
    """Links to the controllers.

    controllers: in the order of slurm.conf.
    settings: the site's.
    accountant: of the relay.
    """

    def __init__(
        self, controllers: Sequence[Address], settings: RelaySettings, accountant: Accountant
    ) -> None:
        tls = settings.auth is Auth.TLS
        self._certificates = handshake.Certificates(settings.tls, server=False) if tls else None
        self._munge = None if tls else Munge(settings.munge_socket)
        self._auth = settings.auth
        self._thread = LoopThread("links", self._follow_all)
        self._loop = self._thread.loop
        self._router = RequestRouter(controllers, self._loop.call_later, accountant)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def close(self) -> None:
        """Hang up."""
        self._thread.close(CONNECT_S)

    def ask(self, line: bytes, uid: int, done: Done) -> None:
        """Send a request; ``done`` gets the answer, or that there is none, in another thread."""
        self._thread.call_soon(self._router.ask, line, uid, done)

    def notify(self, line: bytes, uid: int) -> None:
        """Send a request that is not answered."""
        self._thread.call_soon(self._router.notify, line, uid)

    def state(self) -> list[Uplinked]:
        """Describe the links; from any thread."""
        return self._router.states(self._auth)

    # --- in the thread of the links ---------------------------------------------------------

    async def _follow_all(self) -> None:
        await asyncio.gather(*map(self._follow, self._router.controllers))

    async def _follow(self, controller: Controller) -> None:
        """Keep a link to one controller up."""
        first_s, most_s = _PAUSE_S
        pause_s = first_s
        while True:
            try:
                link = await self._connected(controller)
                pause_s = first_s
                await self._read(controller, link)
            except (LinkError, OSError, EOFError, TimeoutError) as error:
                self._router.lost(controller, error)
            except Exception as error:
                _log.exception("unexpected error; connecting again")
                self._router.lost(controller, error)
            await asyncio.sleep(pause_s * random.uniform(0.8, 1.2))  # noqa: S311 - no secret
            pause_s = min(2 * pause_s, most_s)

    async def _connected(self, controller: Controller) -> Link:
        host, port = controller.where
        tls = self._certificates.context() if self._certificates else None
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(
                    host, port, ssl=tls, limit=handshake.LONGEST_LINE
                )
                link, greeting = await handshake.introduce(reader, writer, self._munge)
        except BaseException:
            if writer is not None:
                writer.transport.abort()
            raise
        self._router.linked(controller, link, greeting, time.time())
        return link

    async def _read(self, controller: Controller, link: Link) -> None:
        pinging = self._loop.create_task(_ping(link))
        try:
            while True:
                async with asyncio.timeout(SILENCE_S):
                    frame = await link.receive()
                controller.slow = False
                if frame.kind is Kind.PONG:
                    controller.asked_s = msgspec.json.decode(frame.data, type=float | None)
                else:
                    self._router.received(controller, frame)
        finally:
            pinging.cancel()
            link.close()


async def _ping(link: Link) -> None:
    while True:
        link.send(Frame(Kind.PING))
        await asyncio.sleep(PING_S)


def serve(config: Config, controllers: Sequence[str]) -> None:
    """Run a relay until SIGTERM or SIGINT.

    controllers: where nimod listens; empty: as configured.
    Raises ConfigError: there is no controller, or the socket cannot be made; MungeError: Munge's
        library is not installed.
    """
    named = controllers or config.relay.controllers
    if not named:
        raise ConfigError(
            "which controller? name it: nimo serve --relay HOST, or relay.controllers in nimo.yaml"
        )
    accountant = Accountant(
        requests_per_s=config.access.requests_per_s,
        connections=config.access.connections,
        descriptors=spare_descriptors(),
    )
    uplink = Uplink([address(one) for one in named], config.relay, accountant)
    Relay(config, uplink, accountant).run()


class Relay:
    """The process: local users on one side, links to controllers on the other."""

    def __init__(self, config: Config, uplink: Uplink, accountant: Accountant) -> None:
        self._config = config
        self._uplink = uplink
        self._names = UserNames(accountant=accountant)

    def run(self) -> None:
        """Start, answer until a signal, stop."""
        with bound_socket(self._config.socket, program="nimod or relay") as channel:
            limiter = ConnectionLimiter(
                trusted=lambda _: False, respond=self.respond, names=self._names
            )
            loop = Loop(channel, limiter, clock=time.monotonic)
            stop_at_signals(loop)
            self._uplink.start()
            try:
                answer_until_stopped(loop, self._config.socket)
            finally:
                notify("STOPPING=1")
                self._uplink.close()
                loop.close()

    def respond(self, line: bytes, uid: int) -> Reply:
        """Answer one request line of a user, or have it answered on the controller."""
        if error := refusal(self._names.account(uid)):
            return _refused(error, last=True)
        if line.isspace():
            return Reply()
        try:
            ask = decode_ask(line)
        except msgspec.DecodeError as error:
            return _refused(str(error))
        if ask.v != VERSION:
            return _refused(f"version {ask.v}; this relay speaks {VERSION}")
        return self._reply(ask, line, uid)

    def _reply(self, ask: Ask, line: bytes, uid: int) -> Reply:
        if ask.op in _NOT_HERE:
            return _refused(f"{ask.op} is for the controller; this is a relay")
        if ask.op == "links":
            return Reply(encode(Uplinks(release=handshake.release(), links=self._uplink.state())))
        if ask.one_way:
            self._uplink.notify(line, uid)
            return Reply()
        if ask.op not in LONG_ANSWERS:
            return Reply(query=partial(self._ask, line, uid))
        account = self._names.account(uid)
        if not account.take(Resource.QUESTIONS):
            return _refused(f"{account.error(Resource.QUESTIONS)}; try again in a moment")
        taken = partial(account.give_back, Resource.QUESTIONS)
        return Reply(query=partial(self._ask, line, uid), taken=taken)

    def _ask(self, line: bytes, uid: int, done: Done) -> None:
        """Forward a request to nimod.

        It counts against its user until nimod answers, also where the client has disconnected.
        """
        account = self._names.account(uid)
        if not account.take(Resource.IN_WORK):
            done(_answer(f"{account.error(Resource.IN_WORK)}; try again in a moment"))
            return

        def answered(data: bytes) -> None:
            account.give_back(Resource.IN_WORK)
            done(data)

        self._uplink.ask(line, uid, answered)


def _refused(error: str, *, last: bool = False) -> Reply:
    return Reply(encode(Answer(ok=False, error=error)), last=last)
