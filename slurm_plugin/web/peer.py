"""The user at the other end of a connection, from the kernel.

For a Unix socket that is SO_PEERCRED.  For TCP on the loopback it is the owner of the socket at the
other end.  The kernel is asked about that one socket (sock_diag(7)): the answer takes no longer
where there are many.  So the pages need no password on the loopback.
"""

import socket
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from slurm_plugin.service.listening import peer_uid

#: Of linux/netlink.h, sock_diag.h and inet_diag.h.
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_ESTABLISHED, _ANY_COOKIE = 1, b"\xff" * 8
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_REQUEST = struct.Struct("=BBBBI")  # family, protocol, extensions, padding, states
_PORTS = struct.Struct(">HH")
_ANSWER = struct.Struct("=BB62xII")  # family, state; uid, inode
_AT_MOST_S = 1.0


@dataclass(frozen=True, slots=True)
class Peer:
    """A local process's user, or the address of another host; neither: unknown."""

    uid: int | None = None
    address: str = ""


def peer_of(channel: socket.socket) -> Peer:
    """Return the user or the address at the other end of a connected socket.

    Raises OSError: the kernel cannot be asked.
    """
    if channel.family == socket.AF_UNIX:
        return Peer(uid=peer_uid(channel))
    theirs, ours = _end(channel.getpeername()), _end(channel.getsockname())
    if theirs[0].is_loopback:
        return Peer(uid=_owner(theirs, ours))
    return Peer(address=str(theirs[0]))


_Address = IPv4Address | IPv6Address
_End = tuple[_Address, int]


def _end(name: tuple[str, int] | tuple[str, int, int, int]) -> _End:
    return _plain(ip_address(name[0].partition("%")[0])), name[1]


def _owner(local: _End, remote: _End) -> int | None:
    """Uid of the established connection with these ends, where a process holds it.

    One that was closed by its process has no inode, and root for its owner.
    """
    family = socket.AF_INET if local[0].version == 4 else socket.AF_INET6
    ends = _PORTS.pack(local[1], remote[1]) + b"".join(
        one.packed.ljust(16, b"\0") for one, _ in (local, remote)
    )
    asked = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << _ESTABLISHED)
    asked += ends + bytes(4) + _ANY_COOKIE
    size = _HEADER.size + len(asked)
    head = _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_AT_MOST_S)
        kernel.send(head + asked)
        answer = kernel.recv(4096)
    if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None
    _, state, uid, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    return uid if state == _ESTABLISHED and inode else None


def _plain(address: _Address) -> _Address:
    """IPv4 address of one that is wrapped in IPv6."""
    return getattr(address, "ipv4_mapped", None) or address
