"""Processor time that one request may take: counted between the steps of a decision."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import inf
from typing import TypeVar

_Item = TypeVar("_Item")
#: Of a submission.  An honest one takes under 1 ms; the hooks give up after 20.
SUBMISSION_S = 0.01


class BudgetSpent(Exception):  # noqa: N818 - a state, not an error
    """The request took all its processor time."""


class Budget:
    """Stops a request that takes more processor time than others should wait for.

    most_s: processor time of one request.
    clock: processor time of the thread that answers, seconds.
    """

    def __init__(self, most_s: float, clock: Callable[[], float]) -> None:
        self._most_s, self._clock = most_s, clock
        self._until_s = inf

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what is done inside as one request."""
        self._until_s = self._clock() + self._most_s
        try:
            yield
        finally:
            self._until_s = inf

    def check(self) -> None:
        """Go on.

        Raises BudgetSpent: the request has no time left.
        """
        if self._until_s < inf and self._clock() > self._until_s:
            raise BudgetSpent

    def each(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """Give items one by one, as :meth:`check` allows."""
        for one in items:
            self.check()
            yield one
