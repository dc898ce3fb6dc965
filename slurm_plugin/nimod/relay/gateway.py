"""The controller's side: takes relays in over TCP, and gives nimod what their users ask.

All of it happens in a thread of its own, so that neither munge nor a peer can keep nimod's loop
from answering slurmctld.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import count
from typing import NamedTuple

from slurm_plugin.config.setting_types import Address, Auth, address
from slurm_plugin.config.settings import RelaySettings
from slurm_plugin.nimod.relay import handshake
from slurm_plugin.nimod.relay.frames import Frame, Link, LinkError, LoopThread
from slurm_plugin.nimod.relay.frames import Kind as FrameKind
from slurm_plugin.nimod.relay.munge import Munge
from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.lines import encode
from slurm_plugin.service.accountant import Account, Accountant, Kind, Principal, Resource
from slurm_plugin.text.formatting import printable

_log = logging.getLogger(__name__)
HANDSHAKE_S = 2.0  #: longest that showing it may take
SILENCE_S = 15.0  #: a relay that says nothing for so long is gone
PENDING_S = 0.05  #: after this time a relay is sent "answer pending"
_BIND_AGAIN_S = 5.0

#: Takes a line, the uid that sent it, the link's account, and what the answer is given to, in any
#: thread.
Submit = Callable[[bytes, int, Account, Callable[[bytes], None]], None]


class _Stranger(NamedTuple):
    """A connection that has not shown yet who it is."""

    account: Account  #: of its host
    task: asyncio.Task[None]


@dataclass
class Gateway:
    """Listens for relays."""

    settings: RelaySettings  #: the site's
    _: KW_ONLY
    submit: Submit  #: has a request answered
    asked_s: Callable[[], float | None]  #: seconds since slurmctld asked; None: it has not
    accountant: Accountant  #: who uses how much

    def __post_init__(self) -> None:
        self._address = address(self.settings.listen)
        handshake.release()  # so that no connection has to wait for files
        tls = self.settings.auth is Auth.TLS
        self._certificates = handshake.Certificates(self.settings.tls, server=True) if tls else None
        self._munge = None if tls else Munge(self.settings.munge_socket)
        self._strangers: dict[int, _Stranger] = {}
        self._numbers = count()
        self._links: dict[int, str] = {}
        self._thread = LoopThread("relays", self._listen)
        self._loop = self._thread.loop

    @property
    def relays(self) -> list[str]:
        """Hosts that are linked."""
        return sorted(self._links.values())

    def start(self) -> None:
        """Begin to listen; while the address is taken, try again now and then."""
        self._thread.start()

    def close(self) -> None:
        """Hang up on everybody."""
        self._thread.close(HANDSHAKE_S)

    async def _listen(self) -> None:
        with await self._bound() as listener:
            _log.info("relays of login nodes are taken on %s", self._address)
            while True:
                try:
                    channel, peer = await self._loop.sock_accept(listener)
                except OSError as error:  # no descriptor is left, or the peer is gone already
                    self._complain("accept", error)
                    await asyncio.sleep(PENDING_S)
                    continue
                if self._may_come(str(peer[0])):
                    self._take_in(channel, str(peer[0]))
                else:
                    channel.close()
                await asyncio.sleep(0)  # a crowd keeps none of those before it from going on

    async def _bound(self) -> socket.socket:
        while True:
            try:
                return _bind(self._address)
            except OSError as error:
                self._complain(f"relay.listen: {self._address}", error)
                await asyncio.sleep(_BIND_AGAIN_S)

    def _may_come(self, host: str) -> bool:
        """Whether one more connection of a host is taken in; it has a descriptor then."""
        may_arrive = self._account(host).spend(Resource.ARRIVALS)
        return may_arrive and self.accountant.whole.take(Resource.DESCRIPTORS)

    def _take_in(self, channel: socket.socket, host: str) -> None:
        """Serve a connection; while it has not shown who it is, it takes a stranger's place."""
        account = self._account(host)
        while not account.take(Resource.CONNECTIONS):
            # Of a crowd the oldest goes: a relay needs a moment, and comes again.
            own = (number for number, one in self._strangers.items() if one.account is account)
            oldest = next(own, next(iter(self._strangers)))
            self._strangers[oldest].task.cancel()
            self._no_stranger(oldest)
        number = next(self._numbers)
        task = self._loop.create_task(self._meet(channel, host, number))
        self._strangers[number] = _Stranger(account, task)
        task.add_done_callback(lambda _: self._gone(number))

    def _no_stranger(self, number: int) -> None:
        """Note that a connection has shown who it is, or is over."""
        stranger = self._strangers.pop(number, None)
        if stranger is not None:
            stranger.account.give_back(Resource.CONNECTIONS)

    def _gone(self, number: int) -> None:
        """Note that a connection is over, also one that was sent away before it began."""
        self._no_stranger(number)
        self.accountant.whole.give_back(Resource.DESCRIPTORS)

    async def _meet(self, channel: socket.socket, host: str, number: int) -> None:
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                reader, writer = await self._streams(channel)
                link, name = await handshake.receive(reader, writer, self._munge)
            self._no_stranger(number)
            await self._follow(link, host, name, number)
        except (LinkError, OSError, EOFError, TimeoutError) as error:
            self._complain(host, error)
        finally:
            if writer is not None:
                writer.close()
            else:
                channel.close()

    async def _follow(self, link: Link, host: str, name: str, number: int) -> None:
        """Serve a link until it ends."""
        account = self._account(host)
        if not account.take(Resource.LINKS):
            link.close()
            return
        self._links[number] = name
        account.log(_log, "relay on %s (%s) is linked", name, host, level=logging.INFO)
        try:
            await self._serve(link, self.accountant.of(Principal(Kind.LINK, f"{host}#{number}")))
        finally:
            self._links.pop(number, None)
            account.give_back(Resource.LINKS)
            link.close()

    async def _streams(
        self, channel: socket.socket
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = asyncio.StreamReader(limit=handshake.LONGEST_LINE, loop=self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        context = self._certificates.context() if self._certificates else None
        transport, _ = await self._loop.connect_accepted_socket(
            lambda: protocol, channel, ssl=context
        )
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        if context is not None:
            handshake.check_name(
                transport.get_extra_info("peercert"), self.settings.tls.login_nodes
            )
        return reader, writer

    async def _serve(self, link: Link, account: Account) -> None:
        waiting: dict[int, asyncio.TimerHandle] = {}
        while True:
            async with asyncio.timeout(SILENCE_S):
                frame = await link.receive()
            size = len(frame.data)
            if not account.spend(Resource.BYTES_IN, size):
                # What comes faster waits on the network.
                account.charge(Resource.BYTES_IN, size)
                await asyncio.sleep(account.wait_s(Resource.BYTES_IN))
            if frame.kind is FrameKind.PING:
                link.send(Frame(FrameKind.PONG, data=encode(self.asked_s())))
            elif frame.kind is FrameKind.NOTICE:
                self._submit(frame, account, lambda _: None)
            elif frame.kind is not FrameKind.ASK or frame.number in waiting:
                raise LinkError(f"a relay sent {frame.kind.name}")
            else:
                pending = partial(link.send, Frame(FrameKind.PENDING, frame.number))
                waiting[frame.number] = self._loop.call_later(PENDING_S, pending)
                answered = partial(_answer, link, account, waiting, frame.number)
                self._submit(frame, account, partial(self._thread.call_soon, answered))

    def _submit(self, frame: Frame, account: Account, done: Callable[[bytes], None]) -> None:
        """Have a request answered, as far as the link's account allows."""
        held = ((Resource.IN_WORK, 1), (Resource.BYTES_HELD, len(frame.data)))
        refused = None
        taken = []
        for resource, amount in held:
            if not account.take(resource, amount):
                refused = resource
                break
            taken.append((resource, amount))
        if refused is None and not account.spend(Resource.REQUESTS):
            refused = Resource.REQUESTS

        def end(data: bytes) -> None:
            for resource, amount in taken:
                account.give_back(resource, amount)
            done(data)

        if refused is not None:
            error = f"{account.error(refused)}; wait a moment"
            end(encode(Answer(ok=False, error=error)))
            return
        self.submit(frame.data, frame.uid, account, end)

    def _account(self, host: str) -> Account:
        return self.accountant.of(Principal(Kind.HOST, host))

    def _complain(self, host: str, error: Exception) -> None:
        """Log what is wrong with a host, once a minute."""
        text = "it hung up" if isinstance(error, EOFError) else str(error)
        text = text or "it said nothing for too long"
        self._account(host).log(_log, "%s: no link: %s", host, printable(text))


def _answer(
    link: Link, account: Account, waiting: dict[int, asyncio.TimerHandle], number: int, data: bytes
) -> None:
    waiting.pop(number).cancel()
    if not link.has_room(len(data)):  # or it would be cut off, for all on its login node
        account.refuse(Resource.BYTES_OUT)
        error = f"{account.error(Resource.BYTES_OUT)}; try again in a moment"
        data = encode(Answer(ok=False, error=error))
    link.send(Frame(FrameKind.ANSWER, number, data=data))


def _bind(where: Address) -> socket.socket:
    family, _, _, _, place = socket.getaddrinfo(
        where.host, where.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(128)
        listener.settimeout(0)
    except OSError:
        listener.close()
        raise
    return listener
