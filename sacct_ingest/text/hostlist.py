"""Slurm's compressed node lists, ``n[1-3,7],gpu1``, and array indexes, ``1-9:2,20%2``.

Users write such lists into their requests.  So no list is ever expanded beyond `MOST_NAMES`, and
what a job asks for is only compared with the nodes of its cluster (`named_nodes`).
"""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice
from typing import Final

#: Names in one list: as many as a range may have in Slurm (``MAX_RANGE`` in ``hostlist.c``).
MOST_NAMES: Final = 65_536
_MOST_DIGITS: Final = 18  #: of a number, which then has 63 bits at most
_MOST_PIECES: Final = (
    32  #: of one name; Slurm's have five brackets at most (``HIGHEST_DIMENSIONS``)
)
_MARK = re.compile(r"[\[\],]")
_NUMBER = re.compile(r"[0-9]+")

#: A piece of a name: text, or the numbers of a bracket, each range with the width of its numbers.
_Piece = str | list[tuple[range, int]]


def expand(text: str) -> tuple[str, ...]:
    """Names in a node list, in its order.

    Raises ValueError: the text is no node list, or one of more than `MOST_NAMES` names.

    >>> expand("n[08-10],gpu1")
    ('n08', 'n09', 'n10', 'gpu1')
    """
    return tuple(_names(text, highest=None))


def named_nodes(text: str, nodes: Collection[str]) -> frozenset[str]:
    """Those of ``nodes`` that are in a node list; none where Slurm would refuse the list.

    >>> named_nodes("n[1-1000000000]", ["n7", "gpu1"])
    frozenset({'n7'})
    """
    if not text:
        return frozenset()
    present = frozenset(nodes)
    numbers = (number for name in present for number in _NUMBER.findall(name))
    # No node has a greater number, so no greater one is looked up.
    highest = max((int(number) for number in numbers if len(number) <= _MOST_DIGITS), default=0)
    try:
        return frozenset(name for name in _names(text, highest=highest) if name in present)
    except ValueError:
        return frozenset()


def count_indexes(text: str) -> int:
    """Count the indexes of an array expression; the ``%`` part limits how many run at once.

    Raises ValueError: the text is no array expression.

    >>> count_indexes("1-9:2,20%2")
    6
    """
    return sum(map(len, _indexes(text)))


def place_of_index(text: str, index: int) -> int | None:
    """How many indexes of an array expression are below one of them; None: it is not there.

    Raises ValueError: the text is no array expression.

    >>> place_of_index("1-9:2,20%2", 5), place_of_index("1-9:2,20", 4), place_of_index("7", 7)
    (2, None, 0)
    """
    ranges = list(_indexes(text))
    if not any(index in numbers for numbers in ranges):
        return None
    return sum(len(range(one.start, min(index, one.stop), one.step)) for one in ranges)


def indexes_of(text: str) -> Iterator[int]:
    """Indexes of an array expression, in its order.

    Raises ValueError: the text is no array expression, as soon as that is met.

    >>> list(indexes_of("1-5:2,20%2"))
    [1, 3, 5, 20]
    """
    return chain.from_iterable(_indexes(text))


def _indexes(text: str) -> Iterator[range]:
    """Ranges of an array expression."""
    for part in text.partition("%")[0].split(","):
        ends, _, step = part.partition(":")
        numbers, _ = _range(ends, step=_number(step or "1"))
        yield numbers


def _names(text: str, *, highest: int | None) -> Iterator[str]:
    """Names in a list; with ``highest``, ranges end there.

    Raises ValueError: as for `expand`, as soon as it is met.
    """
    left = MOST_NAMES
    if text in ("", "(null)"):
        return
    for pieces in _parts(text, highest):
        for name in islice(_combined(pieces), left + 1):
            left -= 1
            if left < 0:
                raise ValueError(f"a node list of more than {MOST_NAMES} names")
            yield name


def _parts(text: str, highest: int | None) -> Iterator[list[_Piece]]:
    """Split a list at its commas, and each part into text and brackets, in one pass."""
    pieces: list[_Piece] = []
    begin, inside = 0, False
    for mark in _MARK.finditer(text):
        if inside and mark[0] == ",":
            continue
        if inside != (mark[0] == "]"):
            raise ValueError(f"not a node list: {text[:80]!r}")
        if len(pieces) > _MOST_PIECES:
            raise ValueError(f"a node name of more than {_MOST_PIECES} pieces")
        piece = text[begin : mark.start()]
        pieces.append(_ranges(piece, highest) if inside else piece)
        begin, inside = mark.end(), mark[0] == "["
        if mark[0] == ",":
            yield pieces
            pieces = []
    if inside:
        raise ValueError(f"not a node list: {text[:80]!r}")
    yield [*pieces, text[begin:]]


def _combined(pieces: Sequence[_Piece], start: str = "") -> Iterator[str]:
    """Names that pieces stand for; nothing is worked out ahead."""
    if not pieces:
        if start:
            yield start
        return
    piece, rest = pieces[0], pieces[1:]
    if isinstance(piece, str):
        yield from _combined(rest, start + piece)
        return
    for numbers, width in piece:
        for number in numbers:
            yield from _combined(rest, f"{start}{number:0{width}}")


def _ranges(text: str, highest: int | None) -> list[tuple[range, int]]:
    return [_range(part, highest=highest) for part in text.split(",")]


def _range(text: str, *, step: int = 1, highest: int | None = None) -> tuple[range, int]:
    """Numbers of ``3``, ``08-10``, and how wide they are written."""
    low, dash, high = text.partition("-")
    first, last = _number(low), _number(high if dash else low)
    if highest is not None:
        last = min(last, highest)
    return range(first, last + 1, step), len(low)


def _number(text: str) -> int:
    if len(text) > _MOST_DIGITS or not (text.isascii() and text.isdecimal()):
        raise ValueError(f"not a number of a list: {text[:20]!r}")
    return int(text)
