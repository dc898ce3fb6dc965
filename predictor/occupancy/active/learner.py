"""NIMO's algorithm 1: propose a run, take its sample in, refine the functions, until good enough.

Every step has the alternatives of table 1 of the paper.  What a learner proposes depends on its
settings and the samples so far alone, so that one that was stopped is put back by giving it the
same samples again.
"""

from collections.abc import Iterator, Sequence
from math import log, sqrt

import numpy as np

from predictor.checks import need_positive
from predictor.occupancy.active.informative import Informative
from predictor.occupancy.active.plackett_burman import plackett_burman
from predictor.occupancy.active.refinement import Proposal, Refinement
from predictor.occupancy.active.settings import (
    Error,
    LearnerSettings,
    Purpose,
    Reference,
    RefinementOrder,
    Selection,
    Traversal,
)
from predictor.occupancy.active.space import Space
from predictor.occupancy.active.state import LearningState
from predictor.occupancy.application_model import OccupancyFit, Predicted, Sample

#: Last runs whose error, predicted before they were made, counts for :attr:`Error.AHEAD`.
_LAST = 2
#: Times the target that intervals may reach to either side on average, to be called reliable each.
#: Laplace's errors with a mean of the target have an interval of 90 % that reaches ln 10 times it.
WIDEST = 2.3
#: Predictions have settled where each of so many last runs moved them by so much of the target.
_SETTLED, _STILL = 3, 0.4
#: Times the target up to which an error may be that of runs that differ.
_NOISY = 3.0
#: Levels of an attribute that distinguish x, 1/x and a line.
_LEVELS_NEEDED = 3
#: Runs to learn from that a test set has to leave.
_LEFT = 2


class Learner:
    """Learns the cost model of one application on one data set.

    space: what a run can be given.
    settings: how to go about it.
    data_profile: attributes of the data, of which one may be the unit of data flow.
    state: the runs so far, and the functions fitted to them.
    refinement: which function and which attribute the next runs are for.
    Raises ValueError: an attribute of the settings is none of the space, or the test set leaves no
        runs to learn from.
    """

    def __init__(
        self,
        space: Space,
        settings: LearnerSettings | None = None,
        data_profile: tuple[str, ...] = (),
    ) -> None:
        self.space = space
        self.settings = settings or LearnerSettings()
        self.state = LearningState(self.space, self.settings, data_profile)
        self._ahead: list[float] = []
        self._before: list[float] = []
        self._moved: list[float] = []
        self._rng = np.random.default_rng(self.settings.seed)
        self._met = 0
        _check(self.space, self.settings)
        self.refinement = Refinement(self.state)
        self._planned = self._plan()
        self._next = next(self._planned, None)

    @property
    def samples(self) -> list[Sample]:
        """Runs that are learned from, in order."""
        return self.state.samples

    @property
    def tests(self) -> list[Sample]:
        """Runs of the internal test set."""
        return self.state.tests

    @property
    def fit(self) -> OccupancyFit:
        """Cost model of the samples so far. Raises ValueError: there is none yet."""
        return self.state.fit

    def propose(self) -> Proposal | None:
        """Give the next run; None where the error is low enough, or more runs teach little."""
        return None if self.good_enough or self.settled else self._next

    def observe(self, sample: Sample) -> None:
        """Take in what the proposed run gave.

        Raises ValueError: no run was proposed, or the sample lacks an attribute.
        """
        if self._next is None:
            raise ValueError("no run was proposed")
        if missing := [name for name in self.space.attributes if name not in sample.attributes]:
            raise ValueError(f"the sample lacks {', '.join(missing)}")
        if self.samples and self._next.purpose is not Purpose.TEST:
            self._ahead.append(self._off(sample))
        self.state.add(sample, test=self._next.purpose is Purpose.TEST)
        self.state.finish(self._next.attributes)
        if self.samples and self.settings.error is Error.AHEAD:
            self._compare()
        met = self.error <= self.settings.target and self._is_sure
        self._met = self._met + 1 if met else 0
        self._next = next(self._planned, None)

    def skip(self) -> None:
        """Go on without the proposed run: it cannot be had.

        Raises ValueError: no run was proposed.
        """
        if self._next is None:
            raise ValueError("no run was proposed")
        self.state.finish(self._next.attributes)
        self._next = next(self._planned, None)

    @property
    def error(self) -> float:
        """Current MAPE of execution time in percent; infinite before there is one."""
        if self.settings.error is Error.CROSS_VALIDATION:
            return self._left_out()
        if self.settings.error is Error.AHEAD:
            last = self._ahead[-_LAST:]
            return max(self._left_out(), float(np.mean(last))) if last else float("inf")
        if not (self.tests and self.samples):
            return float("inf")
        return float(np.mean([self._off(one) for one in self.tests]))

    @property
    def good_enough(self) -> bool:
        """Whether the error stayed below the target, with as many samples as that takes."""
        return len(self.samples) >= self.settings.fewest and self._met >= self.settings.in_a_row

    @property
    def settled(self) -> bool:
        """Whether the last runs hardly changed what is predicted: more would teach little.

        Where runs of the same differ by more than the target, no number of them has an error that
        is lower.  An error far beyond the target is rather that of the functions: learning goes on.
        The paper's own choices of the error do not ask for this.
        """
        last = self._moved[-_SETTLED:]
        enough = len(self.samples) >= max(self.settings.fewest, self._coefficients)
        still = len(last) == _SETTLED and max(last) <= _STILL * self.settings.target
        return enough and still and self.error <= _NOISY * self.settings.target

    @property
    def _coefficients(self) -> int:
        """Runs that a constant, both transformations of each attribute, and one more need."""
        return 2 * len(self.space.attributes) + 2

    def _compare(self) -> None:
        """Note by how many percent, on average, a run moved the predictions of all assignments."""
        now = [log(self.fit.predict(one).time_s) for one in self.space.candidates]
        if self._before:
            moved = np.mean(np.abs(np.subtract(now, self._before)))
            self._moved.append(100 * float(moved))
        self._before = now

    def _left_out(self) -> float:
        """Error of predicting each sample from the others (section 3.6, number 1)."""
        if len(self.samples) <= 2:
            return float("inf")
        return 100 * float(np.mean(np.abs(np.expm1(self.fit.left_out))))

    def _off(self, sample: Sample) -> float:
        """Error in percent of predicting a sample that was not learned from."""
        actual_s = sample.measured.time_s
        need_positive("measurement", actual_s)
        return 100 * abs(self.fit.predict(sample.attributes).time_s - actual_s) / actual_s

    @property
    def _is_sure(self) -> bool:
        """Whether assignments without a run are certain, too: no error of a sample covers them.

        Enough levels of each attribute were run to show how run time depends on it, and intervals
        are narrow over all that can be run.  The paper's own choices of the error do not ask for
        this.
        """
        if self.settings.error is not Error.AHEAD:
            return True
        left = self.state.unused()
        for name in self.space.attributes:
            tried = {one.attributes[name] for one in self.samples}
            if len(tried) < min(_LEVELS_NEEDED, len(tried | {one[name] for one in left})):
                return False
        widths = [interval_percent(self.fit.predict(one)) for one in self.space.candidates]
        return float(np.mean(widths)) <= WIDEST * self.settings.target

    def _plan(self) -> Iterator[Proposal]:
        """Everything to run, in order; what was observed meanwhile decides how it goes on."""
        if self.settings.reference is Reference.RAND:
            assignment = dict(self._rng.choice(np.array(self.space.candidates, dtype=object)))
        else:
            assignment = self.space.corner(best=self.settings.reference is Reference.MAX)
        why = "all else is relative to it"
        while not self.samples and (left := self.state.unused()):
            nearest = Space(tuple(left), self.space.more_is_better).nearest(assignment)
            yield Proposal(nearest, Purpose.REFERENCE, why)
        if self.settings.error in (Error.RANDOM_TEST, Error.PBDF_TEST):
            yield from self._new(self._test_set(), Purpose.TEST, "to measure the error on")
        if self._screens:
            design = plackett_burman(self.space)
            yield from self._new(design, Purpose.SCREENING, "to see which attributes matter")
        propose = {
            Selection.LMAX_I1: self.refinement.lmax_i1,
            Selection.L2_I2: self._l2_i2,
            Selection.INFORMATIVE: self._informative,
        }[self.settings.selection]
        yield from propose()

    @property
    def _screens(self) -> bool:
        """Whether the order of functions or attributes has to be found out first."""
        settings = self.settings
        if settings.selection is not Selection.LMAX_I1:
            return False
        ordered = settings.traversal is not Traversal.DYNAMIC and len(settings.parts) > 1
        by_effect = ordered and settings.order is RefinementOrder.RELEVANCE
        return by_effect or settings.attribute_order is RefinementOrder.RELEVANCE

    def _l2_i2(self) -> Iterator[Proposal]:
        self.state.take_up_all()
        yield from self._new(plackett_burman(self.space), Purpose.TRAINING, "low and high levels")

    def _informative(self) -> Iterator[Proposal]:
        self.state.take_up_all()
        informative = Informative(self.space)
        while left := self.state.unused():
            chosen = informative.choose(
                left, self.samples, lambda assignment: self.fit.predict(assignment).time_s
            )
            yield Proposal(chosen, Purpose.TRAINING, "removes most uncertainty for its run time")

    def _new(
        self, assignments: Sequence[dict[str, float]], purpose: Purpose, why: str
    ) -> Iterator[Proposal]:
        for one in assignments:
            if self.state.is_unused(one):
                yield Proposal(one, purpose, why)

    def _test_set(self) -> list[dict[str, float]]:
        if self.settings.error is Error.PBDF_TEST:
            return plackett_burman(self.space)
        left = self.state.unused()
        chosen = self._rng.permutation(len(left))[: self.settings.test_runs]
        return [left[i] for i in chosen]


def interval_percent(expected: Predicted) -> float:
    """How far an interval reaches to either side, in percent."""
    return 100 * (sqrt(expected.high_s / expected.low_s) - 1)


def _check(space: Space, settings: LearnerSettings) -> None:
    for part, names in settings.attributes.items():
        if wrong := [name for name in names if name not in space.attributes]:
            raise ValueError(f"attributes of {part.value}: {wrong[0]!r} is none of the space")
    if settings.error not in (Error.RANDOM_TEST, Error.PBDF_TEST):
        return
    design = {space.key(one) for one in plackett_burman(space)}
    if settings.error is Error.PBDF_TEST and settings.selection is Selection.L2_I2:
        raise ValueError(
            "the Plackett-Burman test set takes all runs of L2-I2: measure the error another way"
        )
    tests = len(design) if settings.error is Error.PBDF_TEST else settings.test_runs
    if (left := len(space.candidates) - tests) < _LEFT:
        raise ValueError(
            f"a test set of {tests} of {len(space.candidates)} assignments leaves {max(left, 0)} "
            "to learn from: measure the error by cross-validation"
        )
