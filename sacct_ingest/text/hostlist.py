"""Slurm's compressed node lists, ``n[1-3,7],gpu1``, and array indexes, ``1-9:2,20%2``.

Users write such lists into their requests.  So no list is ever expanded beyond `MOST_NAMES`, and
what a job asks for is only compared with the nodes of its cluster (`NodeNames`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

#: Names in one list: as many as a range may have in Slurm (``MAX_RANGE`` in ``hostlist.c``).
MOST_NAMES: Final = 65_536
_MOST_DIGITS: Final = 18  #: of a number, which then has 63 bits at most
#: Of one name; Slurm's have five brackets at most (``HIGHEST_DIMENSIONS``).
_MOST_PIECES: Final = 32
_LOOKED_UP: Final = 4_096  #: names in a list of a user, besides twice as many as there are nodes
_REMEMBERED: Final = 16  #: lists
_ONE_BRACKET: Final = 3  #: pieces of such a name
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
    names: list[str] = []
    for pieces in _parts(text, None) if text not in ("", "(null)") else ():
        names += islice(_combined(pieces), MOST_NAMES + 1 - len(names))
        if len(names) > MOST_NAMES:
            raise ValueError(f"a node list of more than {MOST_NAMES} names")
    return tuple(names)


class NodeNames:
    """Names of a cluster's nodes, which lists of users are compared with.

    The last few lists are remembered: one request compares the same one with each partition.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.all = frozenset(names)
        numbers = (number for name in self.all for number in _NUMBER.findall(name))
        # No node has a greater number, so no greater one is looked up.
        self._highest = max((int(one) for one in numbers if len(one) <= _MOST_DIGITS), default=0)
        self._remembered: dict[str, frozenset[str]] = {}

    def named(self, text: str) -> frozenset[str]:
        """Those of the nodes that are in a list.

        None where Slurm would refuse the list, and where it names nodes again and again.

        >>> NodeNames(["n7", "gpu1"]).named("n[1-1000000000,7-8]")
        frozenset({'n7'})
        """
        if not text:
            return frozenset()
        if (named := self._remembered.get(text)) is None:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            try:
                named = frozenset(self._find(text))
            except ValueError:
                named = frozenset()
            self._remembered[text] = named
        return named

    def _find(self, text: str) -> Iterator[str]:
        numbered: dict[tuple[_Piece, _Piece, int], list[range]] = {}
        left = 2 * len(self.all) + _LOOKED_UP
        for pieces in _parts(text, self._highest):
            bracket = pieces[1] if len(pieces) == _ONE_BRACKET else ""
            if bracket and not isinstance(bracket, str):
                for numbers, width in bracket:
                    numbered.setdefault((pieces[0], pieces[2], width), []).append(numbers)
                continue
            for name in islice(_combined(pieces), left + 1):
                left = _less(left, 1)
                if name in self.all:
                    yield name
        for (before, after, width), ranges in numbered.items():
            for once in _union(ranges):
                left = _less(left, min(len(once), len(self.all)))
                if len(once) <= len(self.all):
                    names = (f"{before}{number:0{width}}{after}" for number in once)
                    yield from self.all.intersection(names)
                else:
                    ends = str(before), str(after)
                    yield from (n for n in self.all if _is(n, *ends, width, once))


def _less(left: int, taken: int) -> int:
    """Names that may still be looked up. Raises ValueError: there are none."""
    if left < taken:
        raise ValueError("a node list that names nodes again and again")
    return left - taken


def _union(ranges: list[range]) -> Iterator[range]:
    """Numbers of ranges, each once; all have step 1."""
    rising = sorted(filter(None, ranges), key=lambda one: one.start)
    start = stop = 0
    for one in rising:
        if one.start > stop:
            if stop > start:
                yield range(start, stop)
            start = one.start
        stop = max(stop, one.stop)
    if stop > start:
        yield range(start, stop)


def _is(name: str, before: str, after: str, width: int, numbers: range) -> bool:
    """Whether a name has one of these numbers between two texts, as wide as lists write it."""
    if not (name.startswith(before) and name.endswith(after)):
        return False
    digits = name[len(before) : len(name) - len(after)]
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS):
        return False
    return int(digits) in numbers and digits == f"{int(digits):0{width}}"


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
    for part in text.partition("%")[0].split(","):
        ends, _, step = part.partition(":")
        numbers, _ = _range(ends, step=_number(step or "1"))
        yield numbers


def _parts(text: str, highest: int | None) -> Iterator[list[_Piece]]:
    """Split a list at its commas, and each part into text and brackets, in one pass."""
    pieces: list[_Piece] = []
    begin = 0
    inside = False
    for mark in _MARK.finditer(text):
        if inside and mark[0] == ",":
            continue
        if inside != (mark[0] == "]"):
            raise ValueError(f"not a node list: {text[:80]!r}")
        if len(pieces) > _MOST_PIECES:
            raise ValueError(f"a node name of more than {_MOST_PIECES} pieces")
        piece = text[begin : mark.start()]
        ranges = [_range(part, highest=highest) for part in piece.split(",")] if inside else []
        pieces.append(ranges if inside else piece)
        begin = mark.end()
        inside = mark[0] == "["
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
    piece = pieces[0]
    rest = pieces[1:]
    if isinstance(piece, str):
        yield from _combined(rest, start + piece)
        return
    for numbers, width in piece:
        for number in numbers:
            yield from _combined(rest, f"{start}{number:0{width}}")


def _range(text: str, *, step: int = 1, highest: int | None = None) -> tuple[range, int]:
    """Numbers of ``3``, ``08-10``, and how wide they are written."""
    low, dash, high = text.partition("-")
    first = _number(low)
    last = _number(high if dash else low)
    if highest is not None:
        last = min(last, highest)
    return range(first, last + 1, step), len(low)


def _number(text: str) -> int:
    if len(text) > _MOST_DIGITS or not (text.isascii() and text.isdecimal()):
        raise ValueError(f"not a number of a list: {text[:20]!r}")
    return int(text)
