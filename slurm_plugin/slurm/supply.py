"""What a partition has for jobs of one shape, over time: of nodes, CPUs or GPUs.  Pure."""

from dataclasses import replace as replaced
from math import ceil, inf
from typing import Final

import msgspec
from msgspec.structs import replace

from predictor.waits.estimate import WaitEstimate, certain
from sacct_ingest.runs.layout import Unit
from slurm_plugin.slurm.node_pool import NodeAvailability
from slurm_plugin.slurm.outlook import Outlook

#: So that a third of a node fits into it three times.
_EXACT: Final = 1e-9


class Supply(msgspec.Struct, frozen=True, kw_only=True):
    """What a job can have, in the unit of its request: all that a decision asks of a cluster."""

    partition: str  #: that has it; several: with commas
    unit: Unit  #: of all counts
    total: int  #: that could take such a job
    part: float = 1.0  #: of each that the job takes: of CPUs, memory or devices
    fewest: int = 1  #: for one job
    most: int  #: for one job
    free: NodeAvailability  #: how many one job could have, from now on
    free_by_limits: NodeAvailability  #: the same if all jobs run to their limits, as Slurm plans
    #: CPUs or GPUs that are free in all, for several jobs; None: unknown
    free_in_all: NodeAvailability | None = None
    longest_s: float | None = None  #: for which a job may run; None: for ever
    node_mem_bytes: int | None = None  #: of the smallest node
    waiting: int = 0  #: jobs in the queue
    waiting_mean: float = 0.0  #: the same, averaged over about a day
    outlook: Outlook | None = None  #: None: waits follow from ``free``
    promised: bool = False  #: whether jobs that the queue does not show yet are taken off ``free``
    ahead: float = 0.0  #: what those take that were let in since, in parts as ``part``
    blocked_s: float = -inf  #: nothing starts before, seconds since the epoch

    @property
    def room(self) -> NodeAvailability | None:
        """What is free for several jobs at once, over time; None: unknown.

        Of nodes, each as often as such a job fits into it: also of those that are used in part,
        where fewer fit.
        """
        if self.unit is not Unit.NODES:
            return self.free_in_all
        each = max(int(1 / self.part + _EXACT), 1)
        return replaced(self.free, free=tuple(nodes * each for nodes in self.free.free))

    def wait(self, size: int, limit_s: float, *, now_s: float, begin_s: float) -> WaitEstimate:
        """Estimate how long a job waits from now on.

        size: how many it asks for.
        limit_s: its time limit.
        now_s: the present, seconds since the epoch.
        begin_s: it does not start before this.
        """
        if self.outlook is None:
            first_s = max(now_s, begin_s)
            start_s = self.free.earliest_start(size, limit_s, from_s=first_s)
            return certain(start_s - now_s, bound=start_s > first_s)
        behind = max(min(size + ceil(self.ahead / self.part), self.total), size)
        estimate = self.outlook.wait(behind, limit_s)
        if estimate is None:
            return certain(inf)
        after_s = max(begin_s, self.blocked_s)
        if self.promised and size * self.part + self.ahead > self.total:
            # Jobs that the queue does not show yet take all: it starts when they are through.
            through_s = self.free.earliest_start(size, limit_s, from_s=now_s)
            later = through_s > max(after_s, now_s + estimate.median_s)
            after_s = max(after_s, through_s)
            # The record knows nothing of these.
            estimate = replace(estimate, recorded=0, bound=later)
        return estimate.after(after_s - now_s)
