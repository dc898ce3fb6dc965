"""What the curve of an application is over: nodes, CPUs or GPUs.

A unit is a candidate where its count varied while the rest of the layout stayed.  Of the candidates
that nearly as many runs speak for, the one that explains run time best is taken: the least Akaike
information criterion (IEEE Transactions on Automatic Control 19, 1974) of a parabola in log size
for each group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING

import numpy as np

from sacct_ingest.runs.layout import Layout, Unit, any_layout, layouts, size_layouts
from sacct_ingest.scripts.job_script import parse_command_line, split_submit_line

if TYPE_CHECKING:
    from sacct_ingest.store import RunRow

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


@dataclass(frozen=True, slots=True)
class Axis:
    """A unit, with the runs of each layout; the largest group first."""

    unit: Unit
    groups: Mapping[Layout, Sequence[RunRow]]


def axis_of(rows: Sequence[RunRow]) -> Axis:
    """Choose the unit of the curves of these runs, which have a run time.

    Nodes where one layout holds on all node counts, or where nothing else varied.
    """
    nodes = Axis(Unit.NODES, layouts(rows))
    if len(nodes.groups) < 2:
        return nodes
    candidates = [nodes, *_others(rows)]
    for sizes in (_CURVE, _STEP):
        spoken = [_speaking(one, sizes) for one in candidates]
        least = max(1.0, _NEARLY * max(spoken))
        near = [one for one, runs in zip(candidates, spoken, strict=True) if runs >= least]
        if near:
            return min(near, key=lambda axis: round(_criterion(axis), _SAME))
    return nodes


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


def _by_tasks(rows: Sequence[RunRow], unit: Unit) -> dict[Layout, list[RunRow]]:
    """Group runs by layout; where the accounting has no tasks, by those of the submission."""
    own = {row.run_id: row for row in rows}
    groups = size_layouts([_with_tasks(row) for row in rows], unit)
    return {layout: [own[row.run_id] for row in group] for layout, group in groups.items()}


def _with_tasks(row: RunRow) -> RunRow:
    """Run with the tasks that its submission named, where it had no step with them."""
    if row.tasks is not None or not row.submit_line:
        return row
    options = parse_command_line(split_submit_line(row.submit_line)).options
    tasks, each = options.get("ntasks", ""), options.get("cpus-per-task")
    if tasks and tasks.isdecimal():
        return replace(row, tasks=int(tasks))
    return replace(row, tasks=1) if each and row.nodes == 1 else row


def _explains(axis: Axis) -> bool:
    runs = [row for group in axis.groups.values() for row in group if _finished(row)]
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
    """Akaike's information criterion of an axis, for each run."""
    squares, terms, count = _squares(axis)
    return log(squares / count + _NOISE**2) + 2 * terms / count if count else 0.0


def _squares(axis: Axis) -> tuple[float, int, int]:
    """Sum of the squared residuals of all groups, with the terms and the runs."""
    groups = [[row for row in group if _finished(row)] for group in axis.groups.values()]
    fits = [
        _misfit([(log(axis.unit.size_of(r)), log(r.elapsed_s)) for r in group]) for group in groups
    ]
    return sum(own for own, _ in fits), sum(used for _, used in fits), sum(map(len, groups))


def _finished(row: RunRow) -> bool:
    return not row.state.cut_short


def _misfit(points: Sequence[tuple[float, float]]) -> tuple[float, int]:
    """Sum of the squared residuals of a parabola in log size, and how many terms it has."""
    if not points:
        return 0.0, 0
    sizes, times = np.array(points).T
    terms = min(len(np.unique(sizes)), _TERMS)
    columns = np.vander(sizes - sizes.mean(), terms)
    solved = np.linalg.lstsq(columns, times, rcond=None)[0]
    return float(np.sum((times - columns @ solved) ** 2)), terms
