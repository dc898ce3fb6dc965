"""Verdicts of a table's node counts, from the outcomes of its predictions.

On node counts that were run the expert with the better record predicts; inside and beyond the
observed range the curve, at the level of the counts beside it that were run.  Intervals are as wide
as the record asks for, and a verdict is what the last predictions earned: a smooth curve alone
counts only as long as there is no record of it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from predictor.checks import need_finite, need_nodes, need_share
from predictor.level import backtest
from predictor.level.backtest import ExpertPanel, NextRun
from predictor.level.calibration import JudgedPrediction
from predictor.level.experts import Around
from predictor.level.record import ENOUGH, OWN, Record
from predictor.models.selection import Choice
from predictor.table import worse
from predictor.tables.settings import TableSettings
from predictor.types import Prediction, Problem, Run, Verdict, problem
from sacct_ingest.records import JobState
from sacct_ingest.text.slurm_text import time_span

if TYPE_CHECKING:
    from sacct_ingest.store import RunRow

#: Runs on a node count from which on its history alone may be reliable.
REPEATS = 3
_NO_NAME = re.compile(r"[^\w.+-]+")
#: Runs are not of one problem where, on counts that had been run, half of the predictions were off
#: by more than the first, or one in four by more than the second (logs).
_HALF_OFF, _QUARTER_OFF = math.log(1.2), math.log(1.5)
#: Of the last runs on one count those above the widest gap, from this ratio on, are another kind.
_LAST, _APART = 60, 2.0
#: Distance of node counts between which intervals are interpolated.
_STEP = 2**0.5


@dataclass(frozen=True, slots=True)
class Columns:
    """Predictions with their verdicts, and what the record says against them."""

    predictions: list[Prediction]
    verdicts: tuple[Verdict, ...]
    problems: tuple[Problem, ...]


def panel_of(
    choice: Choice, fitted: Sequence[Prediction], runs: Sequence[Run], around: Around
) -> ExpertPanel:
    """Experts on the runs of a curve, which is one of them.

    fitted: what the fit says by itself, of rising node counts.
    runs: all that finished or were cut short.
    """
    curve = {p.nodes: _log(p) for p in fitted}
    runs = _at_level(choice, runs)
    others = sorted({run.nodes for run in runs} - set(curve))
    curve |= {p.nodes: _log(p) for p in choice.predict(others)} if others else {}
    return ExpertPanel(runs, around, same=True, curve=curve.__getitem__)


def earn(
    choice: Choice,
    fitted: Sequence[Prediction],
    verdicts: Sequence[Verdict],
    runs: Sequence[Run],
    panel: ExpertPanel,
    record: Record,
    settings: TableSettings,
) -> Columns:
    """Predictions, intervals and verdicts that the record of an identity allows.

    fitted, verdicts: what the fit says by itself, of rising node counts.
    runs: all that finished or were cut short.
    panel: what :func:`panel_of` made of these.
    """
    drift, runs = choice.curve.drift, _at_level(choice, runs)
    now = NextRun(
        panel, record, settings.pooled, settings.backtest, same=True, level=settings.confidence
    )
    repeats = Counter(run.nodes for run in runs if not run.censored)
    judged = _judged(now, [p.nodes for p in fitted], repeats)
    rows = list(zip(fitted, judged, verdicts, strict=True))
    # Runs that drift left out, or moved, cannot make anything surer.
    steady = drift is None
    earned = tuple(_verdict(now, one, verdict, raising=steady) for _, one, verdict in rows)
    lowered = any(
        verdict is Verdict.RELIABLE and own is not verdict
        for own, verdict in zip(earned, verdicts, strict=True)
    )
    predictions = [_predicted(p, one, settings.confidence) for p, one, _ in rows]
    predictions = _at_level_beside(fitted, predictions, repeats)
    predictions, earned = _no_surer_than_beside(predictions, earned, repeats)
    return Columns(predictions, earned, recall(record) if lowered else ())


def _at_level_beside(
    fitted: Sequence[Prediction], predictions: Sequence[Prediction], repeats: Mapping[int, int]
) -> list[Prediction]:
    """Move the curve on counts that were never run to the level of those beside them that were."""
    pairs = list(zip(fitted, predictions, strict=True))
    ran = [(math.log(p.nodes), math.log(p.time_s / f.time_s)) for f, p in pairs if repeats[p.nodes]]
    if not ran:
        return list(predictions)
    factors = np.exp(np.interp(np.log([p.nodes for p in predictions]), *np.transpose(ran))).tolist()
    return [
        p
        if repeats[p.nodes] or not math.isclose(p.time_s, f.time_s, rel_tol=1e-6)
        else replace(p, time_s=by * p.time_s, low_s=by * p.low_s, high_s=by * p.high_s)
        for (f, p), by in zip(pairs, factors, strict=True)
    ]


def _no_surer_than_beside(
    predictions: Sequence[Prediction], verdicts: tuple[Verdict, ...], repeats: Mapping[int, int]
) -> tuple[list[Prediction], tuple[Verdict, ...]]:
    """Widen what was never run to the narrower of the counts beside it that were."""
    ran = [i for i, p in enumerate(predictions) if repeats[p.nodes]]
    wider, lower = list(predictions), list(verdicts)
    for i, p in enumerate(predictions):
        beside = [*[j for j in ran if j < i][-1:], *[j for j in ran if j > i][:1]]
        if repeats[p.nodes] or not beside:
            continue
        near = [predictions[j] for j in beside]
        below = max(one.low_s / one.time_s for one in near)
        above = min(one.high_s / one.time_s for one in near)
        wider[i] = replace(
            p, low_s=min(p.low_s, below * p.time_s), high_s=max(p.high_s, above * p.time_s)
        )
        best = min((verdicts[j] for j in beside), key=tuple(Verdict).index)
        lower[i] = worse(lower[i], best)
    return wider, tuple(lower)


def _at_level(choice: Choice, runs: Sequence[Run]) -> list[Run]:
    """Leave out runs at another level: the curve has moved them, and history has not."""
    drift = choice.curve.drift
    return [run for run in runs if drift is None or run.nodes not in drift.stale]


def to_prediction(
    judged: JudgedPrediction, nodes: int, level: float, *, sd: float | None = None
) -> Prediction:
    """Prediction of the times that were judged; ``sd`` is of the median, log seconds."""
    need_nodes((nodes,))
    need_share("level", level)
    need_finite("log of a run time", judged.log_s, judged.low, judged.high)
    middle, low, high = map(math.exp, (judged.log_s, judged.low, judged.high))
    return Prediction(nodes, middle, low, high, level, judged.scale if sd is None else sd)


def recall(record: Record) -> tuple[Problem, ...]:
    """Say what became of the last predictions."""
    return tuple(
        problem(
            "record",
            predictions=one.predictions,
            counts="had been run" if one.repeated else "were new",
            error=100 * one.median_error,
            inside=one.inside,
        )
        for one in backtest.recorded(record)
        if one.predictions >= ENOUGH
    )


def mixed(record: Record, name: str, rows: Sequence[RunRow] = ()) -> tuple[Problem, ...]:
    """Say so where runs on one node count differ too much for one problem, and what would help.

    name: what the job is called.
    rows: its runs, the newest last.
    """
    errors = sorted((abs(one.error) for one in record.entries if one.repeated), reverse=True)
    parted = _two_kinds(rows)
    if len(errors) < ENOUGH:
        # Runs that were submitted at once have no record.
        alike = parted is None or min(map(len, parted)) < REPEATS
    else:
        half, quarter = errors[len(errors) // 2], errors[len(errors) // 4]
        alike = half <= _HALF_OFF and quarter <= _QUARTER_OFF
    if alike:
        return ()
    app = _NO_NAME.sub("-", name) or "NAME"
    if parted is None:
        return (problem("not_one_problem", app=app),)
    short, long = parted
    counts = {"few": len(short), "many": len(long), "runs": len(short) + len(long)}
    times = {"short": time_span(median(short)), "long": time_span(median(long))}
    return (problem("not_one_problem:two", app=app, **counts, **times),)


def _two_kinds(rows: Sequence[RunRow]) -> tuple[list[float], list[float]] | None:
    """Part run times on the most frequent count at their widest gap; None: they are of one kind."""
    done = [row for row in rows if row.state is JobState.COMPLETED and row.elapsed_s > 0]
    nodes, often = Counter(row.nodes for row in done).most_common(1)[0] if done else (0, 0)
    if often < ENOUGH:
        return None
    times = sorted([row.elapsed_s for row in done if row.nodes == nodes][-_LAST:])
    cut = max(range(1, len(times)), key=lambda i: times[i] / times[i - 1])
    kinds = times[:cut], times[cut:]
    apart = times[cut] >= _APART * times[cut - 1] and 5 * min(map(len, kinds)) >= len(times)
    return kinds if apart else None


def _judged(
    now: NextRun, nodes: Sequence[int], repeats: Mapping[int, int]
) -> list[JudgedPrediction]:
    """Judge each node count; those between counts that were run by interpolation."""
    new = [n for n in nodes if not repeats[n]]
    some: list[int] = []
    for n in new:
        if not some or n >= some[-1] * _STEP or n == new[-1]:
            some.append(n)
    exact = {n: now.judge(n) for n in (*some, *(n for n in nodes if repeats[n]))}
    if len(some) < len(new):
        exact |= _between(now, some, [n for n in new if n not in exact], exact)
    return [exact[n] for n in nodes]


def _between(
    now: NextRun,
    anchors: Sequence[int],
    nodes: Sequence[int],
    exact: Mapping[int, JudgedPrediction],
) -> dict[int, JudgedPrediction]:
    logs = np.log(anchors)
    rows = [exact[n] for n in anchors]
    reach = np.array([(r.low - r.log_s, r.high - r.log_s, r.half, r.width, r.scale) for r in rows])
    interpolated = {}
    columns = [np.interp(np.log(nodes), logs, one).tolist() for one in reach.T]
    for n, low, high, half, width, scale in zip(nodes, *columns, strict=True):
        guesses = now.ask(n)
        first = rows[0]
        log_s = guesses.logs[first.expert]
        assert log_s is not None
        interpolated[n] = JudgedPrediction(
            log_s=log_s,
            low=log_s + low,
            high=log_s + high,
            half=half,
            width=width,
            scale=scale,
            size=first.size,
            expert=first.expert,
            guesses=guesses,
        )
    return interpolated


def _verdict(now: NextRun, judged: JudgedPrediction, fitted: Verdict, *, raising: bool) -> Verdict:
    """Verdict of the fit, as far as the record bears it out."""
    if fitted is Verdict.REFUSED or not now.calibrator.evident(judged):
        return fitted
    if not now.calibrator.reliable(judged):
        return worse(fitted, Verdict.DOUBTFUL)
    earned = judged.guesses.repeats >= REPEATS and judged.size >= ENOUGH
    return Verdict.RELIABLE if earned and raising else fitted


def _predicted(fitted: Prediction, judged: JudgedPrediction, level: float) -> Prediction:
    # The median is what is chosen by: it is no surer than the runs behind it make it.
    runs = min(judged.guesses.repeats, OWN)
    sd = judged.scale / math.sqrt(runs) if runs and judged.size else 0.0
    return to_prediction(judged, fitted.nodes, level, sd=max(fitted.curve_sd, sd))


def _log(p: Prediction) -> tuple[float, float]:
    return math.log(p.time_s), math.log(p.high_s / p.low_s) / 2
