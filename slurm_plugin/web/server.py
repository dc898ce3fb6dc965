"""The server: a socket, uvicorn on it, and the user at the other end of each connection."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from sacct_ingest.errors import ConfigError, system_errors
from slurm_plugin.config.settings import Web
from slurm_plugin.service.accountant import NAMELESS, Account, Accountant, Kind, Principal, Resource
from slurm_plugin.service.listening import bound_socket
from slurm_plugin.web.app import LONGEST_HEAD
from slurm_plugin.web.viewer import Peer, Proxies, peer_of

_CONNECTIONS = 400
#: Of one user, whose browser makes several for each page; proxies have as many as there are.
CONNECTIONS_EACH = 32
LOOK_S = 30.0  #: a connection that came no further since the last look is dropped


@contextmanager
def listening(settings: Web, proxies: Proxies) -> Iterator[tuple[socket.socket, str]]:
    """Give a socket that listens, and where browsers find it.

    Raises ConfigError: it cannot be had, or it is open to a network without a proxy that
        authenticates.
    """
    if "/" in settings.listen:
        with bound_socket(settings.listen, "nimo web") as channel:
            yield channel, settings.listen
        return
    host, port = _address(settings.listen)
    if not ip_address(host).is_loopback and not proxies.addresses:
        raise ConfigError(
            f"web.listen: {settings.listen} is open to the network; name the address of a proxy "
            "that authenticates in web.proxies, or listen on 127.0.0.1"
        )
    with _bound(host, port, settings.listen) as channel:
        shown = f"[{host}]" if ":" in host else host
        yield channel, f"http://{shown}:{channel.getsockname()[1]}{settings.prefix}/"


def server(app: ASGIApp, proxies: Proxies) -> uvicorn.Server:
    """Make the server; ``run(sockets=[...])`` serves until SIGTERM or SIGINT."""

    class Protocol(_Protocol):
        crowds = proxies
        accountant = Accountant(connections=CONNECTIONS_EACH, descriptors=_CONNECTIONS)

    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=10,
        h11_max_incomplete_event_size=LONGEST_HEAD,
    )
    return uvicorn.Server(config)


class _Protocol(H11Protocol):
    """One connection: it says who is at the other end, and ends where nothing goes on."""

    crowds: Proxies
    accountant: Accountant
    peer = Peer()
    _held: tuple[tuple[Account, Resource], ...] = ()  # what it gives back at its end

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection."""
        super().connection_made(transport)
        channel: socket.socket = transport.get_extra_info("socket")
        # Before anything is read for it.
        if not self._take(self.accountant.whole, Resource.DESCRIPTORS):
            transport.abort()
            return
        try:
            self.peer = peer_of(channel)
        except OSError:
            transport.abort()
            return
        self.app_state = {**self.app_state, "peer": self.peer}
        if not (self._is_proxy() or self._take(self._account(), Resource.CONNECTIONS)):
            transport.abort()
            return
        self._look = self.loop.call_later(LOOK_S, self._look_after, self.cycle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        super().connection_lost(exc)
        held = self._held
        self._held = ()
        for account, resource in held:
            account.give_back(resource)
        if look := getattr(self, "_look", None):
            look.cancel()

    def _is_proxy(self) -> bool:
        return self.peer.uid in self.crowds.uids or self.peer.address in self.crowds.addresses

    def _account(self) -> Account:
        if self.peer.address:
            return self.accountant.of(Principal(Kind.HOST, self.peer.address))
        unknown = self.peer.uid is None
        return self.accountant.of(NAMELESS if unknown else Principal(Kind.USER, self.peer.uid))

    def _take(self, account: Account, resource: Resource) -> bool:
        if not account.take(resource):
            return False
        self._held += ((account, resource),)
        return True

    def _look_after(self, before: object) -> None:
        """Drop connections that send slowly, and those that do not read the answer."""
        now = self.cycle
        # Whether it is the site that the other end waits for.
        answering = now is not None and not now.more_body and not now.response_started
        if now is before and not answering:
            self.transport.abort()
        else:
            self._look = self.loop.call_later(LOOK_S, self._look_after, now)


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    with suppress(ValueError):
        ip_address(host)
        if 0 <= int(port) < 65536:
            return host, int(port)
    raise ConfigError(
        f"web.listen: {listen} is neither ADDRESS:PORT, such as 127.0.0.1:8737, nor the path of a "
        "socket"
    )


@contextmanager
def _bound(host: str, port: int, listen: str) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the protocol's number asyncio does not switch Nagle's delay (40 ms) off.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as channel:
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with system_errors(ConfigError, f"web.listen: {listen}"):
            channel.bind((host, port))
            channel.listen(128)
        yield channel
