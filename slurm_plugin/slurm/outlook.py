"""What a partition's queue lets expect of a job that is submitted now; looked up, never worked out.

Made by :mod:`slurm_plugin.wait_forecasts.forecasts` in the background.
"""

from bisect import bisect_left
from collections.abc import Mapping
from functools import cache, lru_cache
from math import ceil, inf
from typing import Protocol, Self

import msgspec

from predictor.waits.error_record import WaitClass, WaitRecord, class_of
from predictor.waits.estimate import WaitEstimate, WaitGrid
from predictor.waits.workload import ArrivalDemand
from slurm_plugin.slurm.node_pool import NodeShare


class Outlook(Protocol):
    """What says how long a job would wait that is submitted now."""

    def for_share(self, share: NodeShare, fitting: int, user: str = "") -> Self:
        """Outlook for jobs that take this of each node; for those of a user, if one is given."""

    def wait(self, nodes: int, limit_s: float) -> WaitEstimate | None:
        """Look up the wait of a job; None: it is larger than the partition."""

    def arriving(self, span_s: float, level: float) -> float:
        """Give the share of the partition that sufficed for all who came within a span.

        It did so after a share ``level`` of the moments of the past; infinite: none is known.
        """


class NodeUnits(msgspec.Struct, frozen=True, kw_only=True):
    """What the nodes of a partition count, on average: sizes of jobs are in these units."""

    nodes: int
    units: int  #: of all nodes together
    cpus: float = 1.0  #: of one node
    mem_mib: float = 0.0  #: 0: memory is not counted
    gres: Mapping[str, float] = {}

    def of(self, share: NodeShare, nodes: int, fitting: int) -> int:
        """Units that a job takes.

        share: what it takes of each node.
        nodes: how many it takes.
        fitting: how many there are that could take it: where they are few, each counts more.
        """
        each = self.units / max(min(fitting or self.nodes, self.nodes), 1)
        part = 1.0 if share.whole else self.part(share.cpus, share.mem_mib, dict(share.gres))
        return max(ceil(nodes * part * each - 1e-9), 1)

    def part(self, cpus: float, mem_mib: float, gres: Mapping[str, float]) -> float:
        """Part of a node that is taken: of what is taken most of."""
        most = max(cpus / max(self.cpus, 1.0), 0.0)
        if self.mem_mib:
            most = max(most, mem_mib / self.mem_mib)
        for name, count in gres.items():
            most = max(most, count / max(self.gres.get(name, count), 1e-9))
        return min(most, 1.0)


class PartitionOutlook(msgspec.Struct, frozen=True, kw_only=True):
    """Waits in one partition, by size and time limit, corrected by the record."""

    partition: str
    made_s: float  #: seconds since the epoch
    units: NodeUnits
    waiting: int  #: jobs in the queue
    grid: WaitGrid  #: as the queue run forward has it
    estimates: tuple[tuple[WaitEstimate, ...], ...] = ()  #: of each cell of the grid
    #: what a job takes of each node, and how many nodes could take it
    share: NodeShare = NodeShare()
    fitting: int = 0
    #: what users' waits are multiplied by for what they have in the queue, and that of one of them
    factors: Mapping[str, float] = {}
    factor: float = 1.0
    demand: ArrivalDemand = ArrivalDemand()  #: of jobs to come, as shares of the partition

    def corrected(self, record: WaitRecord) -> "PartitionOutlook":
        """Estimate waits by what the queue run forward gave, and the record of such estimates."""

        # Waits of many time limits are alike.
        @cache
        def estimate(size: int, draws_s: tuple[float, ...]) -> WaitEstimate:
            share = size / self.units.units
            made_s = self.made_s
            waiting = self.waiting
            of = class_for(self.partition, draws_s, share, made_s=made_s, waiting=waiting)
            return record.estimate(draws_s, of)

        rows = zip(self.grid.sizes, self.grid.draws_s, strict=True)
        made = tuple(tuple(estimate(size, draws) for draws in row) for size, row in rows)
        return msgspec.structs.replace(self, estimates=made)

    def for_share(self, share: NodeShare, fitting: int, user: str = "") -> "PartitionOutlook":
        """Outlook for jobs that take this of each node; for those of a user, if one is given."""
        factor = self.factors.get(user, 1.0) if user else self.factor
        return msgspec.structs.replace(self, share=share, fitting=fitting, factor=factor)

    def wait(self, nodes: int, limit_s: float) -> WaitEstimate | None:
        """Look up the wait of a job; None: it is larger than the partition."""
        size = bisect_left(self.grid.sizes, self.units.of(self.share, nodes, self.fitting))
        if size == len(self.grid.sizes):
            return None
        estimate = self.estimates[size][bisect_left(self.grid.limits_s, limit_s)]
        return estimate if self.factor == 1.0 else _longer(estimate, self.factor)

    def arriving(self, span_s: float, level: float) -> float:
        """Give the share of the partition that sufficed for all who came within a span."""
        return self.demand.within(span_s, level)


@lru_cache(maxsize=4_096)
def _longer(estimate: WaitEstimate, factor: float) -> WaitEstimate:
    return estimate.longer(factor)


class SizedOutlook(msgspec.Struct, frozen=True, kw_only=True):
    """Waits by sizes that are not counted in nodes: of each size an outlook, and its nodes."""

    sizes: tuple[int, ...]
    parts: tuple[tuple[PartitionOutlook, int], ...]

    def for_share(self, share: NodeShare, fitting: int, user: str = "") -> "SizedOutlook":
        """Outlook as it is: each size has its share, and its user, already."""
        del share, fitting, user
        return self

    def wait(self, size: int, limit_s: float) -> WaitEstimate | None:
        """Look up the wait of a job; None: it is larger than the largest."""
        place = bisect_left(self.sizes, size)
        if place == len(self.sizes):
            return None
        outlook, nodes = self.parts[place]
        return outlook.wait(nodes, limit_s)

    def arriving(self, span_s: float, level: float) -> float:
        """Give the share of the partition that sufficed for all who came within a span."""
        return self.parts[0][0].arriving(span_s, level)


def class_for(
    partition: str, draws_s: tuple[float, ...], share: float, *, made_s: float, waiting: int
) -> WaitClass:
    """Class of a job by its draws."""
    middle = draws_s[len(draws_s) // 2] if draws_s else inf
    return class_of(middle, partition=partition, share=share, at_s=made_s, waiting=waiting)
