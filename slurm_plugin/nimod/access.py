"""Who may connect to nimod, how often they may ask, and whose jobs they may ask about."""

import logging
import pwd
import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from slurm_plugin.config.settings import Access
from slurm_plugin.nimod.connection import Connection, Respond
from slurm_plugin.service.listening import peer_uid
from slurm_plugin.service.request_rates import Complaints

_log = logging.getLogger(__name__)
_CONNECTIONS = 400  #: of all users together; slurmctld's are not counted
_REMEMBERED = 10_000
#: A user may have this share of the places that are left, so that no crowd takes the last ones.
_SHARE_LEFT = 0.25
#: Account of all uids without a name: of subordinate uids (subuid(5)) one user has 65,536.
NAMELESS = -1
#: Account of those whose names are still looked up, and their places.
UNNAMED, _UNNAMED = -2, 64
_NAMELESS_S = 60.0  #: after which a uid without a name is looked up again


def reserved_socket(path: str) -> str:
    """Path of the socket on which slurmctld alone can connect, beside that of everybody.

    >>> reserved_socket("/run/nimo/nimod.sock")
    '/run/nimo/nimod.ctld'
    """
    return path.removesuffix(".sock") + ".ctld"


@dataclass
class UserNames:
    """User names by uid.

    They may come over the network (LDAP), so a thread of its own asks for them.
    """

    #: gives the name of a uid, or raises
    look_up: Callable[[int], str] = lambda uid: pwd.getpwuid(uid).pw_name
    _: KW_ONLY
    own: Mapping[int, str] = field(default_factory=dict)  #: names that are at hand from the start
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._names: dict[int, str] = {}
        self._failed_s: dict[int, float] = {}
        self._complaints = Complaints(_log)
        self._requested: queue.SimpleQueue[tuple[int, Callable[[], None]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="names", daemon=True).start()

    def cached(self, uid: int) -> str | None:
        """Name of a user; empty for one without a name, None if there was no request lately."""
        if (name := self.own.get(uid) or self._names.get(uid)) is not None:
            return name
        failed_s = self._failed_s.get(uid)
        return None if failed_s is None or self.clock() > failed_s + _NAMELESS_S else ""

    def account(self, uid: int) -> int:
        """Uid that places and requests of a user count for."""
        return NAMELESS if self.cached(uid) == "" else uid

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
            self._names[uid] = self.look_up(uid)
        except Exception as error:  # whatever a name service does, the next name is looked up
            self._failed_s[uid] = self.clock()
            self._complaints.log(NAMELESS, "uid %d has no name: %s", uid, error)


@dataclass(kw_only=True)
class ConnectionLimiter:
    """Lets peers in: everybody a few times, slurmctld always."""

    limits: Access
    trusted: Callable[[int], bool]  #: whether a uid may ask about all jobs: slurmctld's and root
    respond: Respond
    names: UserNames

    def __post_init__(self) -> None:
        self._inside: Counter[int] = Counter()
        self._complaints = Complaints(_log)

    def enter(
        self, channel: socket.socket, later: Callable[[Connection], None]
    ) -> Connection | None:
        """Make a connection of a channel; None where it is refused, or its user unknown yet.

        later: takes the connection once the user's name was looked up, for :meth:`settle`; in
            another thread.
        """
        uid = peer_uid(channel)
        first = self.trusted(uid)
        account = uid if first else self.admit(uid)
        if account is None:
            channel.close()
            return None
        made = Connection(channel, self.respond, uid=uid, account=account, first=first)
        if first or self.names.cached(uid) is not None:
            return made
        self.names.ask(uid, lambda: later(made))
        return None

    def settle(self, connection: Connection) -> bool:
        """Count a connection for its user, whose name was looked up; False: it is refused."""
        account = self.admit_named(connection.uid)
        if account is None:
            connection.close()
            return False
        connection.account = account
        return True

    def admit(self, uid: int) -> int | None:
        """Take a place for a user; the account that it counts for, None where there is none.

        A user whose name was not looked up yet has one of few places, until :meth:`admit_named`.
        """
        unnamed = self.names.cached(uid) is None
        account = UNNAMED if unnamed else self.names.account(uid)
        most = _UNNAMED if unnamed else self.limits.connections
        left = _CONNECTIONS - self._inside.total()
        if self._inside[account] >= min(most, left * _SHARE_LEFT):
            shown = uid if unnamed else account
            whose = "uids without a name have" if shown == NAMELESS else f"uid {shown} has"
            self._complaints.log(shown, "%s too many connections: refused", whose)
            return None
        self._inside[account] += 1
        return account

    def admit_named(self, uid: int) -> int | None:
        """Take a place for a user whose name was looked up, in exchange for one without."""
        self.give_back(UNNAMED)
        return self.admit(uid)

    def leave(self, connection: Connection) -> None:
        """Note that a connection is over."""
        if not connection.first:
            self.give_back(connection.account)

    def give_back(self, account: int) -> None:
        """Give a place of a user back."""
        self._inside[account] -= 1
        self._inside += Counter()  # without those that have none
