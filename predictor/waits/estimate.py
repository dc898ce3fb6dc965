"""A wait as a distribution: looked up, joined with a run.

Loaded on the submission path, so nothing but the standard library and msgspec.  By how much such
estimates were off, and what that corrects, is in `predictor.waits.error_record`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from math import ceil, erf, exp, inf, isnan, log, sqrt
from statistics import NormalDist, fmean

import msgspec

from predictor.checks import need_finite, need_positive, need_share
from predictor.types import Prediction

#: Waits that differ by less hardly differ: it is added before logarithms are taken, seconds.
ALLOWANCE_S = 60.0
#: Equally likely waits that a distribution is made of.
QUANTILES = 40
SHARES = tuple((i + 0.5) / QUANTILES for i in range(QUANTILES))
#: How near the time is by which a share of jobs have ended.
_PRECISION = 0.0025
#: Quantiles of a standard normal distribution at :data:`SHARES`.
NORMAL = tuple(NormalDist().inv_cdf(share) for share in SHARES)


class WaitGrid(msgspec.Struct, frozen=True, array_like=True):
    """Waits of a job by size and time limit: ``draws_s[size][limit]`` are draws, rising."""

    sizes: tuple[int, ...]
    limits_s: tuple[float, ...]
    draws_s: tuple[tuple[tuple[float, ...], ...], ...]

    def draws(self, units: int, limit_s: float) -> tuple[float, ...] | None:
        """Draws of the wait of a job; None where it is larger than all that there is."""
        size = bisect_left(self.sizes, units)
        if size == len(self.sizes):
            return None
        return self.draws_s[size][bisect_left(self.limits_s, limit_s)]


class WaitEstimate(msgspec.Struct, frozen=True):
    """A wait: equally likely values, rising, seconds.

    Raises ValueError: there is no value, or one is no number.
    """

    waits_s: tuple[float, ...]
    recorded: int = 0  #: errors of jobs like this one that it was corrected by
    bound: bool = False  #: by the time limits of other jobs: it may be far shorter

    def __post_init__(self) -> None:
        if not self.waits_s or isnan(sum(self.waits_s)):
            raise ValueError(f"waits are {self.waits_s}: one at least is needed, all numbers")

    @property
    def median_s(self) -> float:
        """Wait that half of such jobs do not reach."""
        return self.waits_s[(len(self.waits_s) - 1) // 2]

    @property
    def interval_s(self) -> tuple[float, float]:
        """Wait that nine in ten of such jobs have.

        Where more than one in twenty starts at once, the interval begins there: nothing is below.
        """
        low_s = self.quantile(0.05)
        return (low_s, self.quantile(0.95)) if low_s > 0 else (0.0, self.quantile(0.9))

    def quantile(self, share: float) -> float:
        """Wait that a share of such jobs do not reach; 0 and 1 are the least and the longest.

        Raises ValueError: the share is not from 0 to 1.
        """
        if not 0 <= share <= 1:
            raise ValueError(f"share of jobs is {share}: it must be from 0 to 1")
        place = min(max(share * len(self.waits_s) - 0.5, 0.0), len(self.waits_s) - 1.0)
        low = int(place)
        first = self.waits_s[low]
        if place == low or first == inf:
            return first
        return first + (place - low) * (self.waits_s[low + 1] - first)

    def after(self, wait_s: float) -> "WaitEstimate":
        """Estimate for a job that cannot start before so many seconds from now."""
        if wait_s <= self.waits_s[0]:
            return self
        early = bisect_left(self.waits_s, wait_s)
        waits_s = (wait_s,) * early + self.waits_s[early:]
        return msgspec.structs.replace(self, waits_s=waits_s)

    def longer(self, factor: float) -> "WaitEstimate":
        """Estimate for a job that waits so many times as long, :data:`ALLOWANCE_S` added to both.

        Raises ValueError: the factor is not above 0.
        """
        need_positive("factor of a wait", factor)
        if factor == 1.0:
            return self
        waits_s = ((one + ALLOWANCE_S) * factor - ALLOWANCE_S for one in self.waits_s)
        return msgspec.structs.replace(self, waits_s=tuple(max(one, 0.0) for one in waits_s))

    def later(self, seconds: float) -> "WaitEstimate":
        """Estimate as it is so many seconds later, the job not having started."""
        need_finite("seconds later", seconds)
        if seconds == 0:
            return self
        waits_s = tuple(max(one - seconds, 0.0) for one in self.waits_s)
        return msgspec.structs.replace(self, waits_s=waits_s)

    def chance(
        self, run: Prediction, left_s: float, *, limit_s: float = 0.0, most_s: float = inf
    ) -> float:
        """Chance that a job waits, runs and ends within so many seconds.

        limit_s: Slurm does not start a job whose time limit reaches beyond its deadline.
        most_s: it stops a run that takes longer.

        >>> one = Prediction(1, 100.0, 90.0, 111.0, level=0.9)
        >>> WaitEstimate((0.0,) * 40).chance(one, 100.0)
        0.5
        """
        latest_s = left_s - limit_s
        ended = _share_ended(run)
        return fmean(
            ended(min(left_s - one, most_s)) if one <= latest_s else 0.0 for one in self.waits_s
        )

    def end_s(self, run: Prediction, share: float) -> float:
        """Seconds from now by which a share of such jobs have ended, within half a percent.

        Raises ValueError: the share is not between 0 and 1.
        """
        need_share("share of jobs", share)
        if self.waits_s[-1] == inf:
            return inf
        # Neither wait nor run may be longer; half of the others may exceed either of these.
        rest = (1 + share) / 2
        low = max(self._reached(share), _run_time(run, share))
        high = self._reached(rest) + _run_time(run, rest)
        # An advice asks this of each node count three times; most waits are alike: none.
        ended = _share_ended(run)
        waits = Counter(self.waits_s)
        jobs = share * len(self.waits_s)
        while high - low > _PRECISION * high:
            middle = (low + high) / 2
            enough = sum(n * ended(middle - one) for one, n in waits.items()) >= jobs
            low, high = (low, middle) if enough else (middle, high)
        return high

    def _reached(self, share: float) -> float:
        """Shortest wait that at least a share of such jobs do not exceed."""
        return self.waits_s[ceil(share * len(self.waits_s)) - 1]


def certain(wait_s: float, *, bound: bool = False) -> WaitEstimate:
    """Estimate of a wait that is taken as it is; ``bound``: it may be shorter.

    Raises ValueError: it is no time.
    """
    if not wait_s >= 0:
        raise ValueError(f"wait is {wait_s}: it must be 0 or more")
    return WaitEstimate((wait_s,), bound=bound)


def _share_ended(run: Prediction) -> Callable[[float], float]:
    """Give what says which share of runs end within so many seconds: log-normal to either side."""
    below, above = _spreads(run)

    def ended(left_s: float) -> float:
        off = log(left_s / run.time_s) if left_s > 0 else -inf
        spread = below if off < 0 else above
        return 0.5 * (1 + erf(off / (spread * sqrt(2)))) if spread > 0 else float(off >= 0)

    return ended


def _run_time(run: Prediction, share: float) -> float:
    return run.time_s * exp(_spreads(run)[share > 0.5] * _normal_quantile(2 * share - 1))


def _spreads(run: Prediction) -> tuple[float, float]:
    """Give standard deviations of log run time below the median and above it."""
    sides = log(run.time_s / run.low_s), log(run.high_s / run.time_s)
    below, above = (max(side, 0.0) / _normal_quantile(run.level) for side in sides)
    return below, above


@lru_cache(maxsize=16)
def _normal_quantile(level: float) -> float:
    return NormalDist().inv_cdf((1 + level) / 2)


def log_quantiles(run: Prediction) -> tuple[float, ...]:
    """Logarithms of a run time's quantiles at :data:`SHARES`."""
    spread = log(max(run.high_s / run.low_s, 1.0)) / (2 * _normal_quantile(run.level))
    return tuple(log(run.time_s) + spread * z for z in NORMAL)
