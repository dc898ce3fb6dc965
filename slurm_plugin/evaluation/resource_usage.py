"""What jobs had of CPUs, memory and GPUs but did not use, and the energy and cost of what they had.

All by account and application.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil

from predictor.tables.resource_use import had_whole_nodes
from sacct_ingest.records import DecisionRow
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store.rows import RunRow
from slurm_plugin.config.settings import Energy
from slurm_plugin.evaluation.costs import Amounts, RunSize, amounts, grams_between

_HOUR_S, _GIB = 3600.0, 2**30
#: Shares of less are not named.
_SHARE = 0.2
#: Runs of a size after which there is advice on its memory.
LEAST_RUNS = 3
#: Gives what to ask for where so much was used at most.
_Advise = Callable[[float], float]


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
    #: what sizes by the jobs before would have saved, and for how many jobs one was too little
    saved_cpu_hours: float
    saved_gpu_hours: float
    saved_mem_gib_hours: float
    short_jobs: int
    #: smallest request that would have been enough for each of its jobs; None: not measured
    least_cpus: int | None
    least_gpus: int | None
    least_mem_gib: float | None

    @property
    def unused_cpus(self) -> float:
        """Share of the CPU time that was not used."""
        return self.unused_cpu_hours / self.cpu_hours if self.cpu_hours else 0.0

    @property
    def unused_mem(self) -> float:
        """Share of the memory that was not used."""
        return self.unused_mem_gib_hours / self.mem_gib_hours if self.mem_gib_hours else 0.0


@dataclass(slots=True)
class _Resource:
    """What jobs had of CPUs, GPUs or memory, and what they used."""

    had_s: float = 0.0  #: amount times seconds
    used_s: float = 0.0
    saved_s: float = 0.0
    #: jobs of each size that were measured, and the most that one used
    most: dict[int, tuple[int, float]] = field(default_factory=dict)

    @property
    def unused_s(self) -> float:
        """What was not used."""
        return self.had_s - self.used_s

    @property
    def least(self) -> float | None:
        """Most that a job used; None: none was measured."""
        return max((most for _, most in self.most.values()), default=None)

    def add(self, size: int, had: float, used: float, elapsed_s: float, advise: _Advise) -> bool:
        """Take a job; whether advice made of the jobs of its size before was too little for it."""
        self.had_s += had * elapsed_s
        self.used_s += min(used, had) * elapsed_s
        runs, most = self.most.get(size, (0, 0.0))
        self.most[size] = runs + 1, max(most, used)
        advised = advise(most)
        if runs < LEAST_RUNS or advised >= had:
            return False
        self.saved_s += (had - advised) * elapsed_s * (used <= advised)
        return used > advised


@dataclass(slots=True)
class _Sums:
    jobs: int = 0
    gpu_s: float = 0.0
    short: int = 0
    cpus: _Resource = field(default_factory=_Resource)
    gpus: _Resource = field(default_factory=_Resource)
    memory: _Resource = field(default_factory=_Resource)  #: bytes


@dataclass(slots=True)
class UnusedTally:
    """Adds up jobs that ended, in the order of their submission.

    margin: by which advice on memory goes beyond the highest need.
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
        sums.short += any(list(self._measured(sums, decision, run)))

    def _measured(self, sums: _Sums, decision: DecisionRow, run: RunRow) -> Iterator[bool]:
        """Add what was measured of a job; whether advice on any of it was too little."""
        size = run.nodes
        elapsed_s = run.elapsed_s
        if run.cpu_s:
            yield sums.cpus.add(size, run.cpus, run.cpu_s / elapsed_s, elapsed_s, self._whole)
        if run.gpus and run.gpu_percent is not None:
            used = min(run.gpu_percent / 100, run.gpus)
            yield sums.gpus.add(size, run.gpus, used, elapsed_s, self._whole)
        # That of its largest task for each of them; a job without steps has one measured process
        # group on its first node.
        several = run.nodes if decision.unit == Unit.NODES else 1
        used_bytes = (run.mem_bytes or 0) * (run.tasks or several)
        if used_bytes and run.req_mem_bytes:
            asked = run.req_mem_bytes
            yield sums.memory.add(size, asked, used_bytes, elapsed_s, lambda n: n * self.margin)

    def _whole(self, most: float) -> float:
        """Say how many CPUs or GPUs to ask for where so many were used at most."""
        return max(ceil(most * self.margin), 1)

    def result(self, *, least_cpu_hours: float) -> tuple[Unused, ...]:
        """List those with most unused CPU-hours first.

        least_cpu_hours: smaller amounts are left out, and so is less than a fifth.  Of memory, four
            GiB-hours stand for a CPU-hour; of GPUs, an hour stands for sixteen.
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


def _row(key: tuple[str, str], sums: _Sums) -> Unused:
    account, application = key
    cpus = sums.cpus
    gpus = sums.gpus
    memory = sums.memory
    return Unused(
        account=account,
        application=application,
        jobs=sums.jobs,
        cpu_hours=cpus.had_s / _HOUR_S,
        unused_cpu_hours=cpus.unused_s / _HOUR_S,
        gpu_hours=sums.gpu_s / _HOUR_S,
        used_gpu_hours=gpus.used_s / _HOUR_S,
        idle_gpu_hours=gpus.unused_s / _HOUR_S,
        mem_gib_hours=memory.had_s / _HOUR_S / _GIB,
        unused_mem_gib_hours=memory.unused_s / _HOUR_S / _GIB,
        saved_cpu_hours=cpus.saved_s / _HOUR_S,
        saved_gpu_hours=gpus.saved_s / _HOUR_S,
        saved_mem_gib_hours=memory.saved_s / _HOUR_S / _GIB,
        short_jobs=sums.short,
        least_cpus=None if cpus.least is None else max(ceil(cpus.least), 1),
        least_gpus=None if gpus.least is None else ceil(gpus.least),
        least_mem_gib=None if memory.least is None else memory.least / _GIB,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyUse:
    """What the ended jobs of one application took in one account; None: unknown of all."""

    account: str
    application: str
    runs: int
    measured: int  #: runs whose power was measured, on whole nodes
    by_nameplate: int  #: others on whole nodes
    kwh: float | None  #: of these
    cost: float | None
    co2_kg: float | None


class EnergyTally:
    """Adds up jobs that ended; node_cpus: see `predictor.tables.settings`."""

    def __init__(self, energy: Energy, node_cpus: Mapping[str, int]) -> None:
        self._energy = energy
        self._node_cpus = node_cpus
        #: by account and application: runs, and sums of what is known of them
        self._made: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)

    def add(self, application: str, decision: DecisionRow, run: RunRow) -> None:
        """Take a decision and its run."""
        if not run.state.final or run.elapsed_s <= 0 or run.start_s is None:
            return
        energy = self._energy
        grams = grams_between(energy, run.start_s, run.start_s + run.elapsed_s)
        whole = had_whole_nodes(run, self._node_cpus)
        watts = run.node_watts if whole else None
        size = RunSize(run.nodes, run.cpus, run.gpus or 0)
        made = amounts(energy, run.elapsed_s, size, grams=grams, watts=watts)
        made = made if whole else Amounts(cost=made.cost)
        sums = self._made[decision.account, application]
        named = {name: getattr(made, name) for name in ("kwh", "cost", "co2_g")} | {"runs": 1}
        if made.kwh is not None:
            named["by_nameplate" if watts is None else "measured"] = 1
        for name, one in named.items():
            if one is not None:
                sums[name] = sums.get(name, 0) + one

    def result(self) -> tuple[EnergyUse, ...]:
        """Sum up what is known, most energy first."""
        rows = []
        for (account, application), sums in self._made.items():
            kwh = sums.get("kwh")
            cost = sums.get("cost")
            co2_g = sums.get("co2_g")
            if kwh is None and cost is None:
                continue
            row = EnergyUse(
                account=account,
                application=application,
                runs=int(sums["runs"]),
                measured=int(sums.get("measured", 0)),
                by_nameplate=int(sums.get("by_nameplate", 0)),
                kwh=kwh,
                cost=cost,
                co2_kg=None if co2_g is None else co2_g / 1000,
            )
            rows.append(row)
        return tuple(sorted(rows, key=lambda row: (-(row.kwh or 0), -(row.cost or 0))))
