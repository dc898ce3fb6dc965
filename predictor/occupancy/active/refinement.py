"""Which function is refined next, with which attributes and which level: algorithm 1, step 2.

P. Shivam, S. Babu, J. Chase, VLDB 2006, sections 3.2 to 3.4.  An iteration picks a function (step
2.1), decides whether an attribute is added to it (2.2), and takes the attribute's next level, all
others at the reference (2.3, algorithm 5).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING

from predictor.checks import comparable
from predictor.occupancy.active.design import binary_search, effects, plackett_burman
from predictor.occupancy.active.settings import (
    FunctionForm,
    OccupancyPart,
    Purpose,
    RefinementOrder,
    Traversal,
)
from predictor.occupancy.application_model import Occupancies, OccupancyModel
from predictor.occupancy.fit import PARTS
from predictor.occupancy.linear_form import LinearOccupancyModel, part_errors

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
