"""The prediction table of a curve: run times, verdicts and high quantiles on each node count.

On node counts that were run the expert with the better record predicts; inside and beyond the
observed range the curve, at the level of the counts beside it that were run.  Intervals are as wide
as the record asks for, and a verdict is what the last predictions earned: a smooth curve alone
counts only as long as there is no record of it.
"""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, exp, inf, isfinite, isnan, log
from statistics import median

import numpy as np

from predictor.checks import LARGEST, need_finite, need_nodes, need_positive, need_share
from predictor.curves.from_runs import drift_problem
from predictor.curves.reliability import ReliabilitySettings
from predictor.level import backtest
from predictor.level.backtest import ExpertPanel, NextRun
from predictor.level.calibration import BacktestSettings, JudgedPrediction
from predictor.level.experts import Around
from predictor.level.record import ENOUGH, OWN, Record
from predictor.models import base, selection
from predictor.models.selection import Choice
from predictor.prediction_table import PredictionTable, Tail
from predictor.problems import Problem, problem
from predictor.sample import Sample
from predictor.table import BY_TRUST, round_time, table_of, worse
from predictor.tables.settings import TableSettings
from predictor.types import Curve, Prediction, Verdict
from sacct_ingest.records import JobState
from sacct_ingest.store.rows import RunRow
from sacct_ingest.text.durations import duration_text

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
#: Fits that are shared: those of an identity's parts, and of its node types.
_FITS = 32


def panel_of(
    choice: Choice, fitted: Sequence[Prediction], runs: Sequence[Sample], around: Around
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


@dataclass(frozen=True, slots=True)
class CurveFit:
    """What a fit says by itself, on rising node counts."""

    choice: Choice
    predictions: list[Prediction]
    verdicts: tuple[Verdict, ...]
    problems: tuple[Problem, ...]
    quantiles: list[list[float]]  #: a row for each share of runs
    panel: ExpertPanel  #: what :func:`panel_of` made of the runs


def earn(
    fit: CurveFit, runs: Sequence[Sample], record: Record, settings: TableSettings
) -> tuple[list[Prediction], tuple[Verdict, ...], tuple[Problem, ...]]:
    """Predictions, intervals and verdicts that the record of an identity allows.

    With what the record says against them.

    runs: all that finished or were cut short.
    """
    fitted = fit.predictions
    verdicts = fit.verdicts
    drift = fit.choice.curve.drift
    runs = _at_level(fit.choice, runs)
    level = settings.confidence
    now = NextRun(fit.panel, record, settings.pooled, settings.backtest, level=level)
    repeats = Counter(run.nodes for run in runs if not run.censored)
    nodes = [p.nodes for p in fitted]
    # Those between counts that were run by interpolation.
    new = [n for n in nodes if not repeats[n]]
    some: list[int] = []
    for n in new:
        if not some or n >= some[-1] * _STEP or n == new[-1]:
            some.append(n)
    exact = {n: now.judge(n) for n in (*some, *(n for n in nodes if repeats[n]))}
    if len(some) < len(new):
        exact |= _between(now, some, [n for n in new if n not in exact], exact)
    judged = [exact[n] for n in nodes]
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
    return predictions, earned, recall(record) if lowered else ()


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
        else Prediction(p.nodes, by * p.time_s, by * p.low_s, by * p.high_s, p.level, p.curve_sd)
        for (f, p), by in zip(pairs, factors, strict=True)
    ]


def _no_surer_than_beside(
    predictions: Sequence[Prediction], verdicts: tuple[Verdict, ...], repeats: Mapping[int, int]
) -> tuple[list[Prediction], tuple[Verdict, ...]]:
    """Widen what was never run to the narrower of the counts beside it that were."""
    ran = [i for i, p in enumerate(predictions) if repeats[p.nodes]]
    wider = list(predictions)
    lower = list(verdicts)
    for i, p in enumerate(predictions):
        if repeats[p.nodes] or not ran:
            continue
        after = bisect_left(ran, i)
        beside = ran[max(after - 1, 0) : after + 1]
        near = [predictions[j] for j in beside]
        low_s = max(one.low_s / one.time_s for one in near) * p.time_s
        high_s = min(one.high_s / one.time_s for one in near) * p.time_s
        if low_s < p.low_s or high_s > p.high_s:
            wider[i] = replace(p, low_s=min(p.low_s, low_s), high_s=max(p.high_s, high_s))
        best = min((verdicts[j] for j in beside), key=BY_TRUST.index)
        lower[i] = worse(lower[i], best)
    return wider, tuple(lower)


def _at_level(choice: Choice, runs: Sequence[Sample]) -> list[Sample]:
    """Leave out runs at another level: the curve has moved them, and history has not.

    Where none has finished at the present one they stay: there is no other level.
    """
    drift = choice.curve.drift
    present = [run for run in runs if drift is None or run.nodes not in drift.stale]
    return present if any(not run.censored for run in present) else [*runs]


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
        half = errors[len(errors) // 2]
        quarter = errors[len(errors) // 4]
        alike = half <= _HALF_OFF and quarter <= _QUARTER_OFF
    if alike:
        return ()
    app = _NO_NAME.sub("-", name) or "NAME"
    if parted is None:
        return (problem("not_one_problem", app=app),)
    short, long = parted
    counts = {"few": len(short), "many": len(long), "runs": len(short) + len(long)}
    times = {"short": duration_text(median(short)), "long": duration_text(median(long))}
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


def curve_table(
    drawn: Curve, runs: Sequence[Sample], settings: TableSettings, record: Record
) -> PredictionTable:
    """Table of a curve, whose predictions and verdicts its record corrects.

    drawn: curve of ``runs``.
    record: what became of earlier predictions.
    """
    nodes = grid([p.nodes for p in selection.shown_of(drawn).points], settings)
    shares = tuple(sorted(set(settings.tails)))
    fit = _fit(
        drawn,
        tuple(runs),
        settings.backtest,
        tuple(nodes),
        shares,
        settings.confidence,
        settings.reliability,
    )
    if (drawn.drift and drawn.drift.stale) or selection.is_of_two_sizes(drawn):
        verdicts = tuple(worse(verdict, Verdict.DOUBTFUL) for verdict in fit.verdicts)
        fit = replace(fit, verdicts=verdicts)
    predictions, earned, against = earn(fit, runs, record, settings)
    drifted = (drift_problem(drawn.drift),) if drawn.drift else ()
    # By the fit alone: the level of the last runs on one count is no scaling.
    times = [p.time_s for p in fit.predictions]
    return replace(
        table_of(predictions, earned, settings.confidence),
        model=fit.choice.fit.model,
        problems=(*drifted, *against, *fit.problems),
        observed=drawn.points,
        tails=tails_of(predictions, shares, fit.choice.curve.surprises, fit.quantiles),
        knee=knee_of(nodes, times),
        max_useful=max_useful_of(nodes, times),
    )


@lru_cache(maxsize=_FITS)
def _fit(
    drawn: Curve,
    runs: tuple[Sample, ...],
    backtest: BacktestSettings,
    nodes: tuple[int, ...],
    shares: tuple[float, ...],
    confidence: float,
    reliable: ReliabilitySettings,
) -> CurveFit:
    """Fit a curve; no record has a say here, so that two tables of one curve share it."""
    choice = selection.fit_curve(drawn, backtest.model)
    fitted = choice.predict(nodes, confidence)
    rows = base.quantiles(choice.fit, nodes, shares).tolist()
    panel = panel_of(choice, fitted, runs, backtest.around)
    return CurveFit(choice, fitted, *choice.judge(fitted, reliable), rows, panel)


def tails_of(
    predictions: Sequence[Prediction],
    shares: Sequence[float],
    surprises: Sequence[float],
    quantiles: Sequence[Sequence[float]],
) -> tuple[Tail, ...]:
    """High quantiles: those given, or what repeated runs surprised by where that is more.

    Only repeats show that an identity is one problem, and a limit stops those that are
    another one: there is no quantile with fewer than its share of them needs.

    shares: of runs, above one half, rising.
    surprises: see :class:`predictor.types.Curve`.
    quantiles: a row for each share, in seconds on each of the counts predicted.
    """
    return tuple(
        Tail(
            share,
            tuple(
                round_time(max(t, factor * p.time_s, p.high_s * (share > 0.5 + p.level / 2)))
                for t, p in zip(row, predictions, strict=True)
            ),
        )
        for share, row in zip(shares, quantiles, strict=True)
        if isfinite(factor := surprise_factor(surprises, share, least=shares[0]))
    )


def surprise_factor(surprises: Sequence[float], share: float, *, least: float) -> float:
    """Factor on a median that ``share`` of new runs stay below, by how earlier ones surprised.

    Split conformal prediction (Vovk et al., *Algorithmic Learning in a Random World*, 2005, section
    4.1); where there are too few for so high a share, the largest one seen.  Infinite where there
    are too few for ``least``, too.  A surprise is infinite where the run was cut short.

    >>> surprise_factor([0.0] * 8, 0.9, least=0.9), surprise_factor([0.0] * 9, 0.99, least=0.9)
    (inf, 1.0)
    """
    need_share("share", share, least)
    if any(isnan(surprise) for surprise in surprises):
        raise ValueError("a surprise is nan: it must be a number, or inf for a run cut short")
    count = len(surprises)
    # The largest of so many is exceeded by one in (count + 1) new ones.
    if count + 1 < 1 / (1 - least) - 1e-9:
        return inf
    surprise = sorted(surprises)[min(ceil((count + 1) * share), count) - 1]
    return exp(surprise) if surprise < log(LARGEST) else inf


def grid(observed: Sequence[int], settings: TableSettings) -> list[int]:
    """Node counts of a table: each one at first, then in equal ratios, and all observed."""
    need_nodes(observed)
    end = settings.reach * max(observed)
    counts = set(range(1, min(settings.every_up_to, end) + 1)) | set(observed) | {end}
    ratio = 2 ** (1 / settings.per_doubling)
    nodes = float(settings.every_up_to)
    while (nodes := nodes * ratio) < end:
        counts.add(round(nodes))
    return sorted(counts)


def knee_of(nodes: Sequence[int], times: Sequence[float]) -> int | None:
    """Processor working set: the node count with the highest S²/n (ADEPT, section III.B).

    None where it rises to the end.
    """
    _need_curve(nodes, times)
    best = min(zip(nodes, times, strict=True), key=lambda pair: pair[0] * pair[1] ** 2)[0]
    return best if best < nodes[-1] else None


def max_useful_of(nodes: Sequence[int], times: Sequence[float]) -> int | None:
    """Fewest nodes within one percent of the shortest time; None where time falls to the end."""
    _need_curve(nodes, times)
    enough = min(times) * 1.01
    fewest = next(n for n, t in zip(nodes, times, strict=True) if t <= enough)
    return fewest if fewest < nodes[-1] else None


def _need_curve(nodes: Sequence[int], times: Sequence[float]) -> None:
    need_nodes(nodes)
    need_positive("run time in seconds", *times)
