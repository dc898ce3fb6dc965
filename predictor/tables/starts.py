"""What starts that were cut off say of a table: their run times are longer than they ran.

A table is made of the runs that finished, as experts and curves need run times.  Here it is brought
to what all starts say: quantiles are those of the product-limit estimate (Kaplan and Meier, Journal
of the American Statistical Association 53, 1958), in which a start that was cut off counts for as
long as it ran.  The median goes up by as much as that of the estimate is above that of the finished
runs, no interval ends below a start that ran on, and where half of the starts or more were cut off
there is no median.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, log
from typing import TypeVar

from predictor.curves.from_runs import follow, started
from predictor.facts import Starts
from predictor.prediction_table import AtLimit, ByType, PredictionTable
from predictor.problems import Problem, problem
from predictor.product_limit import ProductLimit
from predictor.sample import Sample
from predictor.table import BY_TRUST, level_quantile, quantile, round_time, scaled_starts, worse
from predictor.types import HISTORY, Verdict
from sacct_ingest.text.durations import duration_text

#: Shares of starts whose quantiles a table holds.
SHARES = (0.5, 0.75, 0.85, 0.9, 0.95, 0.98, 0.99, 1.0)
#: A median does not move, and a table need not hold quantiles, for less than this ratio.
_LEAST = 1.000_01
#: A start that was cut off within this time had not begun its work: a mistake was taken back.
_AT_ONCE_S = 60.0
_Table = TypeVar("_Table", PredictionTable, ByType)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Run times on each node count; logs would not be exact."""

    nodes: tuple[int, ...]
    median_s: list[float]
    low_s: list[float]
    high_s: list[float]


def with_starts(table: _Table, runs: Sequence[Sample], *, same: bool) -> _Table:
    """Give a table that no start contradicts.

    runs: of the identity, finished or cut off, on the table's counts.
    same: they are taken to be of one application on one problem.
    """
    since_s = _level_since(table, runs)
    ran: dict[int, list[Sample]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.submitted_s, run.end_s)):
        if run.nodes > 0 and run.elapsed_s > 0 and started(run) >= since_s:
            ran[run.nodes].append(run)
    by_count = {nodes: _telling(own) for nodes, own in ran.items()}
    everywhere = {n: _starts(n, own, _newest_limit(own), same=same) for n, own in by_count.items()}
    held: dict[int, Starts] = {}
    for n, one in everywhere.items():
        # Of run times alone where the table's quantiles are lower.
        longer = same and isinstance(table, PredictionTable) and _is_longer(one, table)
        if one.longest_s or longer:
            held[n] = one
    if isinstance(table, PredictionTable):
        # Also where the newest limit has none that were cut off: those of the others may have.
        limits = (_at_limit(one, table.nodes, by_count, same=same) for one in table.at_limits)
        table = replace(table, at_limits=tuple(limits))
    if not held:
        return table
    columns = _Columns(table.nodes, list(table.median_s), list(table.low_s), list(table.high_s))
    entries = _moved(columns, held, by_count, spread=table.model == HISTORY)
    verdicts = tuple(
        _verdict(verdict, entries.get(n))
        for n, verdict in zip(table.nodes, _verdicts(table), strict=True)
    )
    unbounded = {n for n, one in entries.items() if one.unbounded}
    return replace(
        table,
        median_s=tuple(map(round_time, columns.median_s)),
        low_s=tuple(map(round_time, columns.low_s)),
        high_s=tuple(map(round_time, columns.high_s)),
        verdicts=verdicts,
        verdict=min(verdicts, key=BY_TRUST.index) if verdicts else table.verdict,
        problems=(*_problems(held.values()), *table.problems),
        observed=tuple(point for point in table.observed if point.nodes not in unbounded),
        starts=tuple(entries[n] for n in sorted(entries)),
    )


def _level_since(table: PredictionTable | ByType, runs: Sequence[Sample]) -> float:
    """Start of the runs at the present level, seconds since the epoch."""
    if not any(one.name == "drift" for one in table.problems):
        return -inf
    _, drift = follow(runs)
    return drift.since_s if drift is not None else -inf


def _telling(runs: Sequence[Sample]) -> list[Sample]:
    """Leave out what was cut off at once, before any run had finished: it tells nothing."""
    shortest_s = min((run.elapsed_s for run in runs if not run.censored), default=0.0)
    least_s = min(shortest_s, _AT_ONCE_S)
    return [run for run in runs if not run.censored or run.elapsed_s >= least_s]


def _newest_limit(runs: Sequence[Sample]) -> float:
    return next((run.limit_s for run in reversed(runs) if run.limit_s > 0), 0.0)


def _starts(nodes: int, runs: Sequence[Sample], limit_s: float, *, same: bool) -> Starts:
    """Sum up starts on one count, for a request with a time limit; 0: without."""
    alike = [run for run in runs if _had(run.limit_s, limit_s, same=same)] or runs
    # Of one problem other limits say something, too; of many each has its own.
    counted = runs if same else alike
    estimate = ProductLimit.of((run.elapsed_s, run.censored) for run in counted)
    halved = 2 * sum(run.censored for run in alike) >= len(alike)
    # Where half of those that had as much time were cut off, they are what is spoken of.
    said = alike if halved else counted
    cut_off = [run for run in said if run.censored]
    times = sorted(run.elapsed_s for run in said)
    return Starts(
        nodes=nodes,
        starts=len(said),
        cut_off=len(cut_off),
        out_of_time=sum(run.out_of_time for run in cut_off),
        unbounded=halved or estimate.median() is None,
        over_s=times[ceil(len(times) / 2) - 1],
        longest_s=max((run.elapsed_s for run in counted if run.censored), default=0.0),
        ends=tuple((share, estimate.quantile(share)) for share in SHARES),
    )


def _had(own_s: float, limit_s: float, *, same: bool) -> bool:
    """Whether a run had as much time as a request, or an unknown one."""
    if not own_s or not limit_s:
        return True
    return own_s >= limit_s if same else own_s == limit_s


def _is_longer(one: Starts, table: PredictionTable) -> bool:
    """Whether starts took longer than the quantiles of a table say."""
    if one.nodes not in table.nodes:
        return False
    for share, end_s in one.ends:
        if share <= 0.5 or share >= 1 or end_s is None:
            continue
        said = [level_quantile(table, one.nodes, share), quantile(table, one.nodes, share)]
        if any(time_s is not None and end_s > time_s * _LEAST for time_s in said):
            return True
    return False


def _moved(
    columns: _Columns,
    held: Mapping[int, Starts],
    by_count: Mapping[int, Sequence[Sample]],
    *,
    spread: bool,
) -> dict[int, Starts]:
    """Bring columns to what starts say; gives what stands beside each count.

    spread: counts that were not run are as the nearest one that was.
    """
    entries: dict[int, Starts] = {}
    before = dict(zip(columns.nodes, columns.median_s, strict=True))
    for place, nodes in enumerate(columns.nodes):
        one = held.get(nodes)
        if one is None and spread and nodes not in by_count:
            near = min(by_count, key=lambda n: abs(log(n / nodes)))
            if near in held and near in before and held[near].unbounded:
                one = scaled_starts(held[near], nodes, before[nodes] / before[near])
        if one is None:
            continue
        entries[nodes] = one
        if not one.longest_s:
            continue  # none was cut off: only quantiles are as long as those of the runs
        if one.unbounded:
            columns.median_s[place] = one.over_s
        else:
            columns.median_s[place] *= _factor(by_count[nodes], one)
        columns.low_s[place] = min(columns.low_s[place], columns.median_s[place])
        ends = (columns.high_s[place], columns.median_s[place], one.longest_s)
        columns.high_s[place] = max(*ends, one.end_s(0.95) or 0.0)
    return entries


def _factor(runs: Sequence[Sample], one: Starts) -> float:
    """By how much what was cut off is above what finished, at the median."""
    finished = ProductLimit.of((run.elapsed_s, False) for run in runs if not run.censored)
    every = ProductLimit.of((run.elapsed_s, run.censored) for run in runs)
    usual_s = finished.median()
    median_s = every.median()
    if not one.cut_off or usual_s is None or median_s is None or median_s < usual_s * _LEAST:
        return 1.0
    return median_s / usual_s


def _at_limit(
    one: AtLimit, nodes: tuple[int, ...], by_count: Mapping[int, Sequence[Sample]], *, same: bool
) -> AtLimit:
    columns = _Columns(nodes, list(one.median_s), list(one.low_s), list(one.high_s))
    every = {n: _starts(n, own, one.limit_s, same=same) for n, own in by_count.items()}
    held = {n: own for n, own in every.items() if own.longest_s}
    entries = _moved(columns, held, by_count, spread=True)
    return replace(
        one,
        median_s=tuple(map(round_time, columns.median_s)),
        low_s=tuple(map(round_time, columns.low_s)),
        high_s=tuple(map(round_time, columns.high_s)),
        starts=tuple(entries[n] for n in sorted(entries)),
    )


def _verdicts(table: PredictionTable | ByType) -> tuple[Verdict, ...]:
    return table.verdicts or (table.verdict,) * len(table.nodes)


def _verdict(verdict: Verdict, one: Starts | None) -> Verdict:
    """Verdict where starts were cut off: what is not bounded is no prediction."""
    if one is None:
        return verdict
    if one.unbounded:
        return Verdict.REFUSED
    return worse(verdict, Verdict.DOUBTFUL) if one.end_s(0.95) is None else verdict


def _problems(held: Iterable[Starts]) -> list[Problem]:
    """Say on which counts starts were cut off; without an upper end first."""
    said: list[Problem] = []
    for one in sorted(held, key=lambda one: (-one.cut_off, one.nodes)):
        counts = f"{one.nodes} node{'' if one.nodes == 1 else 's'}"
        facts = {"counts": counts, "cut": one.cut_off, "starts": one.starts, "how": how_of(one)}
        if one.unbounded:
            said.insert(0, problem("unbounded", over=duration_text(one.over_s), **facts))
        elif one.end_s(0.95) is None:
            said.append(problem("cut_off", **facts))
    return said[:1]


def how_of(one: Starts) -> str:
    """Say what cut starts off.

    >>> how_of(Starts(1, 40, 32, 32, True, 1.0, 1.0, ()))
    'reached their limit'
    """
    return "reached their limit" if one.out_of_time == one.cut_off else "were cut off"
