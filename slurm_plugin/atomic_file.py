"""A file that one process keeps: written whole or not at all, and by nobody else meanwhile."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sacct_ingest.errors import NimoError


def write(path: Path, data: bytes) -> None:
    """Put a file in the place of the one before; it is on the disk when this returns.

    Raises
    ------
    OSError
        It cannot be written.
    """
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def alone(path: Path, *, who: str, mend: str) -> Iterator[None]:
    """Keep a second process away from the same file for a while.

    Parameters
    ----------
    path
        The file; the lock is beside it.
    who, mend
        What the other process is, and what to do where the folder cannot be written, for people.

    Raises
    ------
    NimoError
        There is one, or the folder cannot be written.
    """
    try:
        lock = path.with_name(f"{path.name}.lock").open("w")
    except OSError as error:
        raise NimoError(f"{path}: {error.strerror}; {mend}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NimoError(f"{path}: another {who} is at work with it") from error
        yield
