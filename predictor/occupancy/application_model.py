"""NIMO: how long an application occupies processor, network and disk for each byte it moves.

P. Shivam, S. Babu, J. Chase, *Learning Application Models for Utility Resource Planning*, ICAC
2006, and *Active and Accelerated Learning of Cost Models for Optimizing Scientific Applications*,
VLDB 2006.  Predictor functions of the resources' attributes ρ and of the data's λ are learned for
the occupancies of a run and its data flow; execution time is f_D·(f_a + f_n + f_d) (equation 1).
Only ratios of attributes matter.

Three forms are learned: linear functions as the paper has them, terms chosen by evidence, and a
bottleneck.  The linear one, of the fewest choices, decides where it predicts left-out samples about
as well as the best, and from six samples on one that does so far better than the others.  Else it
is the one whose time lies between the other two, and with twelve samples the mean of all, weighted
by how well each predicts left-out samples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

import numpy as np

from predictor.checks import comparable
from predictor.occupancy import fit as fits
from predictor.occupancy.bottleneck import learn_bottleneck
from predictor.occupancy.fit import Form, OccupancyFit, Predicted, judged_by
from predictor.occupancy.functions import Function, transformation
from predictor.occupancy.regression import learn, linear
from predictor.occupancy.samples import Occupancies, Sample, checked, from_the_others, occupancies

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

#: Names of the forms.
_TERMS, _BOTTLENECK_FORM, _LINEAR = "terms by evidence", "bottleneck", "linear, as the paper's"
#: From so many samples on, forms have weights: left-out errors distinguish them.  A form twice
#: as far off counts a sixteenth.  A bottleneck counts four times before there is evidence.
_TELLING, _STEEP, _LEAST_OFF, _BOTTLENECK = 12, 4.0, 0.005, 4.0
#: A form decides alone where its median left-out error is so many times smaller than any other's,
#: beyond :data:`SAME`; others of its kind are plausible where it is not.
#: So it does with as many samples; with fewer, errors of three or four say little.
_CLEARLY, _DECISIVE = 3.0, 6
#: The linear form decides where its mean left-out error is no more than this many times the best.
_ALIKE = 1.2
#: Left-out errors (log time) and correlations below this are rounding.
_ROUNDING = 1e-9
#: Share of the whole time below which errors of a stall need no further terms.
_MATTERS = 0.005


@dataclass(frozen=True, slots=True)
class OccupancyModel:
    """Learns an application profile (ICAC 2006, algorithm 2).

    compute, network, disk, data: attributes that each function may depend on; None: all.
    faster: attributes of which more makes runs faster; None: as the samples show.
    latency_hiding: whether stalls may be hidden behind what the processor has to do.
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

        samples: at least one; with a single one all functions are constants.
        reference: attributes of the reference assignment; None: those of the first sample.
        Raises ValueError: no sample, or one whose attributes or occupancies cannot be learned from.
        """
        base = checked(samples, reference)
        faster = _falling(samples, base) if self.faster is None else self.faster
        forms = self.forms(samples, base, faster)
        others = from_the_others(samples, lambda rest: self.forms(rest, base, faster))
        made = [
            [form.occupancies(one.attributes)[0] for form in rest]
            for one, rest in zip(samples, others, strict=True)
        ]
        off = [
            median(abs(fits.log_error(own[i], one)) for own, one in zip(made, samples, strict=True))
            for i in range(len(forms))
        ]
        # Forms that are off by rounding errors alone are alike: the first is of the fewest terms.
        order = sorted(range(len(forms)), key=lambda i: comparable(off[i], _ROUNDING))
        best = _CLEARLY * off[order[0]] + fits.SAME
        plausible = [i for i in order if off[i] <= best]
        by_error = order
        if len(plausible) == 1 and len(samples) >= _DECISIVE:
            order = plausible
        if len(samples) >= _TELLING:
            weights = _weights([(forms[i], off[i]) for i in order])
        else:
            weights = _linear_alone(made, samples, order)
        predicted = [fits.joined([own[i] for i in order], weights)[0] for own in made]
        names = (_TERMS, _BOTTLENECK_FORM, _LINEAR) if len(forms) > 2 else (_TERMS, _LINEAR)
        fit = OccupancyFit(
            tuple(forms[i] for i in order),
            len(plausible),
            0.0,
            len(samples),
            weights=weights,
            tried=tuple(fits.Alternative(names[i], off[i]) for i in by_error),
        )
        return judged_by(fit, samples, predicted)

    def forms(
        self, samples: Sequence[Sample], base: Mapping[str, float], faster: frozenset[str]
    ) -> list[Form]:
        """Learn each form; always as many, so that their place identifies them.

        samples: runs to learn from.
        base: attributes of the reference assignment.
        faster: attributes of which more makes runs faster.
        Returns list: of chosen terms, with a bottleneck, and of lines as the paper has them;
            without ``latency_hiding`` there is no bottleneck.
        """
        free = self._chosen(samples, base)
        amounts = [one.attributes for one in samples]
        straight = Form.of(
            lambda part: linear(
                amounts,
                [getattr(one.measured, part) for one in samples],
                reference=base,
                terms=[transformation(name, faster) for name in self._names(part, base)],
                sizes=_sizes(samples, part),
            )
        )
        if not self.latency_hiding:
            return [free, straight]
        # Of its own compute function, so that one error does not speak for two of three.
        own = replace(free, compute=straight.compute)
        # Let network and disk decide only where they take longest, if any run stalled.
        explained = {*self._names("network_s", base), *self._names("disk_s", base)}
        limited = learn_bottleneck(
            [one.attributes for one in samples],
            np.array([one.measured.compute_s for one in samples]),
            np.array([one.measured.network_s + one.measured.disk_s for one in samples]),
            reference=base,
            attributes=[name for name in sorted(base) if name in explained],
        )
        return [free, replace(own, bottleneck=limited), straight]

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
            {**one.attributes, fits.COMPUTE: max(one.measured.compute_s, 1e-6 * scale)}
            for one in samples
        ]
        return learn(
            amounts,
            [getattr(one.measured, part) for one in samples],
            reference={**base, fits.COMPUTE: scale},
            attributes=self._names(part, base),
            hides=fits.COMPUTE if self.latency_hiding else "",
            # A stall hardly matters where it is small beside all else.
            noise=_MATTERS * float(np.mean([one.measured.each_s for one in samples])),
            sizes=_sizes(samples, part),
        )[0]

    def _names(self, part: str, base: Mapping[str, float]) -> tuple[str, ...]:
        chosen = (self.compute, self.network, self.disk, self.data)[fits.PARTS.index(part)]
        return tuple(sorted(base)) if chosen is None else chosen


def _falling(samples: Sequence[Sample], base: Mapping[str, float]) -> frozenset[str]:
    from scipy.stats import spearmanr  # noqa: PLC0415 - takes half a second, and is seldom needed

    times = [one.measured.time_s for one in samples]
    falling = set()
    for name in base:
        values = [one.attributes[name] for one in samples]
        if (
            len(set(values)) > 1
            and len(set(times)) > 1
            and spearmanr(values, times).statistic < -_ROUNDING
        ):
            falling.add(name)
    return frozenset(falling)


def _sizes(samples: Sequence[Sample], part: str) -> list[float]:
    """Tell what an error of each sample is measured against: its own time, or its own data flow."""
    return [
        one.measured.data_bytes if part == "data_bytes" else one.measured.each_s for one in samples
    ]


def _linear_alone(
    made: Sequence[Sequence[Occupancies]], samples: Sequence[Sample], order: Sequence[int]
) -> tuple[float, ...]:
    """Weights of forms in this order where the last, the linear one, decides; empty elsewhere."""
    errors = [
        fmean(abs(fits.log_error(one, sample)) for one, sample in zip(form, samples, strict=True))
        for form in zip(*made, strict=True)
    ]
    last = len(errors) - 1
    alike = comparable(errors[last], _ROUNDING) <= _ALIKE * comparable(min(errors), _ROUNDING)
    return tuple(float(i == last) for i in order) if alike and last in order else ()


def _weights(forms: Sequence[tuple[Form, float]]) -> tuple[float, ...]:
    """Weights of forms, each with what it is off by (log time) where samples are left out."""
    weights = [
        (_BOTTLENECK if form.bottleneck else 1.0) * (off + _LEAST_OFF) ** -_STEEP
        for form, off in forms
    ]
    return tuple(one / sum(weights) for one in weights)
