"""NIMO's predictor functions to the letter: linear, with a predetermined transformation of each.

P. Shivam, S. Babu, J. Chase, VLDB 2006, algorithm 6 and section 4.1; ICAC 2006, algorithm 2.  Each
function is ``f(ρ) = a_1 g_1(ρ_1) + ... + a_k g_k(ρ_k) + c``, fitted by least squares to values and
attributes divided by those of the reference assignment.  ``g`` is the attribute itself, or its
reciprocal where more of it makes runs faster.  This is what our own models are measured against.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from predictor.checks import need_finite
from predictor.occupancy.fit import PARTS, Form, OccupancyFit, judged_by
from predictor.occupancy.functions import Function, transformation
from predictor.occupancy.regression import linear
from predictor.occupancy.samples import Occupancies, Sample, checked, from_the_others

#: Share of the whole below which an occupancy is none.
_NOTHING = 1e-6


@dataclass(frozen=True, slots=True)
class LinearOccupancyModel:
    """Learns an application profile of equation 1 with linear functions.

    compute, network, disk, data: attributes that each function has; None: all.
    faster: attributes of which more makes runs faster: their reciprocal takes part instead of
        themselves.
    """

    compute: tuple[str, ...] | None = None
    network: tuple[str, ...] | None = None
    disk: tuple[str, ...] | None = None
    data: tuple[str, ...] | None = None
    faster: frozenset[str] = frozenset()

    def fit(
        self, samples: Sequence[Sample], reference: Mapping[str, float] | None = None
    ) -> OccupancyFit:
        """Learn the predictor functions.

        Raises ValueError: no sample, or one whose attributes or occupancies cannot be learned from.
        """
        base = checked(samples, reference)
        form = self._form(samples, base)
        others = from_the_others(samples, lambda rest: self._form(rest, base))
        predicted = [
            made.occupancies(one.attributes)[0] for made, one in zip(others, samples, strict=True)
        ]
        return judged_by(OccupancyFit((form,), 1, 0.0, len(samples)), samples, predicted)

    def _form(self, samples: Sequence[Sample], base: Mapping[str, float]) -> Form:
        amounts = [one.attributes for one in samples]
        chosen = dict(zip(PARTS, (self.compute, self.network, self.disk, self.data), strict=True))

        def learned(part: str) -> Function:
            own = chosen[part]
            return linear(
                amounts,
                [getattr(one.measured, part) for one in samples],
                reference=base,
                terms=[
                    transformation(n, self.faster) for n in (sorted(base) if own is None else own)
                ],
            )

        return Form.of(learned)


def percentage_error(predicted: float, actual: float, whole: float) -> float:
    """Absolute percentage error of one occupancy (VLDB 2006, section 3.6).

    It has none where the actual occupancy is nothing: then it counts as 100 if what was predicted
    matters beside the ``whole``, and as nothing otherwise.
    """
    need_finite("occupancy", predicted, actual, whole, least=0)
    if actual > _NOTHING * whole:
        return 100 * abs(actual - predicted) / actual
    return 100.0 if predicted > _NOTHING * whole else 0.0


def part_errors(
    predicted: Sequence[Occupancies], actual: Sequence[Occupancies]
) -> dict[str, float]:
    """MAPE of each of the four functions, by the names of :class:`Occupancies`."""
    by_part = {}
    for name in PARTS:
        errors = [
            percentage_error(
                getattr(mine, name),
                getattr(theirs, name),
                theirs.data_bytes if name == "data_bytes" else theirs.each_s,
            )
            for mine, theirs in zip(predicted, actual, strict=True)
        ]
        by_part[name] = float(np.mean(errors))
    return by_part
