"""Who may connect to nimod, how often they may ask, and whose jobs they may ask about."""

import logging
import pwd
import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from slurm_plugin.config import Access
from slurm_plugin.listening import peer_uid
from slurm_plugin.nimod.connection import Connection, Respond

_log = logging.getLogger(__name__)
_CONNECTIONS = 400  #: of all users together; slurmctld's are not counted
_REMEMBERED = 10_000


@dataclass(slots=True)
class _Bucket:
    """Requests that a user may send at once, refilled as time goes by."""

    left: float
    at_s: float


class Rates:
    """Token buckets, one for each uid.

    Parameters
    ----------
    per_s
        Requests a second that a user may send for ever; twice as many at once.
    """

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._burst = max(2 * per_s, 1.0)
        self._buckets: dict[int, _Bucket] = {}

    def allow(self, uid: int, now_s: float) -> bool:
        """Take one request of a user off; False where there is none left."""
        if len(self._buckets) >= _REMEMBERED:
            self._buckets.clear()
        bucket = self._buckets.setdefault(uid, _Bucket(self._burst, now_s))
        bucket.left = min(self._burst, bucket.left + (now_s - bucket.at_s) * self._per_s)
        bucket.at_s = now_s
        if bucket.left < 1.0:
            return False
        bucket.left -= 1.0
        return True


class UserNames:
    """User names by uid.

    They may come over the network (LDAP), so a thread of its own asks for them.
    """

    def __init__(self, look_up: Callable[[int], str] = lambda uid: pwd.getpwuid(uid).pw_name):
        self._look_up = look_up
        self._known: dict[int, str] = {}
        self._wanted: queue.SimpleQueue[tuple[int, Callable[[], None]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="names", daemon=True).start()

    def known(self, uid: int) -> str | None:
        """Name of a user; empty for one without a name, None where nobody has asked yet."""
        return self._known.get(uid)

    def ask(self, uid: int, then: Callable[[], None]) -> None:
        """Find a name out and call ``then``, in the thread that finds it."""
        self._wanted.put((uid, then))

    def _run(self) -> None:
        while True:
            uid, then = self._wanted.get()
            if uid not in self._known:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[uid] = self._name(uid)
            then()

    def _name(self, uid: int) -> str:
        try:
            return self._look_up(uid)
        except Exception as error:  # whatever a name service does, the next name is looked up
            _log.warning("uid %d has no name: %s", uid, error)
            return ""


class ConnectionLimiter:
    """Lets peers in: everybody a few times, slurmctld always.

    Parameters
    ----------
    limits
        The site's settings.
    trusted
        Whether a uid may ask about all jobs: slurmctld's user and root.
    respond
        Makes the answer to a line.
    names
        Where names of users come from.
    later
        Takes a connection that may be served from now on; called in another thread.
    """

    def __init__(
        self,
        limits: Access,
        *,
        trusted: Callable[[int], bool],
        respond: Respond,
        names: UserNames,
        later: Callable[[Connection], None],
    ) -> None:
        self._limits = limits
        self._trusted = trusted
        self._respond = respond
        self._names = names
        self._later = later
        self._inside: Counter[int] = Counter()
        self._told = Rates(1 / 60)  # or a user could fill the log

    def enter(self, channel: socket.socket) -> Connection | None:
        """Make a connection of a channel; None where it is refused, or its user not known yet."""
        uid = peer_uid(channel)
        first = self._trusted(uid)
        if not first and self._full(uid):
            self._complain(uid)
            channel.close()
            return None
        made = Connection(channel, self._respond, uid=uid, first=first)
        if first:
            return made
        self._inside[uid] += 1
        if self._names.known(uid) is not None:
            return made
        self._names.ask(uid, lambda: self._later(made))
        return None

    def leave(self, connection: Connection) -> None:
        """Note that a connection is over."""
        if not connection.first:
            self._inside[connection.uid] -= 1
            self._inside += Counter()  # without those that have none

    def _complain(self, uid: int) -> None:
        if self._told.allow(uid, time.monotonic()):
            _log.warning("uid %d has too many connections: refused", uid)

    def _full(self, uid: int) -> bool:
        mine = self._inside[uid]
        return mine >= self._limits.connections or self._inside.total() >= _CONNECTIONS
