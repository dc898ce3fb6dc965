"""Files of all kinds under names of all kinds, for what looks at files that others name."""

import os
import socket
import stat
from contextlib import closing
from pathlib import Path

from hypothesis import strategies as st

#: Names without what is a pattern or parts folders.
NAMES = st.text("ab.é \n\t'\"$-", min_size=1, max_size=6).filter(lambda name: name.strip("."))
PLAIN = frozenset({"file", "huge", "empty", "link"})
KINDS = (*PLAIN, "fifo", "socket", "device", "loop", "nowhere", "missing", "folder")
ODD_FILES = st.dictionaries(NAMES, st.sampled_from(KINDS), min_size=1, max_size=8)
HUGE = 2**42


def make(path: Path, kind: str) -> int:
    """Make a file of a kind; gives its bytes where it is plain."""
    size = {"file": 7, "huge": HUGE, "link": 7}.get(kind, 0)
    if kind in ("file", "huge", "empty"):
        with path.open("wb") as stream:
            stream.truncate(size)
    elif kind == "link":
        target = path.parent.parent / "target"
        target.write_bytes(b"x" * size)
        path.symlink_to(target)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        folder = os.open(path.parent, os.O_RDONLY)  # the name may be too long from the root on
        with closing(socket.socket(socket.AF_UNIX)) as server:
            server.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.close(folder)
    elif kind == "device":
        if os.geteuid() == 0:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
        else:
            path.symlink_to("/dev/zero")
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "nowhere":
        path.symlink_to("is-not-there")
    elif kind == "folder":
        path.mkdir()
    return size
