"""Sums of products that runs can be taken out of again, exactly.

A double holds 16 digits.  Sums over 100,000 runs of a second leave nothing of the digits that a few
runs of days have in them.  Here a sum is two doubles, the second what the first cannot hold: 32
digits (Dekker, *A floating-point technique for extending the available precision*, Numerische
Mathematik 18, 1971).
"""

import numpy as np
from numpy.typing import NDArray

from predictor.checks import LARGEST

Floats = NDArray[np.float64]
_SPLIT = 2.0**27 + 1
#: Rows that are multiplied at a time.
_ROWS = 4_096


def gram(rows: Floats) -> tuple[Floats, Floats]:
    """Sum the outer products of rows: ``rowsᵀ·rows`` and what is missing of it.

    rows: shape ``(runs, columns)``.
    Returns tuple: two arrays of shape ``(columns, columns)``.
    """
    if rows.ndim != 2 or not (np.abs(rows) <= LARGEST).all():
        raise ValueError(f"rows of shape {rows.shape}: (runs, columns), all finite, are needed")
    columns = rows.shape[1]
    upper = np.triu_indices(columns)
    high = low = np.zeros(len(upper[0]))
    for first in range(0, len(rows), _ROWS):
        part = rows[first : first + _ROWS]
        high, low = add((high, low), _total(*_product(part[:, upper[0]], part[:, upper[1]])))
    return _square(high, upper, columns), _square(low, upper, columns)


def add(one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Add two sums, each of two doubles."""
    high, rest = _sum(one[0], other[0])
    return _renewed(high, rest + one[1] + other[1])


def _total(high: Floats, low: Floats) -> tuple[Floats, Floats]:
    """Sum along the first axis, in pairs."""
    while len(high) > 1:
        if len(high) % 2:
            high, low = (np.concatenate([one, np.zeros_like(one[:1])]) for one in (high, low))
        half = len(high) // 2
        high, rest = _sum(high[:half], high[half:])
        low = low[:half] + low[half:] + rest
    return _renewed(high[0], low[0])


def _sum(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Add two doubles; the second is what the first could not hold (Knuth)."""
    total = one + other
    part = total - one
    return total, (one - (total - part)) + (other - part)


def _product(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Multiply two doubles; the second is what the first could not hold (Dekker)."""
    total = one * other
    (one_high, one_low), (other_high, other_low) = _halves(one), _halves(other)
    rest = one_high * other_high - total + one_high * other_low + one_low * other_high
    return total, rest + one_low * other_low


def _halves(one: Floats) -> tuple[Floats, Floats]:
    """Split doubles into halves of 26 bits (Veltkamp)."""
    scaled = _SPLIT * one
    high = scaled - (scaled - one)
    return high, one - high


def _renewed(high: Floats, low: Floats) -> tuple[Floats, Floats]:
    total = high + low
    return total, low - (total - high)


def _square(values: Floats, upper: tuple[NDArray[np.intp], ...], columns: int) -> Floats:
    made = np.zeros((columns, columns))
    made[upper] = values
    return made + np.triu(made, 1).T
