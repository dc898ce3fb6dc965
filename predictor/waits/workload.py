"""How a cluster's jobs came and ran in the past: what a refit leaves for its queue.

Loaded by nimod, so nothing but the standard library and msgspec; :mod:`predictor.waits.history`
makes it.

Fair-share is there as far as a history shows it: the recent use of users and accounts, halved each
week.

Slurm's priority/multifactor gives more priority to those who used less of late.  Its classic
factor is ``2 ** -(use / share)``: the share of all use over the share that is granted (*Classic
Fairshare Algorithm*, slurm.schedmd.com/classic_fair_share.html).  A history does not have the
granted shares: they count as even.
"""

from bisect import bisect_left
from collections.abc import Mapping
from math import inf
from statistics import median
from typing import TypeVar

import msgspec

from predictor.checks import need_finite, need_positive
from predictor.waits.error_record import WaitError

_Kept = TypeVar("_Kept")
#: As ``PriorityDecayHalfLife`` is, where slurm.conf has none.
_HALF_LIFE_S = 7 * 86_400.0


class RecentUse:
    """Use by name, halved at a pace; times come in any order, and never fall far behind.

    half_life_s: time after which use counts by half.
    """

    def __init__(self, half_life_s: float = _HALF_LIFE_S) -> None:
        need_positive("half-life of use", half_life_s)
        self._half_life_s = half_life_s
        self._use: dict[str, tuple[float, float]] = {}
        self._all = (0.0, 0.0)

    def add(self, name: str, amount: float, at_s: float) -> None:
        """Count an amount that was used by a moment, in any unit.

        Raises ValueError: the amount is below zero, or a number is not finite.
        """
        need_finite("amount that was used", amount, least=0)
        need_finite("moment of use", at_s)
        self._use[name] = (self._at(self._use.get(name, (0.0, at_s)), at_s) + amount, at_s)
        self._all = (self._at(self._all, at_s) + amount, at_s)

    def factor(self, name: str, at_s: float) -> float:
        """Fair-share factor: from 1, for who used nothing, down to 0.

        >>> use = RecentUse()
        >>> use.add("ann", 3.0, 0.0)
        >>> use.add("bob", 1.0, 0.0)
        >>> use.factor("bob", 0.0) > use.factor("ann", 0.0)
        True
        """
        need_finite("moment of asking", at_s)
        every = self._at(self._all, at_s)
        if every <= 0 or name not in self._use:
            return 1.0
        return float(2.0 ** -(self._at(self._use[name], at_s) / every * len(self._use)))

    def factors(self, at_s: float) -> dict[str, float]:
        """Fair-share factors of all who used anything."""
        return {name: self.factor(name, at_s) for name in self._use}

    def _at(self, use: tuple[float, float], at_s: float) -> float:
        amount, since_s = use
        return float(amount * 2.0 ** -(max(at_s - since_s, 0.0) / self._half_life_s))


class FairShares(msgspec.Struct, frozen=True, kw_only=True):
    """Fair-share factors at the time of a refit, of users and of accounts."""

    users: Mapping[str, float] = {}
    accounts: Mapping[str, float] = {}

    def of(self, user: str, account: str) -> tuple[float, float]:
        """Give the factors of a user and of an account; an account without a name is typical."""
        theirs = self.accounts.get(account, 1.0) if account else _middle(self.accounts)
        return self.users.get(user, 1.0), theirs

    def typical(self) -> tuple[float, float]:
        """Give the factors that half of the users, and half of the accounts, exceed."""
        return _middle(self.users), _middle(self.accounts)


def _middle(factors: Mapping[str, float]) -> float:
    return median(factors.values()) if factors else 1.0


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
        """Give the same in other units. Raises ValueError: the factor is not above zero."""
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


def encode(kept: object) -> str:
    """Give what is kept of waits (a past, a record, a fit) as JSON."""
    return msgspec.json.encode(kept).decode()


def decode(payload: str, kind: type[_Kept]) -> _Kept:
    """Read what :func:`encode` wrote.

    kind: of it.
    Raises ValueError: it is damaged or of another release.
    """
    try:
        return msgspec.json.decode(payload, type=kind)
    except msgspec.DecodeError as error:
        raise ValueError(
            f"what is kept of waits cannot be read: {error}; run 'nimo fit'"
        ) from error
