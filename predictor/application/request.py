"""Run times of one job on each count: its level as asked for, times what a change of count does.

Loaded on the submission path, so nothing but the standard library and msgspec.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, exp, hypot, log, log2
from statistics import fmean, median

from predictor import table as tables
from predictor.application.count_changes import UNEVEN, changes, end, is_sure, log_ratios, spread
from predictor.change import AskedRange, Change
from predictor.facts import Longest, Starts
from predictor.memory import Memory, MemoryNeed
from predictor.prediction_table import PredictionTable, Tail
from predictor.problems import problem
from predictor.types import Point, Verdict

_CACHED = 1024
#: Doublings from the count asked for to which a change is said.
REACH = 6
#: Steps of half a doubling above the count asked for, to which a table of runs on it alone reaches.
_STEPS_UP = 4
#: Share of a change to a count that no job asked for which its problem offsets: users ask for more
#: nodes for larger problems, so it is between none of it (the same problem) and all.
_LARGER = 0.5


@lru_cache(maxsize=_CACHED)
def for_request(
    table: PredictionTable, asked: int, given: tuple[int, int] = (0, 0)
) -> PredictionTable:
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
    alike = range_of(change, given)
    ran = {*change.learnt}
    level = min(max(asked, table.nodes[0]), table.nodes[-1])
    never = level != asked
    if alike is not None:
        ran |= {*alike.counts}
        if tables.covers(table, alike.level):
            level = alike.level
            never = False
    if abs(log2(asked / level)) > REACH:
        return table
    if change.one_problem:
        job = _of_one_problem(table, change, asked, level, ran)
    else:
        job = _of_its_own_problem(table, change, asked, level, ran, never=never)
    if alike is not None and alike.memory:
        job = replace(job, memory=alike.memory)
    return _undecided(job, change, level)


def _undecided(job: PredictionTable, change: Change, level: int) -> PredictionTable:
    """Mark a table as undecided where the hypotheses disagree on a node count that was run.

    The problem names the cheapest run that decides between them.

    level: node count whose runs give the job's run time.
    """
    if not change.undecided:
        return job
    ran = [point.nodes for point in job.observed if point.nodes != job.asked]
    doubtful = [n for n in ran if not is_sure(changes(change, level, n, job.asked), job)]
    if not doubtful:
        return job
    # The cheapest: the nearest smaller count, or else the nearest larger one.
    fewer = [n for n in doubtful if n < job.asked]
    cheapest = max(fewer) if fewer else min(doubtful)
    undecided = problem("undecided", cheapest, where=job.unit.counted(cheapest))
    verdict = tables.worse(job.verdict, Verdict.DOUBTFUL)
    # That no job asked for its count is said first.
    never = [found for found in job.problems if found.name == "not_run"]
    others = [found for found in job.problems if found.name != "not_run"]
    return replace(job, verdict=verdict, problems=(*never, undecided, *others))


def _of_one_problem(
    table: PredictionTable, change: Change, asked: int, level: int, ran: Collection[int]
) -> PredictionTable:
    """Table of a job whose problem is that of all runs: rows are what was measured.

    A count that was not run follows from the nearest one that was.  Between two that were its run
    time is that of the curve, and its interval the narrower of the curve's, which its record of
    such counts made, and that of the change.

    ran: counts that jobs for the same range had.
    """
    observed = [point.nodes for point in table.observed] or [level]
    nodes = _counts(table, asked, level)
    rows = []
    for n in nodes:
        within = table.is_curve and min(observed) <= n <= max(observed)
        if within and n in observed:
            rows.append(_Row.of_table(table, n))
            continue
        near = min(observed, key=lambda count: abs(log(count / n)))
        row = _Row.changed(table, change, near, n, asked, measured=n in ran)
        if within:
            row = min(_Row.of_table(table, n), row.on_curve(table), key=_Row.width)
        rows.append(row)
    verdicts = []
    for n in nodes:
        # Where some doubt is left that it is one problem, a change of count is not reliable.
        sure = is_sure(changes(change, level, n, asked), table)
        verdicts.append(_verdict(tables.verdict_at(table, n), sure=sure))
    job = _with_rows(table, asked, rows)
    need = table.need and _needed(table.need, nodes)
    verdict = tables.verdict_at(table, level)
    return replace(job, verdict=verdict, verdicts=tuple(verdicts), need=need)


def _of_its_own_problem(
    table: PredictionTable,
    change: Change,
    asked: int,
    level: int,
    ran: Collection[int],
    *,
    never: bool,
) -> PredictionTable:
    """Table of a job whose problem is that of the jobs that asked for as many.

    level: count whose runs it is like.
    ran: counts that jobs for the same range had.
    never: no job asked for its count.
    """
    larger = -_LARGER * fmean(log_ratios(change, level, [asked])[0]) if never else 0.0
    nodes = _counts(table, asked, level)
    rows = [
        _Row.changed(table, change, level, n, level, larger=larger, measured=n in ran)
        for n in nodes
    ]
    if level != asked:
        spreads = [spread(logs) for logs in log_ratios(change, asked, nodes)]
        rows = [replace(row, curve_sd=sd) for row, sd in zip(rows, spreads, strict=True)]
    here = tables.verdict_at(table, level)
    verdicts = tuple(_verdict(here, sure=row.sure) for row in rows)
    # What was measured on other counts was of other problems.
    need = table.need and _needed(_on(table.need, asked), nodes)
    job = replace(
        _with_rows(table, asked, rows),
        verdict=here,
        verdicts=verdicts,
        memory=_at_asked(table.memory, asked),
        need=need,
    )
    counts = [point.nodes for point in table.observed] or [level]
    if never:
        near = min(counts, key=lambda n: abs(log(n / asked)))
        where = f"{asked} {table.unit.plural}"
        return tables.doubtful(job, [problem("not_run", asked, where=where, near=near)])
    return job


def _verdict(here: Verdict, *, sure: bool) -> Verdict:
    """Verdict on a changed count: doubtful at best where the change is not sure."""
    return here if sure else tables.worse(here, Verdict.DOUBTFUL)


@dataclass(frozen=True, slots=True)
class _Row:
    """One count of the table of one job."""

    nodes: int
    time_s: float
    low_s: float
    high_s: float
    curve_sd: float
    tails_s: tuple[float, ...]
    longest_s: float
    starts: Starts | None
    sure: bool = True  #: nine in ten changes are within a fifth

    @classmethod
    def of_table(cls, table: PredictionTable, nodes: int) -> "_Row":
        """Give what a table says of jobs that ask for a count."""
        here = tables.at(table, nodes)
        return cls(
            nodes,
            here.time_s,
            here.low_s,
            here.high_s,
            here.curve_sd,
            tuple(_tails(table, nodes)),
            tables.longest(table, nodes),
            tables.starts_at(table, nodes),
        )

    @classmethod
    def changed(
        cls,
        table: PredictionTable,
        change: Change,
        level: int,
        nodes: int,
        asked: int,
        *,
        larger: float = 0.0,
        measured: bool = False,
    ) -> "_Row":
        """Change what a table says of ``level`` to another count.

        asked: count that paths without a reference of their own count from.
        larger: log of the offset of a problem that nobody asked this count for.
        measured: the count was run.
        """
        here = tables.at(table, level)
        logs = changes(change, level, nodes, asked)
        # Where hypotheses disagree the mean is a time that neither of them expects.
        change_log = median(logs)
        uneven = 0.0 if measured or nodes == level else UNEVEN
        beyond = (1 - table.confidence) / 2
        low = end(logs, beyond, change.runs, uneven)
        high = end(logs, 1 - beyond, change.runs, uneven)
        middle = here.time_s * exp(change_log + larger)
        down = hypot(log(here.low_s / here.time_s), larger)
        up = hypot(log(here.high_s / here.time_s), larger)
        starts = tables.starts_at(table, level)
        tails_s = []
        for tail_s, column in zip(_tails(table, level), table.tails, strict=True):
            worst = end(logs, column.share, change.runs, uneven) - change_log
            tails_s.append(middle * exp(hypot(log(tail_s / here.time_s), worst, larger)))
        return cls(
            nodes,
            middle,
            middle * exp(-hypot(down, change_log - low)),
            middle * exp(hypot(up, high - change_log)),
            spread(logs),
            tuple(tails_s),
            tables.longest(table, level) * middle / here.time_s,
            starts and tables.scaled_starts(starts, nodes, middle / here.time_s),
            is_sure(logs, table),
        )

    def width(self) -> float:
        """Ratio of the ends of the interval."""
        return self.high_s / self.low_s

    def on_curve(self, table: PredictionTable) -> "_Row":
        """Give the row with the run time of the table, and its own share about that."""
        here = tables.at(table, self.nodes)
        share = here.time_s / self.time_s
        return replace(
            self,
            time_s=here.time_s,
            low_s=self.low_s * share,
            high_s=self.high_s * share,
            curve_sd=here.curve_sd,
            tails_s=tuple(tail_s * share for tail_s in self.tails_s),
            longest_s=self.longest_s * share,
            starts=self.starts and tables.scaled_starts(self.starts, self.nodes, share),
        )


def _tails(table: PredictionTable, nodes: int) -> list[float]:
    """Run time of each tail of a table on a count."""
    high_s = tables.at(table, nodes).high_s
    return [tables.quantile(table, nodes, tail.share) or high_s for tail in table.tails]


def _counts(table: PredictionTable, asked: int, level: int) -> list[int]:
    """List the counts of a job's table: those of the table, and half doublings around the level."""
    around = {max(round(level * 2 ** (k / 2)), 1) for k in range(-2 * REACH, _STEPS_UP + 1)}
    return sorted(n for n in {*table.nodes, asked, *around} if abs(log2(n / level)) <= REACH)


def _with_rows(table: PredictionTable, asked: int, rows: Sequence[_Row]) -> PredictionTable:
    """Table of one job with these rows."""
    nodes = [row.nodes for row in rows]
    times = [row.time_s for row in rows]
    columns = zip(*(row.tails_s for row in rows), strict=True)
    return replace(
        table,
        asked=asked,
        nodes=tuple(nodes),
        median_s=tuple(map(tables.round_time, times)),
        low_s=tuple(tables.round_time(row.low_s) for row in rows),
        high_s=tuple(tables.round_time(row.high_s) for row in rows),
        curve_sd=tuple(tables.round_time(row.curve_sd) for row in rows),
        tails=tuple(
            Tail(tail.share, tuple(map(tables.round_time, column)))
            for tail, column in zip(table.tails, columns, strict=False)
        ),
        at_limits=(),
        longest=tuple(Longest(row.nodes, row.longest_s) for row in rows),
        starts=tuple(row.starts for row in rows if row.starts is not None),
        knee=_best(nodes, [n * t * t for n, t in zip(nodes, times, strict=True)]),
        max_useful=_best(nodes, [max(t, min(times) * 1.01) for t in times]),
    )


def usual(table: PredictionTable) -> Point | None:
    """Find the count of most runs, the largest of these; None: there is no finished run."""
    return max(table.observed, key=lambda point: (point.repeats, point.nodes), default=None)


def of_usual_job(table: PredictionTable) -> PredictionTable:
    """Table of one job that asks for the count of most runs, on the counts of the table.

    The same one where there is no run, or nothing is known of a change.
    """
    point = usual(table)
    if point is None or table.change is None or table.asked:
        return table
    job = for_request(replace(table, acting={}), point.nodes)
    low = table.nodes[0]
    high = table.nodes[-1]
    rows = slice(bisect_left(job.nodes, low), bisect_right(job.nodes, high))
    knee = job.knee if job.knee and job.knee <= high else None
    most = job.max_useful if job.max_useful and job.max_useful <= high else None
    return replace(tables.of_rows(job, rows), knee=knee, max_useful=most)


def range_of(change: Change, given: tuple[int, int]) -> AskedRange | None:
    """Find the runs whose users asked for the same range; None: there are none."""
    for asked in change.ranges:
        if (asked.low, asked.high) == given:
            return asked
    return None


def counts_run(table: PredictionTable, given: tuple[int, int] = (0, 0)) -> tuple[int, ...]:
    """List the counts on which the problem of one job was run, rising: what "observed" means.

    table: that of one job (`for_request`), or of jobs as they were asked for.
    given: fewest and most nodes that its user asked for; 0: not said.
    """
    change = table.change
    ran = {point.nodes for point in table.observed}
    if change is None:
        return tuple(sorted(ran))
    if table.asked and not change.one_problem:
        ran &= {table.asked}
    alike = range_of(change, given)
    if alike is not None:
        ran |= {*alike.counts}
    # Tries count on what was asked for.
    ran |= {*change.learnt}
    return tuple(sorted(n for n in ran if tables.covers(table, n)))


def _at_asked(memory: tuple[Memory, ...], asked: int) -> tuple[Memory, ...]:
    """Memory of a node on the count asked for, by the nearest one that was run.

    Runs on other counts had other problems: what this one needs of fewer nodes follows from its
    own need.
    """
    if not memory:
        return ()
    near = _nearest(memory, asked)
    return (Memory(asked, ceil(near.mem_bytes * tables.shared_out(near.nodes, asked))),)


def _on(need: MemoryNeed, asked: int) -> MemoryNeed:
    """Need of memory on one count alone."""
    high = tuple(memory for memory in need.high if memory.nodes == asked)
    given = tuple(memory for memory in need.given if memory.nodes == asked)
    return replace(need, high=high, given=given)


def _needed(need: MemoryNeed, nodes: Sequence[int]) -> MemoryNeed:
    """Need of memory on each count: as measured there, or as fewer nodes share out the nearest."""

    def shared(measured: tuple[Memory, ...]) -> tuple[Memory, ...]:
        if not measured:
            return ()
        rows = []
        for n in nodes:
            near = _nearest(measured, n)
            need_bytes = ceil(near.mem_bytes * tables.shared_out(near.nodes, n))
            rows.append(Memory(n, need_bytes))
        return tuple(rows)

    return replace(need, high=shared(need.high), given=shared(need.given))


def _nearest(measured: Sequence[Memory], nodes: int) -> Memory:
    """Find what was measured on the nearest count, by ratio."""
    return min(measured, key=lambda memory: abs(log(memory.nodes / nodes)))


def _best(nodes: list[int], costs: list[float]) -> int | None:
    """Fewest nodes of the lowest cost; None where that is the end of the table."""
    cheapest = min(zip(costs, nodes, strict=True))[1]
    return cheapest if cheapest < nodes[-1] else None
