"""The assignments that a run can be given, and designs over their attributes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pyDOE3

#: Attributes of an assignment (ρ and λ), all above zero.
Assignment = Mapping[str, float]
Key = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Space:
    """Assignments that can be had.

    ``more_is_better`` says for each attribute whether a larger value makes runs faster (processor
    speed) or slower (latency).
    """

    candidates: tuple[dict[str, float], ...]
    more_is_better: dict[str, bool]

    @classmethod
    def full(
        cls, levels: Mapping[str, Sequence[float]], more_is_better: Mapping[str, bool]
    ) -> "Space":
        """All combinations of the levels of each attribute."""
        names = list(levels)
        made = (dict(zip(names, one, strict=True)) for one in product(*levels.values()))
        return cls(tuple(made), dict(more_is_better))

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attributes."""
        return tuple(self.more_is_better)

    def levels(self, attribute: str) -> list[float]:
        """Distinct values of an attribute, rising."""
        return sorted({one[attribute] for one in self.candidates})

    def key(self, assignment: Assignment) -> Key:
        """Values of an assignment in the order of the attributes."""
        return tuple(assignment[name] for name in self.attributes)

    def nearest(self, wanted: Assignment) -> dict[str, float]:
        """Candidate closest to what is wanted, each attribute measured by its range."""
        spans = {n: (self.levels(n)[-1] - self.levels(n)[0]) or 1.0 for n in self.attributes}

        def distance(one: Assignment) -> float:
            return sum(((one[n] - wanted[n]) / spans[n]) ** 2 for n in self.attributes)

        return min(self.candidates, key=distance)

    def corner(self, *, best: bool) -> dict[str, float]:
        """Candidate nearest to the best (or worst) value of every attribute."""
        wanted = {
            name: self.levels(name)[-1 if more == best else 0]
            for name, more in self.more_is_better.items()
        }
        return self.nearest(wanted)


def plackett_burman(space: Space) -> list[dict[str, float]]:
    """Design of two levels with foldover: lowest and highest value of each attribute.

    Plackett and Burman 1946; with foldover main effects are free of pairwise interactions
    (VLDB 2006, appendix A).  Runs that fall on the same candidate are given once.
    """
    signs = pyDOE3.fold(pyDOE3.pbdesign(len(space.attributes)))
    rows: dict[Key, dict[str, float]] = {}
    for row in signs:
        wanted = {
            name: space.levels(name)[-1 if sign > 0 else 0]
            for name, sign in zip(space.attributes, row, strict=True)
        }
        chosen = space.nearest(wanted)
        rows.setdefault(space.key(chosen), chosen)
    return list(rows.values())


def effects(space: Space, runs: Sequence[tuple[Assignment, float]]) -> dict[str, float]:
    """Absolute main effect of each attribute: mean value at its upper less that at its lower level.

    ``runs`` are assignments of a two-level design with the value measured on each.
    """
    found = {}
    for name in space.attributes:
        levels = space.levels(name)
        middle = (levels[0] + levels[-1]) / 2
        high = [value for one, value in runs if one[name] > middle]
        low = [value for one, value in runs if one[name] <= middle]
        found[name] = abs(float(np.mean(high) - np.mean(low))) if high and low else 0.0
    return found


def binary_search(levels: Sequence[float]) -> Iterator[float]:
    """Levels in the order lowest, highest, middle, quarters, eighths ... (algorithm 5).

    Each is given once, the available one that is nearest to the place in the sequence.

    >>> list(binary_search([1.0, 2.0, 3.0, 4.0, 5.0]))
    [1.0, 5.0, 3.0, 2.0, 4.0]
    """
    low, high = levels[0], levels[-1]
    left = list(levels)
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
