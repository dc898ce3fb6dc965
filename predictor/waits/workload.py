"""How a cluster's jobs came and ran in the past: what a refit leaves for its queue.

Loaded by nimod, so nothing but the standard library and msgspec; :mod:`predictor.waits.history`
makes it.
"""

from bisect import bisect_left
from collections.abc import Mapping
from math import inf

import msgspec

from predictor.checks import need_positive
from predictor.waits.calibration import WaitError
from predictor.waits.fair_share import FairShares


class LimitShares(msgspec.Struct, frozen=True, kw_only=True):
    """Which shares of their limits jobs used: log quantiles, of each user and of the site."""

    site: tuple[float, ...] = ()
    users: Mapping[str, tuple[float, ...]] = {}


class PastShape(msgspec.Struct, frozen=True, array_like=True):
    """A job as it came."""

    nodes: int
    cpus: int
    limit_s: float
    run_s: float


class ArrivalDemand(msgspec.Struct, frozen=True, array_like=True):
    """Peak demand of the jobs that arrive within a span, at many moments of the past.

    The units are those of its maker: nodes, CPUs, or shares of a partition.
    """

    spans_s: tuple[float, ...] = ()  #: rising
    peaks: tuple[tuple[float, ...], ...] = ()  #: of each span, evenly from the least to the most

    def within(self, span_s: float, level: float) -> float:
        """Give what sufficed after a share ``level`` of the moments; infinite where none is known.

        >>> demand = ArrivalDemand((60.0, 120.0), ((0.0, 2.0), (4.0, 8.0)))
        >>> demand.within(90.0, 0.5), demand.within(150.0, 0.5)
        (6.0, inf)

        Raises ValueError: the span is no time, or the level no share.
        """
        if not (span_s >= 0 and 0 <= level <= 1):
            raise ValueError(f"a span of {span_s} s and a share of {level} of the moments")
        span = bisect_left(self.spans_s, span_s)
        if span == len(self.spans_s):
            return inf
        row = self.peaks[span]
        place = level * (len(row) - 1)
        below = min(int(place), len(row) - 2)
        return row[below] + (place - below) * (row[below + 1] - row[below])

    def scaled(self, factor: float) -> "ArrivalDemand":
        """Give the same in other units.

        Raises ValueError: the factor is not above zero.
        """
        need_positive("factor between units", factor)
        rows = tuple(tuple(factor * peak for peak in row) for row in self.peaks)
        return ArrivalDemand(self.spans_s, rows)


class PastArrivals(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that came to a partition."""

    per_s: float
    ahead: float  #: share of them that started before others which would have delayed no job
    shapes: list[PastShape]
    node_demand: ArrivalDemand = ArrivalDemand()  #: in nodes
    cpu_demand: ArrivalDemand = ArrivalDemand()  #: in CPUs


class PastRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What estimates of waits would have been off by, and a correction where that was less."""

    errors: list[WaitError] = []  #: oldest first
    #: JSON of a :class:`predictor.waits.regression.QueueWaitFit`; empty: run forward is nearer
    correction: str = ""
    #: mean absolute errors, log10, of the queue run forward and with a correction; None: not tried
    error: float | None = None
    corrected_error: float | None = None


class QueuePast(msgspec.Struct, frozen=True, kw_only=True):
    """The past of one cluster."""

    shares: LimitShares = LimitShares()
    arrivals: Mapping[str, PastArrivals] = {}
    waits: PastRecord = PastRecord()
    fair_shares: FairShares = FairShares()


def encode(past: QueuePast) -> str:
    """Give a past as JSON."""
    return msgspec.json.encode(past).decode()


def decode(payload: str) -> QueuePast:
    """Read what :func:`encode` wrote.

    Raises ValueError: it is damaged.
    """
    try:
        return msgspec.json.decode(payload, type=QueuePast)
    except msgspec.DecodeError as error:
        raise ValueError(
            f"the past of the queue cannot be read: {error}; run 'nimo fit'"
        ) from error
