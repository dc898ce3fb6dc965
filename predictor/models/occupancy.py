"""NIMO: how long an application occupies processor, network and disk for each byte it moves.

P. Shivam, S. Babu, J. Chase, *Learning Application Models for Utility Resource Planning*, ICAC
2006, and *Active and Accelerated Learning of Cost Models for Optimizing Scientific Applications*,
VLDB 2006.  A run on a resource assignment gives its utilisation U, time T and data flow D, and with
them the occupancies (seconds a byte)::

    o_a = U·T/D     o_s = (1 - U)·T/D = o_n + o_d

Predictor functions of the resources' attributes ρ and of the data's λ are learned for each, and the
execution time is f_D·(f_a + f_n + f_d) (equation 1).  Only ratios of attributes matter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from predictor.models.transformed import Function, learn

Floats = NDArray[np.float64]
#: Name under which the processor's occupancy takes part in the functions of the stalls: what it
#: has to do hides them.
COMPUTE = "compute"
#: Standard deviation of log time that a model of too few samples is believed to have.
_PRIOR, _PRIOR_WEIGHT = 0.2, 2.0
#: Share of the whole time below which errors of a stall need no further terms.
_MATTERS = 0.005
#: Stall beside compute below which a run counts as hidden, and runs needed that are not.
_HIDDEN, _FEWEST_FULL = 0.08, 3
#: Noise of the demand as a share of the time, and by how much more a bottleneck may miss than
#: functions with free bends: it has fewer of them to be wrong with elsewhere.
_DEMAND, _PREFERRED = 0.015, 1.15


@dataclass(frozen=True, slots=True)
class Occupancies:
    """Seconds that each byte of data flow occupies a resource, and the bytes."""

    compute_s: float
    network_s: float
    disk_s: float
    data_bytes: float

    @property
    def time_s(self) -> float:
        """Execution time (equation 1)."""
        return self.data_bytes * (self.compute_s + self.network_s + self.disk_s)


def occupancies(
    utilisation: float, time_s: float, data_bytes: float, *, network_share: float = 0.0
) -> Occupancies:
    """Solve for the occupancies of one run (ICAC 2006, algorithm 1).

    Parameters
    ----------
    utilisation
        Share of the time that the processors allotted were busy, 0 to 1.
    time_s
        Execution time.
    data_bytes
        Bytes read and written.
    network_share
        Share of the time per I/O that is spent in the network; the rest is the disk's.

    Raises
    ------
    ValueError
        A value is outside its range.

    Examples
    --------
    >>> made = occupancies(0.75, 100.0, 1e9, network_share=0.4)
    >>> round(made.compute_s * 1e9), round(made.network_s * 1e9), round(made.disk_s * 1e9)
    (75, 10, 15)
    """
    if not (0 <= utilisation <= 1 and 0 <= network_share <= 1):
        raise ValueError(
            f"utilisation {utilisation} and network share {network_share} have to be from 0 to 1"
        )
    if not (time_s > 0 and data_bytes > 0):
        raise ValueError(f"time {time_s} s and data flow {data_bytes} bytes have to be above zero")
    each = time_s / data_bytes
    stall = (1 - utilisation) * each
    return Occupancies(
        utilisation * each, network_share * stall, (1 - network_share) * stall, data_bytes
    )


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: attributes of its resources (ρ) and data (λ), all above zero, and what it took."""

    attributes: Mapping[str, float]
    found: Occupancies


@dataclass(frozen=True, slots=True)
class Predicted:
    """Execution time, from ``low_s`` to ``high_s`` in ``level`` of the cases, and what it is of."""

    time_s: float
    low_s: float
    high_s: float
    level: float
    made_of: Occupancies


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """Whatever takes longest decides: stall = idle + max(0, demand - compute), seconds a byte.

    ``demand`` is what network and disk take for each byte while the processor works beside them
    (prefetching, write-behind, a saturated disk).  The paper names such a model of the closed loop
    as the alternative to pieces of lines (ICAC 2006, section V.B.4).
    """

    demand: Function
    idle_s: float

    def applied(self, made: Occupancies, attributes: Mapping[str, float]) -> Occupancies:
        """Give the occupancies with this stall, parted between network and disk as before."""
        parts = made.network_s + made.disk_s
        share = made.network_s / parts if parts else 0.5
        stall = self.stall_s(made.compute_s, attributes)
        return replace(made, network_s=share * stall, disk_s=(1 - share) * stall)

    def __str__(self) -> str:
        """Write it as the functions are written."""
        return f"{self.idle_s:.3g} + ({self.demand} - {COMPUTE})+"

    def stall_s(self, compute_s: float, attributes: Mapping[str, float]) -> float:
        """Seconds that each byte stalls."""
        return self.idle_s + max(0.0, self.demand(attributes) - compute_s)


@dataclass(frozen=True, slots=True)
class OccupancyFit:
    """Application profile: a predictor function for each occupancy and for the data flow.

    ``error`` is the standard deviation of log time when each sample is predicted from the others.
    """

    compute: Function
    network: Function
    disk: Function
    data: Function
    error: float
    samples: int
    bottleneck: "Bottleneck | None" = None

    def predict(self, attributes: Mapping[str, float], level: float = 0.9) -> Predicted:
        """Predict the execution time on an assignment.

        Raises
        ------
        KeyError
            An attribute that a function depends on is missing.
        """
        compute = self.compute(attributes)
        known = {**attributes, COMPUTE: max(compute, 1e-300)}
        made = Occupancies(
            compute, self.network(known), self.disk(known), max(self.data(attributes), 1.0)
        )
        if self.bottleneck:
            made = self.bottleneck.applied(made, known)
        free = self.samples + _PRIOR_WEIGHT - 1
        width = float(student.ppf((1 + level) / 2, free)) * self.error
        time_s = max(made.time_s, 1e-9)
        return Predicted(time_s, time_s * exp(-width), time_s * exp(width), level, made)


@dataclass(frozen=True, slots=True)
class OccupancyModel:
    """Learns an application profile (ICAC 2006, algorithm 2).

    ``compute``, ``network``, ``disk`` and ``data`` name the attributes that each function may
    depend on, where one knows; None: all that the samples have.
    """

    compute: tuple[str, ...] | None = None
    network: tuple[str, ...] | None = None
    disk: tuple[str, ...] | None = None
    data: tuple[str, ...] | None = None
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
            No sample, or attributes that are missing or not above zero.
        """
        if not samples:
            raise ValueError("no sample to learn from")
        base = dict(reference or samples[0].attributes)
        every = tuple(sorted(base))
        amounts = [one.attributes for one in samples]
        compute, compute_out = learn(
            amounts,
            [one.found.compute_s for one in samples],
            reference=base,
            attributes=_known(self.compute, every),
        )
        data, data_out = learn(
            amounts,
            [one.found.data_bytes for one in samples],
            reference=base,
            attributes=_known(self.data, every),
        )
        network, network_out = self._stall(
            samples, [one.found.network_s for one in samples], base, _known(self.network, every)
        )
        disk, disk_out = self._stall(
            samples, [one.found.disk_s for one in samples], base, _known(self.disk, every)
        )
        out = data_out * (compute_out + network_out + disk_out)
        bottleneck = self._bottleneck(samples, base, every) if self.latency_hiding else None
        error, limit = _spread(out, samples), None
        if bottleneck:
            limited, stall_out = bottleneck
            other = _spread(data_out * (compute_out + stall_out), samples)
            if other < _PREFERRED * error:
                error, limit = other, limited
        return OccupancyFit(compute, network, disk, data, error, len(samples), limit)

    def _bottleneck(
        self, samples: Sequence[Sample], base: Mapping[str, float], every: tuple[str, ...]
    ) -> tuple[Bottleneck, Floats] | None:
        """Learn what network and disk demand where they are the bottleneck; None: too few.

        Gives also the stall of each sample as predicted from the others.
        """
        compute = np.array([one.found.compute_s for one in samples])
        stall = np.array([one.found.network_s + one.found.disk_s for one in samples])
        full = stall > _HIDDEN * compute
        if full.sum() < _FEWEST_FULL or full.all():
            return None
        idle = float(np.median(stall[~full]))
        known = set(_known(self.network, every)) | set(_known(self.disk, every))
        demand, left_out = learn(
            [one.attributes for one, at_limit in zip(samples, full, strict=True) if at_limit],
            (stall + compute - idle)[full].tolist(),
            reference=base,
            attributes=[name for name in every if name in known],
            noise=_DEMAND * float((stall + compute).mean()),
        )
        made = Bottleneck(demand, idle)
        pairs = zip(samples, compute, strict=True)
        out = np.array([made.stall_s(float(busy), one.attributes) for one, busy in pairs])
        out[full] = idle + np.maximum(left_out - compute[full], 0.0)
        return made, out

    def _stall(
        self,
        samples: Sequence[Sample],
        values: Sequence[float],
        base: Mapping[str, float],
        attributes: tuple[str, ...],
    ) -> tuple[Function, Floats]:
        """Learn a stall's function; what the processor has to do may hide some of it."""
        scale = float(np.mean([one.found.compute_s for one in samples])) or 1.0
        amounts = [
            {**one.attributes, COMPUTE: max(one.found.compute_s, 1e-6 * scale)} for one in samples
        ]
        return learn(
            amounts,
            values,
            reference={**base, COMPUTE: scale},
            attributes=attributes,
            hides=COMPUTE if self.latency_hiding else "",
            # A stall hardly matters where it is small beside all else.
            noise=_MATTERS * float(np.mean([_each_s(one.found) for one in samples])),
        )


def _each_s(found: Occupancies) -> float:
    """Seconds that each byte takes."""
    return found.compute_s + found.network_s + found.disk_s


def _known(chosen: tuple[str, ...] | None, every: tuple[str, ...]) -> tuple[str, ...]:
    return every if chosen is None else chosen


def _spread(left_out: Floats, samples: Sequence[Sample]) -> float:
    """Spread of log time around what the others predict, with a prior while there are few."""
    times = np.array([one.found.time_s for one in samples])
    ratios = np.log(np.maximum(left_out, 1e-3 * times) / times)
    squares = float((ratios**2).sum()) if len(samples) > 1 else 0.0
    return sqrt((squares + _PRIOR_WEIGHT * _PRIOR**2) / (len(samples) - 1 + _PRIOR_WEIGHT))
