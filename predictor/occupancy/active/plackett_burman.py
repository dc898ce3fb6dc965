"""Plackett-Burman designs with foldover, and the main effects that their runs show.

*The design of optimum multifactorial experiments*, Biometrika 33, 1946; P. Shivam, S. Babu,
J. Chase, VLDB 2006, appendix A.
"""

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from predictor.checks import need_finite, need_positive
from predictor.occupancy.active.space import Assignment, Key, Space

Signs = NDArray[np.int_]


def signs(count: int) -> Signs:
    """Give the signs of a Plackett-Burman design with foldover.

    A row for each run, a column for each factor.  Every column has as many ``+1`` as ``-1``, and
    any two columns are orthogonal.  The second half is the first with all signs changed, which
    frees main effects of pairwise interactions.

    count: factors, a whole number of at least one.
    Raises ValueError: it is not.

    The first rows of table 3 of the paper:

    >>> signs(7)[:3].tolist()
    [[1, 1, 1, -1, 1, -1, -1], [-1, 1, 1, 1, -1, 1, -1], [-1, -1, 1, 1, 1, -1, 1]]
    """
    if not 1 <= count < inf or count % 1:
        raise ValueError(f"a design of {count} factors needs at least one factor, and whole ones")
    count = int(count)
    size = 4 * (count // 4 + 1)
    while (made := _plain(size)) is None:
        size += 4
    chosen = made[:, :count]
    return np.vstack([chosen, -chosen])


def _plain(size: int) -> Signs | None:
    """Design of ``size`` runs for one factor less; None where neither construction gives one.

    With a prime below the size each row is the one before, shifted, and the last is all low (Paley
    1933).  Twice the runs double a design (Sylvester 1867).
    """
    prime = size - 1
    if prime > 1 and all(prime % factor for factor in range(2, int(prime**0.5) + 1)):
        squares = {n * n % prime for n in range(prime)}
        first = np.array([1 if n in squares else -1 for n in range(prime)])
        rows = [np.roll(first, shift) for shift in range(prime)]
        return np.vstack([*rows, -np.ones(prime, dtype=int)])
    half = _plain(size // 2) if size % 8 == 0 else None
    if half is None:
        return None
    one = np.ones((size // 2, 1), dtype=int)
    return np.vstack([np.hstack([half, one, half]), np.hstack([half, -one, -half])])


def plackett_burman(space: Space) -> list[dict[str, float]]:
    """List the assignments of the design: lowest and highest value of each attribute.

    Where a combination cannot be had, the nearest one takes its place.  Rows that fall on the same
    candidate are given once.
    """
    rows: dict[Key, dict[str, float]] = {}
    for row in signs(len(space.attributes)):
        corner = {
            name: space.levels(name)[-1 if sign > 0 else 0]
            for name, sign in zip(space.attributes, row, strict=True)
        }
        chosen = space.nearest(corner)
        rows.setdefault(space.key(chosen), chosen)
    return list(rows.values())


def effects(space: Space, runs: Sequence[tuple[Assignment, float]]) -> dict[str, float]:
    """Absolute main effect of each attribute: mean value at its upper less that at its lower level.

    ``runs`` are assignments of a two-level design with the value measured on each.

    Raises ValueError: a run lacks an attribute of the space, or a value is not finite.
    """
    for one, value in runs:
        need_finite("value of a run", value)
        if missing := [name for name in space.attributes if name not in one]:
            raise ValueError(f"a run lacks attribute {missing[0]}")
        need_positive("attribute", *(one[name] for name in space.attributes))
    # What rounding makes of equal means is no effect.
    least = 1e-12 * max((abs(value) for _, value in runs), default=0.0)
    differences = {}
    for name in space.attributes:
        levels = space.levels(name)
        middle = (levels[0] + levels[-1]) / 2
        high = [value for one, value in runs if one[name] > middle]
        low = [value for one, value in runs if one[name] <= middle]
        effect = abs(float(np.mean(high) - np.mean(low))) if high and low else 0.0
        differences[name] = effect if effect > least else 0.0
    return differences
