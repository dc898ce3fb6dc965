"""One prediction table for several types of nodes: runs on one type predict another.

The table itself is about the reference type, the one with most runs.  Run times on another type are
those, times a ratio (:mod:`predictor.node_types.ratios`); where the other type has a curve of its
own that predicts its runs better, that one is believed.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from math import exp, hypot, log
from statistics import NormalDist, median

import numpy as np

from predictor.curves.from_runs import build
from predictor.curves.reliability import ReliabilitySettings, verdict_on
from predictor.level.record import Record
from predictor.models import selection
from predictor.models.averaged.model import Averaged
from predictor.node_types.product_form import Sums
from predictor.node_types.ratios import (
    Believed,
    ObservedRatios,
    Ratio,
    TypeEvidence,
    believe,
    ratio_at,
)
from predictor.node_types.recognition import NodeType
from predictor.prediction_table import ByType, PredictionTable, Tail
from predictor.problems import Problem, problem
from predictor.sample import Sample
from predictor.table import at, covers, doubtful, quantile, round_time, verdict_at, worse
from predictor.tables.of_curve import curve_table, knee_of, max_useful_of
from predictor.tables.samples import samples_of
from predictor.tables.settings import TableSettings
from predictor.types import Curve, Point, Prediction, Verdict
from sacct_ingest.records import JobState
from sacct_ingest.runs.submission import SIZE
from sacct_ingest.store.rows import RunRow

#: Sums of an application by node type and form.
SumsByType = Mapping[str, Mapping[str, Sums]]
#: Node types on which a way has to have held before it is relied on without any run.
_TYPES_NEEDED = 2
#: Spread of single runs (log time) at least.
_NOISE = 0.03
#: A curve of its own needs so many points to be held against the others' word, and no more are
#: left out one by one.
OWN_POINTS, _MOST_LEFT_OUT = 4, 8
#: What the table of a type has as any other table.
_COLUMNS = {one.name for one in fields(ByType)} - {"node_type", "runs"}


@dataclass(frozen=True, slots=True)
class OwnCurve:
    """Observations on one node type, and the table that they alone make, where they do."""

    curve: Curve
    table: PredictionTable | None
    runs: int


def split(rows: Sequence[RunRow], types: Mapping[str, NodeType]) -> dict[str, list[RunRow]]:
    """Sort runs by the type of their nodes, the reference type first.

    The reference has the most runs that finished; runs of unknown type are taken to be on
    it.  With a single type, or none, there is one group.
    """
    groups: dict[str, list[RunRow]] = defaultdict(list)
    for row in rows:
        groups[row.node_type if row.node_type in types else ""].append(row)
    done = Counter(row.node_type for row in rows if row.state is JobState.COMPLETED)
    order = sorted((name for name in groups if name), key=lambda name: (-done[name], name))
    if not order:
        return {"": list(rows)}
    reference = order[0]
    chosen = {reference, ""}
    first = [r for r in rows if (r.node_type if r.node_type in types else "") in chosen]
    return {reference: first, **{name: groups[name] for name in order[1:]}}


def type_tables(
    groups: Mapping[str, Sequence[RunRow]],
    sums: SumsByType,
    settings: TableSettings,
    record: Record,
) -> PredictionTable | None:
    """Table of the reference type with those of the others; None where it has no curve.

    Raises ValueError: there is no group of runs.
    """
    if not groups:
        raise ValueError("no runs to make tables of node types from")
    (reference, rows), *others = groups.items()
    if not reference:
        return None
    evidence = gather_evidence(reference, rows, settings.node_types, sums)
    drawn = build(samples_of(rows), settings.curve)
    if len(drawn.points) < selection.MIN_POINTS:
        # Too few there: runs on the other types stand in, as if they had been on it.
        moved = [as_on(evidence, name, samples_of(theirs)) for name, theirs in others]
        runs = [*samples_of(rows), *chain.from_iterable(moved)]
        drawn = build(runs, settings.curve)
        if len(drawn.points) < selection.MIN_POINTS:
            return None
        base = doubted(curve_table(drawn, runs, settings, record), reference)
    else:
        base = curve_table(drawn, samples_of(rows), settings, record)
    own = {name: _own(theirs, settings) for name, theirs in others}
    others_tables = predict_types(base, own, evidence, settings.reliability)
    points = [*base.observed, *chain.from_iterable(one.curve.points for one in own.values())]
    widest = max(point.nodes for point in points)
    return replace(base, node_type=reference, by_type=others_tables, widest=widest)


def with_types(
    base: PredictionTable,
    groups: Mapping[str, Sequence[RunRow]],
    sums: SumsByType,
    settings: TableSettings,
) -> PredictionTable:
    """Table of a history with those of the node types on which it never ran.

    The same one where runs were on several types, or on one that is not known.
    """
    if len(groups) != 1 or "" in groups:
        return base
    ((reference, rows),) = groups.items()
    evidence = gather_evidence(reference, rows, settings.node_types, sums)
    others = predict_types(base, {}, evidence, settings.reliability)
    widest = max((point.nodes for point in base.observed), default=0)
    return replace(base, node_type=reference, by_type=others, widest=widest)


def _own(rows: Sequence[RunRow], settings: TableSettings) -> OwnCurve:
    """Observations on one node type, with the table that they make where they are many."""
    runs = samples_of(rows)
    curve = build(runs, settings.curve)
    many = len(curve.points) >= OWN_POINTS
    table = curve_table(curve, runs, settings, Record()) if many else None
    return OwnCurve(curve, table, sum(not run.censored for run in runs))


def gather_evidence(
    reference: str, rows: Sequence[RunRow], types: Mapping[str, NodeType], sums: SumsByType
) -> TypeEvidence:
    """Gather what predicts run times on other types from those on the reference."""
    shares: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        if row.state is JobState.COMPLETED and row.cpu_s and row.cpus and row.elapsed_s > 0:
            # Of one task other CPUs may idle for as long as one of them is busy.
            asked = row.submission.tasks if row.tasks is None else row.tasks
            cpus = 1 if row.nodes == 1 and asked == 1 else row.cpus
            shares[row.nodes].append(min(1.0, row.cpu_s / (cpus * row.elapsed_s)))
    tasks = [row.tasks / row.nodes for row in rows if row.tasks and row.nodes]
    loads = [row.numbers[SIZE] for row in rows if SIZE in row.numbers]
    return TypeEvidence(
        reference=reference,
        figures={name: one.figures for name, one in types.items()},
        utilisation=[(n, median(used)) for n, used in sorted(shares.items()) if n > 0],
        sums=sums,
        tasks_node=median(tasks) if tasks else 1.0,
        load=median(loads) if loads else None,
    )


def as_on(evidence: TypeEvidence, node_type: str, runs: Sequence[Sample]) -> list[Sample]:
    """Move runs on a node type to the reference type."""
    nodes = [run.nodes for run in runs]
    said = believe(evidence, {}, node_type).way(evidence, node_type, (), nodes) if runs else None
    if said is None:
        return []
    return [
        replace(run, elapsed_s=run.elapsed_s / exp(float(ratio)))
        for run, ratio in zip(runs, said, strict=True)
    ]


def doubted(table: PredictionTable, node_type: str) -> PredictionTable:
    """Table that runs on other node types took part in: it is doubtful at best."""
    return doubtful(table, [problem("few_on_node_type:moved", node_type=node_type)])


def observed_ratios(curve: Curve, base: PredictionTable) -> ObservedRatios:
    """Observations on a type, against what the reference's table says of the same counts."""
    points = [point for point in curve.points if covers(base, point.nodes)]
    ratios = [log(point.time_s / at(base, point.nodes).time_s) for point in points]
    spread = [
        hypot(
            max(point.spread, _NOISE) / point.repeats**0.5,
            at(base, point.nodes).curve_sd,
            # A uniform error of the clock's unit has this standard deviation.
            curve.resolution_s / 12**0.5 / point.time_s,
        )
        for point in points
    ]
    return ObservedRatios(
        tuple(point.nodes for point in points), tuple(ratios), tuple(sd**2 for sd in spread)
    )


def predict_types(
    base: PredictionTable,
    own: Mapping[str, OwnCurve],
    evidence: TypeEvidence,
    settings: ReliabilitySettings,
) -> tuple[ByType, ...]:
    """Tables of all other node types.

    base: table of the reference type.
    own: what was observed on other types.
    """
    observed = {name: observed_ratios(one.curve, base) for name, one in own.items()}
    observed = {name: one for name, one in observed.items() if one.nodes}
    tables = []
    for name in sorted(evidence.figures):
        if name == evidence.reference:
            continue
        believed = believe(evidence, observed, name)
        mine = own.get(name, OwnCurve(Curve(()), None, 0))
        moved = _Moved(base, name, believed, evidence, observed.get(name), settings)
        table = mine.table
        if table is not None and _predicts_better(mine.curve, moved):
            columns = {column: getattr(table, column) for column in _COLUMNS}
            tables.append(ByType(node_type=name, runs=mine.runs, **columns))
        else:
            tables.append(moved.table(mine))
    return tuple(tables)


@dataclass(frozen=True, slots=True)
class _Moved:
    """The reference's table, moved to another node type."""

    base: PredictionTable
    node_type: str
    believed: Believed
    evidence: TypeEvidence
    observed: ObservedRatios | None
    settings: ReliabilitySettings

    def ratio(self, nodes: Sequence[int]) -> Ratio:
        return ratio_at(self.believed, self.evidence, self.node_type, self.observed, nodes)

    def table(self, own: OwnCurve) -> ByType:
        # A quarter of a doubling apart, and what was seen: most applications never run on the
        # other types, and their tables have to be small.
        needed = {point.nodes for point in self.base.observed}
        needed |= {point.nodes for point in own.curve.points if covers(self.base, point.nodes)}
        chosen: list[int] = []
        for n in self.base.nodes:
            if n in needed or not chosen or n >= chosen[-1] * 2**0.25 or n == self.base.nodes[-1]:
                chosen.append(n)
        nodes = sorted({*chosen, *needed})
        ratio = self.ratio(nodes)
        rows = [
            _moved(at(self.base, n), float(mean), float(sd))
            for n, mean, sd in zip(nodes, ratio.mean, ratio.sd, strict=True)
        ]
        verdicts = tuple(self._verdict(row, observed=bool(own.runs)) for row in rows)
        times = [row.time_s for row in rows]
        return ByType(
            node_type=self.node_type,
            model=f"{self.base.model}, {self.believed.name}",
            verdict=min(verdicts, key=tuple(Verdict).index),
            problems=(self._problem(own), *self.base.problems),
            nodes=tuple(nodes),
            median_s=_short(times),
            low_s=_short([row.low_s for row in rows]),
            high_s=_short([row.high_s for row in rows]),
            curve_sd=_short([row.curve_sd for row in rows]),
            verdicts=verdicts,
            observed=own.curve.points,
            knee=knee_of(nodes, times),
            max_useful=max_useful_of(nodes, times),
            runs=own.runs,
            tails=tuple(self._tail(tail.share, nodes, ratio) for tail in self.base.tails),
        )

    def _verdict(self, row: Prediction, *, observed: bool) -> Verdict:
        """Judge; without a run on the type the way has to have held on others."""
        sure = verdict_on(row, self.settings)
        if not observed and self.believed.left_out < _TYPES_NEEDED:
            sure = worse(sure, Verdict.DOUBTFUL)
        return worse(sure, verdict_at(self.base, row.nodes))

    def _problem(self, own: OwnCurve) -> Problem:
        held = self.believed.observed_error
        how = f"from runs on {self.evidence.reference} by {self.believed.name}"
        if held is not None:
            types = self.believed.left_out
            plural = "s" if types > 1 else ""
            how += f", which was {100 * held:.0f} % off on {types} type{plural} of known run times"
        if own.runs:
            runs = f"{own.runs} run{'s' if own.runs > 1 else ''}"
            return problem("few_on_node_type", runs=runs, node_type=self.node_type, how=how)
        counts = [point.nodes for point in self.base.observed]
        observe = counts[len(counts) // 2] if counts else None
        return problem("unseen_node_type", observe, node_type=self.node_type, how=how)

    def _tail(self, share: float, nodes: Sequence[int], ratio: Ratio) -> Tail:
        times = []
        z = NormalDist().inv_cdf(share)
        for n, mean, sd in zip(nodes, ratio.mean, ratio.sd, strict=True):
            middle = at(self.base, n).time_s
            far = quantile(self.base, n, share) or middle
            times.append(middle * exp(float(mean) + hypot(log(far / middle), z * float(sd))))
        return Tail(share, _short(times))


def _moved(base: Prediction, mean: float, sd: float) -> Prediction:
    """Prediction times an uncertain ratio: the uncertainties of both add up."""
    z = NormalDist().inv_cdf((1 + base.level) / 2)
    time_s = base.time_s * exp(mean)
    down = hypot(log(base.time_s / base.low_s), z * sd)
    up = hypot(log(base.high_s / base.time_s), z * sd)
    curve_sd = hypot(base.curve_sd, sd)
    return Prediction(
        base.nodes, time_s, time_s * exp(-down), time_s * exp(up), base.level, curve_sd
    )


def _predicts_better(curve: Curve, moved: _Moved) -> bool:
    """Whether a type's own curve predicts its points better than the moved table; each left out."""
    points = curve.points
    if len(points) < OWN_POINTS or moved.observed is None:
        return False
    other = ratio_at(
        moved.believed, moved.evidence, moved.node_type, moved.observed, moved.observed.nodes
    ).press
    step = -(-len(points) // _MOST_LEFT_OUT)
    errors = [_left_out(points, i) for i in range(0, len(points), step)]
    return other is None or float(np.sqrt(np.mean(np.square(errors)))) <= other


def _left_out(points: Sequence[Point], index: int) -> float:
    rest = Curve(tuple(point for i, point in enumerate(points) if i != index))
    predicted = Averaged().fit(rest).predict([points[index].nodes])[0]
    return log(points[index].time_s / predicted.time_s)


def _short(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(map(round_time, values))
