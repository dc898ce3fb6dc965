"""The end of a job's output, read as its user: little of it, and never waited for."""

import os
import stat
from pathlib import Path
from threading import Thread

_BYTES, _LINES = 8192, 12
#: A file system that hangs is not waited for.
_PATIENCE_S = 2.0


def end_of_output(path: Path) -> tuple[str, ...]:
    """Give the last lines of a file; empty where it cannot be read at once, or is no plain file.

    A pipe, a device or a folder is not opened for reading; of a huge file only the end is read.
    """
    lines: list[str] = []
    # A thread in a call that hangs ends with the process.
    reader = Thread(target=lambda: lines.extend(_read(path)), daemon=True)
    reader.start()
    reader.join(_PATIENCE_S)
    return () if reader.is_alive() else tuple(lines)


def _read(path: Path) -> list[str]:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return []
    try:
        facts = os.fstat(opened)
        if not stat.S_ISREG(facts.st_mode):
            return []
        begin = max(facts.st_size - _BYTES, 0)
        text = os.pread(opened, _BYTES, begin).decode(errors="replace")
    except OSError:
        return []
    finally:
        os.close(opened)
    lines = text.replace("\r", "\n").splitlines()
    whole = lines[1:] if begin and len(lines) > 1 else lines
    return [line for line in whole if line.strip()][-_LINES:]
