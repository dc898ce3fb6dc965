"""What a learner knows: the runs so far, and the functions fitted to them."""

from predictor.occupancy.active.settings import FunctionForm, LearnerSettings, OccupancyPart
from predictor.occupancy.active.space import Assignment, Key, Space
from predictor.occupancy.application_model import OccupancyFit, OccupancyModel, Sample
from predictor.occupancy.data_flow import EvidenceModel
from predictor.occupancy.regression import LinearOccupancyModel


class LearningState:
    """Runs of one application on one data set, and the attributes that its functions have.

    space: what a run can be given.
    settings: how to go about it.
    data_profile: attributes of the data, of which one may be the unit of data flow.
    samples: learned from, in order.
    tests: samples of the internal test set.
    """

    def __init__(
        self, space: Space, settings: LearnerSettings, data_profile: tuple[str, ...] = ()
    ) -> None:
        self.space = space
        self.settings = settings
        self._data_profile = data_profile
        self.samples: list[Sample] = []
        self.tests: list[Sample] = []
        self._done: set[Key] = set()
        self._taken: dict[OccupancyPart, list[str]] = {part: [] for part in settings.parts}
        self._fit: OccupancyFit | None = None

    def add(self, sample: Sample, *, test: bool) -> None:
        """Take in a run; ``test``: for the internal test set."""
        (self.tests if test else self.samples).append(sample)
        self._fit = None

    def finish(self, assignment: Assignment) -> None:
        """Note that an assignment was run, or cannot be had."""
        self._done.add(self.space.key(assignment))

    @property
    def fit(self) -> OccupancyFit:
        """Cost model of the samples so far. Raises ValueError: there is none yet."""
        if self._fit is None:
            self._fit = self._model().fit(self.samples)
        return self._fit

    def _model(self) -> EvidenceModel | LinearOccupancyModel:
        """Model whose functions have the attributes taken up so far; those not refined have all."""
        taken = (self._taken.get(part) for part in OccupancyPart)
        compute, network, disk, data = (None if one is None else tuple(one) for one in taken)
        better = self.space.more_is_better
        faster = frozenset(name for name, more in better.items() if more)
        if self.settings.form is FunctionForm.CHOSEN:
            model = OccupancyModel(compute, network, disk, data, faster)
            return EvidenceModel(model, self._data_profile)
        return LinearOccupancyModel(compute, network, disk, data, faster)

    def take_up(self, part: OccupancyPart, name: str) -> None:
        """Add an attribute to a function."""
        if name not in self._taken[part]:
            self._taken[part].append(name)
            self._fit = None

    def take_up_all(self) -> None:
        """Add all attributes to all functions."""
        for part in self._taken:
            for name in self.space.attributes:
                self.take_up(part, name)

    def unused(self) -> list[dict[str, float]]:
        """List the assignments not run yet."""
        return [one for one in self.space.candidates if self.is_unused(one)]

    def is_unused(self, assignment: Assignment) -> bool:
        """Whether an assignment was not run yet."""
        return self.space.key(assignment) not in self._done
