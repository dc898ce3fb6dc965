"""Families of node counts that applications are made for, e.g. powers of two (stdlib only)."""

from collections.abc import Callable
from math import isqrt

from predictor.checks import need_nodes


def _power_of_two(n: int) -> bool:
    return n & (n - 1) == 0


def _square(n: int) -> bool:
    return isqrt(n) ** 2 == n


def _multiple(of: int) -> Callable[[int], bool]:
    return lambda n: n % of == 0


#: The rarest first, so that powers of two are not called even numbers.
FAMILIES: dict[str, Callable[[int], bool]] = {
    "powers of two": _power_of_two,
    "squares": _square,
    **{f"multiples of {m}": _multiple(m) for m in (16, 12, 10, 8, 6, 5, 4, 3)},
    "even numbers": _multiple(2),
}


def belongs(family: str, nodes: int) -> bool:
    """Whether ``nodes`` is of ``family``; every count is of the family without a name."""
    if not family:
        return True
    need_nodes((nodes,))
    return FAMILIES[family](nodes)
