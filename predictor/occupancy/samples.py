"""Samples of NIMO: the occupancies of a run, solved from its utilisation, time and data flow.

P. Shivam, S. Babu, J. Chase, ICAC 2006, algorithm 1; VLDB 2006, algorithm 3::

    o_a = U·T/D     o_s = (1 - U)·T/D = o_n + o_d
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from predictor.checks import LARGEST, SMALLEST, need_positive

Made = TypeVar("Made")
#: Samples are left out in so many groups at most; up to this number one by one.
_GROUPS = 24


@dataclass(frozen=True, slots=True)
class Occupancies:
    """Seconds that each byte of data flow occupies a resource, and the bytes."""

    compute_s: float
    network_s: float
    disk_s: float
    data_bytes: float

    @property
    def each_s(self) -> float:
        """Seconds that each byte takes."""
        return self.compute_s + self.network_s + self.disk_s

    @property
    def time_s(self) -> float:
        """Execution time (equation 1)."""
        return self.data_bytes * self.each_s


def occupancies(
    utilisation: float, time_s: float, data_bytes: float, *, network_share: float = 0.0
) -> Occupancies:
    """Solve for the occupancies of one run (ICAC 2006, algorithm 1).

    utilisation: share of the time that the processors allotted were busy, 0 to 1.
    time_s: execution time.
    data_bytes: bytes read and written.
    network_share: share of the time per I/O that is spent in the network; the rest is the disk's.
    Raises ValueError: a value is outside its range or not finite.

    >>> made = occupancies(0.75, 100.0, 1e9, network_share=0.4)
    >>> round(made.compute_s * 1e9), round(made.network_s * 1e9), round(made.disk_s * 1e9)
    (75, 10, 15)
    """
    if not (0 <= utilisation <= 1 and 0 <= network_share <= 1):
        raise ValueError(
            f"utilisation {utilisation} and network share {network_share} have to be from 0 to 1"
        )
    if not all(SMALLEST <= one <= LARGEST for one in (time_s, data_bytes)):
        raise ValueError(
            f"time {time_s} s and data flow {data_bytes} bytes have to be above zero and finite"
        )
    each = time_s / data_bytes
    stall = (1 - utilisation) * each
    return Occupancies(
        utilisation * each, network_share * stall, (1 - network_share) * stall, data_bytes
    )


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: attributes of its resources (ρ) and data (λ), all above zero, and what it took."""

    attributes: Mapping[str, float]
    measured: Occupancies


def checked(
    samples: Sequence[Sample], reference: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Give the attributes of the reference assignment, once all samples can be learned from.

    samples: at least one; all with the same attributes.
    reference: none: the attributes of the first sample.
    Raises ValueError: there is no sample, or a value is missing or not what it has to be.
    """
    if not samples:
        raise ValueError("no sample to learn from")
    base = dict(reference or samples[0].attributes)
    for name, value in base.items():
        need_positive(f"attribute {name}", value)
    for one in samples:
        if apart := set(base) ^ set(one.attributes):
            raise ValueError(f"attribute {min(apart)} is given for some samples only")
        for name in base:
            need_positive(f"attribute {name}", one.attributes[name])
        parts = (one.measured.compute_s, one.measured.network_s, one.measured.disk_s)
        if not all(0 <= part <= LARGEST for part in parts) or not one.measured.data_bytes > 0:
            raise ValueError(
                f"{one.measured}: occupancies below zero or not finite cannot be learned from"
            )
        if not SMALLEST <= one.measured.time_s <= LARGEST:
            raise ValueError(
                f"{one.measured}: a run time of {one.measured.time_s} s cannot be learned from"
            )
    return base


def from_the_others(
    samples: Sequence[Sample], learn: Callable[[Sequence[Sample]], Made]
) -> list[Made]:
    """Learn for each sample from the others; beyond 24 samples those of its group are left out too.

    So the cost grows with the number of samples, not with its square.  A single sample has no
    others: it is learned from itself.
    """
    if len(samples) == 1:
        return [learn(samples)]
    groups = min(len(samples), _GROUPS)
    made = [
        learn([one for i, one in enumerate(samples) if i % groups != group])
        for group in range(groups)
    ]
    return [made[i % groups] for i in range(len(samples))]
