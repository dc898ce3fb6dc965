"""Which attributes of a job distinguish the problems of one identity.

Attributes are added one by one, for as long as they explain run times that node counts do not. Each
is judged by a backtest: every run is predicted from runs alike that had ended when it was
submitted, with the attribute and without.  So an attribute that merely has many values explains
nothing.  The attributes of the last fit stay unless others are clearly better.

The curve of an application is over nodes, CPUs or GPUs.  A unit is a candidate where its count
varied while the rest of the layout stayed.  Of the candidates that nearly as many runs speak for,
the one that explains run time best is taken: the least Akaike information criterion (IEEE
Transactions on Automatic Control 19, 1974) of a parabola in log size for each group.
"""

import math
from collections import defaultdict, deque
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from statistics import fmean, median, stdev

import numpy as np

from predictor.level.experts import SLOPE
from sacct_ingest.runs.layout import ANY, Each, Layout, Unit, any_layout, layouts, size_layouts
from sacct_ingest.runs.submission import ARRAY_INDEX
from sacct_ingest.store.rows import RunRow

#: Sizes that make a curve, and that make a step.
_CURVE, _STEP = 3, 2
#: A candidate is as good as the best where so many of its runs speak for it.
_NEARLY = 0.9
#: Share of the variance of log run time that a unit has to explain where node counts varied, too.
_EXPLAINED = 0.9
#: Spread of log run time that repeats have at least.
_NOISE = 0.03
#: Decimals in which criteria differ.  Those of one fit over two units do not: nodes go first.
_SAME = 6
#: Of a parabola in log size.
_TERMS = 3
#: A run, and all of its size that its run time depends on: layout, and count in an axis' unit.
SizedRow = tuple[RunRow, tuple[Layout, int]]
#: Attributes that a split is made by, at most; runs that are looked at; fewer make no split.
MOST, RECENT, FEWEST = 3, 400, 8
#: Mean accuracy that an attribute has to add, and by how many standard errors of that mean.
_GAIN, _SURE = 0.03, 3.0
#: Below FEW runs a permutation test of so many shuffles decides. Its significance level where the
#: gain in accuracy is significant, too, and where it is not (shared by all attributes).
FEW, _SHUFFLES, _LUCK, _RARE = 24, 999, 0.05, 0.005
#: What is split already needs less to stay so, and others more to replace it.
_STAYS, _REPLACES = 0.01, 0.03
#: Runs that are predicted as well as that are one problem.
_ONE_PROBLEM = 0.9
#: Last runs of a cell whose median predicts.
_LAST = 5


@dataclass(frozen=True, slots=True)
class Axis:
    """A unit, with the runs of each layout; the largest group first."""

    unit: Unit
    groups: Mapping[Layout, Sequence[RunRow]]

    def last_finished(self, rows: Sequence[RunRow]) -> list[SizedRow]:
        """Give the last of its runs that finished, in the order of their submission.

        rows: the runs where they are in no groups.
        """
        sized = [
            (row, (layout, self.unit.size_of(row)))
            for layout, own in (self.groups or {ANY: rows}).items()
            for row in own
            if row.state.finished
        ]
        return sorted(sized, key=lambda one: one[0].submit_s)[-RECENT:]


def axis_of(rows: Sequence[RunRow]) -> Axis:
    """Choose the unit of the curves of these runs, which have a run time.

    Nodes where one layout holds on all node counts, or where nothing else varied.
    """
    nodes = Axis(Unit.NODES, layouts(rows))
    if len(nodes.groups) < 2:
        return _named(rows) or nodes
    candidates = [nodes, *_others(rows)]
    for sizes in (_CURVE, _STEP):
        spoken = [_speaking(one, sizes) for one in candidates]
        least = max(1.0, _NEARLY * max(spoken))
        near = [one for one, runs in zip(candidates, spoken, strict=True) if runs >= least]
        if near:
            return min(near, key=lambda axis: round(_criterion(axis), _SAME))
    return nodes


def _named(rows: Sequence[RunRow]) -> Axis | None:
    """Give the axis that the tag of the last run offers sizes on; None: it offers none."""
    sizes = rows[-1].submission.sizes if rows else ""
    if not sizes or len({row.nodes for row in rows}) > 1:
        return None
    unit = Unit.GPUS if sizes == Unit.GPUS.value else Unit.CPUS
    if not all(map(unit.size_of, rows)):
        return None
    return Axis(unit, _by_tasks(rows, unit, Each.TASK if sizes == "tasks" else Each.JOB))


def on_axis(rows: Sequence[RunRow], unit: Unit) -> list[RunRow]:
    """Give runs with their size in place of their node count; those without one are left out.

    Their memory is that of the whole job, as one task's and as one node's.
    """
    if unit is Unit.NODES:
        return list(rows)
    return [_resized(row, size) for row in rows if (size := unit.size_of(row))]


def _others(rows: Sequence[RunRow]) -> Iterator[Axis]:
    """Units besides nodes: at each layout, and where node counts varied the size alone."""
    several = len({row.nodes for row in rows}) > 1
    for unit in (Unit.GPUS, Unit.CPUS):
        sized = [row for row in rows if unit.size_of(row)]
        if len({unit.size_of(row) for row in sized}) < _STEP:
            continue
        ways = (_by_tasks, any_layout) if several else (_by_tasks,)
        axes = (Axis(unit, way(sized, unit)) for way in ways)
        yield from (one for one in axes if not several or _explains(one))


def _by_tasks(
    rows: Sequence[RunRow], unit: Unit, each: Each | None = None
) -> dict[Layout, list[RunRow]]:
    """Group runs by layout; where the accounting has no tasks, by those of the submission."""
    sized = [_with_tasks(row) for row in rows]
    own = {id(one): row for one, row in zip(sized, rows, strict=True)}
    groups = size_layouts(sized, unit, each)
    return {layout: [own[id(one)] for one in group] for layout, group in groups.items()}


def _with_tasks(row: RunRow) -> RunRow:
    """Run with the tasks that its submission named, where it had no step with them."""
    if row.tasks is not None:
        return row
    tasks = row.submission.tasks
    if tasks is not None:
        return replace(row, tasks=tasks)
    each = row.submission.options.get("cpus-per-task")
    return replace(row, tasks=1) if each and row.nodes == 1 else row


def _explains(axis: Axis) -> bool:
    runs = [row for group in axis.groups.values() for row in group if _finished(row)]
    if not runs:
        return False
    times = [log(row.elapsed_s) for row in runs]
    return _squares(axis)[0] <= (1 - _EXPLAINED) * float(np.var(times)) * len(times)


def _resized(row: RunRow, size: int) -> RunRow:
    memory = row.mem_bytes and row.mem_bytes * (row.tasks or row.nodes)
    asked = row.req_mem_bytes and row.req_mem_bytes * size
    return replace(row, nodes=size, tasks=size, mem_bytes=memory, req_mem_bytes=asked)


def _speaking(axis: Axis, sizes: int) -> int:
    """Count the runs in groups of so many sizes."""
    return sum(
        len(group)
        for group in axis.groups.values()
        if len({axis.unit.size_of(row) for row in group}) >= sizes
    )


def _criterion(axis: Axis) -> float:
    """Akaike's information criterion of an axis, for each run; its times are of whole seconds."""
    squares, terms, count = _squares(axis)
    rows = (row for group in axis.groups.values() for row in group if _finished(row))
    rounding = sum(1 / row.elapsed_s**2 for row in rows) / 12
    return log((squares + rounding) / count + _NOISE**2) + 2 * terms / count if count else 0.0


def _squares(axis: Axis) -> tuple[float, int, int]:
    """Sum of the squared residuals of all groups, with the terms and the runs."""
    groups = [[row for row in group if _finished(row)] for group in axis.groups.values()]
    fits = [
        _misfit([(log(axis.unit.size_of(r)), log(r.elapsed_s)) for r in group]) for group in groups
    ]
    return sum(own for own, _ in fits), sum(used for _, used in fits), sum(map(len, groups))


def _finished(row: RunRow) -> bool:
    return row.state.finished


def _misfit(points: Sequence[tuple[float, float]]) -> tuple[float, int]:
    """Sum of the squared residuals of a parabola in log size, and how many terms it has."""
    if not points:
        return 0.0, 0
    sizes, times = np.array(points).T
    terms = min(len(np.unique(sizes)), _TERMS)
    columns = np.vander(sizes - sizes.mean(), terms)
    solved = np.linalg.lstsq(columns, times, rcond=None)[0]
    return float(np.sum((times - columns @ solved) ** 2)), terms


#: Log run time that each run was predicted to have; None: there was none.
_Logs = Sequence[float | None]


def choose(
    finished: Sequence[SizedRow],
    before: Sequence[str] = (),
    *,
    few: bool = True,
    numbers: Collection[str] = (),
) -> tuple[str, ...]:
    """Attributes by which runs fall into problems; none for one problem, or without an explanation.

    finished: of `Axis.last_finished`.
    before: what was chosen at the last fit.
    few: few runs are enough where shuffled values say as much.
    numbers: attributes that run times go by already.
    """
    if len(finished) < FEWEST:
        return ()
    tested = _SplitBacktest(finished, numbers)
    alone = tested.predict((), [None] * len(finished))
    if not before and tested.accuracy(alone) > _ONE_PROBLEM:
        return ()
    chosen, logs = _added(tested, alone, few=few)
    if not before or set(chosen) == set(before):
        return tuple(before) if before else chosen
    own = alone
    for i in range(len(before)):
        own = tested.predict(before[: i + 1], own)
    if fmean(tested.gains(alone, own)) < _STAYS:
        return chosen
    return chosen if fmean(tested.gains(own, logs)) > _REPLACES else tuple(before)


def predicted(finished: Sequence[SizedRow], names: Sequence[str]) -> _Logs:
    """Give the log run times that a split predicts of these runs."""
    tested = _SplitBacktest(finished)
    logs: _Logs = [None] * len(finished)
    for i in range(len(names) + 1):
        logs = tested.predict(names[:i], logs)
    return logs


def _added(tested: "_SplitBacktest", alone: _Logs, *, few: bool) -> tuple[tuple[str, ...], _Logs]:
    """Add attributes for as long as one helps; with what is then predicted."""
    chosen: tuple[str, ...] = ()
    logs = alone
    while len(chosen) < MOST:
        best = None
        most = _GAIN
        for name in tested.names:
            if name in chosen:
                continue
            with_it = tested.predict((*chosen, name), logs)
            gains = tested.gains(logs, with_it)
            gain = fmean(gains) if len(gains) >= FEWEST - 1 else 0.0
            sure = gain > most and gain > _SURE * stdev(gains) / math.sqrt(len(gains))
            if sure if not few else gain > most and tested.explains(chosen, name, sure=sure):
                best = (name, with_it)
                most = gain
        if best is None:
            break
        chosen = (*chosen, best[0])
        logs = best[1]
    return chosen, logs


class _SplitBacktest:
    """Runs in the order of their submission, each predicted from those that had ended."""

    def __init__(self, finished: Sequence[SizedRow], numbers: Collection[str] = ()) -> None:
        self._rows = [row for row, _ in finished]
        self._sizes: Sequence[tuple[Layout, int]] = [size for _, size in finished]
        self._log_s = [log(row.elapsed_s) for row in self._rows]
        self._left_out = {*numbers, ARRAY_INDEX}
        self._ended = sorted(range(len(finished)), key=lambda i: self._rows[i].end_s or 0)

    @cached_property
    def names(self) -> list[str]:
        """Attributes that have several values, which come again."""
        every = dict.fromkeys(name for values in self._values for name in values)
        counts = ((name, len({values.get(name, "") for values in self._values})) for name in every)
        return [name for name, count in counts if 1 < count <= len(self._rows) // 2]

    @cached_property
    def _values(self) -> list[Mapping[str, str]]:
        return [
            {name: value for name, value in row.attributes.items() if name not in self._left_out}
            for row in self._rows
        ]

    def _of(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """Give the values of these attributes of each run."""
        if not names:
            return [()] * len(self._rows)
        return [tuple(values.get(name, "") for name in names) for values in self._values]

    def predict(self, names: Sequence[str], otherwise: _Logs) -> _Logs:
        """Predict by the last runs of the same size and attributes.

        Where there was none of that size, the last one with these attributes stands in; where
        there was none at all, what is said ``otherwise``.
        """
        cells: dict[Hashable, deque[float]] = defaultdict(lambda: deque(maxlen=_LAST))
        latest: dict[tuple[str, ...], int] = {}
        logs: list[float | None] = []
        every = self._of(names)
        ended = deque(self._ended)
        for at, (row, values) in enumerate(zip(self._rows, every, strict=True)):
            while ended and (self._rows[ended[0]].end_s or 0) <= row.submit_s:
                last = ended.popleft()
                cells[every[last], self._sizes[last]].append(self._log_s[last])
                latest[every[last]] = last
            size = self._sizes[at]
            if cell := cells.get((values, size)):
                logs.append(median(cell))
            elif (like := latest.get(values)) is not None:
                ratio = log(size[1] / self._sizes[like][1])
                logs.append(self._log_s[like] + SLOPE * ratio)
            else:
                logs.append(otherwise[at])
        return logs

    def explains(self, chosen: Sequence[str], name: str, *, sure: bool) -> bool:
        """Whether run time depends on an attribute.

        sure: its gain in accuracy is significant, which is enough from `FEW` runs on.

        With fewer a permutation test of the sum of squares between its values (Fisher, *The Design
        of Experiments*, 1935) within sizes and what is split already.  If the gain is not
        significant, values have to alternate: otherwise a change over time looks the same.
        """
        if len(self._rows) >= FEW:
            return sure
        codes = np.unique([v[0] for v in self._of((name,))], return_inverse=True)[1]
        groups = int(codes.max()) + 1
        if not sure and np.count_nonzero(np.diff(codes)) < 2 * groups:
            return False
        keys = list(zip(self._of(chosen), self._sizes, strict=True))
        cells: dict[Hashable, list[float]] = defaultdict(list)
        for key, log_s in zip(keys, self._log_s, strict=True):
            cells[key].append(log_s)
        off = [log_s - fmean(cells[key]) for key, log_s in zip(keys, self._log_s, strict=True)]
        shuffled = np.random.default_rng(0).permuted(np.tile(codes, (_SHUFFLES, 1)), axis=1)
        of_value = np.vstack((codes, shuffled))[:, :, None] == np.arange(groups)
        sums = np.einsum("ijk,j->ik", of_value, np.array(off))
        squares = np.sum(sums**2 / np.bincount(codes), axis=1)
        rare = _LUCK if sure else _RARE / len(self.names)
        return float(np.mean(squares > squares[0] - 1e-9)) <= rare

    def accuracy(self, logs: _Logs) -> float:
        """Mean of min(p, a) / max(p, a)."""
        return fmean(self._accuracies(logs).values() or (1.0,))

    def gains(self, one: _Logs, other: _Logs) -> list[float]:
        """Accuracy of each run that the other adds, where both say something."""
        first = self._accuracies(one)
        second = self._accuracies(other)
        return [second[i] - first[i] for i in first if i in second] or [0.0]

    def _accuracies(self, logs: _Logs) -> dict[int, float]:
        return {
            i: math.exp(-abs(log_s - own))
            for i, (log_s, own) in enumerate(zip(logs, self._log_s, strict=True))
            if log_s is not None
        }
