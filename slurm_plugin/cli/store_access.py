"""Opening the store for a command."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_plugin.cli.context import user_name
from slurm_plugin.config import Config
from slurm_plugin.slurm import commands
from slurm_plugin.slurm.privacy import PrivateDataRules, sight

if TYPE_CHECKING:
    from sacct_ingest.store import Store


def open_store(config: Config, *, create: bool = False) -> "Store":
    """Open the configured store; it is made where ``create`` allows and it is not there yet.

    Raises
    ------
    StoreError
        It is missing, cannot be opened, or is of a newer release.
    """
    with _importing():
        from sacct_ingest.store import Store  # noqa: PLC0415 - heavy, and --help needs none

    return Store.open(config.store_url, create=create)


def sight_of(config: Config) -> PrivateDataRules:
    """Tell whose jobs the user of this process may see in the configured store."""
    return sight_for(config, os.getuid(), user_name())


def sight_for(config: Config, uid: int, name: str, *, own_only: bool = False) -> PrivateDataRules:
    """Tell whose jobs a user may see in the configured store, by what Slurm says."""
    run = partial(commands.run, timeout_s=config.snapshot.timeout_s)
    return sight(uid, name, owner_uid=_owner(config.store_url), run=run, own_only=own_only)


@contextmanager
def _importing() -> Iterator[None]:
    """Look for no garbage meanwhile: all of a module stays, and looking is a tenth of its time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _owner(url: str) -> int | None:
    """Find the owner of an SQLite file; None for a server, and for a file that is not there."""
    scheme, _, path = url.partition(":///")
    with suppress(OSError):
        return Path(path).stat().st_uid if scheme == "sqlite" else None
    return None
