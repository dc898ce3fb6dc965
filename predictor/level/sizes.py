"""Numbers in arguments as sizes of the problem: run time is a product of their powers.

log T = a + sum over k of b_k log(x_k + s_k), with the node count as a covariate of its own; where
no number is chosen, CPUs, tasks and memory asked for are covariates, too, for `nimo:size=`.  The
shift s_k makes it a cost that does not depend on x_k plus one that does (the product form's
constant term). Terms are added one by one while they predict runs that were left out better than
what else is believed of these (leave-one-out from the hat matrix, Cook and Weisberg, *Residuals and
Influence in Regression*, 1982), so five runs are enough where one number explains them. Runs that
went wrong weigh less (Huber's weights).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

import numpy as np
from numpy.typing import NDArray

from predictor.types import SizeTerm
from sacct_ingest.runs.submission import SIZE

Floats = NDArray[np.float64]

#: Terms at most, runs that are looked at, and the fewest of them and of different values.
MOST, RECENT, FEWEST, VALUES = 3, 200, 5, 3
#: Mean accuracy that a term has to add, by how many standard errors, and what is as good.
_GAIN, _SURE, _AS_GOOD = 0.03, 2.5, -0.01
#: Shifts in medians of a number, and the accuracy that one adds to be used.
_SHIFTS, _SHIFTED = (0.1, 0.3, 1.0, 3.0), 0.005
#: Runs that each kind needs for a level of its own.
_OF_KIND = 4
#: Leverage above which a run counts as left out of a fit without it.
_LEVERAGE = 0.9
#: Widest share of runs without a number.
_MISSING = 0.1


@dataclass(frozen=True, slots=True)
class SizedRun:
    """One finished run: what it was asked with, and its log run time."""

    nodes: int
    log_s: float
    numbers: Mapping[str, float]
    counts: tuple[float, ...]  #: of what it asked for: nodes, CPUs, tasks, memory
    values: Mapping[str, str]  #: of the attributes that the application is split by


@dataclass(frozen=True, slots=True)
class _Regression:
    """Coefficients, their variances, and residuals of each run by a fit without it."""

    slopes: Floats
    variances: Floats
    left_out: Floats
    off: Floats  #: by the fit with it


def choose(
    runs: Sequence[SizedRun],
    believed: Sequence[float | None],
    rivals: Sequence[str] = (),
    *,
    resources: bool = False,
) -> tuple[SizeTerm, ...]:
    """Choose the numbers by which run time goes; none where what else is believed is as good.

    runs: in the order of their submission.
    believed: log run time that other rules predicted of each; None: nothing.
    rivals: names whose values other rules tell apart, or that were chosen at the last fit: as
        numbers they only have to be as good.
    resources: CPUs, tasks and memory asked for are covariates beside ``nimo:size=``: tried where
        no number is chosen without them, as after `nimo learn`, which varies several at once.
    """
    runs, believed = runs[-RECENT:], believed[-RECENT:]
    if len(runs) < FEWEST:
        return ()
    columns = _columns(runs)
    log_s = np.array([run.log_s for run in runs])
    base = _kinds(runs, columns)
    if len({run.nodes for run in runs}) > 1:
        base.append(np.log([run.nodes for run in runs]))
    if resources:
        base += _resources(runs)
    chosen: list[tuple[str, float]] = []
    accuracy = _accuracy(_regression(base, log_s))
    while len(chosen) < MOST:
        tried = [
            (_accuracy(_regression([*base, _shifted(column, shift)], log_s)), name, shift)
            for name, column in columns.items()
            if name not in dict(chosen) and not (resources and name != SIZE)
            for shift in (0.0, *(one * float(np.median(column)) for one in _SHIFTS))
        ]
        plain = [one for one in tried if one[2] == 0.0]
        if not plain:
            break
        best = max(tried, key=lambda one: fmean(one[0]) - _SHIFTED * (one[2] > 0))
        if len(runs) < 2 * FEWEST:  # too few for a shift
            best = max(plain, key=lambda one: fmean(one[0]))
        if not _better(best[0], accuracy, _GAIN):
            break
        accuracy, (_, name, shift) = best[0], best
        chosen.append((name, shift))
        base.append(_shifted(columns[name], shift))
    as_good = not set(dict(chosen)).isdisjoint(rivals)
    if not chosen or not _beats(accuracy, believed, log_s, as_good=as_good):
        return () if resources else choose(runs, believed, rivals, resources=True)
    fitted = _regression(base, log_s)
    first = len(base) - len(chosen)
    return tuple(
        SizeTerm(
            name=name,
            exponent=round(float(fitted.slopes[first + i]), 5),
            error=round(math.sqrt(float(fitted.variances[first + i])), 5),
            shift=shift,
            reference=float(np.median(columns[name])),
            low=float(columns[name].min()),
            high=float(columns[name].max()),
        )
        for i, (name, shift) in enumerate(chosen)
    )


def as_references(runs: Sequence[SizedRun], terms: Sequence[SizeTerm]) -> list[float]:
    """Log run time of each run as if its numbers were the references, `RECENT` at most: the last.

    A fit to few runs leaves them nearer than the next one will be: each is moved away from it, and
    no farther for what else was asked for.
    """
    runs = runs[-RECENT:]
    spread = len(runs) / max(len(runs) - len(terms) - 1, 1)
    numbers = [[run.numbers.get(t.name, t.reference) + t.shift for t in terms] for run in runs]
    base = [*_kinds(runs, {term.name for term in terms}), *_resources(runs)]
    fitted = _regression([*base, *np.log(numbers).T], np.array([run.log_s for run in runs]))
    return [
        run.log_s - log_factor(terms, run.numbers) + (spread - 1) * off
        for run, off in zip(runs, fitted.off.tolist(), strict=True)
    ]


def log_factor(terms: Sequence[SizeTerm], numbers: Mapping[str, float]) -> float:
    """Log of the run time over that of a run with all references; missing numbers are these."""
    made = 0.0
    for term in terms:
        number = numbers.get(term.name, term.reference)
        made += term.exponent * math.log((number + term.shift) / (term.reference + term.shift))
    return made


def _beats(
    accuracy: Sequence[float], believed: Sequence[float | None], log_s: Floats, *, as_good: bool
) -> bool:
    """Whether runs are predicted better than by what else is believed of them."""
    pairs = [
        (own, math.exp(-abs(other - float(actual))))
        for own, other, actual in zip(accuracy, believed, log_s, strict=True)
        if other is not None
    ]
    if not pairs:
        return True
    own, others = zip(*pairs, strict=True)
    return _better(own, others, _AS_GOOD if as_good else _GAIN, sure=not as_good)


def _better(
    one: Sequence[float], other: Sequence[float], gain: float, *, sure: bool = True
) -> bool:
    gains = [a - b for a, b in zip(one, other, strict=True)]
    if fmean(gains) <= gain:
        return False
    return not sure or len(gains) < 2 or fmean(gains) > _SURE * stdev(gains) / math.sqrt(len(gains))


def _columns(runs: Sequence[SizedRun]) -> dict[str, Floats]:
    """Give the numbers that nearly all runs have, in several values; missing ones as usual.

    Counts of what was asked for are sizes of the request, not of the problem.
    """
    made = {}
    for name in dict.fromkeys(name for run in runs for name in run.numbers):
        given = [run.numbers.get(name) for run in runs]
        known = [one for one in given if one is not None]
        if len(set(known)) < VALUES or len(known) < (1 - _MISSING) * len(runs):
            continue
        if any(_follows(given, [run.counts[i] for run in runs]) for i in range(3)):
            continue
        usual = median(known)
        made[name] = np.array([usual if one is None else one for one in given])
    return made


def _kinds(runs: Sequence[SizedRun], sized: Collection[str]) -> list[Floats]:
    """Give a column for each kind of run, by values that are no numbers; one if kinds are many."""
    kinds = [tuple(v for name, v in run.values.items() if name not in sized) for run in runs]
    every = list(dict.fromkeys(kinds))
    if len(every) * _OF_KIND > len(runs):
        return [np.ones(len(runs))]
    return [np.array([float(one == kind) for one in kinds]) for kind in every]


def _resources(runs: Sequence[SizedRun]) -> list[Floats]:
    """Give the logs of what runs asked for where it differed."""
    asked = zip(*(run.counts for run in runs), strict=True)
    return [np.log(each) for each in asked if min(each) > 0 and len(set(each)) > 1]


def _follows(values: Sequence[float | None], counts: Sequence[float]) -> bool:
    """Whether a number is a multiple of a count that changes."""
    ratios = {
        round(one / count, 6)
        for one, count in zip(values, counts, strict=True)
        if one is not None and count
    }
    return len(ratios) == 1 and len(set(counts)) > 1


def _shifted(column: Floats, shift: float) -> Floats:
    logs: Floats = np.log(column + shift)
    return logs


def _regression(columns: Sequence[Floats], log_s: Floats) -> _Regression:
    """Least squares, in which runs far off weigh less; what explains nothing is left at zero."""
    x = np.column_stack(columns)
    weights = np.ones(len(log_s))
    for _ in range(3):
        root = np.sqrt(weights)[:, None]
        inverse = np.linalg.pinv(root * x)
        slopes = inverse @ (root[:, 0] * log_s)
        off = log_s - x @ slopes
        width = 2 * max(1.4826 * float(np.median(np.abs(off))), 0.01)
        weights = np.minimum(1.0, width / np.maximum(np.abs(off), 1e-12))
    leverage = np.minimum(np.sum((root * x) * inverse.T, axis=1), _LEVERAGE)
    free = max(len(log_s) - x.shape[1], 1)
    variance = float(weights @ off**2) / free
    spread: Floats = variance * np.sum(inverse**2, axis=1)
    return _Regression(slopes, spread, off / (1 - leverage), off)


def _accuracy(fitted: _Regression) -> list[float]:
    """Accuracy min(p, a) / max(p, a) of each run as predicted without it."""
    accuracies: list[float] = np.exp(-np.abs(fitted.left_out)).tolist()
    return accuracies
