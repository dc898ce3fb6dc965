"""Turns of users in a refit: thousands of applications of one hold up nobody else's."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from sacct_ingest.records import KeyLevel

#: Identities of one user that are fitted before those of everybody were; then as many again.
TURN = 200
#: Identities of such a later turn of all users: their keys stand in one query.
_TURN_OF_ALL = 5_000


class TimeLimit(Protocol):
    """How much of the time of a refit each user may take."""

    def took(self, user: str, seconds: float) -> None:
        """Take note of what one of a user's identities took, seconds of all workers."""

    def may_go_on(self, user: str) -> bool:
        """Whether more of a user's identities may be fitted."""


class UserTurns:
    """Which identities are fitted first: so many of each user, then as many again.

    only: identities to look at; None: all.
    """

    def __init__(self, only: Collection[tuple[KeyLevel, str]] | None) -> None:
        self.only = only
        self._taken: Counter[str] = Counter()
        self._put_off: dict[str, deque[tuple[KeyLevel, str]]] = {}
        self.first = True  #: this is the first turn: who has how many is not known yet

    def each(self, may_go_on: Callable[[str], bool]) -> Iterator[None]:
        """Begin one turn after the other, as long as somebody waits who may have one more.

        may_go_on: whether a user may.
        """
        yield
        self.first = False
        while some := self._next(may_go_on):
            self.only = some
            yield

    def waiting(self) -> dict[str, int]:
        """Count the identities that had no turn, by user."""
        return {user: len(put_off) for user, put_off in self._put_off.items()}

    def takes(self, owner: str, level: KeyLevel, key: str) -> bool:
        """Whether an identity is fitted in this turn; if not, it waits for a later one.

        owner: whose it is; empty: of several users, whom nobody else holds up.
        """
        if not self.first or not owner:
            return True
        self._taken[owner] += 1
        if self._taken[owner] <= TURN:
            return True
        self._put_off.setdefault(owner, deque()).append((level, key))
        return False

    def _next(self, may_go_on: Callable[[str], bool]) -> set[tuple[KeyLevel, str]]:
        """Give as many identities of each user as one may have, and of all together."""
        some: set[tuple[KeyLevel, str]] = set()
        for user in list(self._put_off):
            if len(some) + TURN > _TURN_OF_ALL:
                break
            if not may_go_on(user):
                continue
            put_off = self._put_off.pop(user)
            for _ in range(min(TURN, len(put_off))):
                some.add(put_off.popleft())
            if put_off:
                self._put_off[user] = put_off  # behind the others
        return some
