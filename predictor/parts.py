"""Whether the runs of one identity are one problem: its table, and those of its parts.

Runs with another layout (:mod:`sacct_ingest.layout`) are another curve.  Each part that repeats has
a table of its own; the identity's own table is then a history of all runs, for jobs that belong to
none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from predictor.record import Record
from predictor.run_rows import ended_runs
from predictor.table import worse
from predictor.table_settings import TableSettings
from predictor.tabulate import mixture, record_of, tabulate, unfinished
from predictor.type_tables import SumsByType
from predictor.types import Part, PredictionTable, Problem, Verdict
from sacct_ingest.layout import ANY, Layout, layouts
from sacct_ingest.records import CURVE_LEVELS, KeyLevel

if TYPE_CHECKING:
    from sacct_ingest.store import RunRow

_Make = Callable[..., PredictionTable | None]
#: Between an identity's key and what tells its part.
MARK = "#part="
#: Parts with tables of their own, at most.
MOST = 16


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a refit makes of some runs: a table, where anything can be said, and their record.

    ``new`` is how many entries came to the record.
    """

    key: str
    table: PredictionTable | None
    record: Record
    new: int


def tables_of(
    level: KeyLevel,
    key: str,
    rows: Sequence[RunRow],
    *,
    now_s: float,
    settings: TableSettings,
    sums: SumsByType | None = None,
    records: Mapping[str, Record] | None = None,
) -> list[Fitted]:
    """Fit one identity: it comes first, then its parts; parameters of `tabulate`.

    Parameters
    ----------
    records
        What became of earlier predictions, by key.
    """
    old = records or {}
    groups = layouts(ended_runs(rows)) if level in CURVE_LEVELS else {}

    def fitted(
        name: str, own: Sequence[RunRow], make: Callable[..., PredictionTable | None]
    ) -> Fitted:
        before = old.get(name, Record())
        record = record_of(level, own, settings, before)
        table = make(level, name, own, now_s=now_s, settings=settings, record=record)
        if table is None and name == key:
            table = unfinished(level, key, rows, now_s=now_s)
        return Fitted(name, table, record, _new(before, record))

    if len(groups) < 2:
        layout = next(iter(groups), ANY)
        one = fitted(key, rows, partial(tabulate, sums=sums))
        return [_with(one, layout=layout)]
    made = []
    for layout, own in list(groups.items())[:MOST]:
        part = fitted(f"{key}{MARK}{_digest(str(layout))}", own, tabulate)
        label = f"{part.table.label} ({layout})" if part.table else ""
        made.append(_with(part, layout=layout, label=label))
    whole = fitted(key, rows, mixture)
    parts = tuple(Part(one.key, one.table.layout) for one in made if one.table)
    if whole.table is not None:
        whole = replace(whole, table=_doubted(replace(whole.table, parts=parts), list(groups)))
    return [whole, *made]


def whole_key(key: str) -> str:
    """Key of the identity that a part belongs to; its own where it is none."""
    return key.partition(MARK)[0]


def _with(fitted: Fitted, **changes: Any) -> Fitted:
    table = fitted.table
    return fitted if table is None else replace(fitted, table=replace(table, **changes))


def _new(before: Record, after: Record) -> int:
    if after is before:
        return 0
    return sum(entry.end_s > before.until_s for entry in after.entries)


def _doubted(table: PredictionTable, groups: Sequence[Layout]) -> PredictionTable:
    """Table of runs with several layouts: doubtful at best."""
    listed = "; ".join(map(str, groups[:3])) + ("; …" if len(groups) > 3 else "")
    text = f"runs had {len(groups)} layouts ({listed}): they are not one curve"
    return replace(
        table,
        verdict=worse(table.verdict, Verdict.DOUBTFUL),
        problems=(Problem("layouts", text), *table.problems),
    )


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=4).hexdigest()
