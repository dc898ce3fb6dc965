"""What a service does beside its work: its class, its state to systemd, its end at a signal."""

import logging
import os
import resource
import signal

from slurm_plugin.nimod.loop import Loop
from slurm_plugin.service.systemd import notify, watchdog_s

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
        loop.run(_alive, tick_s=min(_TICK_S, within_s / 3))


def _alive() -> None:
    notify("WATCHDOG=1")
