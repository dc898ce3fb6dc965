"""Values that take long to compute: cached for a while, and renewed by one thread at a time."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

_log = logging.getLogger(__name__)
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(slots=True)
class _Slot(Generic[Value]):
    lock: threading.Lock = field(default_factory=threading.Lock)
    made_s: float = 0.0
    values: list[Value] = field(default_factory=list)  #: none or one


class RefreshingCache(Generic[Key, Value]):
    """Values by key.

    make: makes the value of a key.
    keep_s: for how long a value is good.
    serve_s: up to this age an old value is returned while a thread computes a new one.  Beyond it
        the caller waits for the new value.
    most: most keys in the cache; the least recently used ones leave first.
    clock: seconds.
    """

    def __init__(
        self,
        make: Callable[[Key], Value],
        *,
        keep_s: float,
        serve_s: float = 0.0,
        most: int = 256,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._keep_s = keep_s
        self._serve_s = serve_s
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._slots: OrderedDict[Key, _Slot[Value]] = OrderedDict()

    def get(self, key: Key) -> Value:
        """Return the value of a key; compute it where the cache has none that is young enough."""
        slot = self._slot(key)
        if slot.values:
            value, age_s = slot.values[0], self._clock() - slot.made_s
            if self._keep_s < age_s <= self._serve_s:
                self._renew_beside(key, slot)
            if age_s <= max(self._keep_s, self._serve_s):
                return value
        with slot.lock:
            if not slot.values or self._clock() - slot.made_s > self._keep_s:
                self._renew(key, slot)
            return slot.values[0]

    def _slot(self, key: Key) -> _Slot[Value]:
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            while len(self._slots) > self._most:
                self._slots.popitem(last=False)
            return slot

    def _renew(self, key: Key, slot: _Slot[Value]) -> None:
        slot.values[:] = [self._make(key)]
        slot.made_s = self._clock()

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
