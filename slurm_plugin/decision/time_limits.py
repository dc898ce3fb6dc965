"""What a job needs of time, by what its earlier runs took.

Time limits are what fewer nodes need, and what a good prediction makes of a generous one.  All are
whole minutes, as slurmctld keeps them, rounded up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf
from typing import NamedTuple

from predictor.prediction_table import PredictionTable
from predictor.table import quantile
from sacct_ingest.text.durations import duration_text
from slurm_plugin.config import settings as config
from slurm_plugin.text.formatting import percent

#: Slurm keeps time limits in minutes.
MINUTE_S = 60.0
#: A shorter limit is at least such a share shorter: less changes no place in a queue.
_SHORTER = 0.1


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """A time limit and the ``--time-min`` that backfill may cut it down to; None: none."""

    limit_s: float
    least_s: float | None = None


def whole_minutes(seconds: float) -> float:
    """Seconds of the whole minutes that hold ``seconds``.

    >>> whole_minutes(61.0)
    120.0
    """
    return MINUTE_S * ceil(seconds / MINUTE_S)


def is_worthwhile(limit_s: float, own_s: float) -> bool:
    """Whether a limit is so much shorter than a job's own that it is worth asking for."""
    return limit_s <= (1 - _SHORTER) * own_s


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


@dataclass(frozen=True, slots=True)
class AskedLimit:
    """What a user asked for of time, seconds; None: nothing."""

    limit_s: float | None = None  #: or the one by default; None: no limit
    least_s: float | None = None  #: ``--time-min``: a limit stays above it, and it stays as it is
    with_least: bool = False  #: a ``--time-min`` may go with a limit: not before Slurm 25.05.3


def from_prediction(
    table: PredictionTable, counts: Sequence[int], settings: config.TimeLimit, asked: AskedLimit
) -> list[TimeLimits | None]:
    """Limit on each of ``counts`` that holds the run, and is shorter than what was asked for.

    None for a count without a high quantile, or where it leaves too little to shorten.
    """
    # A job that asks for more than its last runs did may be a larger one.
    asked_s = max(table.asked_limit_s, asked.limit_s or 0.0)
    made = limits_on(table, counts, settings, asked, asked_s)
    own_s = asked.limit_s or inf
    return [one if one and is_worthwhile(one.limit_s, own_s) else None for one in made]


def limits_on(
    table: PredictionTable,
    counts: Sequence[int],
    settings: config.TimeLimit,
    asked: AskedLimit,
    asked_s: float,
    time_s: Callable[[PredictionTable, int, float], float | None] = quantile,
) -> list[TimeLimits | None]:
    """Limit on each of ``counts`` that holds the run, and is no shorter than its `floors`.

    asked_s: time limit that such jobs ask for.
    time_s: run time that a share of runs on a count stay below; None: there is none.
    """
    high = [time_s(table, n, settings.quantile) for n in counts]
    low = [time_s(table, n, settings.min_quantile) for n in counts]
    made: list[TimeLimits | None] = []
    for n, high_s, low_s in zip(counts, high, low, strict=True):
        if high_s is None or low_s is None:
            made.append(None)
            continue
        floor_s = max(bound.limit_s for bound in floors(table, n, settings, asked_s))
        least_s = max(whole_minutes(low_s * settings.margin), floor_s)
        limit_s = max(whole_minutes(high_s * settings.margin), floor_s, asked.least_s or 0.0)
        own = asked.with_least and asked.least_s is None and least_s < limit_s
        made.append(TimeLimits(limit_s, least_s if own else None))
    return made


def holding_all(limits: Sequence[TimeLimits | None]) -> TimeLimits | None:
    """Limit that holds the run wherever one of these does; None: one of them is missing."""
    given = [one for one in limits if one is not None]
    if not given or len(given) < len(limits):
        return None
    limit_s = max(one.limit_s for one in given)
    least_s = max(one.least_s or one.limit_s for one in given)
    return TimeLimits(limit_s, least_s if least_s < limit_s else None)


def shortest(table: PredictionTable, nodes: int, settings: config.TimeLimit, own_s: float) -> float:
    """Shortest limit that may be set in place of ``own_s`` on so many nodes or more."""
    asked_s = max(table.asked_limit_s, own_s)
    known = _known(table, nodes, settings, asked_s)
    return whole_minutes(max(share * of_s for share, of_s, _ in known))


class Floor(NamedTuple):
    """What no time limit is shorter than, seconds, as a share of a time that is known."""

    limit_s: float
    share: float
    of_s: float
    words: str  #: with ``{share}``, and ``{limit}`` or ``{time}`` for what it is a share of

    def text(self) -> str:
        """Say why no limit is shorter."""
        share = percent(self.share)
        of_s = self.of_s
        return self.words.format(share=share, limit=duration_text(of_s), time=duration_text(of_s))


def floors(
    table: PredictionTable, nodes: int, settings: config.TimeLimit, asked_s: float
) -> list[Floor]:
    """List what no limit on so many nodes is shorter than.

    A share of what such jobs ask for, a share of the longest run seen on as many nodes or more, and
    what a limit stopped lately: that run needed more, and the next such run does, too.

    asked_s: time limit that such jobs ask for.
    """
    known = _known(table, nodes, settings, asked_s)
    return [Floor(whole_minutes(share * of_s), share, of_s, words) for share, of_s, words in known]


def _known(
    table: PredictionTable, nodes: int, settings: config.TimeLimit, asked_s: float
) -> tuple[tuple[float, float, str], ...]:
    """Give shares of times that are known, with words for each."""
    runs = [one for one in table.longest if one.nodes >= nodes]
    longest_s = max((one.time_s for one in runs), default=0.0)
    cut_s = max((one.cut_s for one in runs), default=0.0)
    return (
        (settings.least_share, asked_s, "{share} of the {limit} that such jobs ask for"),
        (settings.longest_share, longest_s, "{share} of the longest run, {time}"),
        (settings.margin, cut_s, "a limit ended a run after {time}"),
    )
