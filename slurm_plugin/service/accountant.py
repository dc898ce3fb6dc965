"""Who uses how much of a service: an account for each principal, and one table of limits.

A principal is a user (by uid), a host (by address) or a link of a relay.  What it holds
(connections, bytes in memory) is taken and given back; what it uses up (requests, bytes, processor
time) comes back with time.  Beyond a limit there is a refusal: counted, in the log once a principal
and minute, and the job passes unchanged.
"""

import logging
import resource
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Mapping
from enum import StrEnum
from math import inf
from traceback import extract_tb
from typing import Generic, NamedTuple, TypeVar

from slurm_plugin.text.formatting import printable

_log = logging.getLogger(__name__)
_MIB = 2**20
ANSWER_S = 0.5  #: processor time of one answer: others wait for it
_CLOSED = "the connection is closed"
_REFUSED = "the request is refused"
#: A principal may have this share of what is left of all, so that no crowd takes the last of it.
SHARE_LEFT = 0.25
#: Principals that are remembered: those that hold nothing and have used nothing lately are not.
_REMEMBERED = 10_000
_LONGEST = 200  #: characters of an error in the log
#: Descriptors of the process itself: store, logs, subprocesses and their pipes, libraries.
_OWN_DESCRIPTORS = 128


class Kind(StrEnum):
    """What a principal is."""

    USER = "user"
    NEWCOMERS = "newcomers"  #: users whose names are still looked up, all together
    HOST = "host"  #: of a relay
    LINK = "link"  #: of a relay
    SERVICE = "service"  #: all principals together


class Principal(NamedTuple):
    """Who uses something."""

    kind: Kind
    name: Hashable

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


#: All uids without a name: of subordinate uids (subuid(5)) one user has 65,536.
NAMELESS = Principal(Kind.USER, "without a name")
#: Those whose names are still looked up.
NEWCOMERS = Principal(Kind.NEWCOMERS, "without a name yet")
SERVICE = Principal(Kind.SERVICE, "as a whole")


class Resource(StrEnum):
    """What is used."""

    CONNECTIONS = "connections"  #: open at the same time
    ARRIVALS = "arrivals"  #: connections made
    LINKS = "links"
    DESCRIPTORS = "descriptors"
    REQUESTS = "requests"
    IN_WORK = "requests_in_work"
    QUESTIONS = "questions"  #: that take long, waiting for an answer
    REQUEST_BYTES = "request_bytes"  #: of one request
    ANSWER_BYTES = "answer_bytes"  #: of one answer
    ANSWER_TIME = "answer_time"  #: processor time of one answer
    BYTES_IN = "bytes_in"
    BYTES_HELD = "bytes_held"  #: of requests and answers that are not through
    BYTES_OUT = "bytes_out"  #: of answers that wait to be sent
    PROCESSOR_TIME = "processor_time"
    VIEW_BYTES = "view_bytes"  #: of texts in the view of the cluster
    FIT_TIME = "fit_time"
    LOG_LINES = "log_lines"
    LINES_OF_ALL = "log_lines_of_all"


class Limit(NamedTuple):
    """One row of the table of limits."""

    kind: Kind
    resource: Resource
    most: float  #: that one principal holds, or uses at once
    words: str  #: the limit as people say it, ``{per_s}`` and ``{most}`` filled in
    beyond: str  #: what happens
    per_s: float = 0.0  #: that comes back every second; 0: it is given back
    all_most: float = inf  #: that all principals of the kind hold together


#: The table.  What a site sets (``access``) takes the place of the numbers here.
LIMITS: tuple[Limit, ...] = (
    Limit(Kind.USER, Resource.CONNECTIONS, 16, "{most:g} connections", _CLOSED, all_most=400),
    Limit(Kind.USER, Resource.ARRIVALS, 40, "{per_s:g} new connections a second", _CLOSED, 20),
    Limit(Kind.USER, Resource.REQUESTS, 40, "{per_s:g} requests a second", _CLOSED, 20),
    # An honest request takes under 1 ms, and at most 10.
    Limit(Kind.USER, Resource.PROCESSOR_TIME, 0.2, "5 % of a processor", _CLOSED, 0.05),
    Limit(
        Kind.USER, Resource.REQUEST_BYTES, _MIB // 4, "256 KiB in a request", _CLOSED
    ),
    Limit(Kind.USER, Resource.ANSWER_BYTES, 4 * _MIB, "4 MiB in an answer", _REFUSED),
    Limit(
        Kind.USER, Resource.ANSWER_TIME, ANSWER_S,
        "{most:g} s of processor time for an answer", _REFUSED,
    ),
    # The hooks send 64 KiB of a script, which a site can double.
    Limit(Kind.USER, Resource.BYTES_IN, 8 * _MIB, "4 MiB a second", _CLOSED, 4 * _MIB),
    Limit(
        Kind.USER, Resource.BYTES_HELD, 12 * _MIB, "12 MiB in memory", _CLOSED,
        all_most=64 * _MIB,
    ),
    Limit(
        Kind.USER, Resource.QUESTIONS, 8, "{most:g} questions that wait", _REFUSED, all_most=400
    ),
    # A connection has one in work.
    Limit(
        Kind.USER, Resource.IN_WORK, 16, "{most:g} requests in work of a relay", _REFUSED,
        all_most=256,
    ),
    Limit(
        Kind.USER, Resource.VIEW_BYTES, 4 * _MIB, "4 MiB of names, comments and folders of jobs",
        "these texts of the user's jobs are not read: only their nodes and limits count",
        all_most=64 * _MIB,
    ),
    Limit(
        Kind.USER, Resource.FIT_TIME, 300, "5 min of a fit, beyond 200 applications",
        "the user's other applications wait for the next fit",
    ),
    Limit(Kind.USER, Resource.LOG_LINES, 1, "one line a minute", "the line is left out", 1 / 60),
    Limit(Kind.NEWCOMERS, Resource.CONNECTIONS, 64, "{most:g} connections", _CLOSED),
    Limit(
        Kind.NEWCOMERS, Resource.ARRIVALS, 400, "{per_s:g} new connections a second", _CLOSED, 200
    ),
    Limit(
        Kind.NEWCOMERS, Resource.LOG_LINES, 1, "one line a minute", "the line is left out", 1 / 60
    ),
    # A relay needs one link, and another one while the last is not given up yet.
    Limit(Kind.HOST, Resource.LINKS, 4, "{most:g} links", "the link is refused", all_most=256),
    Limit(Kind.HOST, Resource.ARRIVALS, 200, "{per_s:g} new connections a second", _CLOSED, 50),
    Limit(Kind.HOST, Resource.LOG_LINES, 1, "one line a minute", "the line is left out", 1 / 60),
    Limit(
        Kind.HOST, Resource.CONNECTIONS, 32,
        "{most:g} connections that have not shown who they are", "the oldest of them is closed",
        all_most=160,
    ),
    Limit(Kind.LINK, Resource.REQUESTS, 800, "{per_s:g} requests a second", _REFUSED, 400),
    Limit(Kind.LINK, Resource.IN_WORK, 256, "{most:g} requests in work", _REFUSED),
    Limit(Kind.LINK, Resource.PROCESSOR_TIME, 0.05, "10 % of a processor", _REFUSED, 0.1),
    Limit(
        Kind.LINK, Resource.BYTES_IN, 2 * _MIB, "4 MiB a second", "nothing is read for a moment",
        4 * _MIB,
    ),
    Limit(
        Kind.LINK, Resource.BYTES_HELD, 4 * _MIB, "4 MiB of requests in work", _REFUSED,
        all_most=32 * _MIB,
    ),
    Limit(Kind.LINK, Resource.BYTES_OUT, 16 * _MIB, "16 MiB to be sent", _REFUSED),
    Limit(Kind.LINK, Resource.LOG_LINES, 1, "one line a minute", "the line is left out", 1 / 60),
    # What LimitNOFILE leaves beside store, subprocesses and libraries.
    Limit(Kind.SERVICE, Resource.LOG_LINES, 1, "one line a minute", "the line is left out", 1 / 60),
    # A connection that is refused costs 20 µs: a thousand at once, and 5,000 a second.
    Limit(
        Kind.SERVICE, Resource.PROCESSOR_TIME, 0.02, "10 % of a processor for new connections",
        "users' connections wait for a moment", 0.1,
    ),
    Limit(
        Kind.SERVICE, Resource.FIT_TIME, 600, "10 min of a fit",
        "who had 200 applications fitted has the others fitted at the next",
    ),
    Limit(Kind.SERVICE, Resource.DESCRIPTORS, 896, "{most:g} descriptors", _CLOSED),
    Limit(
        Kind.SERVICE, Resource.LINES_OF_ALL, 60, "60 lines a minute for what principals cause",
        "the line is left out", 1.0,
    ),
)  # fmt: skip


class Refusals(NamedTuple):
    """How often a limit was reached."""

    kind: Kind
    resource: Resource
    times: int


class Account:
    """What one principal holds and has used.

    Made by :meth:`Accountant.of`; methods may be called from any thread.
    """

    __slots__ = ("_accountant", "_at_s", "_held", "_left", "principal")

    def __init__(self, accountant: "Accountant", principal: Principal) -> None:
        self.principal = principal
        self._accountant = accountant
        self._held: dict[Resource, float] = {}
        self._left: dict[Resource, float] = {}
        self._at_s: dict[Resource, float] = {}

    def take(self, resource: Resource, amount: float = 1.0) -> bool:
        """Hold so much more; False, counted and logged, where that is beyond the limit."""
        limit = self._accountant.limit(self.principal.kind, resource)
        with self._accountant.lock:
            held = self._held.get(resource, 0.0)
            totals = self._accountant.totals
            key = self.principal.kind, resource
            share = (limit.all_most - totals[key]) * SHARE_LEFT
            if held + amount <= limit.most and held < share:
                self._held[resource] = held + amount
                totals[key] += amount
                return True
        self.refuse(resource)
        return False

    def give_back(self, resource: Resource, amount: float = 1.0) -> None:
        """Hold so much less."""
        with self._accountant.lock:
            left = self._held.get(resource, 0.0) - amount
            if left > 0.0:
                self._held[resource] = left
            else:
                self._held.pop(resource, None)
            self._accountant.totals[self.principal.kind, resource] -= amount

    def held(self, resource: Resource) -> float:
        """How much it holds."""
        return self._held.get(resource, 0.0)

    def spend(self, resource: Resource, amount: float = 1.0) -> bool:
        """Use so much; False, counted and logged, where there is not so much left.

        Of amounts larger than the limit all that there may be has to be left.
        """
        if self._spent(resource, amount):
            return True
        self.refuse(resource)
        return False

    def charge(self, resource: Resource, amount: float) -> None:
        """Note so much as used, whatever is left: what follows waits until it has come back."""
        limit = self._accountant.limit(self.principal.kind, resource)
        with self._accountant.lock:
            self._left[resource] = self._refilled(limit) - amount

    def wait_s(self, resource: Resource) -> float:
        """Seconds until there is something left of what comes back with time."""
        limit = self._accountant.limit(self.principal.kind, resource)
        with self._accountant.lock:
            return max(-self._refilled(limit) / limit.per_s, 0.0)

    def refuse(self, resource: Resource) -> None:
        """Count a refusal, and log it if this principal was not in the log for a minute."""
        self._count(resource)
        if self._may_log():
            beyond = self._accountant.limit(self.principal.kind, resource).beyond
            _log.warning("%s: %s", self.error(resource), beyond)

    def error(self, resource: Resource) -> str:
        """Say which limit is reached, in words for people."""
        limit = self._accountant.limit(self.principal.kind, resource)
        words = limit.words.format(most=limit.most, per_s=limit.per_s)
        return f"{self.principal} has reached the limit of {words}"

    def log(
        self, log: logging.Logger, text: str, *values: object, level: int = logging.WARNING
    ) -> None:
        """Log a line that this principal has caused, unless it has caused one in this minute."""
        if self._may_log():
            log.log(level, text, *values)
        else:
            self._count(Resource.LOG_LINES)

    def log_error(self, log: logging.Logger, what: str, error: Exception) -> None:
        """Log an unexpected error in one line: its place, and its text, which may be the user's."""
        last = extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} in {last.filename}:{last.lineno}"
        text = printable(str(error))[:_LONGEST]
        self.log(log, "%s (%s): %s: %s", what, self.principal, place, text, level=logging.ERROR)

    @property
    def holds(self) -> bool:
        """Whether there is anything that it has not given back."""
        return bool(self._held)

    def idle(self) -> bool:
        """Whether it holds nothing and all that it has used came back; under the lock."""
        kind = self.principal.kind
        limits = [self._accountant.limit(kind, resource) for resource in self._left]
        return not self.holds and all(self._refilled(one) >= one.most for one in limits)

    def _may_log(self) -> bool:
        whole = self._accountant.whole
        return self._spent(Resource.LOG_LINES, 1.0) and whole._spent(Resource.LINES_OF_ALL, 1.0)

    def _count(self, resource: Resource) -> None:
        with self._accountant.lock:
            self._accountant.refused[self.principal.kind, resource] += 1

    def _spent(self, resource: Resource, amount: float) -> bool:
        limit = self._accountant.limit(self.principal.kind, resource)
        with self._accountant.lock:
            left = self._refilled(limit)
            if left < min(amount, limit.most):
                return False
            self._left[resource] = left - amount
            return True

    def _refilled(self, limit: Limit) -> float:
        now_s = self._accountant.clock()
        before_s = self._at_s.get(limit.resource, now_s)
        left = self._left.get(limit.resource, limit.most)
        left = min(limit.most, left + (now_s - before_s) * limit.per_s)
        self._at_s[limit.resource] = now_s
        self._left[limit.resource] = left
        return left


class Accountant:
    """Keeps the accounts of a process.

    requests_per_s, connections: of a user, where the site sets other ones than the table.
    descriptors: that the process may have besides those for itself; None: those of the table.
    clock: seconds, rising.
    """

    def __init__(
        self,
        *,
        requests_per_s: float | None = None,
        connections: int | None = None,
        descriptors: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = {(one.kind, one.resource): one for one in LIMITS}
        if requests_per_s is not None:
            for resource in (Resource.REQUESTS, Resource.ARRIVALS):
                key = Kind.USER, resource
                burst = max(2 * requests_per_s, 1.0)
                limits[key] = limits[key]._replace(per_s=requests_per_s, most=burst)
        if connections is not None:
            key = Kind.USER, Resource.CONNECTIONS
            limits[key] = limits[key]._replace(most=connections)
        if descriptors is not None:
            key = Kind.SERVICE, Resource.DESCRIPTORS
            limits[key] = limits[key]._replace(most=descriptors)
        self._limits: Mapping[tuple[Kind, Resource], Limit] = limits
        self.clock = clock
        self.lock = threading.Lock()
        self.totals: dict[tuple[Kind, Resource], float] = defaultdict(float)
        self.refused: Counter[tuple[Kind, Resource]] = Counter()
        self._accounts: dict[Principal, Account] = {}
        self.whole = self.of(SERVICE)

    def of(self, principal: Principal) -> Account:
        """Give the account of a principal."""
        account = self._accounts.get(principal)
        if account is not None:
            return account
        if len(self._accounts) >= _REMEMBERED:
            self.forget()
        with self.lock:
            return self._accounts.setdefault(principal, Account(self, principal))

    def __len__(self) -> int:
        """Principals that are remembered."""
        return len(self._accounts)

    def limit(self, kind: Kind, resource: Resource) -> Limit:
        """Give a row of the table; one without a limit where there is none."""
        return self._limits.get((kind, resource)) or Limit(kind, resource, inf, "", "")

    def refusals(self) -> list[Refusals]:
        """How often limits were reached since the beginning."""
        refused = sorted(self.refused.copy().items())
        return [Refusals(kind, resource, times) for (kind, resource), times in refused]

    def forget(self) -> None:
        """Forget those of whom nothing is left to remember.

        Where that leaves too many, half of those that hold nothing go, too: first those that came
        first.
        """
        with self.lock:
            busy = {who: account for who, account in self._accounts.items() if not account.idle()}
            if len(busy) >= _REMEMBERED:
                without = [who for who, account in busy.items() if not account.holds]
                for who in without[: len(without) // 2]:
                    del busy[who]
            self._accounts = busy


def spare_descriptors() -> int:
    """Descriptors that the process may give to its peers (``LimitNOFILE`` of its unit)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(soft - _OWN_DESCRIPTORS, _OWN_DESCRIPTORS)


_Item = TypeVar("_Item")


class FairTurns:
    """Whose turn it is: of those that wait the one that took least.

    One that comes after a pause goes before all that have been busy since, and has no more credit
    for it (start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM 1996).
    """

    def __init__(self) -> None:
        self._took_s: dict[Account, float] = {}
        self._now_s = 0.0  # what the one that was served last had taken by then

    def took(self, account: Account) -> float:
        """Seconds by which accounts are ordered; the least goes first."""
        return max(self._took_s.get(account, 0.0), self._now_s)

    def serve(self, account: Account) -> None:
        """Note that it is the turn of an account."""
        self._now_s = self.took(account)

    def charge(self, account: Account, seconds: float) -> None:
        """Note how long a turn of an account took."""
        if len(self._took_s) >= _REMEMBERED:
            # Of the others nothing is to be remembered.
            self._took_s = {one: s for one, s in self._took_s.items() if s > self._now_s}
        self._took_s[account] = self.took(account) + seconds


class FairQueues(Generic[_Item]):
    """A queue for each account; next is that whose items took least time.

    An account's next item waits until its last one was released: nobody piles up answers.

    resource: what an item takes of its account until it is released; None: nothing.
    """

    def __init__(self, resource: Resource | None = None, turns: FairTurns | None = None) -> None:
        self._resource = resource
        self._turns = turns or FairTurns()
        self._waiting: dict[Account, deque[_Item]] = {}  # in the order of their turns
        self._busy: set[Account] = set()

    def __bool__(self) -> bool:
        return not self._waiting.keys() <= self._busy

    def put(self, account: Account, item: _Item) -> bool:
        """Take an item; False where its account, or all together, have too many."""
        if self._resource is not None and not account.take(self._resource):
            return False
        self._waiting.setdefault(account, deque()).append(item)
        return True

    def first(self) -> Account | None:
        """Account of the next item; None: there is none to begin."""
        able = (one for one in self._waiting if one not in self._busy)
        return min(able, key=self._turns.took, default=None)

    def take(self) -> _Item | None:
        """Give the next item, whose account is busy from now on; None: there is none to begin."""
        account = self.first()
        if account is None:
            return None
        self._turns.serve(account)
        waiting = self._waiting.pop(account)
        item = waiting.popleft()
        if waiting:
            self._waiting[account] = waiting  # behind the others
        self._busy.add(account)
        return item

    def charge(self, account: Account, seconds: float) -> None:
        """Note how long an item of an account took."""
        self._turns.charge(account, seconds)

    def release(self, account: Account) -> None:
        """Note that the last item of an account is through."""
        self._busy.discard(account)
        if self._resource is not None:
            account.give_back(self._resource)
