"""How often predicted waits came true: pure.

Jobs predicted to start at once are judged apart from jobs predicted to wait: the first kind is
easy to predict.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from math import ceil, log

import msgspec

from slurm_plugin.protocol.advice_messages import WaitShares

#: A wait up to this long is a start at once, seconds: the scheduler itself takes some.
AT_ONCE_S = 60.0
#: Share of the jobs that an accuracy speaks of.
SHARE = 0.8
FEWEST = 5  #: jobs; of fewer nothing is said
_STEPS = 200  #: bins for each factor of e
_LEAST_S, _NONE = 1e-3, -(10**6)  #: what is off by less is not off


class WaitAccuracy(msgspec.Struct, frozen=True, kw_only=True):
    """Accuracy of predicted waits; None: too few jobs."""

    at_once: WaitShares | None = None
    waiting: WaitShares | None = None

    def like(self, wait_s: float | None) -> WaitShares | None:
        """How near waits like this one came."""
        if wait_s is None:
            return None
        return self.at_once if wait_s <= AT_ONCE_S else self.waiting


def judge(pairs: Iterable[tuple[float, float]]) -> WaitAccuracy:
    """Judge predicted waits, one after the other in little memory.

    pairs: predicted and actual wait of each job, seconds.

    >>> judge([(0.0, 2.0)] * 8 + [(0.0, 90.0)] * 2).at_once
    WaitShares(jobs=10, within_s=2.0, later=0.2)
    """
    tally = WaitTally()
    for predicted_s, actual_s in pairs:
        tally.add(predicted_s, actual_s)
    return tally.result()


class WaitTally:
    """Adds up predicted waits, starts at once and others apart."""

    def __init__(self) -> None:
        self._at_once, self._waiting = _Kind(), _Kind()

    def add(self, predicted_s: float, actual_s: float) -> None:
        """Take a job."""
        kind = self._at_once if predicted_s <= AT_ONCE_S else self._waiting
        kind.add(actual_s - predicted_s)

    def result(self) -> WaitAccuracy:
        """Judge them."""
        return WaitAccuracy(at_once=self._at_once.result(), waiting=self._waiting.result())


class _Kind:
    """By how much waits were off, in bins of half a percent: each its jobs and the most of them."""

    def __init__(self) -> None:
        self._jobs = self._later = 0
        self._counts: Counter[int] = Counter()
        self._most_s: dict[int, float] = {}

    def add(self, late_s: float) -> None:
        off_s = abs(late_s)
        where = round(_STEPS * log(off_s)) if off_s >= _LEAST_S else _NONE
        self._jobs += 1
        self._later += late_s > AT_ONCE_S
        self._counts[where] += 1
        self._most_s[where] = max(off_s, self._most_s.get(where, 0.0))

    def result(self) -> WaitShares | None:
        if self._jobs < FEWEST:
            return None
        bins = sorted(self._counts)
        # The bound that holds for the share, rounding up.
        totals = list(accumulate(self._counts[where] for where in bins))
        within_s = self._most_s[bins[bisect_left(totals, ceil(SHARE * self._jobs))]]
        return WaitShares(jobs=self._jobs, within_s=within_s, later=self._later / self._jobs)
