"""Files that a pattern stands for, as a shell has it: ``data/*/sample_?.bam``.

``nimo_files.lua`` follows the same rules.  What begins with a point is found only by a pattern that
does, too.
"""

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

_CHARACTER = rb"[\x00-\x7f\xc0-\xff][\x80-\xbf]*"


def is_pattern(name: str) -> bool:
    """Whether a name stands for others.

    >>> is_pattern("data/*.bam"), is_pattern("a.bam")
    (True, False)
    """
    return "*" in name or "?" in name


def paths_of(pattern: str, most: int) -> list[str] | None:
    """Give the paths that a pattern stands for; None: its folders hold too many names.

    pattern: of an absolute path; what is no pattern in it need not be there.
    most: names of all folders that are listed, together.
    """
    paths = [""]
    listed = 0
    for part in pattern.strip("/").split("/"):
        if not is_pattern(part):
            paths = [f"{path}/{part}" for path in paths]
            continue
        matches = []
        for path in paths:
            names = list(islice(_names(path or "/"), most + 1))
            listed += len(names)
            if listed > most:
                return None
            matches += [f"{path}/{name}" for name in names if _fits(name, part)]
        paths = matches
    return paths


def _names(folder: str) -> Iterator[str]:
    """Give the names in a folder; none where it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            yield from (entry.name for entry in entries)
    except OSError:
        return


def _fits(name: str, part: str) -> bool:
    if name.startswith(".") and not part.startswith("."):
        return False
    return _expression(part).fullmatch(os.fsencode(name)) is not None


@lru_cache(maxsize=256)
def _expression(part: str) -> re.Pattern[bytes]:
    """Give what a name has to be; it takes time in proportion to a name's length."""
    first, *others = (_piece(piece) for piece in os.fsencode(part).split(b"*"))
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    # Of each piece the first place counts: it is not tried again at another.
    found = b"".join(b"(?>.*?%s)" % piece for piece in middle)
    return re.compile(b"%s%s.*%s" % (first, found, last), re.DOTALL)


def _piece(text: bytes) -> bytes:
    return _CHARACTER.join(map(re.escape, text.split(b"?")))
