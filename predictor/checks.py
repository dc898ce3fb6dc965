"""What the public functions refuse: one sentence each, that names the value (stdlib only)."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf

#: Amounts (seconds, bytes, nodes, hertz) lie between these: products of several stay finite.
SMALLEST, LARGEST = 1e-75, 1e75


def need_positive(what: str, *values: float | None) -> None:
    """Raise :class:`ValueError` unless every value is above zero, and no amount beyond all use."""
    for value in values:
        if value is None or not SMALLEST <= value <= LARGEST:
            amount = value is not None and 0 < value < inf
            limit = f"from {SMALLEST:g} to {LARGEST:g}" if amount else "above 0"
            raise ValueError(f"{what} is {value}: it must be a finite number {limit}")


def need_finite(what: str, *values: float, least: float | None = None) -> None:
    """Raise :class:`ValueError` unless every value is finite, and no smaller than ``least``."""
    for value in values:
        if not abs(value) <= LARGEST or (least is not None and value < least):
            limit = "" if least is None else f" of {least:g} or more"
            limit = f" up to {LARGEST:g}" if LARGEST < abs(value) < inf else limit
            raise ValueError(f"{what} is {value}: it must be a finite number{limit}")


def need_share(what: str, *values: float) -> None:
    """Raise :class:`ValueError` unless every value lies between 0 and 1, without the two."""
    for value in values:
        if not 0 < value < 1:
            raise ValueError(f"{what} is {value}: it must be above 0 and below 1")


def need_nodes(nodes: Sequence[float]) -> None:
    """Raise :class:`ValueError` unless there are node counts, each a whole number of 1 or more."""
    if len(nodes) == 0:
        raise ValueError("no node counts")
    for count in nodes:
        if not (1 <= count <= LARGEST and count == int(count)):
            raise ValueError(f"{count} nodes: a node count is a whole number of 1 or more")


def need_rising(what: str, values: Iterable[float]) -> None:
    """Raise :class:`ValueError` unless each value is above the one before it."""
    for one, other in pairwise(values):
        if not one < other:
            raise ValueError(f"{what}: {other} follows {one}; they must rise, each given once")


def comparable(value: float, least: float = -inf) -> float:
    """Round a computed number so that only what is no rounding error decides a selection.

    Nine significant digits remain, and all below ``least``, of the value's unit, are alike: what
    comes first, the simpler one, stands among equals (``min``, ``max`` and ``sorted`` keep it).

    >>> comparable(0.1 + 0.2) == comparable(0.3), comparable(3e-16, 1e-9) == comparable(0.0, 1e-9)
    (True, True)
    """
    return max(float(f"{value:.8e}"), least)
