"""Who may connect to nimod, how often they may ask, and whose jobs they may ask about."""

import logging
import pwd
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from slurm_plugin.nimod.connection import Connection, Respond
from slurm_plugin.service.accountant import (
    NAMELESS,
    NEWCOMERS,
    Account,
    Accountant,
    Kind,
    Principal,
    Resource,
)
from slurm_plugin.service.listening import peer_uid

_log = logging.getLogger(__name__)
_REMEMBERED = 10_000
_NAMELESS_S = 60.0  #: after which a uid without a name is looked up again


def refusal(account: Account) -> str:
    """Take a request off an account; why it is refused, empty where it is not."""
    for resource, amount in ((Resource.REQUESTS, 1.0), (Resource.PROCESSOR_TIME, 0.0)):
        if not account.spend(resource, amount):
            return f"{account.error(resource)}; wait a moment"
    return ""


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
    accountant: Accountant = field(default_factory=Accountant)
    own: Mapping[int, str] = field(default_factory=dict)  #: names that are at hand from the start
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._names: dict[int, str] = {}
        self._failed_s: dict[int, float] = {}
        self._requested: queue.SimpleQueue[tuple[int, Callable[[], None]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="names", daemon=True).start()

    def cached(self, uid: int) -> str | None:
        """Name of a user; empty for one without a name, None if there was no request lately."""
        if (name := self.own.get(uid) or self._names.get(uid)) is not None:
            return name
        failed_s = self._failed_s.get(uid)
        return None if failed_s is None or self.clock() > failed_s + _NAMELESS_S else ""

    def account(self, uid: int) -> Account:
        """Account that a user's connections and requests count for."""
        nameless = self._failed_s.get(uid) is not None and uid not in self._names
        return self.accountant.of(NAMELESS if nameless else Principal(Kind.USER, uid))

    def newcomers(self) -> Account:
        """Account that connections count for until their users' names are looked up."""
        return self.accountant.of(NEWCOMERS)

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
            nameless = self.accountant.of(NAMELESS)
            nameless.log(_log, "uid %d has no name: %s", uid, error)


@dataclass(kw_only=True)
class ConnectionLimiter:
    """Lets peers in: everybody as the accountant allows, slurmctld always."""

    trusted: Callable[[int], bool]  #: whether a uid may ask about all jobs: slurmctld's and root
    respond: Respond
    names: UserNames

    @property
    def accountant(self) -> Accountant:
        """Who uses how much."""
        return self.names.accountant

    def enter(
        self, channel: socket.socket, later: Callable[[Connection], None]
    ) -> Connection | None:
        """Make a connection of a channel; None where it is refused, or its user unknown yet.

        later: takes the connection once the user's name was looked up, for :meth:`settle`; in
            another thread.
        """
        uid = peer_uid(channel)
        if self.trusted(uid):
            return Connection(channel, self.respond, uid=uid)
        account = self._account(uid)
        made = Connection(channel, self.respond, uid=uid, account=account)
        if not account.spend(Resource.ARRIVALS):
            made.turn_away(account.error(Resource.ARRIVALS))
            return None
        if not self._let_in(account):
            made.turn_away(account.error(Resource.CONNECTIONS))
            return None
        if account.principal is not NEWCOMERS:
            return made
        self.names.ask(uid, lambda: later(made))
        return None

    def settle(self, connection: Connection) -> bool:
        """Count a connection for its user, whose name was looked up; False: it is refused."""
        self.leave(connection)
        account = self._account(connection.uid)
        if not self._let_in(account):
            connection.turn_away(account.error(Resource.CONNECTIONS))
            return False
        connection.account = account
        return True

    def admit(self, uid: int) -> Account | None:
        """Take a place for a request of a user that comes over a link; None: there is none."""
        account = self._account(uid)
        return account if account.take(Resource.CONNECTIONS) else None

    def leave(self, connection: Connection) -> None:
        """Note that a connection is over."""
        if connection.account is not None:
            connection.account.give_back(Resource.CONNECTIONS)
            self.accountant.whole.give_back(Resource.DESCRIPTORS)

    def _account(self, uid: int) -> Account:
        new = self.names.cached(uid) is None
        return self.names.newcomers() if new else self.names.account(uid)

    def _let_in(self, account: Account) -> bool:
        if not account.take(Resource.CONNECTIONS):
            return False
        if not self.accountant.whole.take(Resource.DESCRIPTORS):
            account.give_back(Resource.CONNECTIONS)
            return False
        return True
