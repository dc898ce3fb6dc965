"""Runs of one application to a curve: repeats, outliers, time limits as censored.

Runs may differ in a second size.  Where nodes are counted it is GPUs, tasks or CPUs on each of
them.  Where CPUs or GPUs of the whole job are counted it is how they are laid out: tasks, CPUs for
each task or GPU, or nodes.
"""

from __future__ import annotations

import math
import statistics
from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from predictor.curves.drift import follow
from predictor.types import Curve, Point, Run

#: Model of two sizes (`predictor.models.two_sizes`).
TWO_SIZES = "two_sizes"


@dataclass(frozen=True, slots=True)
class OtherSizes:
    """Runs of the other second sizes, beside those of ``each``."""

    each: int
    runs: tuple[tuple[int, tuple[Run, ...]], ...]
    in_all: bool = False  #: the first size counts the whole job

    def curve(self, own: Curve, settings: CurveSettings) -> Curve:
        """Curve of these runs' own second size, with those of the others."""
        others = tuple(replace(build(runs, settings), each=k) for k, runs in self.runs)
        return replace(own, each=self.each, others=others, in_all=self.in_all)


@dataclass(frozen=True, slots=True)
class CurveSettings:
    """How repeats become one point.

    ``outlier_score`` is the modified z-score above which a repeat is an outlier (Iglewicz and
    Hoaglin, *How to Detect and Handle Outliers*, 1993, recommend 3.5).  ``noise`` is the spread of
    log time below which repeats count as equal, so that two runs that agree by chance do not make
    an outlier of a third.  ``recent`` is how many of the last runs of a node count are looked at,
    and ``newest`` how many of those, at the end, count twice.
    ``resolution_s`` is the unit of the accounting's clock: sacct counts whole seconds.
    """

    outlier_score: float = 3.5
    noise: float = 0.02
    recent: int = 30
    newest: int = 10
    resolution_s: float = 1.0


def build(runs: Iterable[Run], settings: CurveSettings | None = None) -> Curve:
    """Curve of ``runs``: the typical time at each node count, as ADEPT asks (section V.B).

    Repeats at one node count are reduced to one point, so that a count that was run often does
    not outweigh the others.  Runs stopped by their limit take part as censored observations: the
    median is that of the product-limit estimate (Kaplan and Meier, 1958); where it is undefined
    the node count goes to ``Curve.censored`` with the longest time survived.

    Recent runs weigh more: at each node count only the last ones count and the newest of them
    twice, and where the level of run times changed only those since (see
    :mod:`predictor.curves.drift`).

    runs: finished runs and runs stopped by their time limit; runs without nodes or time are
        ignored.
    """
    chosen = settings or CurveSettings()
    points, censored = [], []
    usable = [run for run in runs if run.nodes > 0 and run.elapsed_s > 0]
    level, drift = follow(usable)
    for nodes, group in sorted(_by_nodes(level).items()):
        inliers = _without_outliers(_latest(group, chosen), chosen)
        newest = inliers[-chosen.newest :] if len(inliers) > chosen.newest else []
        median = censored_median([*inliers, *newest])
        if median is None:
            longest = max(run.elapsed_s for run in inliers)
            censored.append(Point(nodes, longest, len(inliers)))
        else:
            points.append(Point(nodes, median, len(inliers), _spread(inliers)))
    return Curve(
        tuple(points),
        tuple(censored),
        chosen.resolution_s,
        drift,
        # Also from before the level changed: it may change again.
        tuple(chain.from_iterable(map(_surprises, _recent(usable, chosen)))),
    )


def censored_median(runs: Sequence[Run]) -> float | None:
    """Median run time in seconds, where some runs were cut short; None where it cannot be computed.

    >>> censored_median([Run(4, 10.0), Run(4, 12.0), Run(4, 11.0, censored=True)])
    12.0
    """
    survival, at_risk, half = 1.0, len(runs), None
    # At equal times a finished run counts before a stopped one (the estimator's convention).
    for run in sorted(runs, key=lambda run: (run.elapsed_s, run.censored)):
        if not run.censored:
            survival *= 1 - 1 / at_risk
            if half is not None:
                return (half + run.elapsed_s) / 2
            if survival < 0.5 - 1e-12:
                return run.elapsed_s
            if survival < 0.5 + 1e-12:
                half = run.elapsed_s
        at_risk -= 1
    return None


def _latest(group: list[Run], settings: CurveSettings) -> list[Run]:
    ordered = sorted(group, key=lambda run: (run.end_s, run.elapsed_s, run.censored))
    return ordered[-settings.recent :]


def _recent(runs: Iterable[Run], settings: CurveSettings) -> Iterator[list[Run]]:
    return (_latest(group, settings) for _, group in sorted(_by_nodes(runs).items()))


def _by_nodes(runs: Iterable[Run]) -> dict[int, list[Run]]:
    groups = defaultdict(list)
    for run in runs:
        groups[run.nodes].append(run)
    return groups


def _without_outliers(runs: list[Run], settings: CurveSettings) -> list[Run]:
    """Drop finished runs far from the median of log time, by the modified z-score; needs three."""
    logs = [math.log(run.elapsed_s) for run in runs if not run.censored]
    if len(logs) < 3:
        return runs
    centre = statistics.median(logs)
    mad = statistics.median(abs(log - centre) for log in logs)
    # 1.4826 MAD estimates the standard deviation of a normal sample.
    reach = settings.outlier_score * max(1.4826 * mad, settings.noise)
    return [run for run in runs if run.censored or abs(math.log(run.elapsed_s) - centre) <= reach]


def _surprises(runs: Sequence[Run]) -> Iterator[float]:
    """How far each run was from what the earlier ones let expect, outliers included."""
    earlier: list[float] = []
    for run in runs:
        typical = statistics.median(earlier) if earlier else math.inf
        if not run.censored:
            insort(earlier, run.elapsed_s)
        if not earlier or typical == math.inf:
            continue
        if not run.censored:
            yield math.log(run.elapsed_s / typical)
        elif run.elapsed_s > typical:
            yield math.inf


def _spread(runs: Sequence[Run]) -> float:
    logs = [math.log(run.elapsed_s) for run in runs if not run.censored]
    return statistics.stdev(logs) if len(logs) > 1 else 0.0
