"""Telling systemd how a service is: sd_notify(3) without its library."""

import os
import socket
from collections.abc import Mapping


def notify(state: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Send a state such as ``READY=1``; outside of systemd nothing happens.

    Returns bool: whether systemd listens.
    """
    address = environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    # A leading @ stands for the abstract namespace.
    name = f"\0{address[1:]}" if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        try:
            channel.connect(name)
            channel.sendall(state.encode())
        except OSError:
            return False
    return True


def watchdog_s(environ: Mapping[str, str] = os.environ) -> float | None:
    """Seconds within which systemd wants a sign of life; None when it does not."""
    interval, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not interval.isdecimal() or (pid and pid != str(os.getpid())):
        return None
    return int(interval) / 1e6 or None
