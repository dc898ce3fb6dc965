"""The prediction table of one set of runs: pure, one call for each identity or part of one.

What is below: :mod:`predictor.tables.of_node_types` for runs on several types of nodes,
:mod:`predictor.tables.of_curve` for a curve, :mod:`predictor.tables.of_history` for runs without
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from predictor.curves.from_runs import CurveSettings, build
from predictor.curves.other_sizes import OtherSizes
from predictor.level import backtest
from predictor.level.record import Record
from predictor.models import selection
from predictor.table import table_of
from predictor.tables.endings import (
    ending_problem,
    endings_of,
    limit_reached,
    work_dirs_of,
)
from predictor.tables.memory import memory_need
from predictor.tables.of_curve import curve_table
from predictor.tables.of_history import history_table
from predictor.tables.of_node_types import SumsByType, split, type_tables
from predictor.tables.resource_use import resource_uses
from predictor.tables.run_facts import (
    command_of,
    ended_runs,
    label_of,
    longest_of,
    memory_of,
    owner_of,
    runs_of,
)
from predictor.tables.settings import TableSettings
from predictor.tables.verdicts import mixed
from predictor.types import HISTORY, UNBOUNDED, Curve, PredictionTable, Run, Verdict
from sacct_ingest.records import CURVE_LEVELS, KeyLevel

if TYPE_CHECKING:
    from sacct_ingest.store import RunRow

#: Curves that are shared: by the table that is shown and the one that jobs are changed by.
_DRAWN = 32


def tabulate(  # noqa: PLR0913 - what a refit has, by name
    level: KeyLevel,
    key: str,
    rows: Sequence[RunRow],
    *,
    now_s: float,
    settings: TableSettings,
    sums: SumsByType | None = None,
    record: Record | None = None,
    others: OtherSizes | None = None,
    had: Sequence[RunRow] | None = None,
) -> PredictionTable | None:
    """Table of one identity, or None where nothing can be said.

    rows: runs on the counts asked for.
    had: the same on those that they had, where these are others: see `predictor.tables.changes`.
    sums: aprof's sums over the identity's runs, by node type.
    record: what became of earlier predictions; None: it is made of ``rows``.
    others: runs of other second sizes; None: there are none.
    """
    curve, settings = level in CURVE_LEVELS, _of_level(level, rows, settings)
    earned = record_of(level, rows, settings) if record is None else record
    counted, table = rows, None
    if curve and len(settings.node_types) > 1:
        groups = split(rows, settings.node_types)
        table = type_tables(groups, sums or {}, settings, earned)
        if table is not None:
            # A table of one node type counts the runs on that type.
            counted = next(iter(groups.values()))
    finished = sum(not run.censored for run in runs_of(counted))
    if table is None:
        table = _of_runs(runs_of(rows), finished, level, settings, earned, others)
    if table is None:
        return None
    table = _with_record(table, earned, rows, same=curve)
    return _described(table, level, key, had or rows, settings, runs=finished, now_s=now_s)


def _of_runs(
    runs: Sequence[Run],
    finished: int,
    level: KeyLevel,
    settings: TableSettings,
    record: Record,
    others: OtherSizes | None,
) -> PredictionTable | None:
    """Table of runs on one type of node: a curve, or else a history of them.

    Few node counts make a curve together with the runs of other second sizes.
    """
    curve = level in CURVE_LEVELS
    drawn = _drawn(tuple(runs), settings.curve) if curve else Curve(())
    if others is not None and drawn.points:
        drawn = others.curve(drawn, settings.curve)
    if len(selection.shown_of(drawn).points) >= selection.MIN_POINTS:
        return curve_table(drawn, runs, settings, record)
    if finished >= (1 if curve else 2):
        return history_table(runs, level, settings, record)
    return None


@lru_cache(maxsize=_DRAWN)
def _drawn(runs: tuple[Run, ...], settings: CurveSettings) -> Curve:
    return build(runs, settings)


def _with_record(
    table: PredictionTable, record: Record, rows: Sequence[RunRow], *, same: bool
) -> PredictionTable:
    """Table with what became of its predictions."""
    several = mixed(record, rows[-1].name, rows) if same else ()
    held = backtest.recorded(record)
    return replace(table, record=held, problems=(*several, *table.problems))


def record_of(
    level: KeyLevel,
    rows: Sequence[RunRow],
    settings: TableSettings,
    old: Record | None = None,
) -> Record:
    """Record of an identity with the runs that ended since it was made.

    Of several node types that of the one with most runs.
    """
    same, settings = level in CURVE_LEVELS, _of_level(level, rows, settings)
    if same:
        rows = next(iter(split(rows, settings.node_types).values()))
    return backtest.replay(
        runs_of(rows), old or Record(), settings.pooled, settings.backtest, same=same
    )


def _of_level(level: KeyLevel, rows: Sequence[RunRow], settings: TableSettings) -> TableSettings:
    """Choose settings for a key: a user whose job names come again is asked for new ones only.

    Of these the last runs, which mostly repeat each other, say little.
    """
    names = {row.name for row in rows if row.name}
    if level is not KeyLevel.USER or not names or 2 * len(names) > len(rows):
        return settings
    return replace(settings, backtest=replace(settings.backtest, mixed=False))


def mixture(
    level: KeyLevel,
    key: str,
    rows: Sequence[RunRow],
    *,
    now_s: float,
    settings: TableSettings,
    record: Record | None = None,
    had: Sequence[RunRow] | None = None,
) -> PredictionTable | None:
    """Table of runs that are not one curve: a history; parameters of `tabulate`."""
    runs = runs_of(rows)
    finished = sum(not run.censored for run in runs)
    if finished < 2:
        return None
    earned = record_of(level, rows, settings) if record is None else record
    table = _with_record(history_table(runs, level, settings, earned), earned, rows, same=True)
    return _described(table, level, key, had or rows, settings, runs=finished, now_s=now_s)


def unfinished(
    level: KeyLevel, key: str, rows: Sequence[RunRow], *, now_s: float
) -> PredictionTable | None:
    """Table without a node count, of a command whose runs all failed or were cut short."""
    endings = endings_of(rows)
    if level not in CURVE_LEVELS or not endings or ending_problem(endings) is None:
        return None
    nothing = table_of([], (Verdict.REFUSED,), TableSettings().confidence)
    empty = replace(nothing, verdicts=(), model=HISTORY)
    return _described(empty, level, key, rows, TableSettings(), runs=0, now_s=now_s)


def _described(
    table: PredictionTable,
    level: KeyLevel,
    key: str,
    rows: Sequence[RunRow],
    settings: TableSettings,
    *,
    runs: int,
    now_s: float,
) -> PredictionTable:
    memory, endings = memory_of(rows), endings_of(rows)
    unfinished = ending_problem(endings) if level in CURVE_LEVELS else None
    return replace(
        table,
        problems=(*table.problems, *([unfinished] if unfinished else [])),
        endings=endings,
        work_dirs=work_dirs_of(rows),
        last_s=max(((row.end_s or 0) - row.elapsed_s for row in ended_runs(rows)), default=0.0),
        level=level.value,
        key=key,
        label=label_of(level, key, rows),
        runs=runs,
        mem_node_bytes=max((m.mem_bytes for m in memory if m.mem_bytes < UNBOUNDED), default=None),
        memory=memory,
        need=memory_need(rows, margin=settings.memory_margin),
        uses=resource_uses(rows),
        fitted_s=now_s,
        owner=owner_of(rows),
        longest=longest_of(rows),
        command=command_of(level, rows),
        limit_reached=limit_reached(rows) if level in CURVE_LEVELS else None,
    )
