"""NIMO: how long an application occupies processor, network and disk for each byte it moves.

P. Shivam, S. Babu, J. Chase, *Learning Application Models for Utility Resource Planning*, ICAC
2006, and *Active and Accelerated Learning of Cost Models for Optimizing Scientific Applications*,
VLDB 2006.  Predictor functions of the resources' attributes ρ and of the data's λ are learned for
the occupancies of a run and its data flow; execution time is f_D·(f_a + f_n + f_d) (equation 1).
Only ratios of attributes matter.

Three forms are learned: linear functions as the paper has them, terms chosen by evidence, and a
bottleneck.  The one that predicts left-out samples far better than the others decides.  Where none
does, it is the one whose time lies between the other two, and with twelve samples the mean of all,
weighted by how well each predicts left-out samples.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log
from statistics import median

import numpy as np
from scipy.stats import spearmanr

from predictor.models.bottleneck import Bottleneck, learn_bottleneck
from predictor.models.functions import Function, Shape, Term
from predictor.models.samples import Occupancies, Sample, checked, from_the_others, occupancies
from predictor.models.support import Doubt, Support, judged, supported, widening
from predictor.models.transformed import learn, linear
from predictor.types import Verdict

__all__ = [
    "Form",
    "Occupancies",
    "OccupancyFit",
    "OccupancyModel",
    "Predicted",
    "Sample",
    "checked",
    "judged_by",
    "occupancies",
]

#: Name under which the processor's occupancy takes part in the functions of the stalls: what it
#: has to do hides them.
COMPUTE = "compute"
PARTS = ("compute_s", "network_s", "disk_s", "data_bytes")
#: A model of n samples is taken to be off by 0.35/n of log time.  That counts as one of the errors
#: that left-out samples show.  Both were set on generated tasks that no benchmark has.
_PRIOR = 0.35
#: From so many samples on, forms have weights: their left-out errors tell them apart.  A form twice
#: as far off counts a sixteenth.  A bottleneck counts four times before there is evidence.
_TELLING, _STEEP, _LEAST_OFF, _BOTTLENECK = 12, 4.0, 0.005, 4.0
#: A form decides alone where its median left-out error is so many times smaller than any other's,
#: beyond what two runs of the same may differ by; others of its kind are plausible where it is not.
_CLEARLY, _SAME = 3.0, 0.01
#: Share of the whole time below which errors of a stall need no further terms.
_MATTERS = 0.005
#: Shortest run time that is predicted, seconds.
_LEAST_S = 1e-9


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
        amounts = {**attributes, COMPUTE: max(compute, 1e-300)}
        made = Occupancies(
            compute, self.network(amounts), self.disk(amounts), max(self.data(attributes), 1.0)
        )
        if self.bottleneck is None:
            return made, made, made
        stall_s, low_s, high_s = self.bottleneck.stall_s(compute, amounts)
        return _with_stall(made, stall_s), _with_stall(made, low_s), _with_stall(made, high_s)

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

    Parameters
    ----------
    forms
        What was learned; the best one first.
    plausible
        How many of the forms the interval has to hold.
    error
        Mean absolute error of log time that is expected of a prediction.
    samples
        How many were learned from.
    left_out
        Log of predicted over actual time of each sample, predicted from the others: what the
        functions are made of is chosen anew without it.
    predicted
        Occupancies of each sample, predicted so.
    support
        What the samples support.
    weights
        Of the forms in a prediction, one in all; empty: the one in the middle is the prediction.
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

        Raises
        ------
        ValueError
            An attribute that a function depends on is missing, or one is not above zero and finite.
        """
        if not 0 < level < 1:
            raise ValueError(f"level is {level}, one between 0 and 1 is needed")
        doubts = self.support.doubts(attributes)
        made = [form.occupancies(attributes) for form in self.forms]
        joint, main = _joined([one[0] for one in made], self.weights)
        doubts += self.forms[main].doubts(attributes)
        if joint.time_s <= _LEAST_S:
            doubts += (Doubt(Verdict.REFUSED, "the learned run time falls to zero there"),)
        time_s = max(joint.time_s, _LEAST_S)
        plausible = [*made[: self.plausible], made[main]]
        far = widening(doubts)
        width = exp(-log(1 - level) * self.error)
        low_s = min(time_s / width, *(low.time_s / exp(_SAME) for _, low, _ in plausible))
        high_s = max(time_s * width, *(high.time_s * exp(_SAME) for _, _, high in plausible))
        return Predicted(
            time_s,
            max(low_s, _LEAST_S / width) * exp(-far),
            high_s * exp(far),
            level,
            joint,
            judged(doubts),
            tuple(one.text for one in doubts),
        )


@dataclass(frozen=True, slots=True)
class OccupancyModel:
    """Learns an application profile (ICAC 2006, algorithm 2).

    Parameters
    ----------
    compute, network, disk, data
        Attributes that each function may depend on, where one knows; None: all that there are.
    faster
        Attributes of which more makes runs faster, where one knows; None: what the samples say.
    latency_hiding
        Whether stalls may be hidden behind what the processor has to do.
    """

    compute: tuple[str, ...] | None = None
    network: tuple[str, ...] | None = None
    disk: tuple[str, ...] | None = None
    data: tuple[str, ...] | None = None
    faster: frozenset[str] | None = None
    latency_hiding: bool = field(default=True, kw_only=True)

    def fit(
        self, samples: Sequence[Sample], reference: Mapping[str, float] | None = None
    ) -> OccupancyFit:
        """Learn the predictor functions.

        Parameters
        ----------
        samples
            At least one; with a single one all functions are constants.
        reference
            Attributes of the reference assignment; None: those of the first sample.

        Raises
        ------
        ValueError
            No sample, or one whose attributes or occupancies cannot be learned from.
        """
        base = checked(samples, reference)
        faster = _falling(samples, base) if self.faster is None else self.faster
        forms = self._forms(samples, base, faster)
        others = from_the_others(samples, lambda rest: self._forms(rest, base, faster))
        made = [
            [form.occupancies(one.attributes)[0] for form in rest]
            for one, rest in zip(samples, others, strict=True)
        ]
        off = [
            median(abs(_off(own[i], one)) for own, one in zip(made, samples, strict=True))
            for i in range(len(forms))
        ]
        order = sorted(range(len(forms)), key=off.__getitem__)
        best = _CLEARLY * off[order[0]] + _SAME
        plausible = [i for i in order if off[i] <= best]
        if len(plausible) == 1:
            order = plausible
        enough = len(samples) >= _TELLING
        weights = _weights([(forms[i], off[i]) for i in order]) if enough else ()
        predicted = [_joined([own[i] for i in order], weights)[0] for own in made]
        fit = OccupancyFit(
            tuple(forms[i] for i in order), len(plausible), 0.0, len(samples), weights=weights
        )
        return judged_by(fit, samples, predicted)

    def _forms(
        self, samples: Sequence[Sample], base: Mapping[str, float], faster: frozenset[str]
    ) -> list[Form]:
        """Learn each form; always as many, so that they can be told apart by their place."""
        free = self._chosen(samples, base)
        straight = self._linear(samples, base, faster)
        if not self.latency_hiding:
            return [free, straight]
        # Of its own compute function, so that one error does not speak for two of three.
        own = replace(free, compute=straight.compute)
        return [free, self._limited(own, samples, base), straight]

    def _chosen(self, samples: Sequence[Sample], base: Mapping[str, float]) -> Form:
        """Learn each function by itself, of the terms that the samples ask for."""
        amounts = [one.attributes for one in samples]

        def learned(part: str) -> Function:
            if part in ("network_s", "disk_s"):
                return self._stall(samples, part, base)
            values = [getattr(one.measured, part) for one in samples]
            sizes = _sizes(samples, part)
            names = self._names(part, base)
            return learn(amounts, values, reference=base, attributes=names, sizes=sizes)[0]

        return Form.of(learned)

    def _stall(self, samples: Sequence[Sample], part: str, base: Mapping[str, float]) -> Function:
        """Learn a stall's function; what the processor has to do may hide some of it."""
        scale = float(np.mean([one.measured.compute_s for one in samples])) or 1.0
        amounts = [
            {**one.attributes, COMPUTE: max(one.measured.compute_s, 1e-6 * scale)}
            for one in samples
        ]
        return learn(
            amounts,
            [getattr(one.measured, part) for one in samples],
            reference={**base, COMPUTE: scale},
            attributes=self._names(part, base),
            hides=COMPUTE if self.latency_hiding else "",
            # A stall hardly matters where it is small beside all else.
            noise=_MATTERS * float(np.mean([one.measured.each_s for one in samples])),
            sizes=_sizes(samples, part),
        )[0]

    def _limited(self, free: Form, samples: Sequence[Sample], base: Mapping[str, float]) -> Form:
        """Let network and disk decide only where they take longest, if any run stalled."""
        explained = {*self._names("network_s", base), *self._names("disk_s", base)}
        limited = learn_bottleneck(
            [one.attributes for one in samples],
            np.array([one.measured.compute_s for one in samples]),
            np.array([one.measured.network_s + one.measured.disk_s for one in samples]),
            reference=base,
            attributes=[name for name in sorted(base) if name in explained],
        )
        return replace(free, bottleneck=limited)

    def _linear(
        self, samples: Sequence[Sample], base: Mapping[str, float], faster: frozenset[str]
    ) -> Form:
        """Learn linear functions: one predetermined transformation of each attribute."""
        amounts = [one.attributes for one in samples]
        return Form.of(
            lambda part: linear(
                amounts,
                [getattr(one.measured, part) for one in samples],
                reference=base,
                terms=[transformation(name, faster) for name in self._names(part, base)],
                sizes=_sizes(samples, part),
            )
        )

    def _names(self, part: str, base: Mapping[str, float]) -> tuple[str, ...]:
        """Attributes of a function."""
        chosen = (self.compute, self.network, self.disk, self.data)[PARTS.index(part)]
        return tuple(sorted(base)) if chosen is None else chosen


def transformation(name: str, faster: frozenset[str]) -> Term:
    """Transform an attribute: to its reciprocal where more of it makes runs faster."""
    return Term(name, Shape.INVERSE if name in faster else Shape.LINEAR)


def judged_by(
    fit: OccupancyFit, samples: Sequence[Sample], predicted: Sequence[Occupancies]
) -> OccupancyFit:
    """Add what came of predicting each sample from the others, and what the samples support.

    A model of n samples errs less than those of n - 1 that predicted the left-out ones: by a share
    of (n - 1)/n of their errors.  A prior counts as one more error.
    """
    off = [_off(made, one) for made, one in zip(predicted, samples, strict=True)]
    count = len(off)
    errors = sum(map(abs, off)) * (count - 1) / count
    error = (errors + _PRIOR / count) / (count + 1)
    support = supported([one.attributes for one in samples], sorted(samples[0].attributes))
    return replace(
        fit, error=error, left_out=tuple(off), predicted=tuple(predicted), support=support
    )


def _falling(samples: Sequence[Sample], base: Mapping[str, float]) -> frozenset[str]:
    """Attributes with which run time falls."""
    times = [one.measured.time_s for one in samples]
    falling = set()
    for name in base:
        values = [one.attributes[name] for one in samples]
        if len(set(values)) > 1 and len(set(times)) > 1 and spearmanr(values, times).statistic < 0:
            falling.add(name)
    return frozenset(falling)


def _sizes(samples: Sequence[Sample], part: str) -> list[float]:
    """Tell what an error of each sample is measured against: its own time, or its own data flow."""
    return [
        one.measured.data_bytes if part == "data_bytes" else one.measured.each_s for one in samples
    ]


def _middle(times: Sequence[float]) -> int:
    """Index of the time between the others; of two the first, which is the better one's."""
    return sorted(range(len(times)), key=times.__getitem__)[1] if len(times) == 3 else 0


def _weights(forms: Sequence[tuple[Form, float]]) -> tuple[float, ...]:
    """Weights of forms, each with what it is off by (log time) where samples are left out."""
    weights = [
        (_BOTTLENECK if form.bottleneck else 1.0) * (off + _LEAST_OFF) ** -_STEEP
        for form, off in forms
    ]
    return tuple(one / sum(weights) for one in weights)


def _joined(made: Sequence[Occupancies], weights: Sequence[float]) -> tuple[Occupancies, int]:
    """Occupancies that several forms say together, and which form counts most for them."""
    if not weights:
        main = _middle([one.time_s for one in made])
        return made[main], main
    parts = (
        sum(weight * getattr(one, part) for weight, one in zip(weights, made, strict=True))
        for part in PARTS
    )
    return Occupancies(*parts), max(range(len(made)), key=weights.__getitem__)


def _with_stall(made: Occupancies, stall_s: float) -> Occupancies:
    """Give the occupancies with this stall, parted between network and disk as before."""
    parts = made.network_s + made.disk_s
    share = made.network_s / parts if parts else 0.5
    return replace(made, network_s=share * stall_s, disk_s=(1 - share) * stall_s)


def _off(made: Occupancies, asked: Sample) -> float:
    """Log of predicted over actual time."""
    return log(max(made.time_s, 1e-3 * asked.measured.time_s) / asked.measured.time_s)
