"""The prediction table of runs without a curve: a history of run times on each node count."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import exp

from predictor.level import backtest
from predictor.level.calibration import JudgedPrediction
from predictor.level.record import Record
from predictor.models import selection
from predictor.problems import problem
from predictor.table import round_time, table_of
from predictor.tables.settings import TableSettings
from predictor.tables.verdicts import REPEATS, to_prediction
from predictor.types import (
    HISTORY,
    AtLimit,
    Point,
    PredictionTable,
    Problem,
    Run,
    Verdict,
)
from sacct_ingest.records import CURVE_LEVELS, KeyLevel


def history_table(
    runs: Sequence[Run], level: KeyLevel, settings: TableSettings, record: Record
) -> PredictionTable:
    """Table of run times on node counts that were run; of one application on counts around, too.

    record: what became of earlier predictions.
    """
    same = level in CURVE_LEVELS
    recent = backtest.in_order(runs)[-settings.recent :]
    now = backtest.NextRun(
        recent, record, settings.pooled, settings.backtest, same=same, level=settings.confidence
    )
    counts = Counter(run.nodes for run in recent if not run.censored)
    ran = sorted(counts)
    nodes = _around(ran, settings) if same else ran
    judged = [now.judge(n) for n in nodes]
    problems = _no_curve(ran) if same else (_not_one_problem(level),)
    rows = list(zip(judged, nodes, strict=True))
    return replace(
        table_of(
            [to_prediction(one, n, settings.confidence) for one, n in rows],
            tuple(_of_count(now, one, counts[n], same=same) for one, n in rows),
            settings.confidence,
        ),
        model=HISTORY,
        problems=problems,
        observed=tuple(
            Point(n, round_time(exp(one.log_s)), counts[n]) for one, n in rows if counts[n]
        ),
        at_limits=tuple(
            _at_limit(limit_s, [now.judge(n, limit_s) for n in nodes])
            for limit_s in _limits(recent, settings)
        ),
    )


def _around(ran: Sequence[int], settings: TableSettings) -> list[int]:
    """Node counts of one application without a curve: those that were run, and doublings around."""
    counts, low, high = set(ran), ran[0] / settings.reach, ran[-1] * settings.reach
    counts |= {round(n * 2.0**k) for n in ran for k in range(-4, 5)}
    return sorted(n for n in counts if n >= 1 and low <= n <= high)


def _of_count(
    now: backtest.NextRun, judged: JudgedPrediction, repeats: int, *, same: bool
) -> Verdict:
    """Verdict on a count of a history: runs there and the record have to speak for it."""
    if repeats < 2:
        return Verdict.REFUSED
    if (
        same
        and repeats >= REPEATS
        and now.calibrator.evident(judged)
        and now.calibrator.reliable(judged)
    ):
        return Verdict.RELIABLE
    return Verdict.DOUBTFUL


def _limits(runs: Sequence[Run], settings: TableSettings) -> list[float]:
    """Labels of time limits, the newest first; none if there is only one."""
    asked = dict.fromkeys(
        run.limit_s for run in reversed(runs) if run.limit_s > 0 and not run.censored
    )
    return list(asked)[: settings.limits] if len(asked) > 1 else []


def _at_limit(limit_s: float, judged: Sequence[JudgedPrediction]) -> AtLimit:
    return AtLimit(
        limit_s,
        tuple(round_time(exp(one.log_s)) for one in judged),
        tuple(round_time(exp(one.low)) for one in judged),
        tuple(round_time(exp(one.high)) for one in judged),
    )


def _no_curve(ran: Sequence[int]) -> tuple[Problem, ...]:
    """One count asks for twice as many; two ask for the same step once more, or between them.

    Of more than two the runs make no curve for another reason, such as several layouts.
    """
    if len(ran) >= selection.MIN_POINTS:
        return ()
    if len(ran) == 1:
        observe = 2 * ran[0]
    elif ran[1] >= 4 * ran[0]:
        observe = round((ran[0] * ran[1]) ** 0.5)
    else:
        observe = max(2 * ran[1], 4 * ran[0])
    counts = f"{' and '.join(map(str, ran))} {'node' if ran == [1] else 'nodes'}"
    return (problem("no_curve", observe, counts=counts, least=selection.MIN_POINTS),)


def _not_one_problem(level: KeyLevel) -> Problem:
    by = "the user" if level is KeyLevel.USER else "user and job name"
    return problem("no_identity", by=by)
