"""Samples of NIMO: the occupancies of a run, solved from its utilisation, time and data flow.

P. Shivam, S. Babu, J. Chase, ICAC 2006, algorithm 1; VLDB 2006, algorithm 3::

    o_a = U·T/D     o_s = (1 - U)·T/D = o_n + o_d

Ingested runs give samples, too: NIMO "analyzes performance histories" (ICAC 2006); `nimo lab learn`
makes runs of its own.  Attributes
of an ingested run are its node count, its CPUs on each node, and the benchmarks of its node type.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from predictor.checks import LARGEST, SMALLEST, need_positive
from sacct_ingest.probes.agreement import type_profiles
from sacct_ingest.records import JobState, NodeProfile, StepRun
from sacct_ingest.runs.usage import Usage, usage
from sacct_ingest.store.rows import RunRow

Made = TypeVar("Made")
#: Samples are left out in so many groups at most; up to this number one by one.
_GROUPS = 24
#: Newest runs that are learned from.
MOST = 500
NODES, CPUS = "nodes", "cpus"


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
    """One run: attributes of its resources (ρ) and data (λ), all above zero, and what it took.

    It is one of the papers' samples, of a space of assignments of resources; what other models know
    of a run is in :class:`predictor.sample.Sample`.
    """

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


def history_samples(
    runs: Sequence[RunRow],
    steps: Mapping[int, Sequence[StepRun]],
    profiles: Iterable[NodeProfile] = (),
) -> list[Sample]:
    """Make samples of the newest runs that completed.

    Where most runs have their CPU time (or their bytes) in the accounting, those without are left
    out; where most have none, all count as busy (or as of one byte).  Figures of the nodes are
    attributes if all samples have them; what does not differ is none, but for the node count.

    runs: of one application, the newest last.
    steps: of each run.
    profiles: benchmarks of nodes.
    """
    done = [
        one
        for one in runs
        if one.state is JobState.COMPLETED
        if one.elapsed_s > 0 and one.nodes > 0 and one.cpus > 0
    ][-MOST:]
    used = [usage(one, steps.get(one.run_id, ())) for one in done]
    busy = _most([one.utilisation for one in used])
    counted = _most([one.data_bytes for one in used])
    figures = {one.node_type: one.values for one in type_profiles(profiles)}
    given = [
        (one, own)
        for one, own in zip(done, used, strict=True)
        if (own.utilisation or not busy) and (own.data_bytes or not counted)
    ]
    attributes = _attributes([one for one, _ in given], figures)
    return [
        _sample(mine, own, busy=busy, counted=counted)
        for mine, (_, own) in zip(attributes, given, strict=True)
    ]


def _most(values: Sequence[float | None]) -> bool:
    return 2 * sum(bool(one) for one in values) > len(values)


def _sample(mine: Mapping[str, float], own: Usage, *, busy: bool, counted: bool) -> Sample:
    parts = occupancies(
        (own.utilisation or 0.0) if busy else 1.0,
        own.elapsed_s,
        float(own.data_bytes or 0) if counted else 1.0,
    )
    return Sample(mine, parts)


def _attributes(
    runs: Sequence[RunRow], figures: Mapping[str, Mapping[str, float]]
) -> list[dict[str, float]]:
    every = [
        {NODES: float(one.nodes), CPUS: one.cpus / one.nodes, **figures.get(one.node_type, {})}
        for one in runs
    ]
    names = set.intersection(*map(set, every)) if every else set()
    varying = [n for n in sorted(names) if n == NODES or len({one[n] for one in every}) > 1]
    return [{name: one[name] for name in varying} for one in every]
