"""Which function is refined next, with which attributes and which level: algorithm 1, step 2.

P. Shivam, S. Babu, J. Chase, VLDB 2006, sections 3.2 to 3.4.  An iteration picks a function (step
2.1), decides whether an attribute is added to it (2.2), and takes the attribute's next level, all
others at the reference (2.3, algorithm 5).  Functions and attributes are ranked by Plackett-Burman
designs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter

from predictor.checks import comparable, need_finite
from predictor.occupancy.active.plackett_burman import effects, plackett_burman
from predictor.occupancy.active.settings import OccupancyPart, Purpose, RefinementOrder, Traversal
from predictor.occupancy.active.state import LearningState
from predictor.occupancy.application_model import Occupancies
from predictor.occupancy.fit import PARTS
from predictor.occupancy.regression import part_errors

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
    """Refines the functions of one application."""

    def __init__(self, state: LearningState) -> None:
        self._state = state
        self._levels: dict[tuple[OccupancyPart, str], Iterator[float]] = {}

    def lmax_i1(self) -> Iterator[Proposal]:
        """Propose levels of one attribute after the other, until all were run (algorithm 5)."""
        orders = self._attribute_orders()
        progress = {part: _Progress(orders[part]) for part in self._part_order()}
        for part in self._turns(progress):
            yield from self._iteration(part, progress[part])

    def _iteration(self, part: OccupancyPart, own: _Progress) -> Iterator[Proposal]:
        """Refine one function by one run; it is exhausted where no run is left for it."""
        before = self.error_of(part)
        if own.reduction < self._state.settings.improvement:
            own.place += 1
        assignment = self._next_level(part, own)
        if assignment is None:
            own.exhausted = True
            return
        runs = len(self._state.samples)
        yield Proposal(assignment, Purpose.TRAINING, f"refines the {_WORDS[part]} over {own.name}")
        own.reduction = inf
        if len(self._state.samples) > runs and before < inf:
            own.reduction = before - self.error_of(part)

    def _next_level(self, part: OccupancyPart, own: _Progress) -> dict[str, float] | None:
        """Next level that was not run, of the attribute or the first after it that has one."""
        for _ in own.order:
            self._state.take_up(part, own.name)
            if level := self._level(part, own.name):
                return level
            own.place += 1
        return None

    def _level(self, part: OccupancyPart, name: str) -> dict[str, float] | None:
        space = self._state.space
        levels = self._levels.setdefault((part, name), binary_search(space.levels(name)))
        reference = self._state.samples[0].attributes
        for value in levels:
            chosen = space.nearest({**reference, name: value})
            if self._state.is_unused(chosen):
                return chosen
        return None

    def _turns(self, progress: dict[OccupancyPart, _Progress]) -> Iterator[OccupancyPart]:
        """Functions in the order of the traversal; each until it is exhausted (section 3.2)."""
        settings = self._state.settings
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
        settings = self._state.settings
        if settings.order is RefinementOrder.DOMAIN or settings.traversal is Traversal.DYNAMIC:
            return settings.parts
        total = {part: sum(self._effects(part).values()) for part in settings.parts}
        return tuple(sorted(settings.parts, key=lambda part: -comparable(total[part])))

    def _attribute_orders(self) -> dict[OccupancyPart, tuple[str, ...]]:
        settings = self._state.settings
        every = self._state.space.attributes
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
        space = self._state.space
        samples = (*self._state.samples, *self._state.tests)
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
        state = self._state
        if state.tests and state.samples:
            predicted = [state.fit.predict(one.attributes).made_of for one in state.tests]
            measured = [one.measured for one in state.tests]
        elif len(state.samples) > 1:
            predicted = list(state.fit.predicted)
            measured = [one.measured for one in state.samples]
        else:
            return inf
        return part_errors(predicted, measured)[FIELDS[part]]


def _seconds(measured: Occupancies, part: OccupancyPart, each_s: float) -> float:
    """Time of a run that a function stands for; for the data flow what it takes on average."""
    if part is OccupancyPart.DATA:
        return measured.data_bytes * each_s
    value: float = attrgetter(FIELDS[part])(measured)
    return value * measured.data_bytes


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
