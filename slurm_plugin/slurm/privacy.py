"""Whose jobs a user may see, as Slurm's own commands would show them."""

import os
import pwd
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sacct_ingest.errors import SlurmError
from sacct_ingest.records import KeyLevel
from slurm_plugin.slurm.slurm_conf import CONFIG, read_settings

_ABOVE = ("Operator", "Administrator")
#: Error where nimod's user may not change other users' jobs, and the command that allows it.
NO_RIGHTS = "nimod cannot take them back; sacctmgr add user nimo account=root adminlevel=operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateDataRules:
    """Whose jobs: all where ``only_user`` is None, else those of the user and of the accounts."""

    only_user: str | None = None
    accounts: tuple[str, ...] = ()  #: that the user coordinates
    why: str = ""  #: in words, where not all are seen


def visibility(
    uid: int,
    name: str,
    *,
    owner_uid: int | None,
    run: Callable[[Sequence[str]], str],
    own_only: bool = False,
) -> PrivateDataRules:
    """Tell whose jobs a user may see: all, unless PrivateData hides them from each other.

    Root, SlurmUser, operators and the owner of the store see all; coordinators those of their
    accounts.  Where Slurm does not answer only one's own are seen.

    owner_uid: owner of the store's file; None: it is a database server.
    run: gives the output of a Slurm command; raises SlurmError.
    own_only: others' jobs are hidden whatever PrivateData says.
    """
    if uid in (0, owner_uid):
        return PrivateDataRules()
    try:
        settings = read_settings(run(CONFIG))
        if uid == settings.slurm_user or not (settings.private or own_only):
            return PrivateDataRules()
        level, accounts = _standing(run(_user(name)))
    except SlurmError as error:
        return PrivateDataRules(
            only_user=name, why=f"NIMO cannot find out whose jobs you may see: {error}"
        )
    if level in _ABOVE:
        return PrivateDataRules()
    why = "PrivateData hides others' jobs" if settings.private else "others' jobs are not shown"
    return PrivateDataRules(only_user=name, accounts=accounts, why=why)


def may_update(slurm_user: int | None, run: Callable[[Sequence[str]], str]) -> bool:
    """Whether this process may change others' jobs: as root, SlurmUser or an operator."""
    uid = os.geteuid()
    if uid in (0, slurm_user):
        return True
    try:
        return _standing(run(_user(pwd.getpwuid(uid).pw_name)))[0] in _ABOVE
    except (KeyError, SlurmError):
        return False


def is_own(level: KeyLevel, key: str, label: str, user: str) -> bool:
    """Whether an identity is made of runs of this user: key or label begins with the name."""
    begin = f"{user}/"
    own = {
        KeyLevel.TAG: key.startswith(begin),
        KeyLevel.SCRIPT: label.startswith(begin),
        KeyLevel.LINE: label.startswith(begin),
        KeyLevel.NAME: key.startswith(begin),
        KeyLevel.USER: key == user,
    }
    return own[level]


def _user(name: str) -> tuple[str, ...]:
    fields = "format=AdminLevel,Coordinators"
    return ("sacctmgr", "--noheader", "--parsable2", "show", "user", name, "withcoord", fields)


def _standing(text: str) -> tuple[str, tuple[str, ...]]:
    """Read administrator level and coordinated accounts; neither for one without association."""
    level, _, accounts = text.strip().partition("|")
    return level, tuple(one for one in accounts.strip().split(",") if one)
