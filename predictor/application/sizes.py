"""Which of the numbers that jobs name are sizes of the problem.

Numbers stand in arguments, variables and tags.  Which of them run time goes by is found by adding
one after the other to a regression of log run time.  With these run time is fitted by a family of
forms (:mod:`predictor.application.family`), which is used only where it predicts runs without them
better than what else is believed.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

import numpy as np

from predictor.application.family import Family, fit_family
from predictor.application.least_squares import Floats
from predictor.sample import Sample
from sacct_ingest.runs.submission import SIZE

#: Sizes at most.
MOST = 4
#: Runs that are looked at, the last ones.
RECENT = 200
#: Fewest of them.
FEWEST = 5
#: Fewest different values of a size.
VALUES = 3
#: Mean accuracy that a family has to add, and by how many standard errors.
_GAIN = 0.03
_SURE = 2.5
#: What is enough for rivals.
_GAIN_OF_RIVALS = 0.02
#: Below so many runs these cannot be as sure, and other rules say little by then: less is enough.
FEW = 24
_GAIN_OF_FEW = 0.02
_SURE_OF_FEW = 1.0
#: The same of a further size: the family as a whole has to be sure.
_ADDS = 0.005
_ADDS_SURE = 1.0
#: Runs that each kind needs for a level of its own.
_OF_KIND = 4
#: Leverage above which a run counts as left out of a fit without it.
_LEVERAGE = 0.9
#: Widest share of runs without a number.
_MISSING = 0.1


def choose(
    runs: Sequence[Sample], believed: Sequence[float | None], rivals: Sequence[str] = ()
) -> Family | None:
    """Choose the numbers by which run time goes; None where what else is believed is as good.

    The family is of the last `RECENT` runs.

    runs: in the order of their submission.
    believed: log run time that other rules predicted of each; None: nothing.
    rivals: names whose values other rules tell apart, or that were chosen at the last fit: as
        numbers they only have to be a little better.
    """
    runs = runs[-RECENT:]
    believed = believed[-RECENT:]
    if len(runs) < FEWEST:
        return None
    alone = _best(runs, believed, rivals, resources=False)
    if alone is not None and _gains(alone.accuracies, alone.by_counts):
        return alone.family
    beside = _best(runs, believed, rivals, resources=True)
    if beside is not None and _gains(beside.accuracies, beside.by_counts):
        return beside.family
    if alone is not None and _no_worse(alone.accuracies, alone.by_counts):
        return alone.family
    return None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A family that may be chosen, and how accurate it and counts alone are of each run."""

    family: Family
    accuracies: Sequence[float]
    by_counts: Sequence[float]


def _best(
    runs: Sequence[Sample],
    believed: Sequence[float | None],
    rivals: Sequence[str],
    *,
    resources: bool,
) -> _Candidate | None:
    """Give the family that predicts runs best; None where what else is believed is as good.

    resources: CPUs, tasks and memory asked for are covariates beside ``nimo:size=``, as after
        `nimo lab learn`, which varies several at once.
    """
    requested = [run.requested for run in runs]
    columns = shared_numbers([run.numbers for run in runs], requested)
    only = {name: column for name, column in columns.items() if not resources or name == SIZE}
    if not only:
        return None
    log_s = np.array([math.log(run.elapsed_s) for run in runs])
    beside = _resources(runs) if resources else []
    kinds = _kinds(runs, columns)
    plain = [*kinds, *_of_counts(runs), *beside]
    families = [
        fit_family(runs, {name: columns[name] for name in names}, kinds, beside)
        for names in _candidates(plain, log_s, only)
    ]
    best = max(families, key=_accuracy)
    by_counts = _accuracies(_left_out_errors(plain, log_s))
    candidate = _Candidate(best, _accuracies(best.left_out), by_counts)
    return candidate if _beats(candidate, believed, runs, rivals) else None


def _accuracy(family: Family) -> float:
    return fmean(_accuracies(family.left_out))


def _candidates(
    base: Sequence[Floats], log_s: Floats, columns: Mapping[str, Floats]
) -> list[tuple[str, ...]]:
    """Give sets of sizes: those that a regression finds, and all of them, or the first it took."""
    found, taken = _added(base, log_s, columns)
    every = tuple(columns) if len(columns) <= MOST else taken
    return [names for names in dict.fromkeys((found, every)) if names]


def _added(
    base: Sequence[Floats], log_s: Floats, columns: Mapping[str, Floats]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Add numbers to a regression one by one: those up to where one did not help, and the most."""
    used = list(base)
    names = list[str]()
    accuracy = _accuracies(_left_out_errors(used, log_s))
    found: tuple[str, ...] | None = None
    while len(names) < min(MOST, len(columns)):
        tried = {
            name: _accuracies(_left_out_errors([*used, np.log(column)], log_s))
            for name, column in columns.items()
            if name not in names
        }
        best = max(tried, key=lambda name: fmean(tried[name]))
        if found is None and not _better(tried[best], accuracy, _ADDS, sure=_ADDS_SURE):
            found = tuple(names)
        accuracy = tried[best]
        names.append(best)
        used.append(np.log(columns[best]))
    return tuple(names) if found is None else found, tuple(names)


def _beats(
    candidate: _Candidate,
    believed: Sequence[float | None],
    runs: Sequence[Sample],
    rivals: Sequence[str],
) -> bool:
    """Whether runs are predicted better than by what else is believed of them."""
    pairs = [
        (own, math.exp(-abs(other - math.log(run.elapsed_s))))
        for own, other, run in zip(candidate.accuracies, believed, runs, strict=True)
        if other is not None
    ]
    if not pairs:
        return True
    own, others = zip(*pairs, strict=True)
    if any(term.name in rivals for term in candidate.family.terms):
        return _better(own, others, _GAIN_OF_RIVALS, sure=-math.inf)
    return _gains(own, others)


def _gains(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether accuracies are so much better that a family is used."""
    if len(one) < FEW:
        return _better(one, other, _GAIN_OF_FEW, sure=_SURE_OF_FEW)
    return _better(one, other, _GAIN, sure=_SURE)


def _no_worse(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether accuracies of few runs are no worse: they cannot be surer."""
    return len(one) < FEW and _better(one, other, 0.0, sure=-math.inf)


def _better(one: Sequence[float], other: Sequence[float], gain: float, *, sure: float) -> bool:
    """Whether accuracies are better by a gain, and surely so: by standard errors of their mean."""
    gains = [a - b for a, b in zip(one, other, strict=True)]
    if fmean(gains) <= gain:
        return False
    if math.isinf(sure) or len(gains) < 2:
        return True
    return fmean(gains) > sure * stdev(gains) / math.sqrt(len(gains))


def shared_numbers(
    numbers: Sequence[Mapping[str, float]], requested: Sequence[Sequence[float]]
) -> dict[str, Floats]:
    """Give the numbers that nearly all runs have, in several values; missing ones as usual.

    Counts of what was asked for are sizes of the request, not of the problem.

    numbers: of each run, by name.
    requested: nodes, CPUs and tasks that each asked for.
    """
    made = {}
    for name in dict.fromkeys(name for own in numbers for name in own):
        given = [own.get(name) for own in numbers]
        known = [one for one in given if one is not None]
        if len(set(known)) < VALUES or len(known) < (1 - _MISSING) * len(numbers):
            continue
        if any(_follows(given, [counts[i] for counts in requested]) for i in range(3)):
            continue
        usual = median(known)
        made[name] = np.array([usual if one is None else one for one in given])
    return made


def _kinds(runs: Sequence[Sample], sized: Collection[str]) -> list[Floats]:
    """Give a column for each kind of run, by values that are no numbers; one if kinds are many."""
    kinds = [tuple(v for name, v in run.attributes.items() if name not in sized) for run in runs]
    every = list(dict.fromkeys(kinds))
    if len(every) * _OF_KIND > len(runs):
        return [np.ones(len(runs))]
    return [np.array([float(one == kind) for one in kinds]) for kind in every]


def _of_counts(runs: Sequence[Sample]) -> list[Floats]:
    """Give columns of a regression for the count: its log, and the square of that."""
    logs = np.log([run.nodes for run in runs])
    counts = len(np.unique(logs))
    return [(logs - logs.mean()) ** power for power in (1, 2) if power < counts]


def _resources(runs: Sequence[Sample]) -> list[Floats]:
    """Give the logs of what runs asked for where it differed."""
    asked = zip(*(run.requested for run in runs), strict=True)
    return [np.log(each) for each in asked if min(each) > 0 and len(set(each)) > 1]


def _follows(values: Sequence[float | None], counts: Sequence[float]) -> bool:
    """Whether a number is a multiple of a count that changes."""
    ratios = {
        round(one / count, 6)
        for one, count in zip(values, counts, strict=True)
        if one is not None and count
    }
    return len(ratios) == 1 and len(set(counts)) > 1


def _left_out_errors(columns: Sequence[Floats], log_s: Floats) -> list[float]:
    """Error of each run by a regression without it, in which runs far off weigh less.

    By the hat matrix (Cook and Weisberg, *Residuals and Influence in Regression*, 1982); what
    explains nothing is left at zero.
    """
    x = np.column_stack(columns)
    weights = np.ones(len(log_s))
    for _ in range(3):
        root = np.sqrt(weights)[:, None]
        inverse = np.linalg.pinv(root * x)
        off = log_s - x @ (inverse @ (root[:, 0] * log_s))
        width = 2 * max(1.4826 * float(np.median(np.abs(off))), 0.01)
        weights = np.minimum(1.0, width / np.maximum(np.abs(off), 1e-12))
    leverage = np.minimum(np.sum((root * x) * inverse.T, axis=1), _LEVERAGE)
    left_out: list[float] = (off / (1 - leverage)).tolist()
    return left_out


def _accuracies(errors: Sequence[float]) -> list[float]:
    """Accuracy min(p, a) / max(p, a) of each run, by its log error."""
    return [math.exp(-abs(error)) for error in errors]
