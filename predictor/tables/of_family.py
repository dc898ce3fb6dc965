"""The prediction table of runs whose sizes differ: its rows are what their family says.

Rows are read off the surface that all runs made together, also those of counts that were never run.
Rows with many runs of their own that drift stay as the last of these say, moved to the sizes of
reference, and counts between that were never run go along.  Intervals reach as far as runs that
were left out were off (the jackknife+ of Barber et al., *Annals of Statistics* 49, 2021), and wider
where folds of the runs disagree or no run is near.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import exp, hypot, log, log2
from statistics import NormalDist, fmean, median, stdev

import numpy as np

from predictor.application.family import Family
from predictor.application.surface import DOUBLED_SD, OWN_RUNS, at_references, best_of, changed_by
from predictor.checks import need_finite, need_share
from predictor.prediction_table import ByType, PredictionTable, Tail
from predictor.table import at, round_time
from predictor.types import Prediction, Verdict
from sacct_ingest.store.rows import RunRow

#: Counts of runs from which on a surface says what other counts do.
_COUNTS = 3
#: Last runs whose level is that of a part.
_LAST = 20
#: Runs before one by which drift is seen.
_BEFORE = 5
#: Runs that the level of a family counts for beside those of a part.
_LEVEL_RUNS = 1.0


def of_family(table: PredictionTable, family: Family, rows: Iterable[RunRow]) -> PredictionTable:
    """Table with the rows that a family says, and the change of count.

    table: of runs as if they had the references of the family.
    rows: those runs, the newest last.
    """
    table = replace(table, sizes=family.terms, surface=family.surface)
    said = _Said(table, family, rows)
    predictions = [said.row(n) for n in table.nodes]
    times = [one.time_s for one in predictions]
    knee, end = best_of(table.nodes, times) if table.is_curve else (None, None)
    by = {
        n: one.time_s / at(table, n).time_s for n, one in zip(table.nodes, predictions, strict=True)
    }
    return replace(
        table,
        by_type=tuple(_scaled(one, by) for one in table.by_type),
        median_s=tuple(round_time(one.time_s) for one in predictions),
        low_s=tuple(round_time(one.low_s) for one in predictions),
        high_s=tuple(round_time(one.high_s) for one in predictions),
        curve_sd=tuple(round_time(one.curve_sd) for one in predictions),
        verdicts=tuple(said.verdict(i) for i in range(len(table.nodes))),
        tails=tuple(
            Tail(one.share, tuple(said.tail(one, i) for i in range(len(table.nodes))))
            for one in table.tails
        ),
        knee=knee,
        max_useful=end,
        change=changed_by(at_references(table), table, table.change),
    )


def _scaled(table: ByType, by: Mapping[int, float]) -> ByType:
    """Table of another node type with its times changed as those of the reference were."""

    def times(column: Sequence[float]) -> tuple[float, ...]:
        rows = zip(table.nodes, column, strict=True)
        return tuple(round_time(by.get(n, 1.0) * time_s) for n, time_s in rows)

    return replace(
        table,
        median_s=times(table.median_s),
        low_s=times(table.low_s),
        high_s=times(table.high_s),
        tails=tuple(Tail(one.share, times(one.time_s)) for one in table.tails),
    )


class _Said:
    """What a family says of the counts of a table of its runs, or of a part of them."""

    def __init__(self, table: PredictionTable, family: Family, rows: Iterable[RunRow]) -> None:
        self._table = table
        self._errors = family.errors
        self._slice = at_references(table)
        self._counts = family.surface.counts
        self._repeats = {one.nodes: one.repeats for one in table.observed}
        self._own = [row for row in rows if row.state.finished and row.elapsed_s > 0]
        self._level = self._of_part(self._own) if family.several else 0.0
        ran = sorted(n for n in self._repeats if n in table.nodes)
        self._drifting = {n for n in ran if self._repeats[n] >= OWN_RUNS and self._drifts(n)}
        self._ran = [log(n) for n in ran]
        #: Log of the row of each count that was run over what the family says.
        self._off = [
            log(at(table, n).time_s) - self._of_all(n) if n in self._drifting else 0.0 for n in ran
        ]

    def _of_part(self, rows: Sequence[RunRow]) -> float:
        """Give the log of the level of a part of the runs, over that of all."""
        off = [log(row.elapsed_s) - self._slice.logs(row.nodes)[0] for row in rows[-_LAST:]]
        return median(off) * len(off) / (len(off) + _LEVEL_RUNS) if off else 0.0

    def says(self, nodes: int) -> bool:
        """Whether the row of a count is the family's."""
        if nodes in self._drifting:
            return False
        return nodes in self._repeats or len(self._counts) >= _COUNTS or self._inside(nodes)

    def _drifts(self, nodes: int) -> bool:
        """Whether the last runs before each run of a count surely said more of it than the family.

        Runs are as if they had the references.  Without drift the median of few runs says less.
        """
        size_of = self._table.unit.size_of
        logs = [log(row.elapsed_s) for row in self._own if size_of(row) == nodes]
        middle = self._of_all(nodes)
        before = [median(logs[i - _BEFORE : i]) for i in range(_BEFORE, len(logs))][-_LAST:]
        if len(before) < 2:
            return True
        after = logs[-len(before) :]
        gains = [
            abs(own - middle) - abs(own - last) for own, last in zip(after, before, strict=True)
        ]
        return fmean(gains) > stdev(gains) / math.sqrt(len(gains))

    def _inside(self, nodes: int) -> bool:
        return self._counts[0] <= nodes <= self._counts[-1]

    def _of_all(self, nodes: int) -> float:
        """Log run time on a count, at the level of all runs."""
        return self._slice.logs(nodes)[0] + self._level

    def _middle(self, nodes: int) -> float:
        """Log run time on a count; where rows of those around it drifted, that goes along."""
        middle = self._of_all(nodes)
        if nodes in self._repeats or not self._ran:
            return middle
        return middle + float(np.interp(log(nodes), self._ran, self._off))

    def row(self, nodes: int) -> Prediction:
        """Give the row of a count."""
        if not self.says(nodes):
            return at(self._table, nodes)
        level = self._table.confidence
        deviation = hypot(self._slice.deviation(nodes), self._beyond(nodes))
        normal = NormalDist().inv_cdf((1 + level) / 2)
        half = hypot(reach(self._errors, level), normal * deviation)
        middle = self._middle(nodes)
        return Prediction(
            nodes, exp(middle), exp(middle - half), exp(middle + half), level, deviation
        )

    def _beyond(self, nodes: int) -> float:
        ends = log2(nodes / self._counts[-1]), log2(self._counts[0] / nodes)
        return DOUBLED_SD * max(*ends, 0.0)

    def verdict(self, place: int) -> Verdict:
        """Give the verdict on a row: what others of the family's runs say is no refusal."""
        own = self._table.verdicts[place]
        nodes = self._table.nodes[place]
        if own is Verdict.REFUSED and self.says(nodes) and self._inside(nodes):
            return Verdict.DOUBTFUL
        return own

    def tail(self, tail: Tail, place: int) -> float:
        """Give a high quantile of a row."""
        nodes = self._table.nodes[place]
        if not self.says(nodes):
            return tail.time_s[place]
        deviation = hypot(self._slice.deviation(nodes), self._beyond(nodes))
        normal = NormalDist().inv_cdf(tail.share)
        # A share of runs below is twice that outside on both sides.
        error = reach(self._errors, 2 * tail.share - 1)
        middle = self._middle(nodes)
        return round_time(exp(middle + hypot(error, normal * deviation)))


def reach(errors: Sequence[float], share: float) -> float:
    """Give the error that a share of runs stay within: split conformal prediction.

    Where there are too few for that share, as far as normal errors of that scale reach.

    errors: sizes of earlier errors, rising.

    Raises ValueError: there is none, one is not finite, or ``share`` is no share.

    >>> reach([0.01 * i for i in range(1, 11)], 0.9)
    0.1
    """
    need_share("share of runs", share)
    need_finite("error", *errors, least=0)
    if not errors:
        raise ValueError("no error of an earlier run")
    rank = math.ceil(share * (len(errors) + 1))
    if rank <= len(errors):
        return errors[rank - 1]
    scale = math.sqrt(fmean(error**2 for error in errors))
    few = 1 + 2 / len(errors)  # the scale itself is not sure
    return max(few * scale * NormalDist().inv_cdf((1 + share) / 2), errors[-1])
