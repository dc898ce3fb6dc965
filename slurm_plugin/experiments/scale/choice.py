"""Which count a study runs next, and what it recommends: pure, by the present fit.

A count's cost is its run time squared over its speedup's worth, ``n T(n)²`` with one problem and
``T(n)²/n`` where the problem grows with the count: the least has the most speedup for its
efficiency (S²/n; Eager, Zahorjan, Lazowska, *Speedup versus efficiency*, 1989).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from predictor.curves import from_runs as curve
from predictor.models.averaged.model import Averaged, AveragedFit
from predictor.models.selection import MIN_POINTS
from predictor.types import Prediction, Run

#: The next run would not change the answer: what the count is expected to cost over the best.
SETTLED = 0.02
#: A count that is best in fewer draws is not asked about.
_PLAUSIBLE = 0.05
_MOST_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """The recommended count, what it is expected to cost over the best, and all predictions."""

    count: int
    regret: float
    predictions: tuple[Prediction, ...]


@dataclass(frozen=True, slots=True)
class Next:
    """The next count to run, and why."""

    count: int
    why: str


def fitted(runs: Sequence[Run]) -> AveragedFit | None:
    """Fit the runs of a study; None: of fewer than three counts."""
    drawn = curve.build(runs)
    return Averaged().fit(drawn) if len(drawn.points) >= MIN_POINTS else None


def answer_of(fit: AveragedFit, counts: Sequence[int], *, weak: bool) -> Answer:
    """Recommend one of the counts.

    counts: node counts (or CPUs, GPUs), rising.
    weak: whether the problem grows with the count.
    """
    costs = _costs(fit, counts, weak=weak)
    over = costs / costs.min(axis=0) - 1
    best = int(over.mean(axis=1).argmin())
    return Answer(counts[best], float(over[best].mean()), tuple(fit.predict(counts)))


def next_count(
    runs: Sequence[Run],
    counts: Sequence[int],
    closed: Collection[int],
    *,
    open_counts: Collection[int] = (),
    weak: bool = False,
) -> Next | None:
    """Choose the next count to run; None: nothing more is to be learned.

    runs: those that ended; stopped by their limit: censored.
    counts: all counts of the study, rising.
    closed: counts that failed, or that may not be run.
    open_counts: counts that run at present.
    """
    left = [n for n in counts if n not in closed and n not in open_counts]
    done = {run.nodes for run in runs}
    fit = fitted(runs)
    if open_counts and (fit or len(done | {*open_counts}) >= MIN_POINTS):
        return None  # what runs already will tell
    if fit is None:
        return _spread([n for n in left if n not in done], counts, done | {*open_counts, *closed})
    allowed = [n for n in counts if n not in closed]
    if not allowed:
        return None
    found = answer_of(fit, allowed, weak=weak)
    repeats = {n: sum(run.nodes == n for run in runs) for n in counts}
    if found.regret < SETTLED:
        # A second run shows how noisy run times are: without one no fit can tell.
        wanted = found.count in left and repeats[found.count] < 2
        why = "a second run shows the noise" if repeats[found.count] else "recommended, not run yet"
        return Next(found.count, why) if wanted else None
    candidates = [n for n in left if repeats[n] < _MOST_REPEATS]
    if not candidates:
        return None
    costs = _costs(fit, allowed, weak=weak)
    share = np.bincount(costs.argmin(axis=0), minlength=len(allowed)) / costs.shape[1]
    targets = [n for n, part in zip(allowed, share, strict=True) if part >= _PLAUSIBLE]
    chosen = fit.most_informative(candidates, targets or allowed)
    return Next(chosen, "tells most about which count is best")


def _spread(left: Sequence[int], counts: Sequence[int], tried: Collection[int]) -> Next | None:
    """First counts: the middle, the largest, the smallest, which takes longest; then the gaps."""
    if not left:
        return None
    middle = min(counts, key=lambda n: abs(log(n * n / (counts[0] * counts[-1]))))
    for n in (middle, counts[-1], counts[0]):
        if n in left:
            return Next(n, "the first of a curve")
    far = max(left, key=lambda n: min(abs(log(n / one)) for one in tried))
    return Next(far, "farthest from what was run")


def _costs(fit: AveragedFit, counts: Sequence[int], *, weak: bool) -> NDArray[np.float64]:
    """Cost of each count, a row, in each draw of what the run times may be, a column."""
    size = np.log(np.asarray(counts, dtype=float))[:, None]
    drawn = fit.posterior.draws(np.asarray(counts, dtype=float))
    logs = drawn.mean + np.sqrt(drawn.variance) * drawn.unit
    return np.asarray(np.exp(2 * logs + (-size if weak else size)))
