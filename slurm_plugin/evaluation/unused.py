"""CPUs and memory that jobs had but did not use, and their GPU time, by account and application."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sacct_ingest.layout import Unit
from sacct_ingest.records import DecisionRow

if TYPE_CHECKING:
    from sacct_ingest.store import RunRow

_HOUR_S, _GIB = 3600.0, 2**30
#: Shares of less are not named.
_SHARE = 0.2
#: Runs of a size after which there is advice on its memory.
_RUNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """What the ended jobs of one application had in one account, and did not use."""

    account: str
    application: str
    jobs: int
    cpu_hours: float  #: allocated, of jobs whose CPU time was measured
    unused_cpu_hours: float
    gpu_hours: float  #: allocated
    used_gpu_hours: float  #: at most, of jobs whose use of GPUs was measured
    idle_gpu_hours: float  #: of these jobs, the rest
    mem_gib_hours: float  #: requested, of jobs whose memory was measured
    unused_mem_gib_hours: float
    #: what the advice of that time would have saved of it, and for how many it was too little
    saved_mem_gib_hours: float
    short_jobs: int

    @property
    def unused_cpus(self) -> float:
        """Share of the CPU time that was not used."""
        return self.unused_cpu_hours / self.cpu_hours if self.cpu_hours else 0.0

    @property
    def unused_mem(self) -> float:
        """Share of the memory that was not used."""
        return self.unused_mem_gib_hours / self.mem_gib_hours if self.mem_gib_hours else 0.0


@dataclass(slots=True)
class _Sums:
    jobs: int = 0
    cpu_s: float = 0.0
    used_cpu_s: float = 0.0
    gpu_s: float = 0.0
    used_gpu_s: float = 0.0
    idle_gpu_s: float = 0.0
    mem_s: float = 0.0  #: byte-seconds
    used_mem_s: float = 0.0
    saved_mem_s: float = 0.0
    short: int = 0
    #: jobs of each size that were measured, and the most memory that one needed
    most: dict[int, tuple[int, int]] = field(default_factory=dict)

    def advise(self, size: int, used: int, asked: int, elapsed_s: float, margin: float) -> None:
        """Note what advice made of the jobs before would have been worth to one."""
        runs, most = self.most.get(size, (0, 0))
        advised = most * margin
        if runs >= _RUNS and advised < asked:
            self.short += used > advised
            self.saved_mem_s += (asked - advised) * elapsed_s * (used <= advised)
        self.most[size] = runs + 1, max(most, used)


@dataclass(slots=True)
class UnusedTally:
    """Adds up jobs that ended, in the order of their submission.

    Parameters
    ----------
    margin
        By which advice on memory goes beyond the highest need.
    """

    margin: float = 1.2
    _sums: defaultdict[tuple[str, str], _Sums] = field(default_factory=lambda: defaultdict(_Sums))

    def add(self, application: str, decision: DecisionRow, run: RunRow) -> None:
        """Take a decision and its run."""
        if not run.state.final or run.elapsed_s <= 0:
            return
        sums = self._sums[decision.account, application]
        sums.jobs += 1
        sums.gpu_s += (run.gpus or 0) * run.elapsed_s
        if run.gpus and run.gpu_percent is not None:
            used_gpus = min(run.gpu_percent / 100, run.gpus)
            sums.used_gpu_s += used_gpus * run.elapsed_s
            sums.idle_gpu_s += (run.gpus - used_gpus) * run.elapsed_s
        if run.cpu_s:
            had_s = run.cpus * run.elapsed_s
            sums.cpu_s += had_s
            sums.used_cpu_s += min(run.cpu_s, had_s)
        used = _memory(decision, run)
        if used and run.req_mem_bytes:
            sums.mem_s += run.req_mem_bytes * run.elapsed_s
            sums.used_mem_s += min(used, run.req_mem_bytes) * run.elapsed_s
            sums.advise(run.nodes, used, run.req_mem_bytes, run.elapsed_s, self.margin)

    def result(self, *, least_cpu_hours: float) -> tuple[Unused, ...]:
        """List those with most unused CPU-hours first.

        Parameters
        ----------
        least_cpu_hours
            Smaller amounts are left out, and so is less than a fifth.  Of memory, four GiB-hours
            stand for a CPU-hour; of GPUs, an hour stands for sixteen.
        """
        rows = [_row(key, sums) for key, sums in self._sums.items()]
        worth = [
            row
            for row in rows
            if row.unused_cpu_hours >= max(least_cpu_hours, _SHARE * row.cpu_hours) > 0
            or row.idle_gpu_hours >= max(least_cpu_hours / 16, _SHARE * row.gpu_hours) > 0
            or row.unused_mem_gib_hours >= max(4 * least_cpu_hours, _SHARE * row.mem_gib_hours) > 0
        ]
        return tuple(sorted(worth, key=lambda r: (-r.unused_cpu_hours, r.account, r.application)))


def _memory(decision: DecisionRow, run: RunRow) -> int:
    """Memory that a job used in all: that of its largest task for each of them.

    A job without steps has one measured process group on its first node.
    """
    several = run.nodes if decision.unit == Unit.NODES else 1
    return (run.mem_bytes or 0) * (run.tasks or several)


def _row(key: tuple[str, str], sums: _Sums) -> Unused:
    account, application = key
    return Unused(
        account=account,
        application=application,
        jobs=sums.jobs,
        cpu_hours=sums.cpu_s / _HOUR_S,
        unused_cpu_hours=(sums.cpu_s - sums.used_cpu_s) / _HOUR_S,
        gpu_hours=sums.gpu_s / _HOUR_S,
        used_gpu_hours=sums.used_gpu_s / _HOUR_S,
        idle_gpu_hours=sums.idle_gpu_s / _HOUR_S,
        mem_gib_hours=sums.mem_s / _HOUR_S / _GIB,
        unused_mem_gib_hours=(sums.mem_s - sums.used_mem_s) / _HOUR_S / _GIB,
        saved_mem_gib_hours=sums.saved_mem_s / _HOUR_S / _GIB,
        short_jobs=sums.short,
    )
