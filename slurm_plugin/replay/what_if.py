"""One workload, scheduled as its users asked and as the policy would have had it.

The policy that decides is :func:`slurm_plugin.decision.policy.decide`, the one that runs in nimod.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.table import at
from predictor.types import PredictionTable
from predictor.waits.easy import Engine, JobShape, Order, ReplaySchedule
from predictor.waits.history import arrival_demand
from predictor.waits.workload import ArrivalDemand
from slurm_plugin.decision.candidates import PolicySettings, Request
from slurm_plugin.decision.policy import Action, decide
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.replay.cluster_view import ClusterViewer
from slurm_plugin.replay.workload import Workload, recent_mean


@dataclass(frozen=True, slots=True)
class Moldable:
    """A job that could have run on other node counts.

    ``truth`` gives its run time on so many nodes relative to that on the nodes it had.  The replay
    uses it; the policy has only the table.
    """

    low: int
    high: int
    table: PredictionTable
    truth: Callable[[int], float]


@dataclass(frozen=True, slots=True)
class WhatIfOutcome:
    """A schedule and a count of the policy's reasons; ``moved`` are the jobs with other nodes."""

    schedule: ReplaySchedule
    reasons: Counter[Reason]
    moved: npt.NDArray[np.bool_]


class WhatIf:
    """Replays one workload.

    workload: what was submitted.
    moldable: for each job whether and how its node count could have been chosen.
    order: how the scheduler backfills.
    """

    def __init__(
        self,
        workload: Workload,
        moldable: Sequence[Moldable | None],
        order: Order = Order.SUBMITTED,
    ) -> None:
        self.workload = workload
        self.moldable_jobs = moldable
        self._order = order
        self._own = [
            JobShape(nodes, limit_s, run_s)
            for nodes, limit_s, run_s in zip(
                workload.nodes.tolist(),
                workload.limit_s.tolist(),
                workload.run_s.tolist(),
                strict=True,
            )
        ]

    @property
    def moldable(self) -> npt.NDArray[np.bool_]:
        """Which jobs could have run on other node counts, shape ``(jobs,)``."""
        return np.array([one is not None for one in self.moldable_jobs], dtype=bool)

    def at_load(self, load: float) -> "WhatIf":
        """Replay of the same jobs closer together or farther apart."""
        return WhatIf(self.workload.at_load(load), self.moldable_jobs, self._order)

    def adopted(self, share: float, *, seed: int = 1) -> "WhatIf":
        """Replay where only a share of the moldable jobs takes part, as when users are advised."""
        takes_part = np.random.default_rng(seed).random(len(self.moldable_jobs)) < share
        drawn = zip(self.moldable_jobs, takes_part, strict=True)
        return WhatIf(self.workload, [one if yes else None for one, yes in drawn], self._order)

    def rigid(self) -> ReplaySchedule:
        """Schedule every job on the nodes that it had."""
        return self._engine().run(self._submits(), lambda job, _: self._own[job])

    def disturbed(self, *, seed: int) -> ReplaySchedule:
        """Schedule the requests, but every tenth job runs two per cent longer.

        A schedule answers a small change with many: what differs here differs by chance.
        """
        longer = np.where(np.random.default_rng(seed).random(len(self._own)) < 0.1, 1.02, 1.0)
        shapes = [
            own._replace(run_s=own.run_s * factor)
            for own, factor in zip(self._own, longer.tolist(), strict=True)
        ]
        return self._engine().run(self._submits(), lambda job, _: shapes[job])

    def under(self, rules: PolicySettings) -> WhatIfOutcome:
        """Schedule with the policy deciding on the moldable jobs."""
        engine = self._engine()
        # Run times to expect: by the job's table, or else by its user's last two jobs.
        last_two = recent_mean(self.workload)
        jobs = zip(self.moldable_jobs, last_two, self._own, strict=True)
        expected_s = [at(job.table, own.nodes).time_s if job else run_s for job, run_s, own in jobs]
        viewer = ClusterViewer(engine, expected_s)
        past = ObservedArrivals(self.workload)
        reasons: Counter[Reason] = Counter()

        def shape_of(job: int, now_s: float) -> JobShape:
            moldable = self.moldable_jobs[job]
            if moldable is None:
                return self._own[job]
            own = self._own[job]
            partition = viewer.look(now_s, past.demand(now_s))
            request = Request(
                low=moldable.low, high=moldable.high, asked=own.nodes, limit_s=own.limit_s
            )
            decision = decide(request, moldable.table, partition, rules, now_s=now_s)
            reasons[decision.reason] += 1
            if decision.action is not Action.SET or decision.chosen is None:
                return own
            nodes = decision.chosen.nodes
            limit_s = decision.chosen.limit_s or own.limit_s
            expected_s[job] = decision.chosen.prediction.time_s
            return JobShape(nodes, limit_s, own.run_s * moldable.truth(nodes))

        schedule = engine.run(self._submits(), shape_of)
        return WhatIfOutcome(schedule, reasons, schedule.nodes != self.workload.nodes)

    def _engine(self) -> Engine:
        return Engine(self.workload.cluster_nodes, self._order)

    def _submits(self) -> list[float]:
        submits: list[float] = self.workload.submit_s.tolist()
        return submits


#: Jobs of the first look; there is another one each time there are twice as many.
_FIRST = 100


class ObservedArrivals:
    """The demand of jobs to come, looked at anew when twice as many have come.

    workload: all jobs.  Only those that came before a moment count there.
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._submits: list[float] = workload.submit_s.tolist()
        self._next = _FIRST
        self._demand = ArrivalDemand()

    def demand(self, now_s: float) -> ArrivalDemand:
        """Give the demand at a moment, as shares of the cluster; moments must not go back."""
        if self._next <= len(self._submits) and self._submits[self._next - 1] < now_s:
            self._look(bisect_right(self._submits, now_s))
        return self._demand

    def _look(self, count: int) -> None:
        work = self._workload
        made = arrival_demand(
            self._submits[:count], work.nodes[:count].tolist(), work.run_s[:count].tolist()
        )
        self._demand = made.scaled(1 / work.cluster_nodes)
        self._next = 2 * count
