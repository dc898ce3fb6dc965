"""How sharp intervals are: scores of log run time, and the quantiles that NIMO's stand beside."""

import math
from collections.abc import Sequence
from statistics import fmean, median

#: Runs that empirical quantiles are of, the fewest that make a kind, and the fewest at all.
LAST, FEWEST_ALIKE, FEWEST = 60, 19, 5
#: Shares whose quantiles stand for a distribution when its CRPS is worked out.
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
_EACH_BEYOND = 0.05
Quantiles = tuple[float, ...]


def empirical(pools: Sequence[Sequence[float]], limit_s: float) -> Quantiles | None:
    """Quantiles of log run time, at `SHARES`, of the first pool that is large, or of the largest.

    pools: run times in seconds, the most specific first.  Beyond both extremes each further rank
        is half a unit of log time.
    """
    large = (pool for pool in pools if len(pool) >= FEWEST_ALIKE)
    pool = next(large, max(pools, key=len, default=()))
    if len(pool) < FEWEST:
        return None
    logs, last = sorted(math.log(max(one, 1.0)) for one in pool), len(pool) - 1
    made = []
    for share in SHARES:
        place = share * (len(pool) + 1) - 1
        low = min(max(math.floor(place), 0), last)
        part = min(max(place - low, 0.0), 1.0)
        beyond = 0.5 * (min(place, 0.0) + max(place - last, 0.0))
        made.append(logs[low] * (1 - part) + logs[min(low + 1, last)] * part + beyond)
    high = max(made[-1], made[0] + 0.01)
    return *made[:-1], min(high, max(math.log(limit_s), made[0] + 0.01))


def interval_score(low: float, high: float, actual: float) -> float:
    """Width, and 20 times what lies outside of 90 % (Gneiting and Raftery, JASA 102, 2007)."""
    outside = max(low - actual, 0.0) + max(actual - high, 0.0)
    return high - low + outside / _EACH_BEYOND


def crps(quantiles: Quantiles, actual: float) -> float:
    """Continuous ranked probability score: twice the mean quantile score, of five quantiles."""
    off = [(share, actual - one) for share, one in zip(SHARES, quantiles, strict=True)]
    return 2 * fmean(max(share * one, (share - 1) * one) for share, one in off)


def of_table(time_s: float, half: tuple[float, float], nine: tuple[float, float]) -> Quantiles:
    """Log quantiles at `SHARES` of a median and its intervals of 50 and 90 %."""
    return tuple(math.log(max(one, 1e-3)) for one in (nine[0], half[0], time_s, half[1], nine[1]))


def figures(name: str, said: Sequence[Quantiles], actual: Sequence[float]) -> dict[str, float]:
    """Scores, share inside and median width (high over low) of some predictions; logs."""
    pairs = list(zip(said, actual, strict=True))
    return {
        f"{name}score": fmean(interval_score(q[0], q[-1], y) for q, y in pairs),
        f"{name}inside %": 100 * fmean(q[0] <= y <= q[-1] for q, y in pairs),
        f"{name}high/low": math.exp(median(q[-1] - q[0] for q in said)),
        f"{name}CRPS": fmean(crps(q, y) for q, y in pairs),
    }
