"""Whose question is next: of each account one at a time, in turns."""

from collections import deque
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class FairQueues(Generic[_Item]):
    """A queue for each account, so that a crowd of one delays others by one item each.

    An account's next item waits until its last one was released: nobody piles up answers.

    each: most items of one account.
    most: most items in all.
    """

    def __init__(self, each: int = 8, most: int = 400) -> None:
        self._each, self._most = each, most
        self._waiting: dict[int, deque[_Item]] = {}  # in the order of their turns
        self._busy: set[int] = set()

    def put(self, account: int, item: _Item) -> bool:
        """Take an item; False where its account, or all together, have too many."""
        own = self._waiting.get(account, ())
        full = sum(map(len, self._waiting.values())) >= self._most
        if full or len(own) + (account in self._busy) >= self._each:
            return False
        self._waiting.setdefault(account, deque()).append(item)
        return True

    def take(self) -> _Item | None:
        """Give the next item, whose account is busy from now on; None: there is none to begin."""
        account = next((one for one in self._waiting if one not in self._busy), None)
        if account is None:
            return None
        own = self._waiting.pop(account)
        item = own.popleft()
        if own:
            self._waiting[account] = own  # behind the others
        self._busy.add(account)
        return item

    def release(self, account: int) -> None:
        """Note that the last item of an account is through."""
        self._busy.discard(account)
