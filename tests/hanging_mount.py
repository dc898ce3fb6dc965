"""A file system that never answers: a FUSE mount of which nobody reads the questions."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import unavailable

_DETACH = 2


@contextmanager
def hanging_mount(folder: Path) -> Iterator[Path]:
    """Mount one on a folder; who asks it anything waits, and does not end of itself."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        unavailable(f"no FUSE: {error}")
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    try:
        if libc.mount(b"nimo", bytes(folder), b"fuse", 0, options.encode()):
            unavailable(f"no FUSE: {os.strerror(ctypes.get_errno())}")
        try:
            yield folder
        finally:
            libc.umount2(bytes(folder), _DETACH)
    finally:
        os.close(device)  # which ends all who wait
