"""What a service does beside its loop: its class, word to systemd, its end, background work."""

import logging
import os
import resource
import signal
import threading
from collections.abc import Callable

from slurm_plugin.nimod.loop import Loop
from slurm_plugin.service.listening import notify, watchdog_s

_log = logging.getLogger(__name__)
_TICK_S = 1.0  #: between looks for peers that leave us waiting


def enter_real_time_class() -> bool:
    """Have all threads answer before other processes compute, where the unit allows it.

    It is for threads that begin later, too.  A kernel with real-time group scheduling may refuse;
    answers then wait for a processor where all are busy.

    Returns bool: whether it did.
    """
    if resource.getrlimit(resource.RLIMIT_RTPRIO)[0] == 0:
        return False
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError as error:
        _log.warning("no real-time class (%s): answers are late where all cores are busy", error)
        return False
    return True


def stop_at_signals(loop: Loop) -> None:
    """End a loop at SIGTERM or SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.call_soon(loop.stop))


def answer_until_stopped(loop: Loop, socket: str) -> None:
    """Run a loop; systemd learns that it is ready and alive."""
    notify("READY=1")
    _log.info("answering on %s", socket)
    within_s = watchdog_s()
    if within_s is None:
        loop.run(lambda: None, tick_s=_TICK_S)
    else:
        loop.run(lambda: notify("WATCHDOG=1"), tick_s=min(_TICK_S, within_s / 3))


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
