"""Run times of one job on each count: its level as asked for, times what a change of count does.

Loaded on the submission path, so nothing but the standard library and msgspec.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import ceil, exp, hypot, log, log2, sqrt
from statistics import NormalDist, fmean

from predictor import table as tables
from predictor import types
from predictor.checks import need_nodes

_CACHED = 1024
#: Doublings from the count asked for to which a change is said.
REACH = 6
#: Steps of half a doubling above the count asked for, to which a table of runs on it alone reaches.
_STEPS_UP = 4
#: Share of a change to a count that no job asked for which its problem offsets: users ask for more
#: nodes for larger problems, so it is between none of it (the same problem) and all.
_LARGER = 0.5
#: Equally likely values of a distribution.
DRAWS = 40
NORMAL = tuple(NormalDist().inv_cdf((i + 0.5) / DRAWS) for i in range(DRAWS))
#: Step through level, change and wait, so that each value of one meets many of the others.
_STRIDE = 17


def log_ratios(change: types.Change, asked: int, counts: Sequence[int]) -> list[tuple[float, ...]]:
    """Log of T(n)/T(asked) of one problem on each of ``counts``, one value for each path.

    Raises ValueError: a count is no whole number of 1 or more.
    """
    need_nodes((asked, *counts))
    here = _along(change, asked, asked)
    each = (zip(here, _along(change, asked, n), strict=True) for n in counts)
    return [tuple((there - one) / 1000 for one, there in pairs) for pairs in each]


def _along(change: types.Change, asked: int, nodes: int) -> list[float]:
    """Value of each path at a count."""
    spots = {one: _spot(change.doublings, nodes / (one or asked)) for one in {*change.references}}
    placed = (
        (path, *spots[one]) for path, one in zip(change.paths, change.references, strict=True)
    )
    return [path[i] + share * (path[i + 1] - path[i]) for path, i, share in placed]


def _spot(knots: tuple[float, ...], ratio: float) -> tuple[int, float]:
    """Place of a ratio of counts: the knot before it, and how far it is to the next one."""
    doublings = min(max(log2(ratio), knots[0]), knots[-1])
    i = min(bisect_right(knots, doublings), len(knots) - 1) - 1
    return i, (doublings - knots[i]) / (knots[i + 1] - knots[i])


@lru_cache(maxsize=4 * _CACHED)
def ratios(table: types.PredictionTable, counts: tuple[int, ...]) -> tuple[tuple[float, ...], ...]:
    """T(n)/T(asked) of the job that a table is for on each of ``counts``, as equally likely values.

    A table that says nothing of a change is taken at its word, as sure as it is.

    Raises LookupError: the table does not cover a count, or is for no one job;
        ValueError: a count is no whole number of 1 or more.
    """
    if table.change is not None:
        each = log_ratios(table.change, table.asked, counts)
        return tuple(tuple(map(exp, logs)) for logs in each)
    here, made = tables.at(table, table.asked), []
    for there in [tables.at(table, n) for n in counts]:
        spread, ratio = hypot(here.curve_sd, there.curve_sd), there.time_s / here.time_s
        same = there.nodes == table.asked
        made.append((1.0,) * DRAWS if same else tuple(ratio * exp(spread * z) for z in NORMAL))
    return tuple(made)


@lru_cache(maxsize=_CACHED)
def levels(table: types.PredictionTable) -> tuple[float, ...]:
    """Run time on the count asked for, as equally likely values in the order of `ratios`.

    They are drawn apart from the change: a large value of one meets each of the other.
    """
    one = tables.at(table, table.asked)
    z = NormalDist().inv_cdf((1 + one.level) / 2)
    down, up = log(one.time_s / one.low_s) / z, log(one.high_s / one.time_s) / z
    drawn = [one.time_s * exp(value * (up if value > 0 else down)) for value in NORMAL]
    return tuple(drawn[(i * _STRIDE) % DRAWS] for i in range(DRAWS))


@lru_cache(maxsize=_CACHED)
def for_request(
    table: types.PredictionTable, asked: int, given: tuple[int, int] = (0, 0)
) -> types.PredictionTable:
    """Table of one job on each count; the same one where that is done, or nothing is known of it.

    A count that no job asked for has its level from the nearest one, and is doubtful at best.

    asked: count that it would have without NIMO.
    given: fewest and most nodes that its user asked for; 0: not said.
    """
    change = table.change
    if table.asked or not table.nodes or (change is None and not tables.covers(table, asked)):
        return table
    if change is None:
        return replace(table, asked=asked)
    own = range_of(change, given)
    known = own is not None and tables.covers(table, own.level)
    level = own.level if own and known else min(max(asked, table.nodes[0]), table.nodes[-1])
    never = not known and level != asked
    if abs(log2(asked / level)) > REACH:
        return table
    one = tables.at(table, level)
    larger = -_LARGER * fmean(log_ratios(change, level, [asked])[0]) if never else 0.0
    around = {max(round(level * 2 ** (k / 2)), 1) for k in range(-2 * REACH, _STEPS_UP + 1)}
    nodes = sorted(n for n in {*table.nodes, asked, *around} if abs(log2(n / level)) <= REACH)
    tail = round((1 - one.level) / 2 * DRAWS)
    down, up = (hypot(log(end / one.time_s), larger) for end in (one.low_s, one.high_s))
    middle, lows, highs = [], [], []
    shares = [
        (tail_.share, tables.quantile(table, level, tail_.share) or one.high_s)
        for tail_ in table.tails
    ]
    tails: list[list[float]] = [[] for _ in shares]
    each = log_ratios(change, level, nodes)
    from_asked = each if level == asked else log_ratios(change, asked, nodes)
    spreads = [_spread(logs) for logs in from_asked]
    for logs in map(sorted, each):
        mean = fmean(logs)
        middle.append(one.time_s * exp(mean + larger))
        lows.append(middle[-1] * exp(-hypot(down, mean - logs[tail])))
        highs.append(middle[-1] * exp(hypot(up, logs[-1 - tail] - mean)))
        for column, (share, time_s) in zip(tails, shares, strict=True):
            worst = logs[min(ceil(share * DRAWS), DRAWS) - 1] - mean
            column.append(middle[-1] * exp(hypot(log(time_s / one.time_s), worst, larger)))
    rows = list(zip(nodes, middle, strict=True))
    seen_s = tables.longest(table, level)
    made = replace(
        table,
        asked=asked,
        nodes=tuple(nodes),
        median_s=tuple(map(tables.round_time, middle)),
        low_s=tuple(map(tables.round_time, lows)),
        high_s=tuple(map(tables.round_time, highs)),
        curve_sd=tuple(map(tables.round_time, spreads)),
        verdict=tables.verdict_at(table, level),
        verdicts=(),
        tails=tuple(
            types.Tail(share, tuple(map(tables.round_time, column)))
            for (share, _), column in zip(shares, tails, strict=True)
        ),
        at_limits=(),
        longest=tuple(types.Longest(n, seen_s * time_s / one.time_s) for n, time_s in rows),
        starts=_scaled(tables.starts_at(table, level), rows, one.time_s),
        memory=own.memory if own and own.memory else _at_asked(table.memory, asked),
        need=table.need and _needed(table.need, asked, nodes),
        knee=_best(nodes, [n * t * t for n, t in rows]),
        max_useful=_best(nodes, [max(t, min(middle) * 1.01) for t in middle]),
    )
    if not never:
        return made
    counts = [one.nodes for one in table.observed] or [level]
    seen = min(counts, key=lambda n: abs(log(n / asked)))
    where = f"{asked} {table.unit.plural}"
    return tables.doubtful(made, [types.problem("not_run", asked, where=where, near=seen)])


def _scaled(
    own: types.Starts | None, rows: Sequence[tuple[int, float]], base_s: float
) -> tuple[types.Starts, ...]:
    """Give what starts say of each count; they took ``base_s`` where they ran."""
    if own is None:
        return ()
    return tuple(tables.scaled_starts(own, n, time_s / base_s) for n, time_s in rows)


def usual(table: types.PredictionTable) -> types.Point | None:
    """Find the count of most runs, the largest of these; None: there is no finished run."""
    return max(table.observed, key=lambda one: (one.repeats, one.nodes), default=None)


def of_usual_job(table: types.PredictionTable) -> types.PredictionTable:
    """Table of one job that asks for the count of most runs, on the counts of the table.

    The same one where there is no run, or nothing is known of a change.
    """
    own = usual(table)
    if own is None or table.change is None or table.asked:
        return table
    job = for_request(replace(table, acting={}), own.nodes)
    low, high = table.nodes[0], table.nodes[-1]
    rows = slice(bisect_left(job.nodes, low), bisect_right(job.nodes, high))
    knee, end = (n if n and n <= high else None for n in (job.knee, job.max_useful))
    return replace(tables.of_rows(job, rows), knee=knee, max_useful=end)


def _spread(logs: Sequence[float]) -> float:
    mean = fmean(logs)
    return sqrt(fmean([(one - mean) ** 2 for one in logs]))


def range_of(change: types.Change, given: tuple[int, int]) -> types.AskedRange | None:
    """Find the runs whose users asked for the same range; None: there are none."""
    return next((one for one in change.ranges if (one.low, one.high) == given), None)


def _at_asked(memory: tuple[types.Memory, ...], asked: int) -> tuple[types.Memory, ...]:
    """Memory of a node on the count asked for, by the nearest one that was run.

    Runs on other counts had other problems: what this one needs of fewer nodes follows from its
    own need.
    """
    if not memory:
        return ()
    near = min(memory, key=lambda one: abs(log(one.nodes / asked)))
    return (types.Memory(asked, ceil(near.mem_bytes * tables.shared_out(near.nodes, asked))),)


def _needed(need: types.MemoryNeed, asked: int, nodes: list[int]) -> types.MemoryNeed | None:
    """Need of memory on each count: fewer nodes share it out."""

    def shared(own: tuple[types.Memory, ...]) -> tuple[types.Memory, ...]:
        here = next((one for one in own if one.nodes == asked), None)
        if here is None:
            return ()
        return tuple(
            types.Memory(n, ceil(here.mem_bytes * tables.shared_out(asked, n))) for n in nodes
        )

    return replace(need, high=shared(need.high), given=shared(need.given))


def _best(nodes: list[int], costs: list[float]) -> int | None:
    """Fewest nodes of the lowest cost; None where that is the end of the table."""
    cheapest = min(zip(costs, nodes, strict=True))[1]
    return cheapest if cheapest < nodes[-1] else None
