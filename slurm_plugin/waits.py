"""How often predicted waits came true: pure.

Jobs that were told to start at once and jobs that were told to wait are judged apart: to be right
about the first is easy.
"""

from collections.abc import Iterable, Sequence
from math import ceil

import msgspec

#: A wait up to this long is a start at once, seconds: the scheduler itself takes some.
AT_ONCE_S = 60.0
#: Share of the jobs that an accuracy speaks of.
SHARE = 0.8
_FEWEST = 5  #: jobs; of fewer nothing is said


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """How near one kind of predicted waits came."""

    jobs: int
    within_s: float  #: most by which the wait of :data:`SHARE` of them differed
    later: float  #: share that started more than :data:`AT_ONCE_S` later than predicted


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """How near predicted waits came; None: too few jobs are known."""

    at_once: Held | None = None
    waiting: Held | None = None

    def like(self, wait_s: float | None) -> Held | None:
        """How near waits like this one came."""
        if wait_s is None:
            return None
        return self.at_once if wait_s <= AT_ONCE_S else self.waiting


def judge(pairs: Iterable[tuple[float, float]]) -> Waits:
    """Judge predicted waits.

    Parameters
    ----------
    pairs
        Predicted and actual wait of each job, seconds.

    Examples
    --------
    >>> judge([(0.0, 2.0)] * 8 + [(0.0, 90.0)] * 2).at_once
    Held(jobs=10, within_s=2.0, later=0.2)
    """
    known = list(pairs)
    return Waits(
        at_once=_held([pair for pair in known if pair[0] <= AT_ONCE_S]),
        waiting=_held([pair for pair in known if pair[0] > AT_ONCE_S]),
    )


def _held(pairs: Sequence[tuple[float, float]]) -> Held | None:
    if len(pairs) < _FEWEST:
        return None
    off = sorted(abs(actual - predicted) for predicted, actual in pairs)
    later = sum(actual - predicted > AT_ONCE_S for predicted, actual in pairs)
    # The smallest bound that holds for the share, rounding up.
    return Held(
        jobs=len(pairs),
        within_s=off[ceil(SHARE * len(off)) - 1],
        later=later / len(pairs),
    )
