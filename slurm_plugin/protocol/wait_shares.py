"""How near predicted waits came: part of an advice and of nimod's state, apart from both."""

from __future__ import annotations  # `advice_messages` reads them as texts

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitShares:
    """How near one kind of predicted waits came."""

    jobs: int
    #: most by which the wait of four in five of them differed, within half a percent
    within_s: float
    later: float  #: share that started more than a minute later than predicted
