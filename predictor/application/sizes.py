"""Sizes of problems and counts learnt together: one family of forms of run time.

The numbers that jobs name (arguments, variables, tags) may be sizes of the problem.  Which of them
run time goes by is found by adding one after the other to a regression of log run time.  With these
run time is fitted as a sum of products of powers of sizes and the count n (a posynomial)::

    T = [ work(x) n^-h + serial(x) + overhead(x) n^g ] · step(n) · noise

The exponents of a size are shrunk to between 0 and 1, h to 1, g to 0.6; *step* is Brownian motion
over the log of the count, for what no sum of powers says.  Members of the family are a single
product with steps, which is a log-linear regression, the same with steep ones, and the sum with and
without steps.  They are averaged by how well they predict runs that were left out (stacking:
Wolpert, *Neural Networks* 5, 1992), so that the family is hardly worse than the best of them.

Errors have Student's t distribution, so that runs that went wrong count little.  All folds, each
without some of the runs, are fitted at once by Levenberg and Marquardt's algorithm (Moré, 1978).
The family is used only where it predicts runs without them better than what else is believed.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

import numpy as np
from numpy.typing import NDArray

from predictor.sample import Sample
from predictor.types import Form, SizeTerm, Surface
from sacct_ingest.runs.submission import SIZE

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

#: Sizes at most, runs that are looked at, and the fewest of them and of different values.
MOST, RECENT, FEWEST, VALUES = 4, 200, 5, 3
#: Folds of runs; cells of runs from which on those of one cell are in one fold.
FOLDS, _CELLS = 10, 6
#: Mean accuracy that a family has to add, by how many standard errors; what is enough for rivals.
_GAIN, _SURE, _GAIN_OF_RIVALS = 0.03, 2.5, 0.02
#: The same below so many runs: these cannot be as sure, and other rules say little by then.
FEW, _GAIN_OF_FEW, _SURE_OF_FEW = 24, 0.02, 1.0
#: The same of a further size: the family as a whole has to be sure.
_ADDS, _ADDS_SURE = 0.005, 1.0
#: Runs that each kind needs for a level of its own.
_OF_KIND = 4
#: Leverage above which a run counts as left out of a fit without it.
_LEVERAGE = 0.9
#: Widest share of runs without a number.
_MISSING = 0.1
#: Degrees of freedom of errors; standard deviation of repeats before there are any, and the runs
#: that it counts for.
_FREE, _NOISE, _NOISE_RUNS = 4.0, 0.03, 2.0
#: Mean and standard deviation of the exponent of a size: in the work, and elsewhere.
_IN_WORK, _ELSEWHERE = (0.7, 0.7), (0.3, 0.5)
#: The same of the exponents of the count, and of the logs of serial part and overhead.
_WORK, _SERIAL, _OVERHEAD = (-1.0, 0.15), (0.0, 0.05), (0.6, 0.3)
_WORK_ALONE = (-1.0, 0.4)
_LEVEL, _SERIAL_PART, _OVERHEAD_PART = (0.0, 3.0), (-1.5, 1.5), (-2.5, 1.5)
#: Standard deviation of a kind's level and of what a resource does.
_BESIDE = 1.0
#: Standard deviation of log run time by which a curve leaves a sum of powers, for one doubling.
#: The same where memory or caches of few nodes do not hold the problem.
_ROUGH, _CLIFF = 0.15, 0.6
#: Rounds of weighing errors, and the most steps of each.
_ROUNDS, _STEPS, _CONVERGED = 3, 14, 1e-5
#: Mean error that nothing is better than, and the least weight of a member.
_LEAST_ERROR, _LIGHT = 0.005, 0.05


@dataclass(frozen=True, slots=True)
class Family:
    """What run time goes by, and how: fitted to the last runs of an application.

    ``terms``: the sizes in words, in the order of the surface's.  ``several``: runs are of several
    kinds, or asked for different resources, so that parts of them have levels of their own.
    """

    terms: tuple[SizeTerm, ...]
    surface: Surface
    left_out: tuple[float, ...]  #: log of actual over predicted time of each run, without it
    as_references: tuple[float, ...]  #: log run time of each run as if its sizes were references
    several: bool = False

    @property
    def errors(self) -> list[float]:
        """Sizes of the errors of runs that were left out, rising."""
        return sorted(map(abs, self.left_out))


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
    runs, believed = runs[-RECENT:], believed[-RECENT:]
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
        `nimo learn`, which varies several at once.
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
        _fitted(runs, {name: columns[name] for name in names}, kinds, beside)
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
    used, names = list(base), list[str]()
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


@dataclass(frozen=True, slots=True)
class _Prior:
    """A member of the family: normal priors of a part's log, exponents of sizes, and count."""

    parts: tuple[tuple[float, float], ...]
    sizes: tuple[tuple[float, float], ...]
    powers: tuple[tuple[float, float], ...]
    rough: float  #: standard deviation of a step over one doubling


_SUM = (
    (_LEVEL, _SERIAL_PART, _OVERHEAD_PART),
    (_IN_WORK, _ELSEWHERE, _ELSEWHERE),
    (_WORK, _SERIAL, _OVERHEAD),
)
_PRODUCT = _Prior((_LEVEL,), (_IN_WORK,), (_WORK_ALONE,), _ROUGH)
_SMOOTH, _STEPPED = _Prior(*_SUM, 0.0), _Prior(*_SUM, _ROUGH)
_STEEP = _Prior((_LEVEL,), (_IN_WORK,), (_WORK_ALONE,), _CLIFF)
MEMBERS = (_PRODUCT, _SMOOTH, _STEPPED, _STEEP)


class _Data:
    """The runs of a fit as arrays, centred."""

    def __init__(
        self,
        runs: Sequence[Sample],
        sizes: Mapping[str, Floats],
        kinds: Sequence[Floats],
        beside: Sequence[Floats],
    ) -> None:
        logs = np.log(np.column_stack([*sizes.values()]))
        counts = np.log([float(run.nodes) for run in runs])
        log_s = np.array([math.log(run.elapsed_s) for run in runs])
        self.names = tuple(sizes)
        self.centre, self.count = logs.mean(0), float(counts.mean())
        self.level = float(np.median(log_s))
        self.log_s: Floats = log_s - self.level
        usual = np.log([float(np.median(column)) for column in sizes.values()])
        self.references: Floats = np.exp(usual)
        ones = np.ones((len(runs), 1))
        away = (counts - self.count)[:, None]
        self.at = np.hstack([ones, logs - self.centre, away])
        #: The same as if all runs had the references.
        self.at_references = np.hstack([ones, ones * (usual - self.centre), away])
        of_kinds = kinds if len(kinds) > 1 else []
        others = [column - column.mean() for column in (*of_kinds, *beside)]
        self.beside: Floats = np.column_stack(others) if others else np.zeros((len(runs), 0))
        self.counts: Floats = np.unique(counts.round(9))
        self.folds = _folds([(run.nodes, *at) for run, at in zip(runs, logs.tolist(), strict=True)])

    @property
    def steps(self) -> Floats:
        """What of each step between two counts lies below a run, from the middle count."""
        return steps_at(self.counts, self.at[:, -1] + self.count)


def steps_at(counts: Floats, at: Floats) -> Floats:
    """Give the share of each step between neighbouring counts that a log count has behind it.

    From the count in the middle, so that below it shares are negative; shape ``(at, steps)``.
    """
    if len(counts) < 2:
        return np.zeros((len(at), 0))
    gaps, middle = np.diff(counts), counts[len(counts) // 2]
    behind = np.clip((at[:, None] - counts[:-1]) / gaps, 0, 1)
    return np.asarray(behind - np.clip((middle - counts[:-1]) / gaps, 0, 1))


def _folds(cells: Sequence[tuple[float, ...]]) -> Indices:
    """Give the fold of each run, from 1; those of one cell are in one, where cells are many."""
    places = dict.fromkeys(cells)
    if len(places) < _CELLS:
        return np.arange(len(cells)) % FOLDS + 1
    for number, cell in enumerate(places):
        places[cell] = number % FOLDS + 1
    return np.array([places[cell] for cell in cells])


@dataclass(frozen=True, slots=True)
class _Member:
    """One member as it was fitted: a row of parameters for all runs, and one for each fold."""

    theta: Floats  #: of parts
    steps: Floats
    left_out: Floats  #: error of each run without it
    moved: Floats  #: log of the run time of each run over that with the references, without it
    parts: int


def _fitted(
    runs: Sequence[Sample],
    sizes: Mapping[str, Floats],
    kinds: Sequence[Floats],
    beside: Sequence[Floats],
) -> Family:
    data = _Data(runs, sizes, kinds, beside)
    members = [
        _member(data, prior) for prior in MEMBERS if len(data.counts) > 1 or prior is not _STEPPED
    ]
    weights = _weights([member.left_out for member in members])
    pairs = [pair for pair in zip(weights, members, strict=True) if pair[0] > 0]
    left_out = sum(weight * member.left_out for weight, member in pairs)
    moved = sum(weight * member.moved for weight, member in pairs)
    surface = Surface(
        centre=tuple(np.exp(data.centre).tolist()),
        count=math.exp(data.count),
        forms=tuple(form for weight, member in pairs for form in _forms(data, member, weight)),
        counts=tuple(np.exp(data.counts).round(6).tolist()),
    )
    return Family(
        terms=_terms(data, pairs),
        surface=surface,
        left_out=tuple(np.asarray(left_out).tolist()),
        as_references=tuple((data.log_s + data.level - moved).tolist()),
        several=data.beside.shape[1] > 0,
    )


def _weights(errors: Sequence[Floats]) -> Floats:
    """Weigh members by the likelihood of Laplace errors of runs that were left out."""
    means = np.array([float(np.mean(np.abs(one))) for one in errors])
    logs = -len(errors[0]) / 2 * np.log(means + _LEAST_ERROR)
    weights = np.exp(logs - logs.max())
    weights = weights / weights.sum()
    weights[weights < _LIGHT] = 0.0
    return np.asarray(weights / weights.sum())


def _forms(data: _Data, member: _Member, weight: float) -> list[Form]:
    folds = [0, *range(1, int(data.folds.max()) + 1)]
    at_counts = steps_at(data.counts, data.counts)
    forms = []
    for fold, theta, steps in zip(folds, member.theta, member.steps, strict=True):
        parts = theta.reshape(member.parts, -1).copy()
        parts[:, 0] += data.level
        said = tuple(tuple(part) for part in parts.round(5).tolist())
        stepped = tuple((at_counts @ steps).round(5).tolist()) if np.any(steps) else ()
        forms.append(Form(fold, round(float(weight), 4), said, stepped))
    return forms


def _terms(data: _Data, members: Sequence[tuple[float, _Member]]) -> tuple[SizeTerm, ...]:
    """Put into words by which power of each size run time goes, at the references."""
    place = data.at_references[:1].copy()
    place[0, -1] = 0.0
    folds = sum(weight * _slopes(member.theta, member.parts, place) for weight, member in members)
    slopes = np.asarray(folds)
    others = slopes[1:]
    errors = np.sqrt((len(others) - 1) / len(others) * ((others - others.mean(0)) ** 2).sum(0))
    logs = data.at[:, 1:-1] + data.centre
    return tuple(
        SizeTerm(
            name=name,
            exponent=round(float(slopes[0, i]), 5),
            error=round(float(errors[i]), 5),
            reference=float(data.references[i]),
            low=float(np.exp(logs[:, i].min())),
            high=float(np.exp(logs[:, i].max())),
        )
        for i, name in enumerate(data.names)
    )


def _slopes(theta: Floats, parts: int, place: Floats) -> Floats:
    """Exponent of each size at a place, shape ``(folds, sizes)``."""
    _, shares = _sums(theta, parts, place)
    exponents = theta.reshape(len(theta), parts, -1)[:, :, 1:-1]
    return np.asarray(np.einsum("bt,btk->bk", shares[:, :, 0], exponents))


def _sums(theta: Floats, parts: int, at: Floats) -> tuple[Floats, Floats]:
    """Log of the sum of parts, shape ``(folds, runs)``, and the share of each in it."""
    logs = np.einsum("btq,nq->btn", theta.reshape(len(theta), parts, -1), at)
    most = logs.max(1)
    powers = np.exp(logs - most[:, None])
    total = powers.sum(1)
    return most + np.log(total), powers / total[:, None]


def _member(data: _Data, prior: _Prior) -> _Member:
    """Fit one member to all runs, and to those of all folds but one."""
    parts, sizes, runs = len(prior.parts), len(data.names), len(data.log_s)
    means, deviations = _of_parts(prior, sizes)
    steps = data.steps if prior.rough else np.zeros((runs, 0))
    gaps = np.diff(data.counts)[: steps.shape[1]] / math.log(2)
    linear = np.hstack([steps, data.beside])
    mean = np.concatenate([means, np.zeros(linear.shape[1])])
    precision = np.concatenate(
        [
            deviations**-2,
            1 / (prior.rough**2 * gaps) if prior.rough else gaps,
            np.full(data.beside.shape[1], _BESIDE**-2),
        ]
    )
    used = np.ones((int(data.folds.max()) + 1, runs))
    used[data.folds, np.arange(runs)] = 0.0
    fit = _Fit(data, parts, linear, used, mean, precision)
    theta = fit.solve()
    fitted = fit.values(theta)
    columns = parts * (sizes + 2)
    own = data.folds, np.arange(runs)
    of_sizes, _ = _sums(theta[:, :columns], parts, data.at)
    of_references, _ = _sums(theta[:, :columns], parts, data.at_references)
    return _Member(
        theta=theta[:, :columns],
        steps=theta[:, columns : columns + steps.shape[1]],
        left_out=(data.log_s - fitted)[own],
        moved=(of_sizes - of_references)[own],
        parts=parts,
    )


def _of_parts(prior: _Prior, sizes: int) -> tuple[Floats, Floats]:
    """Means and standard deviations of the parameters of all parts."""
    rows = [
        [part, *(exponent,) * sizes, power]
        for part, exponent, power in zip(prior.parts, prior.sizes, prior.powers, strict=True)
    ]
    both = np.array(rows).reshape(-1, 2)
    return both[:, 0], both[:, 1]


class _Fit:
    """Least squares of all folds at once, with errors of Student's t distribution."""

    def __init__(
        self, data: _Data, parts: int, linear: Floats, used: Floats, mean: Floats, precision: Floats
    ) -> None:
        self._data, self._parts, self._linear, self._used = data, parts, linear, used
        self._mean, self._precision = mean, precision
        self._columns = parts * data.at.shape[1]

    def values(self, theta: Floats) -> Floats:
        """Log run times, shape ``(folds, runs)``."""
        return self._parted(theta)[0]

    def _parted(self, theta: Floats) -> tuple[Floats, Floats]:
        logs, shares = _sums(theta[:, : self._columns], self._parts, self._data.at)
        return logs + theta[:, self._columns :] @ self._linear.T, shares

    def solve(self) -> Floats:
        """Give the parameters, shape ``(folds, parameters)``."""
        theta = np.tile(self._mean, (len(self._used), 1))
        noise = np.full(len(self._used), 2 * _NOISE)
        for _ in range(_ROUNDS):
            theta = self._descended(theta, noise)
            noise = self._noise(theta, noise)
        return theta

    def _noise(self, theta: Floats, noise: Floats) -> Floats:
        """Scale of the errors of each fold, by its residuals and what was known before."""
        squares = self._used * (self._data.log_s - self.values(theta)) ** 2
        weights = (_FREE + 1) / (_FREE + squares / noise[:, None] ** 2)
        runs = self._used.sum(1)
        spare = np.minimum(self._parts * (self._data.at.shape[1] - 1), 0.6 * runs)
        free = np.maximum(runs - spare, 1.0) + _NOISE_RUNS
        return np.asarray(np.sqrt(((weights * squares).sum(1) + _NOISE_RUNS * _NOISE**2) / free))

    def _cost(self, theta: Floats, logs: Floats, noise: Floats) -> Floats:
        squares = ((self._data.log_s - logs) / noise[:, None]) ** 2
        errors = (_FREE + 1) / 2 * np.log1p(squares / _FREE)
        away = 0.5 * (self._precision * (theta - self._mean) ** 2).sum(1)
        return np.asarray((self._used * errors).sum(1) + away)

    def _descended(self, theta: Floats, noise: Floats) -> Floats:
        """Go down by damped steps; those of one fold that lead up are not taken."""
        logs, shares = self._parted(theta)
        cost, damping = self._cost(theta, logs, noise), np.full(len(theta), 1e-2)
        for _ in range(_STEPS):
            step = self._step(theta, logs, shares, noise, damping)
            moved = theta + step
            new_logs, new_shares = self._parted(moved)
            new_cost = self._cost(moved, new_logs, noise)
            lower = new_cost < cost
            gain = float(np.max(np.where(lower, cost - new_cost, 0.0)))
            theta = np.where(lower[:, None], moved, theta)
            logs = np.where(lower[:, None], new_logs, logs)
            shares = np.where(lower[:, None, None], new_shares, shares)
            cost = np.where(lower, new_cost, cost)
            damping = np.clip(np.where(lower, damping / 5, damping * 8), 1e-7, 1e6)
            if lower.all() and gain < _CONVERGED:
                break
        return theta

    def _step(
        self, theta: Floats, logs: Floats, shares: Floats, noise: Floats, damping: Floats
    ) -> Floats:
        at, folds, runs = self._data.at, len(theta), len(logs[0])
        off = self._data.log_s - logs
        squares = (off / noise[:, None]) ** 2
        weights = self._used * (_FREE + 1) / (_FREE + squares) / noise[:, None] ** 2
        slopes = shares.transpose(0, 2, 1)[..., None] * at[None, :, None, :]
        linear = np.broadcast_to(self._linear, (folds, *self._linear.shape))
        slopes = np.concatenate([slopes.reshape(folds, runs, -1), linear], axis=2)
        weighed = slopes * weights[..., None]
        gradient = np.einsum("bnp,bn->bp", weighed, off)
        gradient -= self._precision * (theta - self._mean)
        curvature = np.matmul(weighed.transpose(0, 2, 1), slopes) + np.diag(self._precision)
        places = np.arange(len(self._mean))
        curvature[:, places, places] *= 1 + damping[:, None]
        return np.asarray(np.linalg.solve(curvature, gradient[..., None])[..., 0])
