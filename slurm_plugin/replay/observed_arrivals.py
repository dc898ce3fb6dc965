"""What is to be expected of jobs to come, from those that came before in a replayed history."""

from bisect import bisect_right

from predictor.waits.arrivals import arrival_demand
from predictor.waits.workload import ArrivalDemand
from slurm_plugin.replay.workload import Workload

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
