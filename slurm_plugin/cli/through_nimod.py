"""Questions that users ask nimod, since only root and the owner can read the store."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sacct_ingest.errors import StoreError
from slurm_plugin.config.settings_file import SYSTEM_FILE
from slurm_plugin.nimod.line_client import LinkDown, RequestRefused, Unanswered, Unreachable

if TYPE_CHECKING:
    from slurm_plugin.config.settings import Config

TIMEOUT_S = 10.0
_Answer = TypeVar("_Answer")


def may_read_store(config: Config) -> bool:
    """Whether this is root, or the owner of the store's file; login nodes have no store."""
    if config.relay.controllers:
        return False
    if os.geteuid() == 0:
        return True
    from slurm_plugin.store_access import store_owner  # noqa: PLC0415 - heavy

    return os.geteuid() == store_owner(config)


def nimod_or_store(
    settings: Callable[[], Config],
    ask_nimod: Callable[[], _Answer],
    read_store: Callable[[Config], _Answer] | None = None,
    *,
    own: Callable[[Config], _Answer] | None = None,
    store_named: bool = False,
    local: bool = False,
) -> _Answer:
    """Ask nimod; where it does not answer, read the store, which few users may.

    Nimod has all of it loaded: to read the store takes twice as long.  Login nodes have none.
    Where no store is configured, the user's own history is read.

    settings: reads the configuration: only needed where nimod does not answer.
    read_store: reads the store of the configuration that it is given; None: only nimod can answer.
    own: reads the user's own history, if not as ``read_store`` does.
    store_named: the command line names a store, so that nimod's is not meant.
    local: the user's own history is meant.
    Raises Unreachable: nimod does not answer, and the user must not read the store; the message
        says how to start nimod, or a login node's relay; StoreError: the store cannot be read.
    """
    own = own or read_store
    if local and own:
        return own(_refreshed(settings()))
    if store_named and read_store:
        return read_store(settings())
    try:
        return ask_nimod()
    except Unreachable as error:
        refused = isinstance(error, RequestRefused)
        if own and not refused and (config := own_history_of(settings(), error)):
            return own(_refreshed(config))
        if not refused:
            not_on_login_nodes(settings(), error)
        if read_store and may_read_store(settings()):
            return read_store(settings())
        if refused:
            raise
        if read_store is None:
            raise Unreachable(f"{error}; does it run? systemctl status nimod") from error
        try:
            answer = read_store(settings())
        except StoreError as unreadable:
            raise no_answer(error) from unreadable
        print(f"nimo: {error}; read the store instead", file=sys.stderr)
        return answer


def no_answer(error: Unreachable) -> Unreachable:
    """Make the error of users who have no other way: where the store is does not help them."""
    return Unreachable(f"{error}; ask your site's admins whether nimod runs")


def own_history_is_meant(config: Config) -> bool:
    """Whether the user's own history is all there is: no store is configured, none was made."""
    from slurm_plugin.config.settings import data_folder  # noqa: PLC0415 - msgspec

    named = config.store or config.relay.controllers
    return not named and not (data_folder() / "nimo.db").exists()


def own_history_of(config: Config, error: Unreachable, *, program: str = "nimo") -> Config | None:
    """Give the configuration where the user's own history has to do; None: a store is meant.

    Says so where nimod should answer and does not.
    """
    if not own_history_is_meant(config):
        return None
    if Path(config.socket).exists() or SYSTEM_FILE.exists():
        print(f"{program}: {error}; from your own jobs instead", file=sys.stderr)
    return config


def _refreshed(config: Config) -> Config:
    from slurm_plugin.cli.own_history import refreshed  # noqa: PLC0415 - heavy

    return refreshed(config)


def not_on_login_nodes(config: Config, error: Unreachable) -> None:
    """Raise an error of a command that would read the store next, on a host that has none.

    Raises LinkDown: this is a login node, and relay or nimod hangs; Unreachable: this is a login
        node, and its relay does not run.
    """
    if config.relay.controllers and isinstance(error, Unanswered):
        where = " or ".join(config.relay.controllers)
        raise LinkDown(
            f"{error}: nimod on {where} or the relay here hangs; see 'nimo doctor' there and here"
        )
    if config.relay.controllers:
        raise Unreachable(
            f"{error}; start the relay of this login node: systemctl start nimo-relay"
        )
