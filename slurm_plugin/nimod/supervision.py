"""What a service does beside its work: report its state to systemd, and end at a signal."""

import logging
import signal

from slurm_plugin.nimod.loop import Loop
from slurm_plugin.systemd import notify, watchdog_s

_log = logging.getLogger(__name__)
_TICK_S = 1.0  #: between looks for peers that leave us waiting


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
