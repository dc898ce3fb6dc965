"""Tags whose runs several users share, as a site's settings name them.

A user's tag is that user's own otherwise: see :mod:`sacct_ingest.scripts.signature`.
"""

from fnmatch import fnmatchcase
from typing import Annotated

import msgspec

#: Shell patterns, or one of them.
Patterns = str | tuple[str, ...]
#: No user's name begins so.
_MARK = "@"


class SharedTag(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tags that the named users, and all users of the named accounts, have in common."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,32}$")]
    application: Patterns = "*"  #: ``APP`` or ``APP/PROBLEM``
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()  #: as Slurm has them: in lower case
    #: these runs may change a job as its user's own may; otherwise they are for advice
    decide: bool = False

    def covers(self, application: str) -> bool:
        """Whether a tag, as users write it, is shared."""
        patterns = (self.application,) if isinstance(self.application, str) else self.application
        return any(fnmatchcase(application, pattern) for pattern in patterns)

    def admits(self, user: str, account: str) -> bool:
        """Whether a job of this user, under this account, takes part."""
        return user in self.users or account in self.accounts

    def key(self, application: str) -> str:
        """Key of all these users' runs with a tag.

        >>> SharedTag(name="climate").key("wrf/d02")
        '@climate/wrf/d02'
        """
        return f"{_MARK}{self.name}/{application}"


def is_shared(key: str) -> bool:
    """Whether several users' runs stand behind a key of a tag."""
    return key.startswith(_MARK)
