"""What runs say of a change of count: what their users asked for, and what they had."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import exp, inf, log
from operator import attrgetter
from statistics import fmean
from typing import TYPE_CHECKING

from predictor.change.posterior import ChangeRun, Posterior, posterior
from predictor.change.request import log_ratios
from predictor.tables.run_facts import memory_of
from predictor.types import AskedRange, Change, PredictionTable
from sacct_ingest.records import JobState
from sacct_ingest.runs.layout import Unit
from sacct_ingest.scripts.job_script import parse_command_line, split_submit_line
from sacct_ingest.text.tag import study_of

if TYPE_CHECKING:
    from sacct_ingest.store import RunRow

#: Reason of a decision that changed a count to learn.
LEARNED = "learning"
_Range = tuple[int, int]
_DAY_S = 86_400
#: Units of decisions that are about no node count.
_SIZES = (Unit.CPUS.value, Unit.GPUS.value)


def change_of(rows: Sequence[RunRow], unit: Unit) -> Change:
    """Posterior of a change, and the ranges that were asked for.

    rows: runs of one application, their sizes counted in ``unit``, the newest last.
    """
    finished = [row for row in rows if row.state is JobState.COMPLETED and row.elapsed_s > 0]
    runs = [_run(row, unit) for row in finished if row.nodes > 0]
    one_count = len({run.nodes for run in runs}) < 2
    made = _prior() if one_count else _thousandths(posterior(runs))
    by_range: defaultdict[_Range, list[tuple[ChangeRun, RunRow]]] = defaultdict(list)
    for run, row in zip(runs, finished, strict=True):
        if run.group[0] != run.group[1]:
            by_range[run.group].append((run, row))
    ranges = tuple(
        AskedRange(
            low=low,
            high=high,
            level=round(exp(fmean(log(run.asked) for run, _ in own))),
            counts=tuple(sorted({run.nodes for run, _ in own})),
            tries=sum(_is_try(row) for _, row in own),
            memory=memory_of(row for _, row in own),
        )
        for (low, high), own in sorted(by_range.items())
    )
    return replace(
        made,
        ranges=ranges,
        proven=_proven(finished) if unit is Unit.NODES else (),
        moved=sum(run.nodes != run.asked for run in runs),
        tries=sum(_is_try(row) for row in finished),
    )


def _is_try(row: RunRow) -> bool:
    return row.try_of == LEARNED or bool(study_of(row.comment, row.submit_line))


def _proven(rows: Sequence[RunRow]) -> tuple[int, ...]:
    """Find the counts that users asked for and completed on.

    Several counts that had one run each, with no day between them, are a study: it says nothing of
    what its user wants for other jobs.
    """
    asked = [
        row
        for row in rows
        if not _is_try(row) and asked_of(row, Unit.NODES) == (row.nodes, (row.nodes,) * 2)
    ]
    counts: set[int] = set()
    series: Counter[int] = Counter()
    last_s = inf
    for row in sorted(asked, key=attrgetter("submit_s")):
        if row.submit_s - last_s > _DAY_S:
            counts.update(_no_study(series))
            series.clear()
        series[row.nodes] += 1
        last_s = row.submit_s
    return tuple(sorted({*counts, *_no_study(series)}))


def _no_study(series: Counter[int]) -> list[int]:
    once = sum(runs == 1 for runs in series.values())
    return [nodes for nodes, runs in series.items() if runs > 1 or once < 2]


def by_types(table: PredictionTable, rows: Sequence[RunRow], unit: Unit) -> PredictionTable:
    """Give each node type with runs on two counts a change of its own.

    rows: runs on all types; those of unknown type are taken to be on the table's.
    """
    if not table.by_type or table.change is None:
        return table
    pooled = table.change

    def own(*types: str) -> Change | None:
        those = [row for row in rows if row.node_type in types]
        done = {row.nodes for row in those if row.state is JobState.COMPLETED}
        if len(done) < 2:
            return None
        made = change_of(those, unit)
        said = {name: getattr(made, name) for name in ("doublings", "paths", "references")}
        return replace(pooled, **said)

    return replace(
        table,
        change=own(table.node_type, "") or pooled,
        by_type=tuple(replace(one, change=own(one.node_type)) for one in table.by_type),
    )


def as_asked(rows: Sequence[RunRow], change: Change, unit: Unit) -> list[RunRow]:
    """Give runs as they would have been on the counts asked for: what a change did taken out."""
    levels = {(one.low, one.high): one.level for one in change.ranges}
    return [_moved(row, change, levels, unit) if row.nodes > 0 else row for row in rows]


def with_asked_cpus(row: RunRow) -> RunRow:
    """Give a run with the CPUs that it asked for on all of its nodes.

    Of a range of nodes Slurm's accounting has the CPUs that were asked for on the fewest.
    """
    least = row.least_nodes if row.asked_unit else _asked_range(row.submit_line)[0]
    if not row.req_cpus or not least or least >= row.nodes or row.asked_unit in _SIZES:
        return row
    return replace(row, req_cpus=-(-row.req_cpus * row.nodes // least))


def _moved(row: RunRow, change: Change, levels: dict[_Range, int], unit: Unit) -> RunRow:
    asked, group = asked_of(row, unit)
    level = levels.get(group, asked)
    if level == row.nodes:
        return row
    paths = log_ratios(change, level, row.nodes)
    return replace(row, nodes=level, elapsed_s=row.elapsed_s / exp(fmean(paths)))


def _run(row: RunRow, unit: Unit) -> ChangeRun:
    asked, group = asked_of(row, unit)
    memory = float((row.mem_bytes or 0) * (row.tasks or row.nodes))
    if unit is not Unit.NODES:
        memory = float(row.mem_bytes or 0)  # of the whole job already
    problem = study_of(row.comment, row.submit_line)
    return ChangeRun(asked, row.nodes, float(row.elapsed_s), memory, group, problem)


def asked_of(row: RunRow, unit: Unit) -> tuple[int, _Range]:
    """Count that a run would have had without NIMO, and the range that its user asked for."""
    asked = row.asked_size if row.asked_unit == unit.value else None
    if unit is not Unit.NODES:
        return asked or row.nodes, (asked or row.nodes,) * 2
    low, high = row.asked_low, row.asked_high
    if not row.asked_unit and row.submit_line:
        low, high = _asked_range(row.submit_line)
    elif not row.asked_unit:
        low = high = row.nodes
    if low != high or (asked is not None and low is None):
        return asked or row.nodes, (low or 0, high or 0)
    own = asked or row.nodes
    return own, (own, own)


def _asked_range(submit_line: str) -> tuple[int | None, int | None]:
    """Fewest and most nodes of a command line; None: it does not say."""
    if "-" not in submit_line:
        return None, None
    text = parse_command_line(split_submit_line(submit_line)).options.get("nodes") or ""
    low, dash, high = text.partition("-")
    if not (dash and low.isdecimal() and high.isdecimal()):
        return None, None
    return int(low), int(high)


@cache
def _prior() -> Change:
    return _thousandths(posterior(()))


def _thousandths(one: Posterior) -> Change:
    rounded = (1000 * one.paths).round().astype(int)
    return Change(
        doublings=tuple(one.doublings.tolist()),
        paths=tuple(map(tuple, rounded.tolist())),
        references=tuple(round(float(n), 3) for n in one.reference),
    )
