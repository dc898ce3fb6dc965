"""Which run is next in a space of attributes: by a design, or as the one that teaches most.

Plackett-Burman with foldover, and binary search: Plackett and Burman, *The design of optimum
multifactorial experiments*, Biometrika 33, 1946; used by NIMO to rank functions and attributes
(VLDB 2006, appendix A) and for its L2-I2 samples.

The run that removes most uncertainty for its run time is not in the paper.  Run time is taken as
linear in the transformed attributes and their products, with coefficients of which nothing is known
but their size.  What a run would teach then does not depend on what it finds: its effect on the
variance of all predictions is known beforehand (Bayesian A-optimal design; Chaloner and Verdinelli,
*Bayesian Experimental Design: A Review*, 1995, section 2.2).  The gain is divided by the run time
that is expected of it, so that cheap runs are preferred.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import inf

import numpy as np
from numpy.typing import NDArray

from predictor.checks import need_finite, need_positive
from predictor.occupancy.active.space import Assignment, Key, Space
from predictor.occupancy.application_model import Sample

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


def binary_search(levels: Sequence[float]) -> Iterator[float]:
    """Levels in the order lowest, highest, middle, quarters, eighths ... (algorithm 5).

    Each is given once: the available one that is nearest to the place in the sequence.

    >>> list(binary_search([1.0, 2.0, 3.0, 4.0, 5.0]))
    [1.0, 5.0, 3.0, 2.0, 4.0]
    """
    if not levels:
        raise ValueError("no level to order")
    need_finite("level", *levels)
    low, high = min(levels), max(levels)
    left = sorted(set(levels))
    for share in _shares(4 * len(levels)):
        nearest = min(levels, key=lambda one: (abs(one - low - share * (high - low)), one))
        if nearest in left:
            left.remove(nearest)
            yield nearest
    # Levels that stand closer together than that come in order.
    yield from left


def _shares(parts: int) -> Iterator[float]:
    """Give 0, 1, 1/2, 1/4, 3/4, ... down to the first power of two that is at least ``parts``."""
    yield from (0.0, 1.0)
    size = 1
    while size < parts:
        size *= 2
        yield from (odd / size for odd in range(1, size, 2))


Floats = NDArray[np.float64]
#: Prior variance of a transformed attribute's coefficient, and of a product's, beside the noise.
_SINGLE, _PRODUCT, _NOISE = 1.0, 0.3, 0.05**2
#: A run costs at least this share of the mean: waiting and starting are not free.
_FIXED = 0.1


class Informative:
    """Scores candidates of one space."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._levels = {name: space.levels(name) for name in space.attributes}
        every = np.array([self._features(one) for one in space.candidates])
        self._every = every
        count = len(self._space.attributes)
        pairs = count * (count - 1) // 2
        self._prior = np.diag([1.0, *([_SINGLE] * 2 * count), *([_PRODUCT] * pairs)])

    def choose(
        self,
        candidates: Sequence[dict[str, float]],
        samples: Sequence[Sample],
        cost: Callable[[Assignment], float],
    ) -> dict[str, float]:
        """Choose a candidate, given what was run already and what each is expected to cost."""
        covariance = self._posterior(samples)
        rows = np.array([self._features(one) for one in candidates])
        spread = self._every @ covariance
        # Variance that a run takes from all predictions together.
        shared = spread @ rows.T
        gain = (shared**2).sum(axis=0) / (_NOISE + np.einsum("ij,jk,ik->i", rows, covariance, rows))
        costs = np.array([cost(one) for one in candidates])
        return candidates[int(np.argmax(gain / (costs + _FIXED * costs.mean())))]

    def _posterior(self, samples: Sequence[Sample]) -> Floats:
        rows = np.array([self._features(one.attributes) for one in samples])
        precision = np.linalg.inv(self._prior) + rows.T @ rows / _NOISE
        covariance: Floats = np.linalg.inv(precision)
        return covariance

    def _features(self, assignment: Assignment) -> list[float]:
        """1, x and 1/x of each attribute on a scale from -1 to 1, and products of the x."""
        plain = [self._scaled(name, assignment[name]) for name in self._space.attributes]
        inverse = [self._inverse(name, assignment[name]) for name in self._space.attributes]
        products = [a * b for a, b in combinations(plain, 2)]
        return [1.0, *plain, *inverse, *products]

    def _scaled(self, name: str, value: float) -> float:
        low, high = self._levels[name][0], self._levels[name][-1]
        return 2 * (value - low) / (high - low) - 1 if high > low else 0.0

    def _inverse(self, name: str, value: float) -> float:
        low, high = 1 / self._levels[name][-1], 1 / self._levels[name][0]
        return 2 * (1 / value - low) / (high - low) - 1 if high > low else 0.0
