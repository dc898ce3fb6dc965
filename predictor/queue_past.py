"""How a cluster's jobs came and ran in the past: what a refit leaves for its queue.

Loaded by nimod, so nothing but the standard library and msgspec; :mod:`predictor.queue_history`
makes it.
"""

from collections.abc import Mapping

import msgspec

from predictor.fair_share import FairShares
from predictor.wait_record import WaitError


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


class PastArrivals(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that came to a partition."""

    per_s: float
    ahead: float  #: share of them that started before others which would have delayed no job
    shapes: list[PastShape]


class PastRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What estimates of waits would have been off by, and a correction where that was less."""

    errors: list[WaitError] = []  #: oldest first
    #: JSON of a :class:`predictor.queue_wait.QueueWaitFit`; empty: the queue run forward is nearer
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

    Raises
    ------
    ValueError
        It is damaged.
    """
    try:
        return msgspec.json.decode(payload, type=QueuePast)
    except msgspec.DecodeError as error:
        raise ValueError(
            f"the past of the queue cannot be read: {error}; run 'nimo fit'"
        ) from error
