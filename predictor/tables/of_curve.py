"""The prediction table of a curve: run times, verdicts and high quantiles on each node count."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import ceil, exp, inf, isfinite, isnan, log

from predictor.checks import LARGEST, need_nodes, need_positive, need_share
from predictor.curves import drift
from predictor.curves.reliability import ReliabilitySettings
from predictor.level.backtest import ExpertPanel
from predictor.level.calibration import BacktestSettings
from predictor.level.record import Record
from predictor.models import base, selection
from predictor.table import round_time, table_of, worse
from predictor.tables.settings import TableSettings
from predictor.tables.verdicts import earn, panel_of
from predictor.types import Curve, Prediction, PredictionTable, Problem, Run, Tail, Verdict

#: Fits that are shared: those of an identity's parts, and of its node types.
_FITS = 32


def curve_table(
    drawn: Curve, runs: Sequence[Run], settings: TableSettings, record: Record
) -> PredictionTable:
    """Table of a curve, whose predictions and verdicts its record corrects.

    drawn: curve of ``runs``.
    record: what became of earlier predictions.
    """
    nodes = grid([p.nodes for p in selection.shown_of(drawn).points], settings)
    shares = tuple(sorted(set(settings.tails)))
    choice, fitted, (verdicts, problems), quantiles, panel = _fit(
        drawn,
        tuple(runs),
        settings.backtest,
        tuple(nodes),
        shares,
        settings.confidence,
        settings.reliability,
    )
    if (drawn.drift and drawn.drift.stale) or selection.is_of_two_sizes(drawn):
        verdicts = tuple(worse(verdict, Verdict.DOUBTFUL) for verdict in verdicts)
    columns = earn(choice, fitted, verdicts, runs, panel, record, settings)
    drifted = (drift.drift_problem(drawn.drift),) if drawn.drift else ()
    # By the fit alone: the level of the last runs on one count is no scaling.
    times = [p.time_s for p in fitted]
    return replace(
        table_of(columns.predictions, columns.verdicts, settings.confidence),
        model=choice.fit.model,
        problems=(*drifted, *columns.problems, *problems),
        observed=drawn.points,
        tails=_tails(quantiles, choice.curve.surprises, columns.predictions, shares),
        knee=knee_of(nodes, times),
        max_useful=max_useful_of(nodes, times),
    )


_Rows = list[list[float]]
_Verdicts = tuple[tuple[Verdict, ...], tuple[Problem, ...]]


@lru_cache(maxsize=_FITS)
def _fit(
    drawn: Curve,
    runs: tuple[Run, ...],
    backtest: BacktestSettings,
    nodes: tuple[int, ...],
    shares: tuple[float, ...],
    confidence: float,
    reliable: ReliabilitySettings,
) -> tuple[selection.Choice, list[Prediction], _Verdicts, _Rows, ExpertPanel]:
    """Fit a curve; no record has a say here, so that two tables of one curve share it."""
    choice = selection.fit_curve(drawn, backtest.model)
    fitted = choice.predict(nodes, confidence)
    rows: _Rows = base.quantiles(choice.fit, nodes, shares).tolist()
    panel = panel_of(choice, fitted, runs, backtest.around)
    return choice, fitted, choice.judge(fitted, reliable), rows, panel


def _tails(
    quantiles: _Rows,
    surprises: Sequence[float],
    predictions: Sequence[Prediction],
    shares: Sequence[float],
) -> tuple[Tail, ...]:
    """High quantiles: those of the fit, or what repeated runs surprised by where that is more.

    Only repeats show that an identity is one problem, and a limit stops those that are
    another one: there is no quantile with fewer than its share of them needs.
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
    ratio, nodes = 2 ** (1 / settings.per_doubling), float(settings.every_up_to)
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
