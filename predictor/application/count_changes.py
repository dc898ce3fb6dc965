"""What another count does to a run time: the paths of a change, and what they say in all.

Loaded on the submission path, so nothing but the standard library and msgspec.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from math import comb, copysign, exp, hypot, log, log2, sqrt
from statistics import NormalDist, fmean, median

from predictor import table as tables
from predictor.change import Change
from predictor.checks import need_nodes
from predictor.prediction_table import PredictionTable

_CACHED = 1024  #: of each of the cached functions: submissions ask again and again
#: A change is sure where nine in ten paths are within this of their middle: a fifth (logs).
_SURE = 0.18
#: Standard deviation of log run time by which a count that was not run leaves the curve through
#: those that were: how a problem is cut into parts is another matter on each count.
UNEVEN = 0.1
#: Runs for which the prior of noise and roughness counts.
_PRIOR_RUNS = 2
#: Equally likely values of a distribution.
DRAWS = 40
_NORMAL = NormalDist()
NORMAL = tuple(_NORMAL.inv_cdf((i + 0.5) / DRAWS) for i in range(DRAWS))
#: Step through level, change and wait, so that each value of one meets many of the others.
_STRIDE = 17


def log_ratios(change: Change, asked: int, counts: Sequence[int]) -> list[tuple[float, ...]]:
    """Log of T(n)/T(asked) of one problem on each of ``counts``, one value for each path.

    Raises ValueError: a count is no whole number of 1 or more.
    """
    need_nodes((asked, *counts))
    here = _along(change, asked, asked)
    return [_differences(here, _along(change, asked, count)) for count in counts]


def _differences(here: Sequence[float], there: Sequence[float]) -> tuple[float, ...]:
    """Log of ratios of run times, of values in thousandths."""
    return tuple((value - base) / 1000 for base, value in zip(here, there, strict=True))


def _along(change: Change, asked: int, nodes: int) -> list[float]:
    """Value of each path at a count."""
    spots = {
        reference: _spot(change.doublings, nodes / (reference or asked))
        for reference in {*change.references}
    }
    values = []
    for path, reference in zip(change.paths, change.references, strict=True):
        knot, share = spots[reference]
        values.append(path[knot] + share * (path[knot + 1] - path[knot]))
    return values


def _spot(knots: tuple[float, ...], ratio: float) -> tuple[int, float]:
    """Place of a ratio of counts: the knot before it, and how far it is to the next one."""
    doublings = min(max(log2(ratio), knots[0]), knots[-1])
    i = min(bisect_right(knots, doublings), len(knots) - 1) - 1
    return i, (doublings - knots[i]) / (knots[i + 1] - knots[i])


@lru_cache(maxsize=4 * _CACHED)
def ratios(table: PredictionTable, counts: tuple[int, ...]) -> tuple[tuple[float, ...], ...]:
    """T(n)/T(asked) of the job that a table is for on each of ``counts``, as equally likely values.

    A table that says nothing of a change is taken at its word, as sure as it is.

    Raises LookupError: the table does not cover a count, or is for no one job;
        ValueError: a count is no whole number of 1 or more.
    """
    if table.change is not None:
        each = log_ratios(table.change, table.asked, counts)
        return tuple(tuple(map(exp, logs)) for logs in each)
    here = tables.at(table, table.asked)
    values: list[tuple[float, ...]] = []
    for count in counts:
        there = tables.at(table, count)
        ratio = there.time_s / here.time_s
        deviation = hypot(here.curve_sd, there.curve_sd)
        if there.nodes == table.asked:
            values.append((1.0,) * DRAWS)
        else:
            values.append(tuple(ratio * exp(deviation * z) for z in NORMAL))
    return tuple(values)


@lru_cache(maxsize=_CACHED)
def levels(table: PredictionTable) -> tuple[float, ...]:
    """Run time on the count asked for, as equally likely values in the order of `ratios`.

    They are drawn apart from the change: a large value of one meets each of the other.
    """
    here = tables.at(table, table.asked)
    z = _NORMAL.inv_cdf((1 + here.level) / 2)
    down = log(here.time_s / here.low_s) / z
    up = log(here.high_s / here.time_s) / z
    times = [here.time_s * exp(value * (up if value > 0 else down)) for value in NORMAL]
    return tuple(times[(i * _STRIDE) % DRAWS] for i in range(DRAWS))


def changes(change: Change, level: int, nodes: int, asked: int) -> list[float]:
    """Log of T(nodes)/T(level) on each path, rising.

    asked: count that paths without a reference of their own count from.
    """
    there, here = log_ratios(change, asked, (nodes, level))
    return sorted(value - base for value, base in zip(there, here, strict=True))


def end(rising: Sequence[float], share: float, runs: int, uneven: float = UNEVEN) -> float:
    """Quantile of a change, to say how long a job may take: farther out than that of its paths.

    What decides goes by the paths.  They follow from the most likely noise and roughness; these
    are known from few runs, so the distance from the median is that of Student's t.

    rising: log of the change on each path.
    runs: that the paths follow from; 0: these are as sure as they say.
    uneven: standard deviation by which the count leaves the paths; 0: it was run.
    """
    if not runs:
        return _quantile(rising, share)
    middle = median(rising)
    normal = _NORMAL.inv_cdf(share)
    away = _heavier(share, runs) * (_quantile(rising, share) - middle)
    return middle + copysign(hypot(away, normal * uneven), normal)


@lru_cache(maxsize=_CACHED)
def _heavier(share: float, runs: int) -> float:
    """Quantile of Student's t over that of the normal distribution.

    By an expansion (Abramowitz and Stegun, *Handbook of Mathematical Functions*, 1964, 26.7.5).

    >>> round(_heavier(0.95, 3), 3)  # 2.015 / 1.645
    1.225
    """
    z2 = _NORMAL.inv_cdf(share) ** 2
    free = _PRIOR_RUNS + runs
    first = (z2 + 1) / 4
    second = (5 * z2**2 + 16 * z2 + 3) / 96
    third = (3 * z2**3 + 19 * z2**2 + 17 * z2 - 15) / 384
    return 1 + first / free + second / free**2 + third / free**3


def _quantile(rising: Sequence[float], share: float) -> float:
    """Quantile of equally likely values, smoothed by Bernstein's polynomials (Cheng, 1995).

    >>> _quantile([1.0, 2.0, 3.0, 4.0], 0.5), round(_quantile([1.0, 2.0], 0.99), 3)
    (2.5, 1.99)
    """
    weights = _bernstein(len(rising) - 1, share)
    return sum(weight * value for weight, value in zip(weights, rising, strict=True))


@lru_cache(maxsize=_CACHED)
def _bernstein(last: int, share: float) -> tuple[float, ...]:
    return tuple(
        comb(last, place) * share**place * (1 - share) ** (last - place)
        for place in range(last + 1)
    )


def is_sure(logs: Sequence[float], table: PredictionTable) -> bool:
    """Whether nine in ten changes are within a fifth; logs: of each path, rising."""
    beyond = (1 - table.confidence) / 2
    return _quantile(logs, 1 - beyond) - _quantile(logs, beyond) <= 2 * _SURE


def spread(logs: Sequence[float]) -> float:
    """Give the standard deviation of log ratios."""
    mean = fmean(logs)
    return sqrt(fmean([(value - mean) ** 2 for value in logs]))
