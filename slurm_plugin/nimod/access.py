"""Who may connect to nimod, how often they may ask, and whose jobs they may ask about."""

import logging
import pwd
import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

from slurm_plugin.config.settings import Access
from slurm_plugin.nimod.connection import Connection, Respond
from slurm_plugin.service.listening import Rates, peer_uid

_log = logging.getLogger(__name__)
_CONNECTIONS = 400  #: of all users together; slurmctld's are not counted
_REMEMBERED = 10_000
#: A user may have this share of the places that are left, so that no crowd takes the last ones.
_SHARE_LEFT = 0.25
_NAMELESS_S = 60.0  #: after which a uid without a name is looked up again


def reserved_socket(path: str) -> str:
    """Path of the socket on which slurmctld alone can connect, beside that of everybody.

    >>> reserved_socket("/run/nimo/nimod.sock")
    '/run/nimo/nimod.ctld'
    """
    return path.removesuffix(".sock") + ".ctld"


class UserNames:
    """User names by uid.

    They may come over the network (LDAP), so a thread of its own asks for them.

    look_up: gives the name of a uid, or raises.
    own: names that are at hand from the start.
    """

    def __init__(
        self,
        look_up: Callable[[int], str] = lambda uid: pwd.getpwuid(uid).pw_name,
        *,
        own: Mapping[int, str] = MappingProxyType({}),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look_up = look_up
        self._own = own
        self._clock = clock
        self._names: dict[int, str] = {}
        self._failed_s: dict[int, float] = {}
        self._requested: queue.SimpleQueue[tuple[int, Callable[[], None]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="names", daemon=True).start()

    def cached(self, uid: int) -> str | None:
        """Name of a user; empty for one without a name, None if there was no request lately."""
        if (name := self._own.get(uid) or self._names.get(uid)) is not None:
            return name
        failed_s = self._failed_s.get(uid)
        return None if failed_s is None or self._clock() > failed_s + _NAMELESS_S else ""

    def ask(self, uid: int, then: Callable[[], None]) -> None:
        """Find a name out and call ``then``, in the thread that finds it."""
        self._requested.put((uid, then))

    def _run(self) -> None:
        while True:
            uid, then = self._requested.get()
            if self.cached(uid) is None:
                self._find(uid)
            then()

    def _find(self, uid: int) -> None:
        for cache in (self._names, self._failed_s):
            if len(cache) >= _REMEMBERED:
                cache.clear()
        try:
            self._names[uid] = self._look_up(uid)
        except Exception as error:  # whatever a name service does, the next name is looked up
            self._failed_s[uid] = self._clock()
            _log.warning("uid %d has no name: %s", uid, error)


class ConnectionLimiter:
    """Lets peers in: everybody a few times, slurmctld always.

    limits: the site's settings.
    trusted: whether a uid may ask about all jobs: slurmctld's user and root.
    respond: makes the answer to a line.
    names: source of user names; None: they are not needed.
    later: takes a connection that may be served from now on; called in another thread.
    """

    def __init__(
        self,
        limits: Access,
        *,
        trusted: Callable[[int], bool],
        respond: Respond,
        names: UserNames | None,
        later: Callable[[Connection], None],
    ) -> None:
        self._limits = limits
        self._trusted = trusted
        self._respond = respond
        self._names = names
        self._later = later
        self._inside: Counter[int] = Counter()
        self._reported = Rates(1 / 60)  # or a user could fill the log

    def enter(self, channel: socket.socket) -> Connection | None:
        """Make a connection of a channel; None where it is refused, or its user unknown yet."""
        uid = peer_uid(channel)
        first = self._trusted(uid)
        if not first and not self.take(uid):
            self._complain(uid)
            channel.close()
            return None
        made = Connection(channel, self._respond, uid=uid, first=first)
        if first or self._names is None or self._names.cached(uid) is not None:
            return made
        self._names.ask(uid, lambda: self._later(made))
        return None

    def take(self, uid: int) -> bool:
        """Take a place for a connection of a user; False where there is none for that user."""
        left = _CONNECTIONS - self._inside.total()
        free = self._inside[uid] < min(self._limits.connections, left * _SHARE_LEFT)
        self._inside[uid] += free
        return free

    def leave(self, connection: Connection) -> None:
        """Note that a connection is over."""
        if not connection.first:
            self.give_back(connection.uid)

    def give_back(self, uid: int) -> None:
        """Give a place of a user back."""
        self._inside[uid] -= 1
        self._inside += Counter()  # without those that have none

    def _complain(self, uid: int) -> None:
        if self._reported.allow(uid, time.monotonic()):
            _log.warning("uid %d has too many connections: refused", uid)
