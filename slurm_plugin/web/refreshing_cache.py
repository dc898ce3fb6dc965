"""Values that take long to make: an old one is shown while a new one is made."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

_log = logging.getLogger(__name__)
_SHARE = 0.05  #: of the time that making values again may take

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(slots=True)
class _Slot(Generic[Value]):
    lock: threading.Lock = field(default_factory=threading.Lock)
    made_s: float = 0.0
    took_s: float = 0.0
    values: list[Value] = field(default_factory=list)  #: none or one
    off_shelf: bool = False  #: the value is one of another process


class Shelf(Protocol[Value]):
    """Where values are kept for the next process."""

    def find(self, key: Hashable) -> tuple[Value, float] | None:
        """Give a value and its age in seconds; None: there is none."""

    def put(self, key: Hashable, value: Value) -> None:
        """Keep a value that was just made."""


class NotReady(Exception):  # noqa: N818 - a state, not an error
    """What a page is made of is still being computed."""


class RefreshingCache(Generic[Key, Value]):
    """Values by key.

    make: makes the value of a key.
    keep_s: for how long a value is good; one that takes long to make is good for longer.
    serve_s: up to this age an old value is returned while a thread computes a new one.  Beyond it
        the caller waits for the new value.
    most: most keys in the cache; the least recently used ones leave first.
    shelf: has what the process before made; None: nothing is kept.
    first_s: for how long a caller waits for a new value in place of one off the shelf; 0: that is
        as good as any.
    clock: seconds.
    """

    def __init__(
        self,
        make: Callable[[Key], Value],
        *,
        keep_s: float,
        serve_s: float = 0.0,
        most: int = 256,
        shelf: Shelf[Value] | None = None,
        first_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._keep_s = keep_s
        self._serve_s = serve_s
        self._most = most
        self._shelf = shelf
        self._first_s = first_s
        self._clock = clock
        self._lock = threading.Lock()
        self._slots: OrderedDict[Key, _Slot[Value]] = OrderedDict()

    def get(self, key: Key, *, patience_s: float | None = None) -> Value:
        """Return the value of a key; compute it where the cache has none that is young enough.

        patience_s: for how long to wait for it; None: until it is there.
        Raises NotReady: it takes longer.
        """
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            while len(self._slots) > self._most:
                self._slots.popitem(last=False)
        if self._shelf and not slot.values:
            self._take_down(self._shelf, key, slot)
        self._await_first(key, slot)
        if slot.values:
            value = slot.values[0]
            age_s = self._clock() - slot.made_s
            keep_s = self._good_s(slot)
            if keep_s < age_s <= self._serve_s:
                self._renew_beside(key, slot)
            if age_s <= max(keep_s, self._serve_s):
                return value
        if patience_s is not None:
            self._renew_beside(key, slot)
        if not slot.lock.acquire(timeout=-1 if patience_s is None else patience_s):
            raise NotReady
        try:
            if not slot.values or self._clock() - slot.made_s > self._good_s(slot):
                self._renew(key, slot)
            return slot.values[0]
        finally:
            slot.lock.release()

    def age_s(self, key: Key) -> float:
        """Age of what there is of a key; 0: there is nothing."""
        slot = self._slots.get(key)
        return self._clock() - slot.made_s if slot and slot.values else 0.0

    def _take_down(self, shelf: Shelf[Value], key: Key, slot: _Slot[Value]) -> None:
        """Begin with what the process before made; while one is being made nobody waits for it."""
        if not slot.lock.acquire(blocking=False):
            return
        try:
            found = None if slot.values else shelf.find(key)
            if found:
                value, age_s = found
                slot.made_s = self._clock() - age_s
                slot.values[:] = [value]
                slot.off_shelf = True
        finally:
            slot.lock.release()

    def _await_first(self, key: Key, slot: _Slot[Value]) -> None:
        """Wait a little for a new value in place of one off the shelf."""
        if slot.off_shelf and self._first_s:
            self._renew_beside(key, slot)
            if slot.lock.acquire(timeout=self._first_s):
                slot.lock.release()

    def _good_s(self, slot: _Slot[Value]) -> float:
        return max(self._keep_s, slot.took_s / _SHARE)

    def _renew(self, key: Key, slot: _Slot[Value]) -> None:
        began_s = self._clock()
        slot.values[:] = [self._make(key)]
        slot.off_shelf = False
        slot.made_s = self._clock()
        slot.took_s = slot.made_s - began_s
        if self._shelf:
            self._shelf.put(key, slot.values[0])

    def _renew_beside(self, key: Key, slot: _Slot[Value]) -> None:
        if not slot.lock.acquire(blocking=False):
            return

        def work() -> None:
            try:
                self._renew(key, slot)
            except Exception:
                _log.exception("what is shown stays %.0f s old", self._clock() - slot.made_s)
            finally:
                slot.lock.release()

        threading.Thread(target=work, name="renew", daemon=True).start()
