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
from functools import cache
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from predictor.models.bottleneck import NOISE, Bottleneck, learn_bottleneck
from predictor.models.transformed import Function, learn

Floats = NDArray[np.float64]
#: Name under which the processor's occupancy takes part in the functions of the stalls: what it
#: has to do hides them.
COMPUTE = "compute"
#: Standard deviation of log time that a model of too few samples is believed to have.
_PRIOR, _PRIOR_WEIGHT = 0.2, 2.0
#: Runs from which on a test shows a difference; among fewer the lower error decides.
_TESTABLE = 10
#: Share of the whole time below which errors of a stall need no further terms.
_MATTERS = 0.005


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
class OccupancyFit:
    """Application profile: a predictor function for each occupancy and for the data flow.

    ``error`` is the standard deviation of log time when each sample is predicted from the others,
    and ``left_out`` the log of predicted over actual time of each of them: what the functions are
    made of is chosen anew without it.  With ``undecided`` the functions of network and disk explain
    the samples as well as the bottleneck does.
    """

    compute: Function
    network: Function
    disk: Function
    data: Function
    error: float
    samples: int
    bottleneck: Bottleneck | None = None
    left_out: tuple[float, ...] = ()
    undecided: bool = False

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
        stalls = self._stall_s(made, known)
        time_s, low_s, high_s = (max(_with_stall(made, one).time_s, 1e-9) for one in stalls)
        width = _quantile((1 + level) / 2, self.samples + _PRIOR_WEIGHT - 1) * self.error
        found = _with_stall(made, stalls[0])
        return Predicted(time_s, low_s * exp(-width), high_s * exp(width), level, found)

    def _stall_s(self, made: Occupancies, known: Mapping[str, float]) -> tuple[float, float, float]:
        """Give the seconds that each byte stalls, and from where to where that may be."""
        apart_s = made.network_s + made.disk_s
        if self.bottleneck is None:
            return apart_s, apart_s, apart_s
        stall_s, low_s, high_s = self.bottleneck.stall_s(made.compute_s, known)
        if self.undecided:
            return stall_s, min(low_s, apart_s), max(high_s, apart_s)
        return stall_s, low_s, high_s


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
        free = self._free(samples, base)
        limited = self._limited(free, samples, base)
        off = np.array([self._missed(samples, i, base) for i in range(len(samples))])
        if limited is not None and _no_worse(off[:, 1], off[:, 0]):
            undecided = _no_worse(off[:, 0], off[:, 1])
            return _judged(replace(limited, undecided=undecided), off[:, 1])
        return _judged(free, off[:, 0])

    def _missed(
        self, samples: Sequence[Sample], index: int, base: Mapping[str, float]
    ) -> tuple[float, float]:
        """Log ratio of predicted and actual time of a sample, from the others: by both forms."""
        others = [*samples[:index], *samples[index + 1 :]]
        if not others:
            return 0.0, 0.0
        free = self._free(others, base)
        limited = self._limited(free, others, base) or free
        asked = samples[index]
        return _off(free, asked), _off(limited, asked)

    def _free(self, samples: Sequence[Sample], base: Mapping[str, float]) -> OccupancyFit:
        """Learn each function by itself."""
        every = tuple(sorted(base))
        amounts = [one.attributes for one in samples]

        def learned(part: str, chosen: tuple[str, ...] | None) -> Function:
            values = [getattr(one.found, part) for one in samples]
            return learn(amounts, values, reference=base, attributes=_known(chosen, every))[0]

        def stall(part: str, chosen: tuple[str, ...] | None) -> Function:
            values = [getattr(one.found, part) for one in samples]
            return self._stall(samples, values, base, _known(chosen, every))[0]

        return OccupancyFit(
            learned("compute_s", self.compute),
            stall("network_s", self.network),
            stall("disk_s", self.disk),
            learned("data_bytes", self.data),
            0.0,
            len(samples),
        )

    def _limited(
        self, free: OccupancyFit, samples: Sequence[Sample], base: Mapping[str, float]
    ) -> OccupancyFit | None:
        """Let network and disk decide only where they take longest."""
        if not self.latency_hiding:
            return None
        known = set(_known(self.network, tuple(base))) | set(_known(self.disk, tuple(base)))
        found = learn_bottleneck(
            [one.attributes for one in samples],
            np.array([one.found.compute_s for one in samples]),
            np.array([one.found.network_s + one.found.disk_s for one in samples]),
            reference=base,
            attributes=[name for name in sorted(base) if name in known],
        )
        return replace(free, bottleneck=found) if found else None

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


@cache
def _quantile(share: float, free: float) -> float:
    """Student's t, which SciPy takes longer for than the rest of a prediction."""
    return float(student.ppf(share, free))


def _with_stall(made: Occupancies, stall_s: float) -> Occupancies:
    """Give the occupancies with this stall, parted between network and disk as before."""
    parts = made.network_s + made.disk_s
    share = made.network_s / parts if parts else 0.5
    return replace(made, network_s=share * stall_s, disk_s=(1 - share) * stall_s)


def _each_s(found: Occupancies) -> float:
    """Seconds that each byte takes."""
    return found.compute_s + found.network_s + found.disk_s


def _known(chosen: tuple[str, ...] | None, every: tuple[str, ...]) -> tuple[str, ...]:
    return every if chosen is None else chosen


def _off(fit: OccupancyFit, asked: Sample) -> float:
    predicted = fit.predict(asked.attributes).time_s
    return float(np.log(max(predicted, 1e-3 * asked.found.time_s) / asked.found.time_s))


def _no_worse(off: Floats, other: Floats) -> bool:
    """Whether errors are not shown to be above others', or by less than runs of the same differ."""
    more = off**2 - other**2
    above = sqrt((off**2).mean()) - sqrt((other**2).mean())
    shown = float(student.ppf(0.95, max(len(more) - 1, 1)))
    if above <= NOISE or len(more) < _TESTABLE:
        return above <= NOISE
    return bool(more.mean() <= shown * more.std() / sqrt(len(more)))


def _judged(fit: OccupancyFit, off: Floats) -> OccupancyFit:
    """Add the spread of log time around what the others predict, with a prior while few."""
    squares = float((off**2).sum())
    error = sqrt((squares + _PRIOR_WEIGHT * _PRIOR**2) / (len(off) - 1 + _PRIOR_WEIGHT))
    return replace(fit, error=error, left_out=tuple(off.tolist()))
