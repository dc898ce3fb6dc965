"""What a job needs of memory and time, by what its earlier runs needed.

Time limits are what fewer nodes need, what a good prediction makes of a generous one, and what
Slurm is to plan with.  All are whole minutes, as slurmctld keeps them, rounded up.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, inf
from typing import NamedTuple

from predictor.table import level_quantile, quantile, shared_out
from predictor.types import UNBOUNDED, Memory, PredictionTable
from sacct_ingest.runs.layout import Unit
from sacct_ingest.text.slurm_text import time_span
from slurm_plugin.config import settings as config
from slurm_plugin.config.settings import TimeLimit
from slurm_plugin.text.formatting import limit_text, percent

#: Runs that have to speak for less memory than a job asks for.
_RUNS = 3
_MIB = 2**20
_ROUND_MIB = 100
#: More nodes than any cluster has: no count has enough memory.
NEVER = 2**31


@dataclass(frozen=True, slots=True)
class LowerMemory:
    """Memory of each node, MiB: what a job gets and what it asked for.

    ``per_cpu`` is what to write where the job asks by CPU; None: ``given_mib``.
    """

    given_mib: int
    asked_mib: int
    per_cpu: int | None = None


def memory_floor(table: PredictionTable, mem_node_bytes: int | None, *, margin: float) -> int:
    """Fewest nodes on which the job's memory fits, or is expected to.

    What a node needed where the application ran on ``n`` nodes fits there.  On fewer nodes each
    one needs more, at most ``n`` over their number times as much, and ``margin`` more than that
    (MaxRSS is sampled).  On more nodes none needs less for sure: what was too large on one count
    is only taken to fit on a larger one where it was seen to.

    mem_node_bytes: memory that the job gets on each node; None: unknown, all counts fit.
    margin: ratio, at least 1.
    """
    if not (table.memory and mem_node_bytes):
        return 1
    unfit = [one.nodes for one in table.memory if one.mem_bytes > mem_node_bytes]
    beyond = unfit[-1] if unfit else 0
    measured = next((one for one in table.memory if one.nodes > beyond), None)
    if measured is None:
        return NEVER
    scaled = ceil(measured.nodes * measured.mem_bytes * margin / mem_node_bytes)
    return max(min(measured.nodes, scaled), beyond + 1)


def memory_to_ask(table: PredictionTable, size: int, *, margin: float) -> int | None:
    """Memory for a job of this size, MiB: what runs are to be given.

    Of a node where the table counts nodes, else of the whole job.  None: beyond what was run, of
    too few runs, or runs of this size or a neighbouring one ended for lack of memory.  Of one job
    the need on the count that it asks for says that on others: fewer nodes share it out.

    margin: ratio, at least 1, to the highest need ever where it is all that a table says.
    """
    share = 1.0
    if table.asked and table.unit is Unit.NODES:
        share, size = shared_out(table.asked, size), table.asked
    counts = [one.nodes for one in table.memory]
    if table.runs < _RUNS or not counts or not counts[0] <= size <= counts[-1]:
        return None
    below = max(n for n in counts if n <= size)
    above = min(n for n in counts if n >= size)
    near = (one for one in table.memory if below <= one.nodes <= above)
    if any(one.mem_bytes >= UNBOUNDED for one in near):
        return None
    if table.need is None:
        # What larger runs needed counts where it is less: then some smaller one needed more.
        smaller = (one.mem_bytes for one in table.memory if one.nodes <= above)
        needed = margin * max(need for need in smaller if need < UNBOUNDED)
    elif (high := most_between(table.need.high, size, size)) is not None:
        needed = high
    else:
        return None
    return _ROUND_MIB * ceil(needed * share / (_ROUND_MIB * _MIB))


def most_between(needs: tuple[Memory, ...], low: int, high: int) -> int | None:
    """Most memory on sizes from low to high, and those beside them; None: they were not run."""
    sizes = [one.nodes for one in needs]
    if not sizes or low < sizes[0] or high > sizes[-1]:
        return None
    first = max(n for n in sizes if n <= low)
    last = min(n for n in sizes if n >= high)
    return max(one.mem_bytes for one in needs if first <= one.nodes <= last)


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

    None for a count without a high quantile, or where it leaves nothing to shorten.
    """
    # A job that asks for more than its last runs did may be a larger one.
    asked_s = max(table.asked_limit_s, asked.limit_s or 0.0)
    made, own_s = limits_on(table, counts, settings, asked, asked_s), asked.limit_s or inf
    return [one if one and one.limit_s < own_s else None for one in made]


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
    return max(bound.limit_s for bound in floors(table, nodes, settings, asked_s))


class Floor(NamedTuple):
    """What no time limit is shorter than, seconds, as a share of a time that is known."""

    limit_s: float
    share: float
    of_s: float
    words: str  #: with ``{share}``, and ``{limit}`` or ``{time}`` for what it is a share of

    def text(self) -> str:
        """Say why no limit is shorter."""
        share, of_s = percent(self.share), self.of_s
        return self.words.format(share=share, limit=limit_text(of_s), time=time_span(of_s))


def floors(
    table: PredictionTable, nodes: int, settings: config.TimeLimit, asked_s: float
) -> list[Floor]:
    """List what no limit on so many nodes is shorter than.

    A share of what such jobs ask for, a share of the longest run seen on as many nodes or more, and
    what a limit stopped lately: that run needed more, and the next such run does, too.

    asked_s: time limit that such jobs ask for.
    """
    runs = [one for one in table.longest if one.nodes >= nodes]
    longest_s = max((one.time_s for one in runs), default=0.0)
    cut_s = max((one.cut_s for one in runs), default=0.0)
    known = (
        (settings.least_share, asked_s, "{share} of the {limit} that such jobs ask for"),
        (settings.longest_share, longest_s, "{share} of the longest run, {time}"),
        (settings.margin, cut_s, "a limit ended a run after {time}"),
    )
    return [Floor(whole_minutes(share * of_s), share, of_s, words) for share, of_s, words in known]


#: An older view of the cluster does not say that the option is still there.
MOST_AGE_S = 60.0
_LEAST_S = 300.0
#: A job whose runs take more of their limit than this is planned with all of it.
_WHOLE = 0.9
#: By how much a job moves its partition's quantile, and how far at most.
_STEP, _HIGHEST = 0.02, 0.99


@dataclass(slots=True)
class SoftPlans:
    """What came of limits to plan with: quantiles by partition, and where none is set for a day.

    Each field may be exchanged at any time.
    """

    quantiles: Mapping[str, float] = field(default_factory=dict)
    resting: Collection[str] = frozenset()


def quantiles_of(outlasted: Iterable[tuple[str, bool]], share: float) -> dict[str, float]:
    """Quantile of each partition by which at most ``share`` of the jobs outlast their plan.

    Adaptive conformal inference (Gibbs and Candès 2021, eq. 2), no lower than ``1 - share``.

    outlasted: partition of each job, and whether it outlasted its plan; in the order of time.
    """
    quantiles: dict[str, float] = {}
    for name, beyond in outlasted:
        last = quantiles.get(name, 1.0 - share)
        quantiles[name] = min(max(last + _STEP * (beyond - share), 1.0 - share), _HIGHEST)
    return quantiles


def planned_s(
    table: PredictionTable, size: int, own_s: float, share: float, rules: TimeLimit
) -> float:
    """Seconds to plan a job of ``size`` nodes with: what ``share`` of runs stay below, or more.

    own_s: its time limit; where little of it would be left out, it is planned with that.
    """
    long_s = level_quantile(table, size, share)
    if long_s is None:
        return own_s
    limit_s = max(whole_minutes(max(long_s, rules.least_share * own_s)), _LEAST_S)
    return limit_s if limit_s < _WHOLE * own_s else own_s
