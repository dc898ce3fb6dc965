"""The unit of data flow, by evidence: bytes that were counted, the input's size, or none.

Occupancies are times for each unit of data flow D (Shivam, Babu, Chase, ICAC 2006, section IV.A).
What the accounting counts is D where a program reads and writes all of its data once; where counts
miss some, or run time does not go with them, another unit says more.  Each unit predicts every run
from the others, and the one that does so best is taken; with too few runs to say, the first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from predictor.checks import comparable
from predictor.occupancy.application_model import OccupancyModel
from predictor.occupancy.fit import Alternative, OccupancyFit, error_of, ran
from predictor.occupancy.powers import PowerModel
from predictor.occupancy.samples import Sample, checked

Floats = NDArray[np.float64]
#: Names of the units that are no attribute; the last one is of run time as a whole.
COUNTED, NONE, WHOLE = "bytes counted", "none", "none, powers"
#: Runs from which on left-out errors distinguish units.
_TELLING = 4
#: Units whose left-out errors are up to this many times the best one's are not refuted.
_ALIKE = 1.2
#: Left-out errors (log time) below this are rounding.
_ROUNDING = 1e-3


@dataclass(frozen=True, slots=True)
class EvidenceModel:
    """Learns an application profile in the unit of data flow that predicts left-out runs best.

    model: learns it in one unit.
    data_profile: attributes of the data (λ) that may be the unit, the likeliest first.
    """

    model: OccupancyModel
    data_profile: tuple[str, ...] = ()

    def fit(
        self, samples: Sequence[Sample], reference: Mapping[str, float] | None = None
    ) -> OccupancyFit:
        """Learn the predictor functions.

        samples: at least one; with a data flow of one byte where nothing was counted.
        Raises ValueError: no sample, or one whose attributes or occupancies cannot be learned from.
        """
        base = checked(samples, reference)
        units = self._units(samples)
        if len(samples) < _TELLING:
            units = units[:1]
        fits = [(unit, self.model.fit(in_unit(samples, unit), base)) for unit in units]
        if len(samples) >= _TELLING:
            fits.append((WHOLE, PowerModel().fit(in_unit(samples, NONE), base)))
        off = np.array([np.abs(fit.left_out) for _, fit in fits])
        order = _order(off.mean(axis=1))
        unit, chosen = fits[order[0]]
        tried = tuple(Alternative(fits[i][0], float(off[i].mean())) for i in order)
        least = off[order].mean(axis=1).min()
        rivals = tuple(
            fits[i][1] for i in order[1:] if off[i].mean() <= _ALIKE * max(least, _ROUNDING)
        )
        error = error_of(_without_own_say(off))
        return replace(chosen, error=error, unit=unit, units=tried, rivals=rivals, ran=ran(samples))

    def _units(self, samples: Sequence[Sample]) -> list[str]:
        """Units that all samples have, the likeliest first."""
        given = samples[0].attributes
        units = [name for name in self.data_profile if name in given]
        if all(one.measured.data_bytes > 1 for one in samples):
            units.append(COUNTED)
        return [*units, NONE]


def in_unit(samples: Sequence[Sample], unit: str) -> list[Sample]:
    """Give the samples with their occupancies for each unit of another data flow."""
    if unit == COUNTED:
        return list(samples)
    return [_with_flow(one, one.attributes[unit] if unit != NONE else 1.0) for one in samples]


def _with_flow(sample: Sample, data_bytes: float) -> Sample:
    """Give a sample as one of another data flow; its run time is the same."""
    measured = sample.measured
    factor = measured.data_bytes / data_bytes
    return replace(
        sample,
        measured=replace(
            measured,
            compute_s=factor * measured.compute_s,
            network_s=factor * measured.network_s,
            disk_s=factor * measured.disk_s,
            data_bytes=data_bytes,
        ),
    )


def _order(errors: Floats) -> list[int]:
    """Order choices by their errors; of those about as good as the best the likeliest is first."""
    least = max(float(errors.min()), _ROUNDING)
    worse = [comparable(float(one)) > _ALIKE * least for one in errors]
    return sorted(range(len(errors)), key=lambda i: (worse[i], worse[i] and errors[i], i))


def _without_own_say(off: Floats) -> Floats:
    """Error of each run by what would be chosen by the errors of the others.

    Of several choices the best one's errors are low in part by luck.

    off: errors (log time) of each choice, a row, for each run.
    """
    runs = off.shape[1]
    if runs == 1 or len(off) == 1:
        return np.asarray(off[0], dtype=np.float64)
    others = (off.sum(axis=1, keepdims=True) - off) / (runs - 1)
    return np.array([off[_order(others[:, i])[0], i] for i in range(runs)])
