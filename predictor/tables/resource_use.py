"""How much CPU, GPU and power an application uses, with records of how far that holds.

Of CPUs it is their time over that of the run (TotalCPU over elapsed time and CPUs), of GPUs the
highest use that Slurm gathered (``gres/gpuutil``), both as a share of what the run had.  The range
is that of split conformal prediction (Vovk et al., *Algorithmic Learning in a Random World*, 2005,
section 4.1): nine in ten new runs are inside, and each run is judged by those before it.  Power is
that of whole nodes: a sensor measures all that runs on its node.
"""

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil
from statistics import median

from predictor.facts import NodePower, ResourceUse
from sacct_ingest.records import JobState
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store.rows import RunRow

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


def had_whole_nodes(run: RunRow, most: Mapping[str, int]) -> bool:
    """Whether no other job can have run on the nodes of a run.

    most: most CPUs that a run had on a node, by ``cluster/partition``: so many are a whole node.
    """
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
