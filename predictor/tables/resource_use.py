"""How much CPU, GPU, memory and power an application uses, with records of how far that holds.

Of CPUs it is their time over that of the run (TotalCPU over elapsed time and CPUs), of GPUs the
highest use that Slurm gathered (``gres/gpuutil``), both as a share of what the run had.  The range
is that of split conformal prediction (Vovk et al., *Algorithmic Learning in a Random World*, 2005,
section 4.1): nine in ten new runs are inside, and each run is judged by those before it.  Power is
that of whole nodes: a sensor measures all that runs on its node.

Of memory there are quantiles over size.  It is that of a node where sizes count nodes, else that of
the job.  Its logarithm is taken to be linear in that of the size.  What runs needed beyond that
line, each judged by the runs before it, has a conformal quantile (Vovk et al., *Algorithmic
Learning in a Random World*, 2005, section 4.1).  A run that ended for lack of memory is censored:
it needed more than it had; one that was cut off by something else needed at least what was measured
(Kaplan and Meier, Journal of the American Statistical Association 53, 1958).
"""

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, exp, inf, log
from operator import attrgetter
from statistics import median

from predictor.product_limit import ProductLimit
from predictor.types import Memory, MemoryNeed, NodePower, ResourceUse
from sacct_ingest.records import JobState, Says
from sacct_ingest.runs.evidence import evidence_of, node_memory, node_need
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store.rows import RunRow

#: Share of new runs that need no more than the quantile.
MEMORY_LEVEL = 0.95
#: Runs before the first one that is judged, and the last runs that are looked at.
_FIRST_USE, _LAST_USES = 3, 100
#: Sizes that make a slope.
_SIZES = 3


@dataclass(frozen=True, slots=True)
class _MemoryUse:
    """What a run needed and had, bytes; 0: not known.  ``short``: it needed more than it had."""

    size: int
    need: int
    given: int
    short: bool
    says: Says  #: of its need
    end_s: float

    @property
    def completed(self) -> bool:
        """Whether it needed no more than was measured."""
        return self.says is Says.WHOLE


def memory_need(rows: Iterable[RunRow], *, margin: float) -> MemoryNeed | None:
    """Need of memory by size; None where no run that completed was measured.

    rows: runs of one application, the newest last.
    margin: ratio to what was ever needed that a job would be given: what the record judges.
    """
    uses = [
        use for use in map(_memory_use, (row for row in rows if row.nodes > 0)) if use is not None
    ]
    last = max((i for i, use in enumerate(uses) if use.short), default=-1)
    since, ends = uses[last + 1 :], [use.end_s for use in uses if use.short]
    if not any(use.completed and use.need for use in uses):
        return None
    recent = uses[-_LAST_USES:]
    line = _Line.of(recent)
    quantile = _quantile(list(line.residuals(recent)))
    judged = list(_enough_memory(recent, margin))
    enough = sorted((u for u in since if u.completed and u.given), key=attrgetter("size", "given"))
    return MemoryNeed(
        runs=sum(use.completed for use in since),
        predictions=len(judged),
        inside=sum(judged),
        short_s=max(ends, default=0.0),
        high=tuple(
            Memory(size, max(_highest(uses, size, line), line.beyond(size, quantile)))
            for size in sorted({use.size for use in uses if use.completed})
        ),
        given=tuple(
            Memory(size, next(own).given) for size, own in groupby(enough, key=attrgetter("size"))
        ),
    )


def _highest(uses: Iterable[_MemoryUse], size: int, line: "_Line") -> int:
    """Highest memory ever needed; of larger runs only where these need no more."""
    return max(_least_need(use) for use in uses if use.size <= size or line.slope <= 0)


def _memory_use(row: RunRow) -> _MemoryUse | None:
    said = evidence_of(row)
    if said.memory is Says.NOTHING and not (said.lacked_memory or row.mem_bytes):
        return None
    return _MemoryUse(
        size=row.nodes,
        need=node_need(row),
        given=node_memory(row),
        short=said.lacked_memory,
        says=said.memory,
        end_s=float(row.end_s or 0),
    )


def _least_need(use: _MemoryUse) -> int:
    return max(use.need, use.given) if use.short else use.need


@dataclass(frozen=True, slots=True)
class _Line:
    """Log of the median need, linear in the log of the size."""

    slope: float
    level: float

    @classmethod
    def of(cls, uses: Sequence[_MemoryUse]) -> "_Line":
        points = [(log(use.size), log(use.need)) for use in uses if use.completed and use.need]
        slope = _slope(points)
        return cls(slope, median(y - slope * x for x, y in points) if points else 0.0)

    def beyond(self, size: int, quantile: float) -> int:
        """Quantile of the need on a size, bytes; 0: too few runs say it."""
        if quantile == inf:
            return 0
        return round(exp(self.level + self.slope * log(size) + quantile))

    def residuals(self, uses: Sequence[_MemoryUse]) -> Iterator[tuple[float, bool]]:
        """Log of each need over what the runs before say, and whether it is censored."""
        before: list[float] = []
        for use in uses:
            need = _least_need(use)
            if not need or use.says is Says.NOTHING:
                continue
            scaled = log(need) - self.slope * log(use.size)
            cut_off = use.says is Says.AT_LEAST
            if len(before) >= _FIRST_USE:
                yield scaled - median(before), cut_off
            if not cut_off:
                insort(before, scaled)


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Slope of least squares; zero where few sizes were run.  Memory is shared out at most."""
    if len({x for x, _ in points}) < _SIZES:
        return 0.0
    x_mean, y_mean = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    slope: float = sum((x - x_mean) * (y - y_mean) for x, y in points) / spread
    return min(max(slope, -1.0), 1.0)


def _quantile(residuals: Sequence[tuple[float, bool]]) -> float:
    """Quantile of a new residual, by Kaplan and Meier; infinite: too few say so."""
    if not residuals:
        return inf
    value = ProductLimit.of(residuals).quantile(MEMORY_LEVEL * (1 + 1 / len(residuals)))
    return inf if value is None else max(value, 0.0)


def _enough_memory(uses: Sequence[_MemoryUse], margin: float) -> Iterator[bool]:
    """Whether what was ever needed before, times the margin, was enough for each run."""
    most = 0
    for index, use in enumerate(uses):
        asked = most * margin
        # One that had less than would have been asked for says nothing.
        if index >= _FIRST_USE and not (use.short and use.given < asked):
            yield not use.short and use.need <= asked
        most = max(most, _least_need(use))


#: Share of new runs that are inside the range.
LEVEL = 0.9
#: Runs before the first one that is judged, and the last runs that count.
_FIRST, _LAST = 3, 100


def resource_uses(rows: Iterable[RunRow]) -> tuple[ResourceUse, ...]:
    """Use of CPUs and of GPUs; what the accounting does not say is left out.

    rows: runs of one application, the newest last; only those that completed count.
    """
    completed = [row for row in rows if row.state is JobState.COMPLETED and row.elapsed_s > 0]
    kinds: dict[Unit, Callable[[RunRow], float | None]] = {Unit.CPUS: _of_cpus, Unit.GPUS: _of_gpus}
    made = (
        (unit, [one for row in completed if (one := use(row)) is not None][-_LAST:])
        for unit, use in kinds.items()
    )
    return tuple(ResourceUse(unit, *_record(shares)) for unit, shares in made if shares)


def node_cpus(runs: Iterable[RunRow]) -> dict[str, int]:
    """Most CPUs that a run had on a node, by cluster and partition: so many are a whole node."""
    most: dict[str, int] = {}
    for run in runs:
        if run.nodes > 0:
            place = f"{run.cluster}/{run.partition}"
            most[place] = max(most.get(place, 0), run.cpus // run.nodes)
    return most


def had_whole_nodes(run: RunRow, most: Mapping[str, int]) -> bool:
    """Whether no other job can have run on the nodes of a run; ``most`` is of `node_cpus`."""
    whole = most.get(f"{run.cluster}/{run.partition}")
    return whole is not None and 0 < whole * run.nodes <= run.cpus


def node_power(rows: Iterable[RunRow]) -> NodePower | None:
    """Power of each node; None: no run measured it.

    rows: runs of one application that had whole nodes, the newest last; those that completed count.
    """
    watts = [
        round(row.node_watts, 1)
        for row in rows
        if row.node_watts is not None and row.state is JobState.COMPLETED
    ][-_LAST:]
    return NodePower(*_record(watts)) if watts else None


def _of_cpus(row: RunRow) -> float | None:
    if row.cpu_s is None or row.cpus < 1:
        return None
    return _percent(row.cpu_s / (row.cpus * row.elapsed_s))


def _of_gpus(row: RunRow) -> float | None:
    if row.gpu_percent is None or not row.gpus:
        return None
    return _percent(row.gpu_percent / (100 * row.gpus))


def _percent(share: float) -> float:
    """Share in whole percent: the accounting counts seconds."""
    return round(min(share, 1.0), 2)


def _record(values: Sequence[float]) -> tuple[float, float, float, int, int, int]:
    """Give median, range, number, and how many were judged, and inside."""
    judged = list(_judged(values))
    return median(values), *_range(sorted(values)), len(values), len(judged), sum(judged)


def _judged(shares: Sequence[float]) -> Iterator[bool]:
    """Whether each share was inside the range of those before it."""
    before: list[float] = []
    for share in shares:
        if len(before) >= _FIRST:
            low, high = _range(before)
            yield low <= share <= high
        insort(before, share)


def _range(ordered: Sequence[float]) -> tuple[float, float]:
    """Range of so many of them; of few, from the least to the most."""
    out = max(ceil((1 - LEVEL) / 2 * (len(ordered) + 1)) - 1, 0)
    return ordered[out], ordered[-1 - out]
