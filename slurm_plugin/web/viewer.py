"""The user of a request, and whose jobs that user may see.

The kernel says who is at the other end of a connection.  For a Unix socket that is SO_PEERCRED.
For TCP on the loopback it is the owner of the socket at the other end.  The kernel is asked about
that one socket (sock_diag(7)): the answer takes no longer where there are many.  So the pages need
no password on the loopback.
"""

import pwd
import re
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from sacct_ingest.errors import ConfigError
from slurm_plugin.config.settings import Web
from slurm_plugin.service.listening import peer_uid
from slurm_plugin.slurm.slurm_conf import PrivateDataRules

#: Of linux/netlink.h, sock_diag.h and inet_diag.h.
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_ESTABLISHED, _ANY_COOKIE = 1, b"\xff" * 8
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_REQUEST = struct.Struct("=BBBBI")  # family, protocol, extensions, padding, states
_PORTS = struct.Struct(">HH")
_ANSWER = struct.Struct("=BB62xII")  # family, state; uid, inode
_AT_MOST_S = 1.0
#: What a proxy may call a user: not root, whom Slurm's accounting has as an administrator.
_NAME = re.compile(r"(?!root$)[A-Za-z0-9_][A-Za-z0-9_.@-]{0,254}\$?")
#: Uid of users that a proxy names: a name alone never makes root, Slurm's user or the owner.
NAMED = -1


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
    theirs, ours = (
        (_plain(ip_address(name[0].partition("%")[0])), name[1])
        for name in (channel.getpeername(), channel.getsockname())
    )
    if theirs[0].is_loopback:
        return Peer(uid=_owner(theirs, ours))
    return Peer(address=str(theirs[0]))


_Address = IPv4Address | IPv6Address
_End = tuple[_Address, int]


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


class Unauthenticated(Exception):  # noqa: N818 - a state, not an error
    """The user behind a request is unknown; the text says why."""


@dataclass(frozen=True, slots=True)
class User:
    """A user: an account of this host, or a name that a proxy gave (``uid`` is `NAMED`)."""

    uid: int
    name: str


@dataclass(frozen=True, slots=True)
class Viewer:
    """A user, and whose jobs the user may see."""

    name: str
    visibility: PrivateDataRules

    @property
    def everything(self) -> bool:
        """Whether the user may see all jobs."""
        return self.visibility.only_user is None


@dataclass(frozen=True, slots=True)
class Proxies:
    """Who may name the user, in which header."""

    header: str
    uids: frozenset[int] = frozenset()
    addresses: frozenset[str] = frozenset()


def proxies_of(settings: Web, uid_of: Callable[[str], int] | None = None) -> Proxies:
    """Look up the accounts of the proxies.

    Raises ConfigError: one is neither an account nor the address of another host.
    """
    look_up = uid_of or (lambda name: pwd.getpwnam(name).pw_uid)
    uids = set()
    addresses = set()
    for one in settings.proxies:
        try:
            address = ip_address(one)
        except ValueError:
            try:
                uids.add(look_up(one))
            except KeyError as error:
                raise ConfigError(
                    f"web.proxies: {one}: there is no such account here, and it is no address"
                ) from error
            continue
        if address.is_loopback:
            raise ConfigError(
                f"web.proxies: {one}: all users of this host come from there, too; name the "
                "account that the proxy runs as, such as www-data"
            )
        addresses.add(str(address))
    return Proxies(settings.user_header, frozenset(uids), frozenset(addresses))


def user_of(peer: Peer, named: Sequence[str], proxies: Proxies) -> User:
    """Return the user of a request.

    named: values of the header in which proxies name the user; only proxies are trusted to.
    Raises Unauthenticated: the peer is unknown, or a proxy names no user.
    """
    if peer.uid in proxies.uids or peer.address in proxies.addresses:
        if len(named) != 1 or not _NAME.fullmatch(named[0]):
            raise Unauthenticated(f"the proxy sends no user in {proxies.header}")
        return User(NAMED, named[0])
    if peer.uid is None:
        raise Unauthenticated("no account of this host, and no proxy that web.proxies names")
    try:
        return User(peer.uid, pwd.getpwuid(peer.uid).pw_name)
    except KeyError:
        raise Unauthenticated(f"uid {peer.uid} has no name here") from None
