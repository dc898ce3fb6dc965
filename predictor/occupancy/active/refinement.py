"""Which function is refined next, with which attributes and which level: algorithm 1, step 2.

P. Shivam, S. Babu, J. Chase, VLDB 2006, sections 3.2 to 3.4.  An iteration picks a function (step
2.1), decides whether an attribute is added to it (2.2), and takes the attribute's next level, all
others at the reference (2.3, algorithm 5).

Functions and attributes are ranked by Plackett-Burman designs with foldover (*The design of optimum
multifactorial experiments*, Biometrika 33, 1946; VLDB 2006, appendix A).  The run that removes most
uncertainty for its run time is not in the paper: with a run time that is linear in the transformed
attributes and their products, its effect on the variance of all predictions is known beforehand
(Bayesian A-optimal design; Chaloner and Verdinelli, 1995, section 2.2).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from predictor.checks import comparable, need_finite, need_positive
from predictor.occupancy.active.settings import (
    FunctionForm,
    OccupancyPart,
    Purpose,
    RefinementOrder,
    Traversal,
)
from predictor.occupancy.active.space import Assignment, Key, Space
from predictor.occupancy.application_model import Occupancies, OccupancyModel, Sample
from predictor.occupancy.fit import PARTS
from predictor.occupancy.regression import LinearOccupancyModel, part_errors

if TYPE_CHECKING:
    from predictor.occupancy.active.learner import Learner

#: Field of :class:`Occupancies` that each function predicts.
FIELDS = dict(zip(OccupancyPart, PARTS, strict=True))
_WORDS = {part: f"{part.value} occupancy" for part in OccupancyPart} | {
    OccupancyPart.DATA: "data flow"
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """The next run."""

    attributes: dict[str, float]
    purpose: Purpose
    why: str


@dataclass(slots=True)
class _Progress:
    """How far one function has come.

    ``reduction`` is what its last iteration took off its error, in percent points; infinite where
    there was none or nothing could be measured.
    """

    order: Sequence[str]
    place: int = 0
    reduction: float = inf
    exhausted: bool = False

    @property
    def name(self) -> str:
        """Attribute that is varied."""
        return self.order[self.place % len(self.order)]


class Refinement:
    """Refines the functions of one learner."""

    def __init__(self, learner: "Learner") -> None:
        self._learner = learner
        self._taken: dict[OccupancyPart, list[str]] = {part: [] for part in learner.settings.parts}
        self._levels: dict[tuple[OccupancyPart, str], Iterator[float]] = {}

    def model(self) -> OccupancyModel | LinearOccupancyModel:
        """Model whose functions have the attributes taken up so far; those not refined have all."""
        taken = (self._taken.get(part) for part in OccupancyPart)
        compute, network, disk, data = (None if one is None else tuple(one) for one in taken)
        space = self._learner.space
        faster = frozenset(name for name, better in space.more_is_better.items() if better)
        if self._learner.settings.form is FunctionForm.CHOSEN:
            return OccupancyModel(compute, network, disk, data, faster)
        return LinearOccupancyModel(compute, network, disk, data, faster)

    def take_up(self, part: OccupancyPart, name: str) -> None:
        """Add an attribute to a function."""
        if name not in self._taken[part]:
            self._taken[part].append(name)
            self._learner.forget_fit()

    def take_up_all(self) -> None:
        """Add all attributes to all functions."""
        for part in self._taken:
            for name in self._learner.space.attributes:
                self.take_up(part, name)

    def lmax_i1(self) -> Iterator[Proposal]:
        """Propose levels of one attribute after the other, until all were run (algorithm 5)."""
        orders = self._attribute_orders()
        progress = {part: _Progress(orders[part]) for part in self._part_order()}
        for part in self._turns(progress):
            yield from self._iteration(part, progress[part])

    def _iteration(self, part: OccupancyPart, own: _Progress) -> Iterator[Proposal]:
        """Refine one function by one run; it is exhausted where no run is left for it."""
        before = self.error_of(part)
        if own.reduction < self._learner.settings.improvement:
            own.place += 1
        assignment = self._next_level(part, own)
        if assignment is None:
            own.exhausted = True
            return
        runs = len(self._learner.samples)
        yield Proposal(assignment, Purpose.TRAINING, f"refines the {_WORDS[part]} over {own.name}")
        own.reduction = inf
        if len(self._learner.samples) > runs and before < inf:
            own.reduction = before - self.error_of(part)

    def _next_level(self, part: OccupancyPart, own: _Progress) -> dict[str, float] | None:
        """Next level that was not run, of the attribute or the first after it that has one."""
        for _ in own.order:
            self.take_up(part, own.name)
            if level := self._level(part, own.name):
                return level
            own.place += 1
        return None

    def _level(self, part: OccupancyPart, name: str) -> dict[str, float] | None:
        space = self._learner.space
        levels = self._levels.setdefault((part, name), binary_search(space.levels(name)))
        reference = self._learner.samples[0].attributes
        for value in levels:
            chosen = space.nearest({**reference, name: value})
            if self._learner.is_unused(chosen):
                return chosen
        return None

    def _turns(self, progress: dict[OccupancyPart, _Progress]) -> Iterator[OccupancyPart]:
        """Functions in the order of the traversal; each until it is exhausted (section 3.2)."""
        settings = self._learner.settings
        while left := [part for part, own in progress.items() if not own.exhausted]:
            if settings.traversal is Traversal.DYNAMIC:
                yield max(left, key=lambda part: comparable(self.error_of(part)))
                continue
            for part in left:
                yield part
                while (
                    settings.traversal is Traversal.IMPROVEMENT
                    and progress[part].reduction >= settings.improvement
                    and not progress[part].exhausted
                ):
                    yield part

    def _part_order(self) -> tuple[OccupancyPart, ...]:
        settings = self._learner.settings
        if settings.order is RefinementOrder.DOMAIN or settings.traversal is Traversal.DYNAMIC:
            return settings.parts
        total = {part: sum(self._effects(part).values()) for part in settings.parts}
        return tuple(sorted(settings.parts, key=lambda part: -comparable(total[part])))

    def _attribute_orders(self) -> dict[OccupancyPart, tuple[str, ...]]:
        settings, every = self._learner.settings, self._learner.space.attributes
        if settings.attribute_order is RefinementOrder.DOMAIN:
            return {part: tuple(settings.attributes.get(part, every)) for part in settings.parts}
        return {
            part: tuple(sorted(every, key=self._effects(part).__getitem__, reverse=True))
            for part in settings.parts
        }

    def _effects(self, part: OccupancyPart) -> dict[str, float]:
        """Effect of each attribute on a function, in seconds of the whole run.

        The design's runs decide, even if they are the internal test set: an order is no function.
        """
        space, samples = self._learner.space, (*self._learner.samples, *self._learner.tests)
        design = {space.key(one) for one in plackett_burman(space)}
        each_s = sum(one.measured.each_s for one in samples) / len(samples)
        runs = [
            (one.attributes, _seconds(one.measured, part, each_s))
            for one in samples
            if space.key(one.attributes) in design
        ]
        return effects(space, runs)

    def error_of(self, part: OccupancyPart) -> float:
        """Measure the current error of one function (section 3.6).

        Mean absolute percentage error: on the internal test set, or each sample predicted by what
        is learned from the others.  Infinite before it can be measured.
        """
        learner = self._learner
        if learner.tests and learner.samples:
            predicted = [learner.fit.predict(one.attributes).made_of for one in learner.tests]
            measured = [one.measured for one in learner.tests]
        elif len(learner.samples) > 1:
            predicted, measured = (
                list(learner.fit.predicted),
                [one.measured for one in learner.samples],
            )
        else:
            return inf
        return part_errors(predicted, measured)[FIELDS[part]]


def _seconds(measured: Occupancies, part: OccupancyPart, each_s: float) -> float:
    """Time of a run that a function stands for; for the data flow what it takes on average."""
    if part is OccupancyPart.DATA:
        return measured.data_bytes * each_s
    value: float = attrgetter(FIELDS[part])(measured)
    return value * measured.data_bytes


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
        done = np.array([self._features(one.attributes) for one in samples])
        covariance = np.linalg.inv(np.linalg.inv(self._prior) + done.T @ done / _NOISE)
        rows = np.array([self._features(one) for one in candidates])
        spread = self._every @ covariance
        # Variance that a run takes from all predictions together.
        shared = spread @ rows.T
        gain = (shared**2).sum(axis=0) / (_NOISE + np.einsum("ij,jk,ik->i", rows, covariance, rows))
        costs = np.array([cost(one) for one in candidates])
        return candidates[int(np.argmax(gain / (costs + _FIXED * costs.mean())))]

    def _features(self, assignment: Assignment) -> list[float]:
        """1, x and 1/x of each attribute on a scale from -1 to 1, and products of the x."""
        each = [(assignment[name], self._levels[name]) for name in self._space.attributes]
        plain = [_scaled(value, levels[0], levels[-1]) for value, levels in each]
        inverse = [_scaled(1 / value, 1 / levels[-1], 1 / levels[0]) for value, levels in each]
        products = [a * b for a, b in combinations(plain, 2)]
        return [1.0, *plain, *inverse, *products]


def _scaled(value: float, low: float, high: float) -> float:
    return 2 * (value - low) / (high - low) - 1 if high > low else 0.0
