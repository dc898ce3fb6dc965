"""What to run next, by NIMO's occupancies."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from predictor.curves.reliability import ReliabilitySettings
from predictor.occupancy.active.learner import WIDEST, Learner, interval_percent
from predictor.occupancy.active.refinement import Proposal
from predictor.occupancy.active.settings import FunctionForm, LearnerSettings, Purpose
from predictor.occupancy.active.space import Space
from predictor.occupancy.application_model import OccupancyFit, OccupancyModel, Sample, occupancies
from predictor.occupancy.bottleneck import Bottleneck
from predictor.occupancy.data_flow import EvidenceModel
from predictor.occupancy.fit import Form
from predictor.occupancy.functions import Function
from predictor.occupancy.ranking import order_preserving_degree, ranking_distance
from predictor.occupancy.regression import LinearOccupancyModel
from predictor.occupancy.samples import NODES
from predictor.table import worse
from predictor.types import Verdict
from slurm_plugin.experiments.learn.description import GIB, INPUT_BYTES, ModelChoices, Stage, Trial

#: Share of the input's bytes from which on those that the accounting counted are the data flow.
_COUNTED = 0.1
#: Best assignments whose ranks are compared; with fewer runs there is nothing to compare.
_RANKED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Run time with an interval on one assignment, and the verdict on it."""

    attributes: dict[str, float]
    time_s: float
    low_s: float
    high_s: float
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was chosen by evidence, and what else was tried, with its error of left-out runs."""

    data_flow: str = ""  #: unit of it
    data_flows: dict[str, float] = field(default_factory=dict)  #: percent, the best first
    form: str = ""  #: empty: whichever is between the others
    forms: dict[str, float] = field(default_factory=dict)  #: percent, the best first
    data_profile: tuple[str, ...] = ()  #: attributes of the data that run time goes by


@dataclass(frozen=True, slots=True)
class Ranking:
    """Whether assignments that were run are ordered as each is predicted from the others."""

    order_preserving_degree: float  #: OPD: 1 is best
    ranking_distance: dict[int, float]  #: RD(k) by k: 0 is best


@dataclass(frozen=True, slots=True)
class ProposerState:
    """Results so far; ``effects`` is the slowest over the fastest time of each attribute."""

    functions: dict[str, str]  #: of attributes over those of the first run
    effects: dict[str, float]
    error: float | None  #: percent
    expected: tuple[Expected, ...]
    chosen: Chosen = Chosen()
    ranking: Ranking | None = None  #: None: fewer than three runs


class ByOccupancies:
    """NIMO: learns occupancies as functions of the attributes.

    space: assignments.
    settings: of the learner.
    choices: whether the accounting's bytes are taken for the data flow D; otherwise all runs count
        as of one byte, and the occupancies are of the whole run.  And the network's share of the
        time for each I/O, for runs where it was not measured.
    Raises ValueError: the settings cannot be followed on the space.
    """

    def __init__(self, space: Space, settings: LearnerSettings, choices: ModelChoices) -> None:
        profile = data_profile(choices)
        self._learner = Learner(space, settings, profile)
        self._choices = choices
        self._first: Trial | None = None

    def propose(self) -> Proposal | None:
        """Give the next run; None when the predictions are good enough or no run remains."""
        return self._learner.propose()

    def observe(self, trial: Trial) -> None:
        """Learn from the proposed run; one whose data flow is missing is left out."""
        first = self._first or trial
        made = sample(trial, first, self._choices)
        if made is None:
            self._learner.skip()
            return
        self._first = first
        self._learner.observe(made)

    def skip(self) -> None:
        """Go on without the proposed run."""
        self._learner.skip()

    @property
    def fit(self) -> OccupancyFit:
        """What was learned. Raises ValueError: there is no run yet."""
        return self._learner.fit

    @property
    def good_enough(self) -> bool:
        """Whether the predictions are as good as the settings require."""
        return self._learner.good_enough

    @property
    def settled(self) -> bool:
        """Whether the last runs hardly changed the predictions."""
        return self._learner.settled

    def learned(self) -> ProposerState:
        """Return the results so far."""
        if not self._learner.samples:
            return ProposerState({}, {}, None, ())
        fit = self._learner.fit
        space = self._learner.space
        error = self._learner.error
        narrow = WIDEST * self._learner.settings.target
        expected = tuple(_expected(fit, one, narrow) for one in space.candidates)
        reference = self._learner.samples[0].attributes
        effects = {}
        for name in space.attributes:
            times = [fit.predict({**reference, name: one}).time_s for one in space.levels(name)]
            effects[name] = max(times) / min(times)
        functions = _functions(fit.best, whole=fit.predicted[0].data_bytes == 1)
        known = error if error < float("inf") else None
        chosen = _chosen(fit, data_profile(self._choices))
        ranking = _ranking(fit, self._learner.samples)
        return ProposerState(functions, effects, known, expected, chosen, ranking)


def _ranking(fit: OccupancyFit, samples: Sequence[Sample]) -> Ranking | None:
    """Compare the order of runs with that of their predictions from the others."""
    if len(samples) < _RANKED:
        return None
    predicted = [one.time_s for one in fit.predicted]
    actual = [one.measured.time_s for one in samples]
    distances = {k: ranking_distance(predicted, actual, k) for k in (1, _RANKED)}
    return Ranking(order_preserving_degree(predicted, actual), distances)


def _chosen(fit: OccupancyFit, of_data: Sequence[str]) -> Chosen:
    """Say what was chosen by evidence; nothing where there was nothing to choose."""
    return Chosen(
        fit.unit,
        {one.name: one.percent for one in fit.units},
        fit.form,
        {one.name: one.percent for one in fit.tried},
        tuple(name for name in fit.attributes if name in of_data),
    )


def _functions(best: Form, *, whole: bool) -> dict[str, str]:
    """Write functions in hours for each GiB of data flow; of the whole run where there is none."""
    factor, unit = (1 / 3600, "h") if whole else (GIB / 3600, "h a GiB")

    def scaled(function: Function, by: float = factor) -> Function:
        return dataclasses.replace(function, scale=function.scale * by)

    parts = {"compute": best.compute, "network": best.network, "disk": best.disk}
    texts = {f"{name}, {unit}": str(scaled(one)) for name, one in parts.items()}
    if not whole:
        texts["data, GiB"] = str(scaled(best.data, 1 / GIB))
    if best.bottleneck:
        likeliest = best.bottleneck.demands[0]
        demand = dataclasses.replace(
            likeliest, function=scaled(likeliest.function), idle_s=likeliest.idle_s * factor
        )
        texts[f"network + disk, {unit}"] = str(Bottleneck((demand,)))
    return texts


def _expected(fit: OccupancyFit, attributes: dict[str, float], narrow: float) -> Expected:
    prediction = fit.predict(attributes)
    verdict = worse(_verdict(interval_percent(prediction), narrow), prediction.verdict)
    return Expected(
        attributes=attributes,
        time_s=prediction.time_s,
        low_s=prediction.low_s,
        high_s=prediction.high_s,
        verdict=verdict,
    )


def _verdict(percent: float, narrow: float) -> Verdict:
    """Judge one interval by the width that learning has to reach."""
    if percent > 100 * (ReliabilitySettings().doubtful_factor - 1):
        return Verdict.REFUSED
    return Verdict.RELIABLE if percent <= narrow else Verdict.DOUBTFUL


def sample(trial: Trial, first: Trial, choices: ModelChoices) -> Sample | None:
    """Make a sample of a run; None where its data flow is missing and others have theirs.

    Where the form is chosen by evidence so is the data flow: the sample has what was counted, one
    byte where nothing was.  In the paper's form the first run decides: what the accounting counted,
    or else the size of the input, or else one byte for all.  Bytes far below the input's are no
    data flow then: it was read in ways that are not counted.

    first: the first run that was learned from.
    choices: whether the accounting's bytes mean something, and the network's share of the stall
        where it was not measured.
    """
    least = _COUNTED * first.attributes.get(INPUT_BYTES, 0.0)
    if choices.data_flow and choices.form is FunctionForm.CHOSEN:
        data_bytes = float(trial.data_bytes or 1)
    elif choices.data_flow and (first.data_bytes or 0) > least:
        data_bytes = float(trial.data_bytes or 0)
    else:
        data_bytes = trial.attributes.get(INPUT_BYTES, 1.0) if choices.data_flow else 1.0
    if not data_bytes:
        return None
    busy = 1.0 if trial.utilisation is None else trial.utilisation
    share = choices.network_share if trial.network_share is None else trial.network_share
    measured = occupancies(busy, max(trial.elapsed_s, 1.0), data_bytes, network_share=share)
    return Sample(trial.attributes, measured)


def fit(trials: Sequence[Trial], choices: ModelChoices) -> OccupancyFit:
    """Learn from the runs that ended well and have their data flow; those of a test set are none.

    Their node count is an attribute, also where it is the same for all.

    Raises ValueError: there is no such run, or it cannot be learned from.
    """
    done = [
        replace(one, attributes={NODES: float(one.nodes), **one.attributes})
        for one in trials
        if one.stage is Stage.DONE and one.purpose != Purpose.TEST
    ]
    made = [one for trial in done if (one := sample(trial, done[0], choices)) is not None]
    return model(choices).fit(made)


def model(choices: ModelChoices) -> EvidenceModel | LinearOccupancyModel:
    """Give what runs are learned with."""
    if choices.form is FunctionForm.PAPER:
        return LinearOccupancyModel(faster=choices.faster or frozenset())
    return EvidenceModel(OccupancyModel(faster=choices.faster), data_profile(choices))


def data_profile(choices: ModelChoices) -> tuple[str, ...]:
    """Attributes of the data, of which one may be the unit of data flow."""
    return (INPUT_BYTES,) if choices.data_flow else ()
