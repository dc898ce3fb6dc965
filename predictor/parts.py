"""Whether the runs of one identity are one problem: its table, and those of its parts.

Runs with another layout (:mod:`sacct_ingest.layout`) are another curve.  Each part that repeats has
a table of its own; the identity's own table is then a history of all runs, for jobs that belong to
none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from predictor import by_type
from predictor.table import worse
from predictor.tabulate import TableSettings, mixture, tabulate, telling, unfinished
from predictor.types import Part, PredictionTable, Problem, Verdict
from sacct_ingest.layout import ANY, Layout, layouts
from sacct_ingest.records import CURVE_LEVELS, KeyLevel

if TYPE_CHECKING:
    from sacct_ingest.store import RunRow

#: Parts with tables of their own, at most.
MOST = 16


def tables_of(
    level: KeyLevel,
    key: str,
    rows: Sequence[RunRow],
    *,
    now_s: float,
    settings: TableSettings,
    sums: by_type.SumsByType | None = None,
) -> list[PredictionTable]:
    """Tables of one identity: its own first, then those of its parts; parameters of `tabulate`."""
    groups = layouts(telling(rows)) if level in CURVE_LEVELS else {}
    if len(groups) < 2:
        table = tabulate(level, key, rows, now_s=now_s, settings=settings, sums=sums)
        layout = next(iter(groups), ANY)
        table = table or unfinished(level, key, rows, now_s=now_s)
        return [] if table is None else [replace(table, layout=layout)]
    made = []
    for layout, own in list(groups.items())[:MOST]:
        name = f"{key}#{_digest(str(layout))}"
        table = tabulate(level, name, own, now_s=now_s, settings=settings)
        if table is not None:
            made.append(replace(table, layout=layout, label=f"{table.label} ({layout})"))
    whole = mixture(level, key, rows, now_s=now_s, settings=settings)
    whole = whole or unfinished(level, key, rows, now_s=now_s)
    if whole is None:
        return []
    parts = tuple(Part(table.key, table.layout) for table in made)
    return [_doubted(replace(whole, parts=parts), list(groups)), *made]


def _doubted(table: PredictionTable, found: Sequence[Layout]) -> PredictionTable:
    """Table of runs with several layouts: doubtful at best."""
    listed = "; ".join(map(str, found[:3])) + ("; …" if len(found) > 3 else "")
    text = f"runs had {len(found)} layouts ({listed}): they are not one curve"
    return replace(
        table,
        verdict=worse(table.verdict, Verdict.DOUBTFUL),
        problems=(Problem("layouts", text), *table.problems),
    )


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=4).hexdigest()
