"""Applications are switched off or on by the record of their predictions and of their promises.

Of predictions that is the record that verdicts are earned by, up to the last fit, and from then on
what became of the decisions about them.  Of promises it is whether changed jobs kept the guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import comb, exp
from typing import TYPE_CHECKING

from predictor.level.record import Record, decode
from predictor.level.validity import AccuracyBand, PredictionOutcome, judge
from sacct_ingest.records import DecisionRow, KeyLevel, StandingRow
from sacct_ingest.store import RunRow
from slurm_plugin.config import settings as config
from slurm_plugin.evaluation.accuracy import compare
from slurm_plugin.evaluation.effects import PromiseTally, is_changed

if TYPE_CHECKING:  # the database is heavy, and --help needs none
    from sacct_ingest.store import Store

#: Watermark of the last pass, and how far behind it runs are looked at again: accounting is late.
SOURCE, OVERLAP_S = "standings", 86_400.0
#: Decisions read for each run that counts: others have no prediction, or failed.
_SPARE = 8
#: So many broken promises, or more, are taken for chance where that is as likely.
_CHANCE = 0.05


def update(
    store: Store, settings: config.Band, policy: config.Policy, *, now_s: float
) -> list[StandingRow]:
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
        if (row := _judged(store, level, key, band, policy, standings.get((level, key)), now_s))
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
    policy: config.Policy,
    before: StandingRow | None,
    now_s: float,
) -> StandingRow | None:
    """Judge one application; None where nothing changed or nothing can be said."""
    record = decode(store.records.find(level.value, key), Record)
    pairs = store.decisions.last_outcomes(level, key, band.runs * _SPARE)
    if not pairs:
        return None
    outcomes = [*_recorded(record), *_outcomes(pairs, after_s=record.until_s)]
    judgement = judge(outcomes, band, off=_was_off(before))
    if judgement is None:
        return None
    since_s = before.since_s if before else 0.0
    off = judgement.off
    if before is not None and before.broke_promises:  # its jobs are observed for as long
        off = off or sum(one.ended_s > since_s for one in outcomes) < band.least
    elif not _was_off(before):
        off = off or _breaks(pairs, since_s, policy, band.runs)
    turned = off != _was_off(before)
    row = StandingRow(
        level=level,
        key=key,
        label=pairs[0][0].label,
        off=off,
        ratio=judgement.ratio,
        runs=judgement.runs,
        low=judgement.low,
        high=judgement.high,
        since_s=now_s if before is None or turned else before.since_s,
        judged_s=now_s,
    )
    shown = ("off", "ratio", "runs", "low", "high")
    same = before and all(getattr(row, name) == getattr(before, name) for name in shown)
    return None if same else row


def _breaks(
    pairs: list[tuple[DecisionRow, RunRow]], since_s: float, policy: config.Policy, least: int
) -> bool:
    """Whether fewer changed jobs kept the guard than they were promised, beyond chance."""
    tally = PromiseTally(policy.guard_ratio, policy.guard_s)
    for decision, run in pairs:
        if is_changed(decision) and decision.at_s > since_s:
            tally.add("", decision, run)
    done, sure = tally.result(), policy.confidence
    counts = range(done.kept + 1)
    chance = sum(comb(done.jobs, k) * sure**k * (1 - sure) ** (done.jobs - k) for k in counts)
    return done.jobs >= least and chance < _CHANCE


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
