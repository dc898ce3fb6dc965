"""Energy, cost and CO2e of jobs that ended, by account and application."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from predictor.tables.resource_use import had_whole_nodes
from sacct_ingest.records import DecisionRow
from slurm_plugin.config.settings import Energy
from slurm_plugin.evaluation.costs import Amounts, amounts, grams_between

if TYPE_CHECKING:
    from sacct_ingest.store import RunRow


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
    """Adds up jobs that ended; node_cpus: see `predictor.tables.resource_use`."""

    def __init__(self, energy: Energy, node_cpus: Mapping[str, int]) -> None:
        self._energy, self._node_cpus = energy, node_cpus
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
        sizes = run.nodes, run.cpus, run.gpus or 0
        made = amounts(energy, run.elapsed_s, *sizes, grams=grams, watts=watts)
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
            kwh, cost, co2_g = sums.get("kwh"), sums.get("cost"), sums.get("co2_g")
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
