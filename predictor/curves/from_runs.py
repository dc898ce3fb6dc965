"""Runs of one application to a curve: repeats, outliers, runs that were cut off as censored.

Runs may differ in a second size.  Where nodes are counted it is GPUs, tasks or CPUs on each of
them.  Where CPUs or GPUs of the whole job are counted it is how they are laid out: tasks, CPUs for
each task or GPU, or nodes.

The problem behind a curve may have changed over time.  Under one unchanging problem the run times
at one node count come in any order alike.  So the test compares runs before and after each moment
at equal node counts only (ranks within each count, as van Elteren's test combines them, 1960;
Gehan's scores, 1965, where runs were cut short), takes the moment where they differ most (Pettitt,
1979), and asks how often shuffled histories differ as much: an exact test, whatever the noise and
its scale.  It cannot distinguish drift from noise that is itself correlated over days; so a shift
must also be worth mentioning, and larger than the noise.
"""

import math
import statistics
from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predictor.problems import Problem, problem
from predictor.product_limit import ProductLimit
from predictor.sample import Sample
from predictor.types import Curve, Drift, Point

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

#: Variance below which all scores before a split are bound to cancel, but for rounding.
TINY = 1e-12


#: Share of unchanging histories that may be called drifting at a refit.
_FALSE_ALARMS = 0.01
#: Smallest shift of log time worth mentioning, and the fewest runs on each side of it.
LEAST, _SIDE = 0.1, 3
#: Last runs that are looked at, and how often they are shuffled.
_WINDOW, _SHUFFLES = 120, 999
#: Renewed node counts that make a curve of their own.
_ENOUGH = 3
#: Model of two sizes (`predictor.models.two_sizes`).
TWO_SIZES = "two_sizes"


def follow(runs: Sequence[Sample]) -> tuple[list[Sample], Drift | None]:
    """Bring ``runs`` to the level of the newest ones.

    After each shift found, older runs give way to newer ones at the same node count; at other
    counts their times are scaled by the shift, until the newer runs make a curve by themselves.

    Returns tuple: the runs that count, and the last shift, with ``stale`` node counts where older
        runs had to be scaled.
    """
    ordered = sorted(runs, key=lambda run: (started(run), run.nodes, run.elapsed_s, run.censored))
    older = ordered[:-_WINDOW]
    newest = ordered[-_WINDOW:]
    latest: Drift | None = None
    while (shift := _shift(newest)) is not None:
        split = next(i for i, run in enumerate(newest) if started(run) >= shift.since_s)
        older = [*older, *newest[:split]]
        newest = newest[split:]
        latest = shift
        anew = {run.nodes for run in newest if not run.censored}
        older = [
            replace(run, elapsed_s=run.elapsed_s * shift.factor)
            for run in older
            if run.nodes not in anew
        ]
    if latest is None:
        return ordered, None
    renewed = tuple(sorted({run.nodes for run in newest if not run.censored}))
    if len(renewed) >= _ENOUGH:
        return newest, replace(latest, renewed=renewed)
    stale = tuple(sorted({run.nodes for run in older if not run.censored}))
    return [*older, *newest], replace(latest, renewed=renewed, stale=stale)


def drift_problem(drift: Drift) -> Problem:
    """Say what changed, and which run would say most about the new level."""
    facts: dict[str, Any] = {
        "change": "rose" if drift.factor > 1 else "fell",
        "by": abs(drift.factor - 1),
        "when": datetime.fromtimestamp(drift.since_s, UTC).date(),
    }
    if not drift.stale:
        return problem("drift", **facts)
    far = {n: min((abs(math.log(n / k)) for k in drift.renewed), default=0.0) for n in drift.stale}
    observe = max(far, key=lambda n: (far[n], n))
    return problem("drift:scaled", observe, stale=_listed(drift.stale), **facts)


def started(run: Sample) -> float:
    """Start of a run, by which runs are ordered.

    The end would not do: of tasks that start together the shortest ends first.
    """
    return run.end_s - run.elapsed_s


@dataclass(frozen=True, slots=True)
class _Ranked:
    """Runs in the order of their starts, and the moments that may part them.

    ``scores`` are ranks within each node count, centred; runs that were ``cut`` short took longer
    than ``logs``; ``splits`` says how many runs come before each moment, ``deviation`` the standard
    deviation of the scores' sum there, were the order chance.
    """

    logs: Floats
    cut: NDArray[np.bool_]
    strata: Indices
    scores: Floats
    splits: Indices
    deviation: Floats

    def differences(self, scores: Floats) -> Floats:
        """Difference between before and after at each split, in standard deviations."""
        sums: Floats = np.abs(np.cumsum(scores, axis=-1)[..., self.splits - 1])
        return sums / self.deviation


def _shift(runs: Sequence[Sample]) -> Drift | None:
    """Find the moment where the level changed most, unless that may be chance."""
    if len(runs) < 2 * _SIDE or _widest(runs) < LEAST:
        return None
    starts = np.array([started(run) for run in runs])
    ranked = _ranked(runs, starts)
    if not len(ranked.splits):
        return None
    differences = ranked.differences(ranked.scores)
    at = int(ranked.splits[differences.argmax()])
    size, noise = _size(ranked, at)
    # Cheap questions first: most histories need no shuffling.
    if abs(size) < max(LEAST, noise):
        return None
    if _chance(ranked, float(differences.max())) > _FALSE_ALARMS:
        return None
    return Drift(float(starts[at]), float(np.exp(size)), len(runs) - at)


def _widest(runs: Sequence[Sample]) -> float:
    """Log of the widest ratio between runs at one node count: no shift is larger."""
    ends: dict[int, tuple[float, float]] = {}
    for run in runs:
        low, high = ends.get(run.nodes, (run.elapsed_s, run.elapsed_s))
        ends[run.nodes] = min(low, run.elapsed_s), max(high, run.elapsed_s)
    return max(math.log(high / low) for low, high in ends.values())


def _ranked(runs: Sequence[Sample], starts: Floats) -> _Ranked:
    logs = np.log([run.elapsed_s for run in runs])
    cut = np.array([run.censored for run in runs])
    counts, strata = np.unique([run.nodes for run in runs], return_inverse=True)
    scores = np.zeros(len(runs))
    spreads = np.zeros(len(counts))
    for number in range(len(counts)):
        own = strata == number
        longer = _longer(logs[own], cut[own])
        scores[own] = (longer.sum(axis=1) - longer.sum(axis=0)) / (len(longer) + 1)
        spreads[number] = scores[own].var(ddof=1) if len(longer) > 1 else 0.0
    before = np.cumsum(strata[:, None] == np.arange(len(counts)), axis=0)
    # Of m runs c are drawn without replacement: the variance of their sum is c (1 - c/m) s².
    variance = (before * (1 - before / before[-1])) @ spreads
    parted = np.arange(_SIDE, len(runs) - _SIDE + 1)
    parted = parted[(starts[parted] > starts[parted - 1]) & (variance[parted - 1] > TINY)]
    return _Ranked(logs, cut, strata, scores, parted, np.sqrt(variance[parted - 1]))


def _longer(logs: Floats, cut: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether run i surely took longer than run j.

    No run is surely longer than a run that was cut short; to be cut short after the whole
    time of another is to have taken longer.
    """
    above = logs[:, None] > logs
    longer: NDArray[np.bool_] = ~cut & (above | (cut[:, None] & (logs[:, None] == logs)))
    return longer


def _size(ranked: _Ranked, at: int) -> tuple[float, float]:
    """Shift of log time at a split, and the spread of one run around its level."""
    after = np.arange(len(ranked.logs)) >= at
    steps = []
    rest = []
    for number in np.unique(ranked.strata):
        own = ranked.strata == number
        old = np.flatnonzero(own & ~after)
        new = np.flatnonzero(own & after)
        steps.append(_steps(ranked, old, new))
        finished = (ranked.logs[side[~ranked.cut[side]]] for side in (old, new))
        rest += [abs(logs - np.median(logs)) for logs in finished if len(logs) > 1]
    every = np.concatenate(steps)
    # Hodges and Lehmann's estimate: the median of all differences.
    size = float(np.median(every)) if len(every) else 0.0
    return size, 1.4826 * float(np.median(np.concatenate(rest))) if rest else 0.0


def _steps(ranked: _Ranked, old: Indices, new: Indices) -> Floats:
    """Differences of log time; of runs cut short only those that bound them away from zero."""
    steps = ranked.logs[new][:, None] - ranked.logs[old]
    new_cut = ranked.cut[new][:, None]
    old_cut = ranked.cut[old]
    open_ended = (new_cut & (steps < 0)) | (old_cut & (steps > 0)) | (new_cut & old_cut)
    return steps[~open_ended]


def _chance(ranked: _Ranked, observed: float) -> float:
    """Share of shuffled histories that differ somewhere as much as ``observed``."""
    random = np.random.default_rng(0)
    # Keys sort by node count, and at random within it.
    keys = ranked.strata + random.random((_SHUFFLES, len(ranked.strata)))
    shuffled = np.empty_like(keys)
    grouped = ranked.scores[np.argsort(ranked.strata, kind="stable")]
    np.put_along_axis(shuffled, np.argsort(keys, axis=1), grouped[None, :], axis=1)
    most = ranked.differences(shuffled).max(axis=1)
    return float((1 + np.count_nonzero(most >= observed * (1 - 1e-9))) / (1 + _SHUFFLES))


def _listed(numbers: Sequence[int]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)} and {last}" if most else last


@dataclass(frozen=True, slots=True)
class OtherSizes:
    """Runs of the other second sizes, beside those of ``each``."""

    each: int
    runs: tuple[tuple[int, tuple[Sample, ...]], ...]
    in_all: bool = False  #: the first size counts the whole job

    def curve(self, own: Curve, settings: "CurveSettings") -> Curve:
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


def build(runs: Iterable[Sample], settings: "CurveSettings | None" = None) -> Curve:
    """Curve of ``runs``: the typical time at each node count, as ADEPT asks (section V.B).

    Repeats at one node count are reduced to one point, so that a count that was run often does
    not outweigh the others.  Runs that were cut off take part as censored observations: the
    median is that of the product-limit estimate (Kaplan and Meier, 1958); where it is undefined
    the node count goes to ``Curve.censored`` with the longest time survived.

    Recent runs weigh more: at each node count only the last ones count and the newest of them
    twice, and where the level of run times changed only those since (see
    :mod:`predictor.curves.from_runs`).

    runs: finished runs and runs that were cut off.
    """
    chosen = settings or CurveSettings()
    points = []
    censored = []
    every = list(runs)
    level, drift = follow(every)
    for nodes, group in sorted(_by_nodes(level).items()):
        inliers = _without_outliers(_latest(group, chosen), chosen)
        newest = inliers[-chosen.newest :] if len(inliers) > chosen.newest else []
        counted = [(run.elapsed_s, run.censored) for run in (*inliers, *newest)]
        median = ProductLimit.of(counted).median()
        if median is None:
            longest = max(run.elapsed_s for run in inliers)
            censored.append(Point(nodes, longest, len(inliers)))
        else:
            finished = sum(not run.censored for run in inliers)
            points.append(Point(nodes, median, finished, _spread(inliers)))
    # Also from before the level changed: it may change again.
    recent = (_latest(group, chosen) for _, group in sorted(_by_nodes(every).items()))
    surprises = tuple(chain.from_iterable(map(_surprises, recent)))
    return Curve(tuple(points), tuple(censored), chosen.resolution_s, drift, surprises)


def _latest(group: list[Sample], settings: "CurveSettings") -> list[Sample]:
    """Last runs that finished, with all that were cut off since: these crowd none of them out."""
    ordered = sorted(group, key=lambda run: (run.end_s, run.elapsed_s, run.censored))
    finished = [place for place, run in enumerate(ordered) if not run.censored]
    if len(finished) > settings.recent:
        return ordered[finished[-settings.recent] :]
    return ordered


def _by_nodes(runs: Iterable[Sample]) -> dict[int, list[Sample]]:
    groups = defaultdict(list)
    for run in runs:
        groups[run.nodes].append(run)
    return groups


def _without_outliers(runs: list[Sample], settings: "CurveSettings") -> list[Sample]:
    """Drop finished runs far from the median of log time, by the modified z-score; needs three."""
    logs = [math.log(run.elapsed_s) for run in runs if not run.censored]
    if len(logs) < 3:
        return runs
    centre = statistics.median(logs)
    mad = statistics.median(abs(log - centre) for log in logs)
    # 1.4826 MAD estimates the standard deviation of a normal sample.
    reach = settings.outlier_score * max(1.4826 * mad, settings.noise)
    return [run for run in runs if run.censored or abs(math.log(run.elapsed_s) - centre) <= reach]


def _surprises(runs: Sequence[Sample]) -> Iterator[float]:
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


def _spread(runs: Sequence[Sample]) -> float:
    logs = [math.log(run.elapsed_s) for run in runs if not run.censored]
    return statistics.stdev(logs) if len(logs) > 1 else 0.0
