"""How much memory the next run needs: quantiles over size, earned by a record.

Memory is that of a node where sizes count nodes, else that of the job.  Its logarithm is taken to
be linear in that of the size.  What runs needed beyond that line, each judged by the runs before
it, has a conformal quantile (Vovk et al., *Algorithmic Learning in a Random World*, 2005, section
4.1).  A run that ended for lack of memory is censored: it needed more than it had (Kaplan and
Meier, Journal of the American Statistical Association 53, 1958).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, exp, inf, log
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING

from predictor.types import Memory, MemoryNeed
from sacct_ingest.records import JobState

if TYPE_CHECKING:
    from sacct_ingest.store import RunRow

#: Share of new runs that need no more than the quantile.
LEVEL = 0.95
#: Runs before the first one that is judged, and the last runs that are looked at.
_FIRST, _LAST = 3, 100
#: Sizes that make a slope.
_SIZES = 3


@dataclass(frozen=True, slots=True)
class _MemoryUse:
    """What a run needed and had, bytes; 0: not known.  ``short``: it needed more than it had."""

    size: int
    need: int
    given: int
    short: bool
    completed: bool
    end_s: float


def ran_short(row: RunRow) -> bool:
    """Whether a run ended for lack of memory: its state says so, or its measured memory."""
    if not row.state.may_lack_memory:
        return row.state is JobState.OUT_OF_MEMORY
    return 0 < (row.req_mem_bytes or 0) <= node_need(row) * row.nodes


def node_need(row: RunRow) -> int:
    """Memory that a run needed on a node: that of its largest task, for each; 0: not known."""
    return (row.mem_bytes or 0) * ceil((row.tasks or row.nodes) / row.nodes)


def memory_need(rows: Iterable[RunRow], *, margin: float) -> MemoryNeed | None:
    """Need of memory by size; None where no run that completed was measured.

    rows: runs of one application, the newest last.
    margin: ratio to what was ever needed that a job would be given: what the record judges.
    """
    uses = [use for use in map(_use, (row for row in rows if row.nodes > 0)) if use is not None]
    last = max((i for i, use in enumerate(uses) if use.short), default=-1)
    since, ends = uses[last + 1 :], [use.end_s for use in uses if use.short]
    if not any(use.completed and use.need for use in uses):
        return None
    recent = uses[-_LAST:]
    line = _Line.of(recent)
    quantile = _quantile(list(line.residuals(recent)))
    judged = list(_judged(recent, margin))
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


def _highest(uses: Iterable[_MemoryUse], size: int, line: _Line) -> int:
    """Highest memory ever needed; of larger runs only where these need no more."""
    return max(_least_need(use) for use in uses if use.size <= size or line.slope <= 0)


def _use(row: RunRow) -> _MemoryUse | None:
    short, completed = ran_short(row), row.state is JobState.COMPLETED
    need, given = node_need(row), round((row.req_mem_bytes or 0) / row.nodes)
    if not need and not short:
        return None
    return _MemoryUse(row.nodes, need, given, short, completed, float(row.end_s or 0))


def _least_need(use: _MemoryUse) -> int:
    """Memory that a run needed at least."""
    return max(use.need, use.given) if use.short else use.need


@dataclass(frozen=True, slots=True)
class _Line:
    """Log of the median need, linear in the log of the size."""

    slope: float
    level: float

    @classmethod
    def of(cls, uses: Sequence[_MemoryUse]) -> _Line:
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
            if not need or not (use.completed or use.short):
                continue
            scaled = log(need) - self.slope * log(use.size)
            if len(before) >= _FIRST:
                yield scaled - median(before), use.short
            if not use.short:
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
    """Quantile at `LEVEL` of a new residual, by Kaplan and Meier; infinite: too few say so."""
    count = len(residuals)
    needed = LEVEL * (count + 1) / count if count else inf
    left = 1.0  # share that may need more
    for index, (value, censored) in enumerate(sorted(residuals)):
        if not censored:
            left *= 1 - 1 / (count - index)
        if 1 - left >= needed - 1e-9:
            return max(value, 0.0)
    return inf


def _judged(uses: Sequence[_MemoryUse], margin: float) -> Iterator[bool]:
    """Whether what was ever needed before, times the margin, was enough for each run."""
    most = 0
    for index, use in enumerate(uses):
        asked = most * margin
        # One that had less than would have been asked for says nothing.
        if index >= _FIRST and not (use.short and use.given < asked):
            yield not use.short and use.need <= asked
        most = max(most, _least_need(use))
