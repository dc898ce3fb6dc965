"""The user at the other end of a connection, from the kernel.

For a Unix socket that is SO_PEERCRED.  For TCP on the loopback it is the owner of the socket at the
other end, from ``/proc/net/tcp``.  So the pages need no password on the loopback.
"""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from slurm_plugin.listening import peer_uid

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = "01"


@dataclass(frozen=True, slots=True)
class Peer:
    """A local process's user, or the address of another host; neither: unknown."""

    uid: int | None = None
    address: str = ""


def is_looked_up(channel: socket.socket) -> bool:
    """Whether the user at the other end is to be found in the kernel's table of sockets."""
    return channel.family != socket.AF_UNIX and _end(channel.getpeername())[0].is_loopback


def peer_of(channel: socket.socket) -> Peer:
    """Return the user or the address at the other end of a connected socket."""
    if channel.family == socket.AF_UNIX:
        return Peer(uid=peer_uid(channel))
    theirs, ours = _end(channel.getpeername()), _end(channel.getsockname())
    if theirs[0].is_loopback:
        rows = (row for path in _TABLES if path.exists() for row in _rows(path))
        return Peer(uid=next((uid for row, uid in rows if row == (theirs, ours)), None))
    return Peer(address=str(theirs[0]))


_Address = IPv4Address | IPv6Address
_End = tuple[_Address, int]


def _end(name: tuple[str, int] | tuple[str, int, int, int]) -> _End:
    return _plain(ip_address(name[0].partition("%")[0])), name[1]


def _rows(path: Path) -> Iterator[tuple[tuple[_End, _End], int]]:
    """Both ends of each established connection that a process holds, and the uid of its owner.

    One that was closed by its process has no inode, and root for its owner.
    """
    for line in path.read_text().splitlines()[1:]:
        _, local, remote, state, _, _, _, uid, _, inode, *_ = line.split()
        if state == _ESTABLISHED and inode != "0":
            yield (_read(local), _read(remote)), int(uid)


def _read(text: str) -> _End:
    """Address and port as the kernel writes them: words of four bytes in the machine's order."""
    words, _, port = text.partition(":")
    packed = b"".join(
        socket.htonl(int(words[i : i + 8], 16)).to_bytes(4, "big") for i in range(0, len(words), 8)
    )
    return _plain(ip_address(packed)), int(port, 16)


def _plain(address: _Address) -> _Address:
    """IPv4 address of one that is wrapped in IPv6."""
    return getattr(address, "ipv4_mapped", None) or address
