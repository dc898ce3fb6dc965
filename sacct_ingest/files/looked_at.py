"""Files that others name are looked at in a process of its own, for which nobody waits long.

Where a file system hangs, a process that asks it anything hangs too, and cannot be ended.  So a
child looks, and its parent goes on when no answer comes in time.  The child holds nothing of its
parent's open: neither a terminal nor a pipe that somebody reads to the end, nor a lock.
"""

import contextlib
import os
import re
import select
import signal
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import inf
from typing import Final, NamedTuple

from sacct_ingest.files.name_patterns import is_pattern, paths_of

#: Names in a folder, or in those that a pattern has listed; what has more is skipped.
MOST_OF_FOLDER: Final = 1000
_PACKED: Final = frozenset({"gz", "bz2", "xz", "zst", "bgz", "lz4", "z"})
_ENDING = re.compile("[a-z0-9]{1,8}")


class LookedAt(NamedTuple):
    """A file that was named, or files of a folder or pattern: those from before, or the others."""

    path: int  #: position of the name
    kind: str  #: as of `kind_of`; of files in a folder none, of a pattern that which it names
    files: int
    bytes: int
    changed_s: int  #: when one of them was changed last, or its owner, name or rights were


class Seen(NamedTuple):
    """What there was of the files that were named."""

    files: list[LookedAt]
    skipped: int  #: unreadable, special, or folders of too many names
    missing: frozenset[int]  #: positions of names of which there is nothing


class Named(NamedTuple):
    """What is to be looked at."""

    #: gives paths of files and folders, and patterns; it is called in the child, and may read files
    paths: Callable[[], Sequence[str]]
    #: of a folder's files those that were changed before then count apart, seconds since the epoch
    before_s: float = inf


def looked_at(named: Iterable[Named], *, first_s: float, each_s: float) -> Iterator[Seen | None]:
    """Look at some files after others; the last is None where an answer did not come in time.

    first_s, each_s: how long to wait for the first answer, and for any other.
    """
    listed = list(named)
    if not listed:
        return
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        _answer(listed, writer)
    os.close(writer)
    answers = _Answers(reader)
    ended = False
    try:
        for wait_s in (first_s, *[each_s] * (len(listed) - 1)):
            line = answers.next_within(wait_s)
            yield _read(line) if line else None
            if not line:
                return
        ended = True
    finally:
        os.close(reader)
        _leave(child, ended=ended)


def _leave(child: int, *, ended: bool) -> None:
    """End a child without waiting for one that cannot be ended."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        if not ended:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0 if ended else os.WNOHANG)


class _Answers:
    """Lines of a pipe."""

    def __init__(self, reader: int) -> None:
        self._reader = reader
        self._read = b""

    def next_within(self, wait_s: float) -> str:
        """Give the next line; empty: none came in time, or there is none."""
        until_s = time.monotonic() + wait_s
        while b"\n" not in self._read:
            left_s = max(until_s - time.monotonic(), 0)
            ready = select.select([self._reader], [], [], left_s)[0]
            more = os.read(self._reader, 65536) if ready else b""
            if not more:
                return ""
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()


def kind_of(name: str) -> str:
    """Give the kind of a file by its name; empty: it has none.

    >>> kind_of("a.b.fastq.GZ"), kind_of("/data/x.bam"), kind_of("part.001"), kind_of(".bashrc")
    ('fastq.gz', 'bam', '', '')
    """
    first, *parts = name.rpartition("/")[2].lower().split(".")
    if not parts or not first:
        return ""
    last = parts[-2:] if parts[-1] in _PACKED else parts[-1:]
    known = all(_ENDING.fullmatch(one) and not one.isdecimal() for one in last)
    return ".".join(last) if known else ""


def _read(line: str) -> Seen:
    skipped, missing, *files = line.split(";")
    made = []
    for one in files:
        path, kind, *numbers = one.split(",")
        made.append(LookedAt(int(path), kind, *map(int, numbers)))
    return Seen(made, int(skipped), frozenset(map(int, missing.split())))


def _answer(listed: Sequence[Named], writer: int) -> None:
    """Look at files, as the child; it ends here."""
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        os.closerange(3, writer)
        os.closerange(writer + 1, os.sysconf("SC_OPEN_MAX"))
        with open(writer, "w", closefd=False) as stream:
            for named in listed:
                seen = see(_paths(named), named.before_s)
                files = (";" + ",".join(map(str, one)) for one in seen.files)
                missing = " ".join(map(str, seen.missing))
                stream.write(f"{seen.skipped};{missing}{''.join(files)}\n")
                stream.flush()
    finally:
        os._exit(0)


def _paths(named: Named) -> Sequence[str]:
    try:
        return named.paths()
    except (OSError, ValueError):
        return ()


def see(paths: Sequence[str], before_s: float = inf) -> Seen:
    """Look at files and folders here and now; parameters as of `Named`."""
    files: list[LookedAt] = []
    skipped = 0
    missing = set[int]()
    for place, path in enumerate(paths):
        try:
            kind, found = _files_of(path)
            files += _parted(place, kind, found, before_s)
        except (FileNotFoundError, NotADirectoryError):
            missing.add(place)
        except (OSError, ValueError):
            skipped += 1
    return Seen(files, skipped, frozenset(missing))


def _files_of(path: str) -> tuple[str, list[tuple[int, int]]]:
    """Give a kind, and bytes and last change of each plain file that a name stands for.

    Raises OSError or ValueError: there is none, it is no file, or they are too many.
    """
    if is_pattern(path):
        found = paths_of(path, MOST_OF_FOLDER)
        if found == []:
            raise FileNotFoundError(path)
        return kind_of(path), _plain(found)
    status = os.stat(path)  # noqa: PTH116 - of a path as it stands
    if stat.S_ISDIR(status.st_mode):
        with os.scandir(path) as entries:
            names = [f"{path}/{entry.name}" for entry in islice(entries, MOST_OF_FOLDER + 1)]
        return "", _plain(names if len(names) <= MOST_OF_FOLDER else None)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(path)
    return kind_of(path), [_size_and_change(status)]


def _plain(paths: Sequence[str] | None) -> list[tuple[int, int]]:
    """Give bytes and last change of those that are plain files.

    paths: None: they are too many.
    """
    if paths is None:
        raise ValueError
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            status = os.stat(path)  # noqa: PTH116
            if stat.S_ISREG(status.st_mode):
                found.append(_size_and_change(status))
    return found


def _parted(
    place: int, kind: str, files: Sequence[tuple[int, int]], before_s: float
) -> Iterator[LookedAt]:
    """Sum up files that were changed before a time, and the others."""
    for earlier in (True, False):
        some = [one for one in files if (one[1] < before_s) is earlier]
        if some:
            sizes, changed = zip(*some, strict=True)
            yield LookedAt(place, kind, len(some), sum(sizes), max(changed))


def _size_and_change(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, int(max(status.st_mtime, status.st_ctime))
