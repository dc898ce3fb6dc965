"""Making and reading a prediction table: all the mathematics that a submission needs.

Loaded by nimod and ``nimo-advise``, so nothing but the standard library.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from statistics import NormalDist
from typing import Any, TypeVar

from predictor.checks import need_share
from predictor.facts import Starts
from predictor.prediction_table import ByType, PredictionTable
from predictor.problems import Problem
from predictor.types import Point, Prediction, Verdict
from sacct_ingest.records import KeyLevel

#: Cached quantiles of a count: the next job is often of the same kind.
_CACHED = 1024
_Value = TypeVar("_Value")
_Judged = TypeVar("_Judged", PredictionTable, ByType)
BY_TRUST = tuple(Verdict)


def table_of(
    predictions: Sequence[Prediction], verdicts: tuple[Verdict, ...], confidence: float
) -> PredictionTable:
    """Table with its columns; what else belongs into it is replaced by the callers."""
    need_share("confidence", confidence)
    return PredictionTable(
        level="",
        key="",
        label="",
        model="",
        verdict=min(verdicts, key=BY_TRUST.index),
        problems=(),
        nodes=tuple(p.nodes for p in predictions),
        median_s=tuple(round_time(p.time_s) for p in predictions),
        low_s=tuple(round_time(p.low_s) for p in predictions),
        high_s=tuple(round_time(p.high_s) for p in predictions),
        curve_sd=tuple(round_time(p.curve_sd) for p in predictions),
        confidence=confidence,
        observed=(),
        knee=None,
        max_useful=None,
        runs=0,
        mem_node_bytes=None,
        fitted_s=0.0,
        verdicts=verdicts,
    )


def round_time(value: float) -> float:
    """Six digits are enough for a prediction, in half the text."""
    return float(f"{value:.6g}")


def covers(table: PredictionTable, nodes: int) -> bool:
    """Whether the table holds an answer for ``nodes``."""
    return bool(table.nodes) and table.nodes[0] <= nodes <= table.nodes[-1]


def at(table: PredictionTable, nodes: int) -> Prediction:
    """Run time on ``nodes`` nodes: between entries, log time is linear in log nodes.

    Raises LookupError: ``nodes`` is outside the table; see :func:`covers`.
    """
    low, high, share = _bracket(table, nodes)
    return Prediction(
        nodes=nodes,
        time_s=_log_mix(table.median_s[low], table.median_s[high], share),
        low_s=_log_mix(table.low_s[low], table.low_s[high], share),
        high_s=_log_mix(table.high_s[low], table.high_s[high], share),
        level=table.confidence,
        curve_sd=table.curve_sd[low] * (1 - share) + table.curve_sd[high] * share,
        unbounded=any(one.unbounded for one in _starts_around(table, low, high)),
    )


def ran_on(table: PredictionTable) -> tuple[Point, ...]:
    """Give the observations on counts that some job had: others follow from what it asked for."""
    return tuple(point for point in table.observed if point.nodes not in table.never_had)


def starts_at(table: PredictionTable, nodes: int) -> Starts | None:
    """Give what the starts on ``nodes`` nodes say that the columns do not; None: nothing."""
    return next((one for one in table.starts if one.nodes == nodes), None)


def _starts_around(table: PredictionTable, low: int, high: int) -> list[Starts]:
    """Give what starts say on the entries around a count."""
    if not table.starts:
        return []
    counts = {table.nodes[low], table.nodes[high]}
    return [one for one in table.starts if one.nodes in counts]


def scaled_starts(one: Starts, nodes: int, factor: float) -> Starts:
    """Give what starts say of another count, on which they would take ``factor`` as long."""
    return replace(
        one,
        nodes=nodes,
        over_s=round_time(factor * one.over_s),
        longest_s=round_time(factor * one.longest_s),
        ends=tuple(
            (share, None if end_s is None else round_time(factor * end_s))
            for share, end_s in one.ends
        ),
    )


def longest_likely(table: PredictionTable, nodes: int) -> float:
    """Upper end of a run time in seconds, also on a count that the table does not cover.

    On fewer nodes it may take as many times longer as they are fewer.

    Raises LookupError: the table has no count.
    """
    if not table.nodes:
        raise LookupError("a table without counts")
    near = min(max(nodes, table.nodes[0]), table.nodes[-1])
    return at(table, near).high_s * max(near / nodes, 1.0)


def doubtful(table: _Judged, problems: Sequence[Problem]) -> _Judged:
    """Table that is doubtful at best, with the problems that make it so."""
    return replace(
        table,
        verdict=worse(table.verdict, Verdict.DOUBTFUL),
        verdicts=tuple(worse(one, Verdict.DOUBTFUL) for one in table.verdicts),
        problems=(*problems, *table.problems),
    )


def quantile(table: PredictionTable, nodes: int, share: float) -> float | None:
    """Give the run time in seconds that ``share`` of new runs on ``nodes`` stay below, or more.

    That of the lowest share in the table which is no lower.  None where there is none, or where so
    many starts were cut off that it is beyond all that was seen.

    Raises LookupError: ``nodes`` is outside the table; see :func:`covers`.
    """
    tail = next((one for one in table.tails if one.share >= share), None)
    if tail is None:
        return None
    low, high, part = _bracket(table, nodes)
    time_s = _log_mix(tail.time_s[low], tail.time_s[high], part)
    return _no_less(time_s, _starts_around(table, low, high), share)


def _no_less(time_s: float, starts: Sequence[Starts], share: float) -> float | None:
    """Quantile that is no less than those of starts; None: one of them is beyond what was seen."""
    for one in starts:
        end_s = one.end_s(share)
        if end_s is None:
            return None
        time_s = max(time_s, end_s)
    return time_s


def of_rows(table: PredictionTable, rows: slice) -> PredictionTable:
    """Table on some of its node counts."""
    names = ("nodes", "median_s", "low_s", "high_s", "curve_sd", "verdicts")
    cut = {name: getattr(table, name)[rows] for name in names}
    tails = tuple(replace(one, time_s=one.time_s[rows]) for one in table.tails)
    return replace(table, **cut, tails=tails)


def guess_on(table: PredictionTable, nodes: int) -> PredictionTable:
    """Give a guess that covers a count: beyond its counts it says what it says of the nearest.

    Jobs of the same name say something of their own counts, which stay.  Other jobs do not.
    """
    if covers(table, nodes):
        return table
    every_row = range(len(table.nodes))
    nearest = every_row[0] if nodes < table.nodes[0] else every_row[-1]
    stays = every_row if table.level == KeyLevel.NAME else ()
    rows = sorted([nearest, *stays])
    names = ("median_s", "low_s", "high_s", "curve_sd", "verdicts")
    columns: dict[str, Any] = {name: _rows_of(getattr(table, name), rows) for name in names}
    starts = starts_at(table, table.nodes[nearest])
    there = (scaled_starts(starts, nodes, 1.0),) if starts else ()
    return replace(
        table,
        nodes=tuple(sorted([nodes, *(table.nodes[row] for row in stays)])),
        **columns,
        tails=tuple(replace(tail, time_s=_rows_of(tail.time_s, rows)) for tail in table.tails),
        starts=tuple(sorted([*table.starts, *there], key=attrgetter("nodes"))),
        at_limits=(),
        by_type=(),
    )


def _rows_of(column: tuple[_Value, ...], rows: Sequence[int]) -> tuple[_Value, ...]:
    """Give these rows of a column, which may be empty."""
    return tuple(column[row] for row in rows) if column else ()


@lru_cache(maxsize=_CACHED)
def level_quantile(table: PredictionTable, nodes: int, share: float) -> float | None:
    """Give the run time in seconds that ``share`` of new runs on ``nodes`` stay below.

    The logs of run times are taken to be normal on each side of the median, as wide as the
    interval.  None where so many starts were cut off that it is beyond all that was seen.

    Raises LookupError: ``nodes`` is outside the table; ValueError: ``share`` is no share.
    """
    need_share("share of runs", share)
    one = at(table, nodes)
    normal = NormalDist()
    end_s = one.high_s if share >= 0.5 else one.low_s
    reach = abs(normal.inv_cdf(share)) / normal.inv_cdf((1 + table.confidence) / 2)
    time_s = float(one.time_s * (end_s / one.time_s) ** reach)
    low, high, _ = _bracket(table, nodes)
    return _no_less(time_s, _starts_around(table, low, high), share)


def longest(table: PredictionTable, nodes: int) -> float:
    """Longest run in seconds that was seen on as many nodes or more; 0: there was none.

    Fewer nodes take no less time.
    """
    return max((one.time_s for one in table.longest if one.nodes >= nodes), default=0.0)


def shared_out(own: int, nodes: int) -> float:
    """Memory of each of ``nodes`` nodes over that of each of ``own``: fewer nodes share it out."""
    return max(own / nodes, 1.0)


def verdict_at(table: PredictionTable, nodes: int) -> Verdict:
    """Verdict on ``nodes``: the worse of its neighbouring entries, refused outside the table."""
    if not covers(table, nodes):
        return Verdict.REFUSED
    if not table.verdicts:
        return table.verdict
    low, high, _ = _bracket(table, nodes)
    one = table.verdicts[low]
    other = table.verdicts[high]
    return one if one is other else worse(one, other)


def worse(one: Verdict, other: Verdict) -> Verdict:
    """Return the less trusting of two verdicts."""
    return max(one, other, key=BY_TRUST.index)


def _bracket(table: PredictionTable, nodes: int) -> tuple[int, int, float]:
    """Find the indices of the entries around ``nodes`` and its place between them, in log nodes."""
    if not covers(table, nodes):
        raise LookupError(f"{table.label}: {nodes} nodes are outside the predicted range")
    high = bisect_left(table.nodes, nodes)
    if table.nodes[high] == nodes:
        return high, high, 0.0
    low = high - 1
    step = math.log(table.nodes[high] / table.nodes[low])
    return low, high, math.log(nodes / table.nodes[low]) / step


def _log_mix(low: float, high: float, share: float) -> float:
    return low if share == 0.0 else math.exp((1 - share) * math.log(low) + share * math.log(high))
