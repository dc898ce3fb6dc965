"""Work that is done again and again in a thread of its own."""

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)


class Periodic:
    """Calls ``work`` with a pause after each time, or at once when woken, until stopped.

    An unexpected error is logged and the work is tried again.  The thread never keeps the process
    from ending.

    name: for logs.
    work: what to do.
    pause_s: seconds until the next call, asked after each.
    """

    def __init__(
        self, name: str, work: Callable[[], None], *, pause_s: Callable[[], float]
    ) -> None:
        self._work = work
        self._pause_s = pause_s
        self._once_more = False
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._tried = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin, with a first call now."""
        self._thread.start()

    def wake(self) -> None:
        """Do the work now."""
        self._wake.set()

    def tried(self, timeout_s: float) -> bool:
        """Wait until the work was done once, successfully or not."""
        return self._tried.wait(timeout_s)

    def stop(self, timeout_s: float, *, once_more: bool = False) -> bool:
        """End, with a last call where ``once_more`` says so; return whether that was in time."""
        self._once_more = once_more
        self._stopping.set()
        self._wake.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._once()
            self._tried.set()
            self._wake.wait(self._pause_s())
            self._wake.clear()
        if self._once_more:
            self._once()

    def _once(self) -> None:
        try:
            self._work()
        except Exception:
            _log.exception("%s: unexpected error; trying again", self._thread.name)
