"""Time limits: what fewer nodes need, and what a good prediction makes of a generous one.

All limits are whole minutes, as slurmctld keeps them, rounded up.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor

from predictor.table import longest, longest_cut, quantile
from predictor.types import PredictionTable
from slurm_plugin.config import settings as config

MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """A time limit and the ``--time-min`` that backfill may cut it down to; None: none."""

    limit_s: float
    least_s: float | None = None


@dataclass(frozen=True, slots=True)
class SoftLimit:
    """What Slurm plans a job with, beside the time limit that it is held to."""

    limit_s: float
    own_s: float
    size: int  #: nodes, or what its prediction counts


def whole_minutes(seconds: float) -> float:
    """Seconds of the whole minutes that hold ``seconds``.

    >>> whole_minutes(61.0)
    120.0
    """
    return MINUTE_S * ceil(seconds / MINUTE_S)


def fitting(
    limits: TimeLimits | None, high_s: float, margin: float, left_s: float, least_s: float = 0.0
) -> float | None:
    """Limit that holds the run and ends within ``left_s``; None: there is none.

    limits: what the prediction makes of the time limit.
    high_s: upper end of the predicted run time; ``margin`` more is better.
    least_s: what the limit is not to be shorter than, where that ends in time.
    """
    limit_s = limits.limit_s if limits else max(whole_minutes(high_s * margin), least_s)
    longest = MINUTE_S * floor(left_s / MINUTE_S)
    return min(limit_s, longest) if longest >= high_s else None


def from_prediction(
    table: PredictionTable,
    counts: Iterable[int],
    settings: config.TimeLimit,
    *,
    own_s: float | None,
    own_least_s: float | None,
    with_least: bool,
    time_s: Callable[[PredictionTable, int, float], float | None] = quantile,
) -> TimeLimits | None:
    """Limits that hold the run on any of ``counts`` nodes, and are shorter than what was asked for.

    own_s: what the user asked for, or gets by default; None: no limit.  No limit is shorter than a
        share of it, nor than a share of the longest run seen on as many nodes or more, nor than
        what a limit stopped lately.
    own_least_s: the user's own ``--time-min``: the limit stays above it, and it stays as it is.
    with_least: whether a ``--time-min`` may go with the limit: not before Slurm 25.05.3.
    time_s: run time that a share of runs on a count stay below; None: there is none.
    Returns Limits or None: none if there is no high quantile, or it leaves nothing to shorten.
    """
    asked = list(counts)
    high = _longest([time_s(table, n, settings.quantile) for n in asked], settings.margin)
    low = _longest([time_s(table, n, settings.min_quantile) for n in asked], settings.margin)
    if high is None or low is None:
        return None
    floor = shortest(table, asked, settings, own_s or 0.0)
    low, limit = max(low, floor), max(high, floor, own_least_s or 0.0)
    if own_s is not None and limit >= own_s:
        return None
    least = low if with_least and own_least_s is None and low < limit else None
    return TimeLimits(limit, least)


def shortest(
    table: PredictionTable, counts: Sequence[int], settings: config.TimeLimit, own_s: float
) -> float:
    """Shortest limit that may be set in place of ``own_s`` on any of these counts."""
    longest_s = max(longest(table, nodes) for nodes in counts)
    cut_s = max(longest_cut(table, nodes) for nodes in counts)
    shares = (settings.least_share * own_s, settings.longest_share * longest_s)
    # What was stopped needed more than that, and the next such run does, too.
    return whole_minutes(max(*shares, settings.margin * cut_s))


def _longest(times: Sequence[float | None], margin: float) -> float | None:
    finite = [time for time in times if time is not None]
    if not finite or len(finite) < len(times):
        return None
    return whole_minutes(max(finite) * margin)
