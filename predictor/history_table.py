"""The prediction table of runs without a curve: a history of run times on each node count."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import exp

from predictor import choose, walk
from predictor.earned import REPEATS, told_as
from predictor.judgement import Judged
from predictor.record import Record
from predictor.table import round_time, table_of
from predictor.table_settings import TableSettings
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

    Parameters
    ----------
    record
        What became of earlier predictions.
    """
    same = level in CURVE_LEVELS
    recent = walk.in_order(runs)[-settings.recent :]
    now = walk.Now(
        recent, record, settings.site, settings.walk, same=same, level=settings.confidence
    )
    counts = Counter(run.nodes for run in recent if not run.censored)
    seen = sorted(counts)
    nodes = _around(seen, settings) if same else seen
    judged = [now.judge(n) for n in nodes]
    problem = _no_curve(seen) if same else _not_one_problem(level)
    rows = list(zip(judged, nodes, strict=True))
    return replace(
        table_of(
            [told_as(one, n, settings.confidence) for one, n in rows],
            tuple(_of_count(now, one, counts[n], same=same) for one, n in rows),
            settings.confidence,
        ),
        model=HISTORY,
        problems=(problem,),
        observed=tuple(
            Point(n, round_time(exp(one.log_s)), counts[n]) for one, n in rows if counts[n]
        ),
        at_limits=tuple(
            _at_limit(limit_s, [now.judge(n, limit_s) for n in nodes])
            for limit_s in _limits(recent, settings)
        ),
    )


def _around(seen: Sequence[int], settings: TableSettings) -> list[int]:
    """Node counts of one application without a curve: those that were run, and doublings around."""
    counts, low, high = set(seen), seen[0] / settings.reach, seen[-1] * settings.reach
    counts |= {round(n * 2.0**k) for n in seen for k in range(-4, 5)}
    return sorted(n for n in counts if n >= 1 and low <= n <= high)


def _of_count(now: walk.Now, judged: Judged, repeats: int, *, same: bool) -> Verdict:
    """Verdict on a count of a history: runs there and the record have to speak for it."""
    if repeats < 2:
        return Verdict.REFUSED
    if same and repeats >= REPEATS and now.voice.evident(judged) and now.voice.reliable(judged):
        return Verdict.RELIABLE
    return Verdict.DOUBTFUL


def _limits(runs: Sequence[Run], settings: TableSettings) -> list[float]:
    """Time limits told apart, the last one asked for first; a single one needs no telling."""
    asked = dict.fromkeys(
        run.limit_s for run in reversed(runs) if run.limit_s > 0 and not run.censored
    )
    return list(asked)[: settings.limits] if len(asked) > 1 else []


def _at_limit(limit_s: float, judged: Sequence[Judged]) -> AtLimit:
    return AtLimit(
        limit_s,
        tuple(round_time(exp(one.log_s)) for one in judged),
        tuple(round_time(exp(one.low)) for one in judged),
        tuple(round_time(exp(one.high)) for one in judged),
    )


def _no_curve(seen: Sequence[int]) -> Problem:
    """One count asks for twice as many; two ask for the same step once more, or between them."""
    if len(seen) == 1:
        observe = 2 * seen[0]
    elif seen[1] >= 4 * seen[0]:
        observe = round((seen[0] * seen[1]) ** 0.5)
    else:
        observe = max(2 * seen[1], 4 * seen[0])
    told = " and ".join(map(str, seen))
    text = f"finished runs on {told} nodes only; a curve needs {choose.MIN_POINTS} node counts"
    return Problem("no_curve", text, observe)


def _not_one_problem(level: KeyLevel) -> Problem:
    told = "the user" if level is KeyLevel.USER else "user and job name"
    return Problem("no_identity", f"recognised by {told} only, which may stand for many problems")
