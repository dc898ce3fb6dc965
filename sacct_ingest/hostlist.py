"""Slurm's compressed node lists, ``n[1-3,7],gpu1``, and array indexes, ``1-9:2,20%2``."""

import re
from functools import lru_cache
from itertools import product

_PART = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
_BRACKET = re.compile(r"\[([^\]]*)\]")


@lru_cache(maxsize=4096)
def expand(text: str) -> tuple[str, ...]:
    """Names in a node list, in its order.

    >>> expand("n[08-10],gpu1")
    ('n08', 'n09', 'n10', 'gpu1')
    """
    if text in ("", "(null)"):
        return ()
    return tuple(name for part in _PART.findall(text) for name in _names(part))


def count_indexes(text: str) -> int:
    """Count the indexes of an array expression; the ``%`` part limits how many run at once.

    >>> count_indexes("1-9:2,20%2")
    6
    """
    total = 0
    for part in text.partition("%")[0].split(","):
        ends, _, step = part.partition(":")
        low, _, high = ends.partition("-")
        total += len(range(int(low), int(high or low) + 1, int(step or 1)))
    return total


def _names(part: str) -> list[str]:
    pieces = _BRACKET.split(part)  # text and bracket take turns
    choices = [_range(p) if odd else [p] for p, odd in zip(pieces, _turns(pieces), strict=True)]
    return ["".join(chosen) for chosen in product(*choices)]


def _turns(pieces: list[str]) -> list[int]:
    return [index % 2 for index in range(len(pieces))]


def _range(text: str) -> list[str]:
    numbers: list[str] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        numbers += [str(n).zfill(len(low)) for n in range(int(low), int(high or low) + 1)]
    return numbers
