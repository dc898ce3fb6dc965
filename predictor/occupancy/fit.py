"""What NIMO learned of an application: an occupancy of each part for each byte, and its data flow.

Execution time is f_D·(f_a + f_n + f_d) (ICAC 2006, equation 1);
`predictor.occupancy.application_model` learns the functions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log

from predictor.checks import LARGEST, SMALLEST, comparable
from predictor.occupancy.bottleneck import Bottleneck
from predictor.occupancy.functions import Function, Shape
from predictor.occupancy.samples import Occupancies, Sample
from predictor.occupancy.support import Doubt, Support, judged, supported, widening
from predictor.types import Verdict

#: Name under which the processor's occupancy takes part in the functions of the stalls: what it
#: has to do hides them.
COMPUTE = "compute"
PARTS = ("compute_s", "network_s", "disk_s", "data_bytes")
#: Least data flow, as a share of the samples' mean.
_LEAST_DATA = 1e-9
#: Shortest run time that is predicted, seconds.
_LEAST_S = 1e-9
#: Runs of the same may differ by so much of log time.
SAME = 0.01
#: A model of n samples is taken to be off by 0.35/n of log time.  That counts as one of the errors
#: that left-out samples show.  Both were set on generated tasks that no benchmark has.
_PRIOR = 0.35


@dataclass(frozen=True, slots=True)
class Predicted:
    """Execution time, from ``low_s`` to ``high_s`` in ``level`` of the cases, and what it is of.

    ``verdict`` says how far the samples support it; ``doubts`` say why they do not.
    """

    time_s: float
    low_s: float
    high_s: float
    level: float
    made_of: Occupancies
    verdict: Verdict = Verdict.RELIABLE
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """Predictor functions that were learned together, with the bottleneck where there is one."""

    compute: Function
    network: Function
    disk: Function
    data: Function
    bottleneck: Bottleneck | None = None

    @classmethod
    def of(cls, function: Callable[[str], Function]) -> "Form":
        """Ask for the function of each of :data:`PARTS`."""
        compute, network, disk, data = map(function, PARTS)
        return cls(compute, network, disk, data)

    def occupancies(
        self, attributes: Mapping[str, float]
    ) -> tuple[Occupancies, Occupancies, Occupancies]:
        """Predict the occupancies, and those of the shortest and the longest stall there may be."""
        compute = self.compute(attributes)
        amounts = {**attributes, COMPUTE: max(compute, SMALLEST)}
        data_bytes = max(self.data(attributes), _LEAST_DATA * self.data.scale)
        made = Occupancies(compute, self.network(amounts), self.disk(amounts), data_bytes)
        if self.bottleneck is None:
            return made, made, made
        stall_s, low_s, high_s = self.bottleneck.stall_s(compute, amounts)
        return _with_stall(made, stall_s), _with_stall(made, low_s), _with_stall(made, high_s)

    def inverted(self) -> set[str]:
        """Attributes of which a function, or the demand of a bottleneck, has the reciprocal."""
        demands = self.bottleneck.demands if self.bottleneck else ()
        functions = (self.compute, self.network, self.disk, self.data)
        return {
            factor.attribute
            for function in (*functions, *(one.function for one in demands))
            for term in function.terms
            for factor in (term, term.times)
            if factor is not None and factor.shape is Shape.INVERSE
        }

    def doubts(self, attributes: Mapping[str, float]) -> tuple[Doubt, ...]:
        """Say where the functions go below zero, which no run can."""
        named = (("compute occupancy", self.compute), ("data flow", self.data))
        return tuple(
            Doubt(Verdict.REFUSED, f"the learned {name} falls below zero there")
            for name, function in named
            if function.value(attributes) < -2 * function.press * function.scale
        )


@dataclass(frozen=True, slots=True)
class OccupancyFit:
    """Application profile: a predictor function for each occupancy and for the data flow.

    forms: what was learned; the best one first.
    plausible: how many of the forms the interval has to hold.
    error: mean absolute error of log time that is expected of a prediction.
    samples: how many were learned from.
    left_out: log of predicted over actual time of each sample, predicted from the others: what the
        functions are made of is chosen anew without it.
    predicted: occupancies of each sample, predicted so.
    support: what the samples support.
    weights: of the forms in a prediction, one in all; empty: the one in the middle is the
        prediction.
    """

    forms: tuple[Form, ...]
    plausible: int
    error: float
    samples: int
    left_out: tuple[float, ...] = ()
    predicted: tuple[Occupancies, ...] = ()
    support: Support = field(default_factory=lambda: Support({}))
    weights: tuple[float, ...] = ()

    @property
    def compute(self) -> Function:
        """Function f_a of the best form, in seconds a byte."""
        return self.forms[0].compute

    @property
    def network(self) -> Function:
        """Function f_n."""
        return self.forms[0].network

    @property
    def disk(self) -> Function:
        """Function f_d."""
        return self.forms[0].disk

    @property
    def data(self) -> Function:
        """Function f_D, in bytes."""
        return self.forms[0].data

    @property
    def bottleneck(self) -> Bottleneck | None:
        """What stands in the place of f_n and f_d, if the best form has it."""
        return self.forms[0].bottleneck

    def predict(self, attributes: Mapping[str, float], level: float = 0.9) -> Predicted:
        """Predict the execution time on an assignment.

        The interval holds what each form says that is plausible, and the errors of left-out samples
        around the prediction.  These are taken as Laplace's: most are small, a few are large.

        Raises ValueError: an attribute that a function depends on is missing, or one is not above
            zero and finite.
        """
        if not 0 < level < 1:
            raise ValueError(f"level is {level}, one between 0 and 1 is needed")
        doubts = self.support.doubts(attributes)
        made = [form.occupancies(attributes) for form in self.forms]
        joint, main = joined([one[0] for one in made], self.weights)
        doubts += self.forms[main].doubts(attributes)
        if joint.time_s <= _LEAST_S:
            doubts += (Doubt(Verdict.REFUSED, "the learned run time falls to zero there"),)
        time_s = max(joint.time_s, _LEAST_S)
        plausible = [*made[: self.plausible], made[main]]
        far = widening(doubts)
        width = exp(min(-log(1 - level) * self.error, log(LARGEST)))
        low_s = min(time_s / width, *(low.time_s / exp(SAME) for _, low, _ in plausible))
        high_s = max(time_s * width, *(high.time_s * exp(SAME) for _, _, high in plausible))
        return Predicted(
            time_s,
            max(low_s, _LEAST_S / width) * exp(-far),
            high_s * exp(far),
            level,
            joint,
            judged(doubts),
            tuple(one.text for one in doubts),
        )


def joined(made: Sequence[Occupancies], weights: Sequence[float]) -> tuple[Occupancies, int]:
    """Occupancies that several forms say together, and which form counts most for them."""
    if not weights:
        # Index of the time between the others; of two the first, which is the better one's.
        times = [one.time_s for one in made]
        main = sorted(range(len(times)), key=times.__getitem__)[1] if len(times) == 3 else 0
        return made[main], main
    parts = (
        sum(weight * getattr(one, part) for weight, one in zip(weights, made, strict=True))
        for part in PARTS
    )
    return Occupancies(*parts), max(range(len(made)), key=lambda i: comparable(weights[i]))


def _with_stall(made: Occupancies, stall_s: float) -> Occupancies:
    """Give the occupancies with this stall, parted between network and disk as before."""
    parts = made.network_s + made.disk_s
    share = made.network_s / parts if parts else 0.5
    return replace(made, network_s=share * stall_s, disk_s=(1 - share) * stall_s)


def judged_by(
    fit: OccupancyFit, samples: Sequence[Sample], predicted: Sequence[Occupancies]
) -> OccupancyFit:
    """Add what came of predicting each sample from the others, and what the samples support.

    A model of n samples errs less than those of n - 1 that predicted the left-out ones: by a share
    of (n - 1)/n of their errors.  A prior counts as one more error.
    """
    off = [log_error(made, one) for made, one in zip(predicted, samples, strict=True)]
    count = len(off)
    errors = sum(map(abs, off)) * (count - 1) / count
    error = (errors + _PRIOR / count) / (count + 1)
    support = supported([one.attributes for one in samples], sorted(samples[0].attributes))
    inverse = {name for form in fit.forms for name in form.inverted()}
    support = replace(support, inverse=tuple(sorted(inverse)))
    return replace(
        fit, error=error, left_out=tuple(off), predicted=tuple(predicted), support=support
    )


def log_error(made: Occupancies, asked: Sample) -> float:
    """Log of predicted over actual time."""
    return log(max(made.time_s, 1e-3 * asked.measured.time_s) / asked.measured.time_s)
