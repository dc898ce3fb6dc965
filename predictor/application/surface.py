"""Run time over the sizes of a problem and counts at once, read off what a fit left of it.

A `Surface` holds forms of run time, each of them a sum of products of powers::

    T(n, x) = exp(step(n)) · sum over parts of exp(c) · n^h · product over sizes of x^e

In some of them x is what a size has beyond a part that is the same in all problems.

Forms of fold 0 were fitted to all runs, those of another fold without some of them.  Forms of one
fold are averaged in log time, by their weights.  What is said is what fold 0 says.  How sure that
is follows from how far the other folds are from each other, a jackknife over groups of runs
(Quenouille, *Biometrika* 43, 1956; Tukey, 1958), and from how far sizes and count are from those
of the runs, the leverage of a regression: where runs do not tell what a size does, all folds say
what their prior says.

Loaded on the submission path, so nothing but the standard library and msgspec.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from math import copysign, exp, hypot, log, log2, sqrt
from statistics import NormalDist, fmean
from typing import TypeVar

from predictor import table as tables
from predictor.application.count_changes import DRAWS, NORMAL
from predictor.application.request import REACH
from predictor.change import Change
from predictor.facts import Starts
from predictor.prediction_table import ByType, PredictionTable, Tail
from predictor.problems import problem
from predictor.sizes import SizeTerm, Surface
from sacct_ingest.runs.layout import Each, Unit

_CACHED = 1024
#: Standard deviation of log time for each doubling of a size or count beyond those that runs had,
#: and how many of them reach over all numbers where a job's is unknown.
DOUBLED_SD, _MISSING_SD = 0.1, 1.64
#: Least that a size is taken to have beyond its constant part, over what the centre has.
LEAST_BEYOND = 0.01
#: Standard deviation by which a change of count leaves the surface, for one doubling.
_ROUGH = 0.04
#: Steps of a change in a doubling, and through the draws of what leaves the surface.
_STEPS, _STRIDE = 2, 17
#: Own runs of a problem from which on they speak alone; on one count from which on its row is
#: theirs; what its family's level counts for beside them, in runs.
OWN_RUNS, OWN_ROW, _LEVEL_RUNS = 10, 3, 4.0
_Rows = TypeVar("_Rows", PredictionTable, ByType)


class Slice:
    """A surface at one set of sizes: log run time by the count.

    sizes: in the order of the surface's.

    Raises ValueError: they are not as many as the surface has, or one is not above zero.
    """

    def __init__(self, surface: Surface, sizes: Sequence[float]) -> None:
        logs = [log(size / centre) for size, centre in zip(sizes, surface.centre, strict=True)]
        self._place = (1.0, *logs)
        self._covariance = surface.covariance
        self._count = log(surface.count)
        self._counts = [log(one) for one in surface.counts]
        folds = 1 + max(form.fold for form in surface.forms)
        self._folds: list[list[tuple[float, list[tuple[float, float]], tuple[float, ...]]]]
        self._folds = [[] for _ in range(folds)]
        for form in surface.forms:
            places = _beyond_constant(sizes, surface.centre, form.constant) or logs
            parts = [(_along(term, places), term[-1]) for term in form.terms]
            self._folds[form.fold].append((form.weight, parts, form.steps))

    def logs(self, count: float) -> list[float]:
        """Log run time in seconds on ``count``, as each fold says: that of all runs first."""
        log_count = log(count)
        doublings = log_count - self._count
        shares = list(_shares(self._counts, log_count))
        made = []
        for forms in self._folds:
            value = 0.0
            for weight, parts, steps in forms:
                total = sum(exp(own + power * doublings) for own, power in parts)
                step = sum(steps[i] * share for i, share in shares) if steps else 0.0
                value += weight * (log(total) + step)
            made.append(value)
        return made

    def deviation(self, count: float) -> float:
        """Give the standard deviation of the log run time on ``count``."""
        away = log(count) - self._count
        return max(spread(self.logs(count)), self._leverage((*self._place, away)))

    def ratio(self, count: float, over: "Slice") -> tuple[float, float]:
        """Give the log of the run time over that of another slice, and its standard deviation."""
        pairs = zip(self.logs(count), over.logs(count), strict=True)
        logs = [one - other for one, other in pairs]
        places = zip(self._place, over._place, strict=True)
        apart = (*(one - other for one, other in places), 0.0)
        return logs[0], max(spread(logs), self._leverage(apart))

    def _leverage(self, place: Sequence[float]) -> float:
        """Give the standard deviation at a place, by what the regression knows of exponents."""
        variance = 0.0
        for one, row in zip(place, self._covariance, strict=False):
            variance += one * sum(other * value for other, value in zip(place, row, strict=True))
        return sqrt(max(variance, 0.0))


def _beyond_constant(
    sizes: Sequence[float], centre: Sequence[float], constant: Sequence[float]
) -> list[float]:
    """Log of what sizes have beyond their constant parts, over what the centre has.

    Of a size that has less than that it is `LEAST_BEYOND`.
    """
    shares = (
        (size - own) / (middle - own)
        for size, middle, own in zip(sizes, centre, constant, strict=False)
    )
    return [log(max(share, LEAST_BEYOND)) for share in shares]


def _along(term: Sequence[float], logs: Sequence[float]) -> float:
    value = term[0]
    for exponent, one in zip(term[1:-1], logs, strict=True):
        value += exponent * one
    return value


def _shares(counts: Sequence[float], log_count: float) -> Iterator[tuple[int, float]]:
    """Give the places of the counts around one, and how near it is to each of them."""
    if not counts:
        return
    if log_count <= counts[0]:
        yield 0, 1.0
    elif log_count >= counts[-1]:
        yield len(counts) - 1, 1.0
    else:
        for i, (low, high) in enumerate(pairwise(counts)):
            if low <= log_count < high:
                share = (log_count - low) / (high - low)
                yield i, 1 - share
                yield i + 1, share


def spread(logs: Sequence[float]) -> float:
    """Give the standard deviation of what fold 0 says, by the other folds: a jackknife's.

    logs: of each fold, that of all runs first.
    """
    others = logs[1:]
    if len(others) < 2:
        return 0.0
    middle = fmean(others)
    squares = sum((one - middle) ** 2 for one in others)
    return sqrt((len(others) - 1) / len(others) * squares)


@lru_cache(maxsize=_CACHED)
def _slice(surface: Surface, sizes: tuple[float, ...]) -> Slice:
    return Slice(surface, sizes)


def at_references(table: PredictionTable) -> Slice:
    """Give the slice of a table's surface that its times are of.

    Raises LookupError: run times of the table do not go by sizes.
    """
    if table.surface is None:
        raise LookupError(f"{table.label}: run times go by no size")
    return _slice(table.surface, tuple(term.reference for term in table.sizes))


def for_sizes(table: PredictionTable, numbers: Mapping[str, float]) -> PredictionTable:
    """Table for a job with these numbers, which become its references: times go by them.

    Where a number is missing or was never so small or large the interval is wider.
    """
    if table.surface is None or not table.sizes:
        return table
    return _for_sizes(table, tuple(numbers.get(term.name) for term in table.sizes))


@lru_cache(maxsize=_CACHED)
def _for_sizes(table: PredictionTable, numbers: tuple[float | None, ...]) -> PredictionTable:
    by = _Ratio(table, numbers)
    terms = zip(table.sizes, by.sizes, strict=True)
    knee, end = by.best(table)
    made = replace(
        by.scaled(table),
        sizes=tuple(replace(term, reference=size) for term, size in terms),
        longest=tuple(
            replace(
                one,
                time_s=by.factor(one.nodes) * one.time_s,
                cut_s=by.factor(one.nodes) * one.cut_s,
            )
            for one in table.longest
        ),
        by_type=tuple(by.scaled(one) for one in table.by_type),
        knee=knee,
        max_useful=end,
    )
    pairs = zip(table.sizes, numbers, strict=True)
    if missing := [term.name for term, number in pairs if number is None]:
        made = tables.doubtful(made, [problem("no_size", names=" and ".join(missing))])
    return replace(made, change=changed_by(by.there, table, made.change))


class _Ratio:
    """Run time at the sizes of a job over that at the references of a table, by the count."""

    def __init__(self, table: PredictionTable, numbers: Sequence[float | None]) -> None:
        pairs = list(zip(table.sizes, numbers, strict=True))
        self.sizes = tuple(term.reference if one is None else one for term, one in pairs)
        self._here = at_references(table)
        assert table.surface is not None
        self.there = _slice(table.surface, self.sizes)
        self._reach = NormalDist().inv_cdf(0.5 + table.confidence / 2)
        self._unsure = sqrt(
            sum(
                _missing(term) ** 2 if one is None else _beyond(term, one) ** 2
                for term, one in pairs
            )
        )
        self._cache: dict[int, tuple[float, float]] = {}

    def _at(self, nodes: int) -> tuple[float, float]:
        """Give the log of the ratio on a count, and its standard deviation."""
        if nodes not in self._cache:
            log_ratio, deviation = self.there.ratio(nodes, self._here)
            self._cache[nodes] = log_ratio, hypot(deviation, self._unsure)
        return self._cache[nodes]

    def factor(self, nodes: int) -> float:
        """Give the ratio on a count."""
        return exp(self._at(nodes)[0])

    def scaled(self, table: _Rows) -> _Rows:
        """Give a table with its times at the sizes of the job, as wide as the ratio is sure."""

        def widened(times: Iterable[float]) -> tuple[float, ...]:
            rows = zip(times, table.median_s, table.nodes, strict=True)
            return tuple(tables.round_time(self._widened(*row)) for row in rows)

        medians = zip(table.nodes, table.median_s, strict=True)
        spreads = zip(table.nodes, table.curve_sd, strict=True)
        return replace(
            table,
            median_s=tuple(tables.round_time(self.factor(n) * one) for n, one in medians),
            low_s=widened(table.low_s),
            high_s=widened(table.high_s),
            curve_sd=tuple(hypot(one, self._at(n)[1]) for n, one in spreads),
            observed=tuple(
                replace(one, time_s=tables.round_time(self.factor(one.nodes) * one.time_s))
                for one in table.observed
            ),
            tails=tuple(replace(one, time_s=widened(one.time_s)) for one in table.tails),
            starts=tuple(
                tables.scaled_starts(one, one.nodes, self.factor(one.nodes)) for one in table.starts
            ),
        )

    def _widened(self, time_s: float, median_s: float, nodes: int) -> float:
        log_factor, deviation = self._at(nodes)
        away = log(time_s / median_s)
        if away:
            away = copysign(hypot(away, self._reach * deviation), away)
        return median_s * exp(log_factor + away)

    def best(self, table: PredictionTable) -> tuple[int | None, int | None]:
        """Give the knee and the most useful count of a table at the sizes of the job."""
        if not table.is_curve:
            return table.knee, table.max_useful
        medians = zip(table.nodes, table.median_s, strict=True)
        return best_of(table.nodes, [self.factor(n) * one for n, one in medians])


def best_of(nodes: Sequence[int], times: Sequence[float]) -> tuple[int | None, int | None]:
    """Give the count with the least n T^2, and the fewest within one percent of the least T.

    None where that is the last of ``nodes``, which rise.
    """
    knee = min(zip(nodes, times, strict=True), key=lambda one: one[0] * one[1] ** 2)[0]
    least = 1.01 * min(times)
    enough = next(n for n, time_s in zip(nodes, times, strict=True) if time_s <= least)
    return (knee if knee < nodes[-1] else None), (enough if enough < nodes[-1] else None)


def _missing(term: SizeTerm) -> float:
    """Deviation of what a size does that a job does not name."""
    ends = (term.exponent * log(one / term.reference) for one in (term.low, term.high))
    return max(map(abs, ends)) / _MISSING_SD


def _beyond(term: SizeTerm, size: float) -> float:
    """Deviation of what a size does beyond those that runs had."""
    doublings = max(log2(size / term.high), log2(term.low / size), 0.0)
    return DOUBLED_SD * doublings * max(abs(term.exponent), 1.0)


def changed_by(there: Slice, table: PredictionTable, change: Change | None) -> Change | None:
    """Give a change with the paths that a slice of a table's surface says.

    The same one where runs had one count.
    """
    surface = table.surface
    if change is None or surface is None or len(surface.counts) < 2:
        return change
    middle = surface.counts[len(surface.counts) // 2]
    doublings = [i / _STEPS for i in range(-_STEPS * REACH, _STEPS * REACH + 1)]
    here = there.logs(middle)
    by_fold: list[list[float]] = [[] for _ in here]
    for step in doublings:
        for by, log_s, from_s in zip(by_fold, there.logs(middle * 2**step), here, strict=True):
            by.append(log_s - from_s)
    first = by_fold[0]
    others = by_fold[1:]
    means = [fmean(column) for column in zip(*others, strict=True)] if others else first
    apart = sqrt(len(others) - 1) if others else 0.0
    paths = []
    for draw in range(DRAWS):
        fold = others[draw % len(others)] if others else first
        normal = _ROUGH * NORMAL[draw * _STRIDE % DRAWS]
        rows = zip(doublings, first, fold, means, strict=True)
        path = (
            own + apart * (one - mean) + normal * sqrt(abs(step)) for step, own, one, mean in rows
        )
        paths.append(tuple(round(1000 * value) for value in path))
    return replace(
        change,
        doublings=tuple(doublings),
        paths=tuple(paths),
        references=(round(middle, 3),) * DRAWS,
        runs=0,
        visible=True,
    )


@lru_cache(maxsize=_CACHED)
def beside_own(family: PredictionTable, own: PredictionTable) -> PredictionTable:
    """Table of a problem by its family, at the level of the few runs of its own.

    Where `OWN_ROW` of these had one count its row is theirs.

    family: of runs of other sizes, for those of this problem.
    own: of its runs alone.
    """
    own = _counted_in(own, family.unit)
    points = [one for one in own.observed if tables.covers(family, one.nodes)]
    runs = sum(one.repeats for one in points)
    if not runs:
        return family
    off = sum(one.repeats * log(one.time_s / tables.at(family, one.nodes).time_s) for one in points)
    factor = exp(off / (runs + _LEVEL_RUNS))
    theirs = {one.nodes for one in points if one.repeats >= OWN_ROW}
    theirs = {n for n in theirs if tables.covers(own, n)}
    nodes = tuple(sorted({*family.nodes, *theirs}))
    sources = [(own, 1.0) if n in theirs else (family, factor) for n in nodes]
    rows = [(tables.at(table, n), by) for n, (table, by) in zip(nodes, sources, strict=True)]

    def tail_s(share: float, nodes: int, table: PredictionTable, by: float) -> float:
        said = tables.quantile(table, nodes, share)
        return tables.round_time(by * (tables.at(table, nodes).high_s if said is None else said))

    return replace(
        family,
        nodes=nodes,
        median_s=tuple(tables.round_time(by * row.time_s) for row, by in rows),
        low_s=tuple(tables.round_time(by * row.low_s) for row, by in rows),
        high_s=tuple(tables.round_time(by * row.high_s) for row, by in rows),
        curve_sd=tuple(row.curve_sd for row, _ in rows),
        verdicts=tuple(
            tables.verdict_at(table, n) for n, (table, _) in zip(nodes, sources, strict=True)
        ),
        tails=tuple(
            Tail(
                one.share,
                tuple(
                    tail_s(one.share, n, *source) for n, source in zip(nodes, sources, strict=True)
                ),
            )
            for one in family.tails
        ),
        observed=tuple(points),
        longest=own.longest,
        starts=_starts(family, own, factor),
    )


def _counted_in(own: PredictionTable, unit: Unit) -> PredictionTable:
    """Give a table of runs on nodes with the CPUs or GPUs of these in their place.

    One run or two do not say what an application's counts are of.
    """
    if own.unit is unit or own.unit is not Unit.NODES:
        return own
    layout = own.layout
    each = (layout.gpus if unit is Unit.GPUS else layout.cpus) or 0
    if layout.in_all or layout.each is not Each.NODE or each < 1:
        return replace(own, observed=(), starts=(), longest=())
    return replace(
        own,
        unit=unit,
        nodes=tuple(n * each for n in own.nodes),
        observed=tuple(replace(one, nodes=one.nodes * each) for one in own.observed),
        starts=tuple(replace(one, nodes=one.nodes * each) for one in own.starts),
        longest=tuple(replace(one, nodes=one.nodes * each) for one in own.longest),
    )


def _starts(family: PredictionTable, own: PredictionTable, factor: float) -> tuple[Starts, ...]:
    """Give what starts of a problem say; on counts on which it had none, those of its family."""
    ran = {one.nodes for one in own.starts} | {one.nodes for one in own.observed}
    others = (
        tables.scaled_starts(one, one.nodes, factor)
        for one in family.starts
        if one.nodes not in ran
    )
    return tuple(sorted((*own.starts, *others), key=lambda one: one.nodes))
