"""Samples of models, made from stored runs: those with a run time."""

from collections.abc import Iterable, Sequence
from typing import Any

from predictor.sample import Sample
from sacct_ingest.records import Says
from sacct_ingest.runs.evidence import evidence_of
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store.rows import RunRow

Range = tuple[int, int]


def ended_runs(rows: Iterable[RunRow]) -> list[RunRow]:
    """Select the runs with a run time: finished, or cut off; failed ones have none."""
    return [row for row in rows if evidence_of(row).run_time is not Says.NOTHING]


def samples_of(rows: Iterable[RunRow]) -> list[Sample]:
    """Give the runs with a run time as samples of it."""
    return [sample_of(row) for row in ended_runs(rows)]


def sample_of(
    row: RunRow,
    *,
    size: int | None = None,
    asked_in: Unit | None = None,
    split_by: Sequence[str] | None = None,
) -> Sample:
    """Give a run with a run time as a sample of it.

    size: what its curve counts; None: its node count says it.
    asked_in: unit of its node count: what was asked for is filled, and the measured memory.
    split_by: attributes that its application is split by: what the request says is filled.
    """
    filled: dict[str, Any] = {}
    if asked_in is not None:
        filled |= _asked(row, asked_in)
    if split_by is not None:
        filled |= _request(row, split_by)
    return Sample(
        nodes=row.nodes if size is None else size,
        elapsed_s=float(row.elapsed_s),
        end_s=float(row.end_s or 0),
        censored=row.state.cut_short,
        limit_s=float(row.limit_s or 0),
        submit_s=float(row.submit_s),
        out_of_time=row.state.out_of_time,
        **filled,
    )


def _asked(row: RunRow, unit: Unit) -> dict[str, Any]:
    asked, asked_range = asked_of(row, unit)
    memory = float((row.mem_bytes or 0) * (row.tasks or row.nodes))
    if unit is not Unit.NODES:
        memory = float(row.mem_bytes or 0)  # of the whole job already
    return {
        "asked": asked,
        "asked_range": asked_range,
        "problem": row.submission.study,
        "memory_bytes": memory,
    }


def _request(row: RunRow, split_by: Sequence[str]) -> dict[str, Any]:
    attributes = row.attributes
    return {
        "numbers": row.numbers,
        "requested": (row.nodes, row.cpus, row.tasks or 0, row.req_mem_bytes or 0),
        "attributes": {name: attributes.get(name, "") for name in split_by},
    }


def asked_of(row: RunRow, unit: Unit) -> tuple[int, Range]:
    """Count that a run would have had without NIMO, and the range that its user asked for."""
    asked = row.asked_size if row.asked_unit == unit.value else None
    if unit is not Unit.NODES:
        return asked or row.nodes, (asked or row.nodes,) * 2
    low = row.asked_low
    high = row.asked_high
    if not row.asked_unit and row.submission.program:
        low, high = row.submission.nodes or (None, None)
    elif not row.asked_unit:
        low = high = row.nodes
    if low != high or (asked is not None and low is None):
        return asked or row.nodes, (low or 0, high or 0)
    own = asked or row.nodes
    return own, (own, own)
