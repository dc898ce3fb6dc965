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


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """What the ended jobs of one application had in one account, and did not use."""

    account: str
    application: str
    jobs: int
    cpu_hours: float  #: allocated, of jobs whose CPU time was measured
    unused_cpu_hours: float
    gpu_hours: float  #: allocated
    mem_gib_hours: float  #: requested, of jobs whose memory was measured
    unused_mem_gib_hours: float

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
    mem_s: float = 0.0  #: byte-seconds
    used_mem_s: float = 0.0


@dataclass(slots=True)
class UnusedTally:
    """Adds up jobs that ended."""

    _sums: defaultdict[tuple[str, str], _Sums] = field(default_factory=lambda: defaultdict(_Sums))

    def add(self, application: str, decision: DecisionRow, run: RunRow) -> None:
        """Take a decision and its run."""
        if not run.state.final or run.elapsed_s <= 0:
            return
        sums = self._sums[decision.account, application]
        sums.jobs += 1
        sums.gpu_s += (run.gpus or 0) * run.elapsed_s
        if run.cpu_s:
            had_s = run.cpus * run.elapsed_s
            sums.cpu_s += had_s
            sums.used_cpu_s += min(run.cpu_s, had_s)
        used = _memory(decision, run)
        if used and run.req_mem_bytes:
            sums.mem_s += run.req_mem_bytes * run.elapsed_s
            sums.used_mem_s += min(used, run.req_mem_bytes) * run.elapsed_s

    def result(self, *, least_cpu_hours: float) -> tuple[Unused, ...]:
        """List those with most unused CPU-hours first.

        Parameters
        ----------
        least_cpu_hours
            Smaller amounts are left out, and so is less than a fifth.  Of memory, four GiB-hours
            stand for a CPU-hour.
        """
        rows = [_row(key, sums) for key, sums in self._sums.items()]
        worth = [
            row
            for row in rows
            if row.unused_cpu_hours >= max(least_cpu_hours, _SHARE * row.cpu_hours) > 0
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
        mem_gib_hours=sums.mem_s / _HOUR_S / _GIB,
        unused_mem_gib_hours=(sums.mem_s - sums.used_mem_s) / _HOUR_S / _GIB,
    )
