"""Unix sockets: one server on each at a time, and who connected."""

import logging
import os
import socket
import stat
import struct
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sacct_ingest.errors import ConfigError
from sacct_ingest.files.atomic_file import Busy, locked

_log = logging.getLogger(__name__)
#: Everybody may ask for advice; what only slurmctld may ask is decided by the peer's uid.
_MODE = 0o666
_PEERCRED = struct.Struct("3i")  # pid, uid, gid: unix(7)
_PRIVATE_MODE = 0o600
#: An access list of POSIX as the kernel takes it: a version, then entries of tag, rights and id.
#: The tags rise (acl(5), linux/posix_acl_xattr.h).
_ACL_VERSION, _ACL_ENTRY = struct.pack("<I", 2), struct.Struct("<HHI")
_OWNER, _USER, _GROUP, _MASK, _OTHER, _NO_ID = 0x01, 0x02, 0x04, 0x10, 0x20, 0xFFFFFFFF
_READ_WRITE = 6


@contextmanager
def bound_socket(
    path: str | Path, program: str = "nimod", *, only: Collection[int] | None = None
) -> Iterator[socket.socket]:
    """Give a bound Unix socket, which is closed and removed when the context is left.

    A lock beside the socket shows whether another nimod runs; a socket that one left behind is
    removed.

    path: where the socket is to be.
    program: who listens, for people.
    only: uids that may connect, besides our own and root; None: everybody.
    Raises ConfigError: another one has it, or it cannot be made there.
    """
    path = Path(path)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path))
            _clear(path)
            channel = _bind(path, only)
        except Busy as error:
            raise ConfigError(
                f"socket {path}: another {program} has it (process {error.pid}); "
                "stop that one first"
            ) from error
        except OSError as error:
            raise ConfigError(f"socket {path}: {error.strerror or error}") from error
        stack.callback(path.unlink, missing_ok=True)
        yield stack.enter_context(channel)


def _clear(path: Path) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise ConfigError(f"socket {path}: there is something else; move it away")
    path.unlink()


def _bind(path: Path, only: Collection[int] | None) -> socket.socket:
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777 & ~(_MODE if only is None else _PRIVATE_MODE))
    try:
        channel.bind(str(path))
        if only is not None:
            try:
                let_in(path, only)
            except OSError as error:  # no access lists on this file system
                _log.warning("%s: %s; only this user and root may connect", path, error)
    except OSError:
        channel.close()
        raise
    finally:
        os.umask(before)
    # All waiting connections are accepted or refused at once, so later ones have room.
    channel.listen(1024)
    return channel


def let_in(path: str | Path, uids: Collection[int]) -> None:
    """Let only these users, ourselves and root connect to a socket of ours.

    Raises OSError: it is not ours, or its file system has no access lists.
    """
    others = sorted(set(uids) - {0, os.geteuid()})
    entries = [
        (_OWNER, _READ_WRITE, _NO_ID),
        *((_USER, _READ_WRITE, uid) for uid in others),
        (_GROUP, 0, _NO_ID),
        (_MASK, _READ_WRITE, _NO_ID),
        (_OTHER, 0, _NO_ID),
    ]
    value = _ACL_VERSION + b"".join(_ACL_ENTRY.pack(*entry) for entry in entries)
    os.setxattr(path, "system.posix_acl_access", value)


def peer_uid(channel: socket.socket) -> int:
    """Uid of the process that connected, as the kernel saw it then (SO_PEERCRED)."""
    credentials = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size)
    uid: int = _PEERCRED.unpack(credentials)[1]
    return uid


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
    interval = environ.get("WATCHDOG_USEC", "")
    pid = environ.get("WATCHDOG_PID", "")
    if not interval.isdecimal() or (pid and pid != str(os.getpid())):
        return None
    return int(interval) / 1e6 or None
