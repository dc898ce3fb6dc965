"""Which database a store is: whether a process still has the one that it opened.

An SQLite file that was deleted or replaced lives on for who has it open: what is written there is
lost.  On a server a database may be dropped and made anew.  So each store has a random number among
its counters, and of an SQLite file the inode is compared.
"""

import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Engine, insert, select

from sacct_ingest.errors import StoreError
from sacct_ingest.store.engine import path_of, reading, writing
from sacct_ingest.store.schema import counters

_NAME: Final = "store"
_BITS: Final = 62


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """Number of a store (None: it has none yet), and device and inode of its file."""

    number: int | None
    file: tuple[int, int] | None = None


def identify(engine: Engine) -> StoreIdentity:
    """Tell which store an engine is connected to; one without a number gets it.

    Raises StoreError: it cannot be read.
    """
    with reading(engine) as connection:
        number = _number(connection)
    if number is None:
        # A user may read the site's store, not write to it; another process may be first.
        with suppress(StoreError), writing(engine) as connection:
            connection.execute(insert(counters), {"name": _NAME, "value": secrets.randbits(_BITS)})
        with reading(engine) as connection:
            number = _number(connection)
    return StoreIdentity(number, _file_of(engine))


def change_since(engine: Engine, before: StoreIdentity) -> str:
    """Say what became of a store meanwhile; empty where it is the same.

    Raises StoreError: it cannot be read.
    """
    file = _file_of(engine)
    if before.file is not None and file != before.file:
        return "was deleted" if file is None else "was replaced by another file"
    with reading(engine) as connection:
        number = _number(connection)
    return "was replaced by another database" if number != before.number else ""


def _number(connection: Connection) -> int | None:
    query = select(counters.c.value).where(counters.c.name == _NAME)
    number = connection.execute(query).scalar()
    return None if number is None else int(number)


def _file_of(engine: Engine) -> tuple[int, int] | None:
    path = path_of(engine)
    try:
        status = path.stat() if path else None
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status else None
