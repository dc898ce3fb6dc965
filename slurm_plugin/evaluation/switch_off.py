"""Applications are switched off or on by the record of their predictions.

That is the record that verdicts are earned by, up to the last fit, and from then on what became of
the decisions about them.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp
from typing import TYPE_CHECKING

from predictor.level.record import Record, decode
from predictor.level.validity import AccuracyBand, PredictionOutcome, judge
from sacct_ingest.records import DecisionRow, KeyLevel, StandingRow
from sacct_ingest.store import RunRow
from slurm_plugin.config import settings as config
from slurm_plugin.evaluation.comparison import compare

if TYPE_CHECKING:  # the database is heavy, and --help needs none
    from sacct_ingest.store import Store

#: Watermark of the last pass, and how far behind it runs are looked at again: accounting is late.
SOURCE, OVERLAP_S = "standings", 86_400.0
#: Decisions read for each run that counts: others have no prediction, or failed.
_SPARE = 8


def update(store: Store, settings: config.Band, *, now_s: float) -> list[StandingRow]:
    """Judge anew every application with runs that ended since the last pass.

    Returns list of StandingRow: those that were switched off or on again.
    Raises sacct_ingest.errors.StoreError: the store cannot be read or written.
    """
    band = AccuracyBand(settings.ratio, settings.back, settings.runs, settings.least)
    since_s = (store.watermarks.get(SOURCE) or 0) - OVERLAP_S
    standings = {(row.level, row.key): row for row in store.standings.all()}
    judged = [
        row
        for level, key in store.decisions.touched_keys(since_s)
        if (row := _judged(store, level, key, band, standings.get((level, key)), now_s)) is not None
    ]
    if judged:
        store.standings.put(judged)
    store.watermarks.set(SOURCE, int(now_s))
    return [row for row in judged if row.off != _was_off(standings.get((row.level, row.key)))]


def _judged(
    store: Store,
    level: KeyLevel,
    key: str,
    band: AccuracyBand,
    before: StandingRow | None,
    now_s: float,
) -> StandingRow | None:
    """Judge one application; None where nothing changed or nothing can be said."""
    record = decode(store.records.find(level.value, key))
    pairs = store.decisions.last_outcomes(level, key, band.runs * _SPARE)
    if not pairs:
        return None
    outcomes = [*_recorded(record), *_outcomes(pairs, after_s=record.until_s)]
    judgement = judge(outcomes, band, off=_was_off(before))
    if judgement is None:
        return None
    turned = judgement.off != _was_off(before)
    row = StandingRow(
        level=level,
        key=key,
        label=pairs[0][0].label,
        off=judgement.off,
        ratio=judgement.ratio,
        runs=judgement.runs,
        low=judgement.low,
        high=judgement.high,
        since_s=now_s if before is None or turned else before.since_s,
        judged_s=now_s,
    )
    return row if before is None or _news(row, before) else None


def _news(row: StandingRow, before: StandingRow) -> bool:
    shown = ("off", "ratio", "runs", "low", "high")
    return any(getattr(row, name) != getattr(before, name) for name in shown)


def _was_off(before: StandingRow | None) -> bool:
    return before is not None and before.off


def _recorded(record: Record) -> Iterator[PredictionOutcome]:
    """Turn entries of a record into outcomes; only ratios of times count.

    Those of what changes jobs: other users' runs do not switch an application off or on.
    """
    for entry in record.entries:
        if entry.acting is not None:
            error, width, _ = entry.acting
            yield PredictionOutcome(
                ended_s=entry.end_s,
                realised_s=exp(error),
                predicted_s=1.0,
                low_s=exp(-width),
                high_s=exp(width),
            )


def _outcomes(
    pairs: list[tuple[DecisionRow, RunRow]], *, after_s: float
) -> Iterator[PredictionOutcome]:
    """Compare runs that ended later with what was predicted for the count that they had."""
    for decision, run in pairs:
        ended_s = float(run.end_s or 0)
        comparison = compare(decision, run) if ended_s > after_s else None
        if comparison is not None and comparison.low_s and comparison.high_s:
            yield PredictionOutcome(
                ended_s=ended_s,
                realised_s=comparison.actual_s,
                predicted_s=comparison.predicted_s,
                low_s=comparison.low_s,
                high_s=comparison.high_s,
                cut=comparison.cut,
            )
