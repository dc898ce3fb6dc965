"""What NIMO learned of an application: an occupancy of each part for each byte, and its data flow.

Execution time is f_D·(f_a + f_n + f_d) (ICAC 2006, equation 1);
`predictor.occupancy.application_model` learns the functions.

A regression answers for any assignment, also where no run says anything.  Its learned functions
"may be inaccurate outside of the sampled range" (Shivam, Babu, Chase, ICAC 2006, section V.B.4),
and attributes that always changed together have no effect of their own.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, expm1, log, log1p

import numpy as np
from numpy.typing import NDArray

from predictor.checks import LARGEST, SMALLEST, comparable, need_positive
from predictor.occupancy.bottleneck import Bottleneck
from predictor.occupancy.functions import Function, Term
from predictor.occupancy.samples import Occupancies, Sample
from predictor.types import Verdict

Floats = NDArray[np.float64]
#: Share of the sampled range by which an assignment may be beyond it and is doubtful; refused
#: farther away.
FAR = 0.5
#: Directions in which standardised attributes spread less than this, beside the widest one.
_NARROW = 0.03
#: Standard deviations by which an assignment may leave the directions that were sampled.
_OFF = 0.3
_SAME = 1e-9
#: Name under which the processor's occupancy takes part in the functions of the stalls: what it
#: has to do hides them.
COMPUTE = "compute"
PARTS = ("compute_s", "network_s", "disk_s", "data_bytes")
#: Least data flow, as a share of the samples' mean.
_LEAST_DATA = 1e-9
#: Shortest run time that is predicted, seconds.
_LEAST_S = 1e-9
#: Share of the runs of one assignment that may be outliers, at either end.
_OUTLIERS = 0.05
#: Runs of the same may differ by so much of log time.
SAME = 0.01
#: A model of n samples is taken to be off by 0.35/n of log time.  That counts as one of the errors
#: that left-out samples show.  Both were set on generated tasks that no benchmark has.
_PRIOR = 0.35


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why an answer is not to be relied on; ``off`` is how much further it may be off (log)."""

    verdict: Verdict
    text: str
    off: float = 0.0


@dataclass(frozen=True, slots=True)
class Scale:
    """Directions of standardised attributes in which the samples do not spread."""

    logarithmic: bool
    mean: tuple[float, ...]
    spread: tuple[float, ...]
    missing: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Support:
    """Sampled range of each attribute, and what the samples do not distinguish.

    ``varied`` are the attributes that differ between samples, ``inverse`` those whose reciprocal is
    in a learned function.
    """

    bounds: dict[str, tuple[float, float]]
    varied: tuple[str, ...] = ()
    scales: tuple[Scale, ...] = ()
    inverse: tuple[str, ...] = ()

    def doubts(self, asked: Mapping[str, float]) -> tuple[Doubt, ...]:
        """List the reasons for which an assignment is not supported; attributes may be missing.

        Raises ValueError: an attribute is not above zero and finite.
        """
        given = {name: asked[name] for name in self.bounds if name in asked}
        for name, value in given.items():
            need_positive(f"attribute {name}", value)
        doubts = [one for name, value in given.items() if (one := self._beyond(name, value))]
        if all(name in given for name in self.varied) and (one := self._together(given)):
            doubts.append(one)
        return tuple(doubts)

    def _beyond(self, name: str, value: float) -> Doubt | None:
        low, high = self.bounds[name]
        far = beyond(value, low, high, inverse=name in self.inverse)
        if far <= _SAME:
            return None
        verdict = Verdict.DOUBTFUL if far <= FAR + _SAME else Verdict.REFUSED
        ran = f"with {low:.6g}" if low == high else f"from {low:.6g} to {high:.6g}"
        return Doubt(verdict, f"{name} {value:.6g} is outside what was run, {ran}", log1p(far))

    def _together(self, given: Mapping[str, float]) -> Doubt | None:
        for scale in self.scales:
            values = np.array([given[name] for name in self.varied])
            values = np.log(values) if scale.logarithmic else values
            apart = (values - scale.mean) / np.array(scale.spread)
            for direction in scale.missing:
                if abs(float(apart @ np.array(direction))) > _OFF:
                    parts = zip(self.varied, direction, strict=True)
                    names = [name for name, part in parts if abs(part) > _OFF]
                    text = f"{' and '.join(names)} only changed together in what was run"
                    return Doubt(Verdict.REFUSED, text)
        return None


def supported(samples: Sequence[Mapping[str, float]], names: Sequence[str]) -> Support:
    """Work out what samples support.

    samples: attributes of each, at least one sample.
    names: attributes to look at; all samples have them, above zero.
    """
    if not samples or not names:
        return Support({})
    for one in samples:
        for name in names:
            need_positive(f"attribute {name}", one.get(name))
    values = np.array([[one[name] for name in names] for one in samples], float)
    low = values.min(axis=0)
    high = values.max(axis=0)
    bounds = dict(zip(names, zip(low.tolist(), high.tolist(), strict=True), strict=True))
    moved = [i for i in range(len(names)) if high[i] > low[i] * (1 + _SAME)]
    if len(moved) < 2:
        return Support(bounds, tuple(names[i] for i in moved))
    chosen = values[:, moved]
    both = (_scale(np.log(chosen), logarithmic=True), _scale(chosen, logarithmic=False))
    scales = tuple(one for one in both if one.missing)
    return Support(bounds, tuple(names[i] for i in moved), scales)


def _scale(values: Floats, *, logarithmic: bool) -> Scale:
    mean = values.mean(axis=0)
    spread = values.std(axis=0)
    apart = (values - mean) / spread
    variances, directions = np.linalg.eigh(apart.T @ apart)
    narrow = directions.T[variances < _NARROW**2 * variances[-1]]
    missing = tuple(tuple(row) for row in narrow.tolist())
    return Scale(logarithmic, tuple(mean.tolist()), tuple(spread.tolist()), missing)


def beyond(value: float, low: float, high: float, *, inverse: bool = False) -> float:
    """Distance of a value from a sampled range, as a share of the range; 0 within it.

    Above the range by ratios: from 1 to 8 nodes, 64 are a range away.  Below it by twice the
    difference: latencies may be near zero.  Where a function has the ``inverse`` of the value,
    ratios count below as well: it grows without bound there.  Where the range is a single value,
    twice or half of it is as far as half a range.

    >>> beyond(64.0, 1.0, 8.0), beyond(0.5, 1.0, 2.0), beyond(4.0, 2.0, 2.0)
    (1.0, 1.0, 0.5)
    """
    need_positive("attribute", value, low, high)
    if low > high:
        raise ValueError(f"a range from {low} to {high}: it must not fall")
    if low <= value <= high:
        return 0.0
    if high <= low * (1 + _SAME):
        return abs(log(value / low)) / log(2.0) / 2
    if value > high:
        return log(value / high) / log(high / low)
    ratio = log(low / value) / log(high / low) if inverse else 0.0
    return max(2 * (low - value) / (high - low), ratio)


def judged(doubts: Sequence[Doubt]) -> Verdict:
    """Give the worst verdict of several doubts."""
    order = tuple(Verdict)
    return max((one.verdict for one in doubts), key=order.index, default=Verdict.RELIABLE)


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
        """Attributes of which a function, or the demand of a bottleneck, has the reciprocal.

        Or another negative power.
        """
        return {one.attribute for one in self._factors() if one.falls}

    def used(self) -> set[str]:
        """Attributes that a function, or the demand of a bottleneck, goes by."""
        return {one.attribute for one in self._factors()}

    def _factors(self) -> Iterator[Term]:
        demands = self.bottleneck.demands if self.bottleneck else ()
        functions = (self.compute, self.network, self.disk, self.data)
        for function in (*functions, *(one.function for one in demands)):
            for term, coefficient in zip(function.terms, function.coefficients, strict=True):
                factor: Term | None = term if abs(coefficient) > _SAME else None
                while factor is not None:
                    yield factor
                    factor = factor.times

    def doubts(self, attributes: Mapping[str, float]) -> tuple[Doubt, ...]:
        """Say where the functions go below zero, which no run can."""
        named = (("compute occupancy", self.compute), ("data flow", self.data))
        return tuple(
            Doubt(Verdict.REFUSED, f"the learned {name} falls below zero there")
            for name, function in named
            if function.value(attributes) < -2 * function.press * function.scale
        )


@dataclass(frozen=True, slots=True)
class Alternative:
    """A choice that was tried, and its mean error (log time) of runs predicted from the others."""

    name: str
    left_out: float

    @property
    def percent(self) -> float:
        """The error in percent."""
        return 100 * expm1(min(self.left_out, log(LARGEST)))


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
    tried: forms by their names, the best first; of those the first ones are ``forms``.
    unit: of the data flow; ``units`` are those that were tried, the best first.
    rivals: fits in other units that left-out runs do not refute.
    ran: shortest and longest run time on each assignment that was run, by its attributes in
        alphabetical order.
    """

    forms: tuple[Form, ...]
    plausible: int
    error: float
    samples: int
    left_out: tuple[float, ...] = ()
    predicted: tuple[Occupancies, ...] = ()
    support: Support = field(default_factory=lambda: Support({}))
    weights: tuple[float, ...] = ()
    tried: tuple[Alternative, ...] = ()
    unit: str = ""
    units: tuple[Alternative, ...] = ()
    rivals: tuple["OccupancyFit", ...] = ()
    ran: tuple[tuple[tuple[float, ...], tuple[float, float]], ...] = ()

    @property
    def best(self) -> Form:
        """Functions f_a, f_n and f_d in seconds a byte, f_D in bytes, of the best form."""
        return self.forms[0]

    def predict(self, attributes: Mapping[str, float], level: float = 0.9) -> Predicted:
        """Predict the execution time on an assignment.

        The interval holds what each form says that is plausible, and the errors of left-out samples
        around the prediction.  These are taken as Laplace's: most are small, a few are large.  The
        fewer there are, the less is known of their scale: the quantile is that of the next error,
        the scale integrated out (with the prior 1/scale).

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
        # As if time went with the distance.
        far = sum(one.off for one in doubts)
        reach = self.samples * ((1 - level) ** (-1 / self.samples) - 1)
        width = exp(min(reach * self.error, log(LARGEST)))
        low_s = min(time_s / width, *(low.time_s / exp(SAME) for _, low, _ in plausible))
        high_s = max(time_s * width, *(high.time_s * exp(SAME) for _, _, high in plausible))
        for rival in self.rivals:
            rival_s = rival.predict(attributes, level).time_s
            low_s = min(low_s, rival_s / exp(SAME))
            high_s = max(high_s, rival_s * exp(SAME))
        # What was measured there is possible.
        shortest_s, longest_s = self.measured_s(attributes) or (time_s, time_s)
        low_s = min(max(low_s, _LEAST_S / width) * exp(-far), shortest_s)
        high_s = max(high_s * exp(far), longest_s)
        return Predicted(
            time_s, low_s, high_s, level, joint, judged(doubts), tuple(one.text for one in doubts)
        )

    @property
    def form(self) -> str:
        """Name of the form that counts most; empty where it is the one in the middle."""
        if not self.weights and len(self.forms) > 1:
            return ""
        place = self.weights.index(max(self.weights)) if self.weights else 0
        return self.tried[place].name if self.tried else ""

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes that run time goes by, according to the forms that count."""
        shares = self.weights or (1.0,) * len(self.forms)
        used = [form.used() for form, share in zip(self.forms, shares, strict=True) if share]
        return tuple(sorted(set().union(*used) - {COMPUTE}))

    def measured_s(self, attributes: Mapping[str, float]) -> tuple[float, float] | None:
        """Give the shortest and longest run time on an assignment; None where there was no run."""
        names = sorted(self.support.bounds)
        if not all(name in attributes for name in names):
            return None
        return dict(self.ran).get(tuple(attributes[name] for name in names))


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
    """Add what came of predicting each sample from the others, and what the samples support."""
    off = [log_error(made, one) for made, one in zip(predicted, samples, strict=True)]
    support = supported([one.attributes for one in samples], sorted(samples[0].attributes))
    inverse = {name for form in fit.forms for name in form.inverted()}
    support = replace(support, inverse=tuple(sorted(inverse)))
    return replace(
        fit,
        error=error_of(off),
        left_out=tuple(off),
        predicted=tuple(predicted),
        support=support,
        ran=ran(samples),
    )


def error_of(left_out: Iterable[float]) -> float:
    """Mean error (log time) of new runs, by those of predicting each sample from the others.

    A model of n samples errs less than those of n - 1 that predicted the left-out ones: by a share
    of (n - 1)/n of their errors.  A prior counts as one more error.
    """
    off = [abs(one) for one in left_out]
    count = len(off)
    errors = sum(off) * (count - 1) / count
    return (errors + _PRIOR / count) / (count + 1)


def ran(samples: Sequence[Sample]) -> tuple[tuple[tuple[float, ...], tuple[float, float]], ...]:
    """Give the shortest and longest run time on each assignment, but for outliers among many."""
    times: dict[tuple[float, ...], list[float]] = defaultdict(list)
    for one in samples:
        place = tuple(one.attributes[name] for name in sorted(one.attributes))
        times[place].append(one.measured.time_s)
    return tuple((place, _ends(sorted(every))) for place, every in times.items())


def _ends(rising: Sequence[float]) -> tuple[float, float]:
    beyond = int(_OUTLIERS * len(rising))
    return rising[beyond], rising[-1 - beyond]


def log_error(made: Occupancies, asked: Sample) -> float:
    """Log of predicted over actual time."""
    return log(max(made.time_s, 1e-3 * asked.measured.time_s) / asked.measured.time_s)
