"""The user of a request, and whose jobs that user may see."""

import pwd
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from sacct_ingest.errors import ConfigError
from slurm_plugin.config.settings import Web
from slurm_plugin.slurm.privacy import PrivateDataRules
from slurm_plugin.web.peer import Peer

#: What a proxy may call a user: not root, whom Slurm's accounting has as an administrator.
_NAME = re.compile(r"(?!root$)[A-Za-z0-9_][A-Za-z0-9_.@-]{0,254}\$?")
#: Uid of users that a proxy names: a name alone never makes root, Slurm's user or the owner.
NAMED = -1


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
    uids, addresses = set(), set()
    for one in settings.proxies:
        try:
            address = ip_address(one)
        except ValueError:
            uids.add(_uid(one, look_up))
        else:
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
    return User(peer.uid, _name(peer.uid))


def with_admins(visibility: PrivateDataRules, name: str, admins: Sequence[str]) -> PrivateDataRules:
    """Show all to those whom the site names."""
    return PrivateDataRules() if name in admins else visibility


def _uid(name: str, look_up: Callable[[str], int]) -> int:
    try:
        return look_up(name)
    except KeyError as error:
        raise ConfigError(
            f"web.proxies: {name}: there is no such account here, and it is no address"
        ) from error


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise Unauthenticated(f"uid {uid} has no name here") from None
