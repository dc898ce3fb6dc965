"""A sensor: answers others' probes, measures while it holds the token, keeps its measurements."""

import ipaddress
import logging
import secrets
import socket
import socketserver
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from sacct_ingest.errors import ProbeError, system_errors
from sacct_ingest.probes import network, wire
from sacct_ingest.probes.local import LocalProbes, share_by_load
from sacct_ingest.probes.probe_settings import Member, ProbeSettings, find
from sacct_ingest.probes.ring import Clique, Generation, Ring
from sacct_ingest.probes.wire import Channel, Message
from sacct_ingest.records import Probe

_log = logging.getLogger(__name__)
#: Measurements that wait to be collected; the oldest go first.
MOST_MEASUREMENTS = 20_000
_PAGE = 2000
_REQUEST_S = 10.0
#: Connections at a time: a clique has a few at most, one of them of a transfer for an hour.
MOST_CONNECTIONS = 64


class Sensor:
    """One host's sensor.

    members, name: the clique in its order, and which of its hosts this is.
    bind: address and port to listen on.
    key: secret that all sensors of the clique and their collectors share.
    Raises ProbeError: the name is not in the clique, the address cannot be bound, or it is open
        without a key.
    """

    def __init__(
        self,
        members: Sequence[Member],
        name: str,
        settings: ProbeSettings,
        *,
        bind: tuple[str, int],
        key: bytes = b"",
    ) -> None:
        self._members = list(members)
        self._me = find(members, name)
        self._settings = settings
        self._key = key
        self._local = LocalProbes(name, settings)
        self._measurements: deque[tuple[int, Probe]] = deque(maxlen=MOST_MEASUREMENTS)
        self._number = 0
        self._boot = secrets.token_hex(4)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._woken = threading.Event()
        self._first = 0
        self.locals = 0
        ask = partial(wire.ask, key=key, timeout_s=settings.timeout_s)
        self._ring = Ring(Clique(self._members, self._me, ask), settings, self._measure)
        self._server = _bound(bind, key, self._serve)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve and measure until `stop` is called."""
        threads = [
            threading.Thread(target=self._ring.run, args=(self._stopped,), daemon=True),
            threading.Thread(target=self._probe_locally, daemon=True),
        ]
        for thread in threads:
            thread.start()
        ready()
        try:
            self._server.serve_forever(poll_interval=0.2)
        finally:
            self._stopped.set()
            self._server.server_close()

    def stop(self) -> None:
        """Make `run` return; from another thread."""
        self._stopped.set()
        self._woken.set()
        self._server.shutdown()

    # --- measuring ----------------------------------------------------------------------------

    def _measure(self, generation: Generation, until: float) -> None:
        """Measure to all others; those not reached in this turn come first in the next."""
        others = [i for i in range(len(self._members)) if i != self._me]
        turn = others[self._first :] + others[: self._first]
        for done, place in enumerate(turn):
            if time.monotonic() + self._settings.timeout_s > until and done > 0:
                self._first = (self._first + done) % len(others)
                return
            if self._ring.superseded(generation):
                return
            probes = network.measure_pair(
                self._members[self._me].name,
                self._members[place],
                self._settings,
                key=self._key,
                generation=generation,
            )
            self._store(probes)

    def _probe_locally(self) -> None:
        while not self._stopped.is_set():
            self._woken.clear()
            self._store(self._local.measure())
            self.locals += 1
            self._woken.wait(self._settings.period_s)

    def _store(self, probes: Sequence[Probe]) -> None:
        with self._lock:
            for probe in probes:
                self._number += 1
                self._measurements.append((self._number, probe))

    # --- answering ----------------------------------------------------------------------------

    def _serve(self, link: socket.socket) -> None:
        channel = Channel(link, _REQUEST_S)
        seal = wire.Seal.new(self._key)
        try:
            channel.send(seal.greeting)
            request = seal.opened(channel, "request", longest=wire.LONGEST_REQUEST)
            answer = self._answer(request)
            channel.send(seal.sealed(answer, "answer"))
            # Time for what is measured itself, however long the request took.
            if request.get("op") == "pair":
                size, echoes = _pair(request)
                slow = Channel(link, max(_REQUEST_S, self._settings.timeout_s))
                network.serve_pair(slow, size_bytes=size, echoes=echoes)
            elif request.get("op") == "transfer" and "ok" in answer:
                slow = Channel(link, network.LONGEST_S)
                slow.skip(int(request["bytes"]))
                slow.send(network.DONE)
        except wire.Unsigned:
            # A host with another key learns from this only that its key is wrong.
            with suppress(OSError):
                channel.send(seal.sealed({"refused": "signed with another key"}, "answer"))
        except (OSError, ProbeError, ValueError) as error:
            _log.debug("a request broke off: %s", error)

    def _answer(self, request: Message) -> Message:
        handlers: dict[str, Callable[[Message], Message]] = {
            "pair": self._admit,
            "transfer": _admit_transfer,
            "load": lambda _: {"share": share_by_load()},
            "token": lambda query: _admitted(self._ring.offer(_generation(query))),
            "holds": lambda query: {"holds": self._ring.holds(_generation(query))},
            "wake": self._wake,
            "series": self._series,
        }
        handler = handlers.get(str(request.get("op")))
        if handler is None:
            return {"refused": f"no such request: {request.get('op')!r}"}
        try:
            return handler(request)
        except (KeyError, TypeError, ValueError) as error:
            return {"refused": f"not a request of ours: {error!r}"}

    def _admit(self, request: Message) -> Message:
        _pair(request)
        if request["generation"] is None:
            return {"ok": True}
        return _admitted(self._ring.admit(_generation(request)))

    def _wake(self, _: Message) -> Message:
        state = self._state()
        self._ring.wake()
        self._woken.set()
        return state

    def _state(self) -> Message:
        return {
            "boot": self._boot,
            "rounds": self._ring.rounds,
            "locals": self.locals,
            "holding": self._ring.holding,
        }

    def _series(self, request: Message) -> Message:
        after = int(request.get("after", 0)) if request.get("boot") == self._boot else 0
        with self._lock:
            page = [one for one in self._measurements if one[0] > after][:_PAGE]
        last = page[-1][0] if page else after
        probes = [asdict(probe) for _, probe in page]
        return {**self._state(), "after": last, "more": len(page) == _PAGE, "probes": probes}


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._free = threading.Semaphore(MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own; one too many is closed."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


def _bound(bind: tuple[str, int], key: bytes, serve: Callable[[socket.socket], None]) -> _Server:
    host, port = bind
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if not key and not loopback:
        raise ProbeError(
            f"{host}: without a key any host could make it send and take data; set "
            "probes.key_file, or bind to 127.0.0.1"
        )

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            serve(self.request)

    class Server(_Server):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    with system_errors(ProbeError, f"{host}:{port}"):
        return Server((host, port), Handler)


def _generation(request: Message) -> Generation:
    counter, origin = request["generation"]
    return int(counter), int(origin)


def _admitted(newer: Generation | None) -> Message:
    return {"ok": True} if newer is None else {"newer": newer}


def _admit_transfer(request: Message) -> Message:
    if not 0 < int(request["bytes"]) <= network.LARGEST_FILE:
        raise ValueError(f"at most {network.LARGEST_FILE} bytes")
    return {"ok": True}


def _pair(request: dict[str, Any]) -> tuple[int, int]:
    size = int(request["bytes"])
    echoes = int(request["echoes"])
    if not (0 < size <= network.LARGEST_MESSAGE and 0 < echoes <= network.MOST_ECHOES):
        raise ValueError(
            f"at most {network.LARGEST_MESSAGE} bytes and {network.MOST_ECHOES} echoes"
        )
    return size, echoes
