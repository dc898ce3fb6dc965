"""Energy, cost and CO2e of jobs that ended, by account and application."""

from __future__ import annotations

from collections import Counter, defaultdict
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
        self._made: defaultdict[tuple[str, str], list[tuple[Amounts, bool]]] = defaultdict(list)

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
        self._made[decision.account, application].append((made, watts is not None))

    def result(self) -> tuple[EnergyUse, ...]:
        """Sum up what is known, most energy first."""
        rows = []
        for (account, application), runs in self._made.items():
            sums: dict[str, float | None] = {}
            for name in ("kwh", "cost", "co2_g"):
                known = [one for made, _ in runs if (one := getattr(made, name)) is not None]
                sums[name] = sum(known) if known else None
            if sums["kwh"] is None and sums["cost"] is None:
                continue
            counted = Counter(sensor for made, sensor in runs if made.kwh is not None)
            row = EnergyUse(
                account=account,
                application=application,
                runs=len(runs),
                measured=counted[True],
                by_nameplate=counted[False],
                kwh=sums["kwh"],
                cost=sums["cost"],
                co2_kg=None if sums["co2_g"] is None else sums["co2_g"] / 1000,
            )
            rows.append(row)
        return tuple(sorted(rows, key=lambda row: (-(row.kwh or 0), -(row.cost or 0))))
