"""The relay's side: a link to each controller, made anew in the background when it breaks."""

import asyncio
import logging
import random
import time
from collections.abc import Sequence

import msgspec

from slurm_plugin.config.setting_types import Address, Auth
from slurm_plugin.config.settings import RelaySettings
from slurm_plugin.nimod.relay.frames import Frame, Kind, Link, LinkError, LoopThread
from slurm_plugin.nimod.relay.handshake import LONGEST_LINE, Certificates, introduce
from slurm_plugin.nimod.relay.munge import Munge
from slurm_plugin.nimod.relay.request_router import Controller, Done, RequestRouter
from slurm_plugin.protocol.status_messages import Uplinked

_log = logging.getLogger(__name__)
CONNECT_S = 2.0
PING_S = 1.0
SILENCE_S = 3.0  #: a controller that says nothing for so long is gone
_PAUSE_S = (0.25, 5.0)  #: between two attempts, at first and at most


class Uplink:
    """Links to the controllers.

    controllers: in the order of slurm.conf.
    settings: the site's.
    """

    def __init__(self, controllers: Sequence[Address], settings: RelaySettings) -> None:
        tls = settings.auth is Auth.TLS
        self._certificates = Certificates(settings.tls, server=False) if tls else None
        self._munge = None if tls else Munge(settings.munge_socket)
        self._auth = settings.auth
        self._thread = LoopThread("links", self._follow_all)
        self._loop = self._thread.loop
        self._router = RequestRouter(controllers, self._loop.call_later)

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
                    host, port, ssl=tls, limit=LONGEST_LINE
                )
                link, greeting = await introduce(reader, writer, self._munge)
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
