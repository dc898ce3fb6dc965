"""One family of forms of run time: sizes of problems and counts together, fitted.

Run time is a sum of products of powers of sizes x and the count n (a posynomial)::

    T = [ work(x) n^-h + serial(x) + overhead(x) n^g ] · step(n) · noise

The exponents of a size are shrunk to between 0 and 1, h to 1, g to 0.6; *step* is Brownian motion
over the log of the count, for what no sum of powers says.  Members of the family are a single
product with steps, which is a log-linear regression, the same with steep ones, and the sum with and
without steps; on one count a product, a sum, and a fixed part with work in proportion to the size.
Where a large part of a size seems to be the same in all problems, such as reference files, two more
go by what it has beyond that part, alone and beside a fixed time.  That part belongs to the size:
it is the same in all terms and on all counts.
They are averaged by how well they predict runs that were left out (stacking: Wolpert, *Neural
Networks* 5, 1992), so that the family is hardly worse than the best of them.

Members are fitted by :mod:`predictor.application.least_squares`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from predictor.application.least_squares import NOISE, ROUNDS, Floats, LeastSquares, sums
from predictor.application.surface import LEAST_BEYOND
from predictor.sample import Sample
from predictor.sizes import Form, SizeTerm, Surface

Indices = NDArray[np.intp]

#: Folds of runs.
FOLDS = 10
#: Cells of runs, from which on those of one cell are in one fold.
_CELLS = 6
#: Mean and standard deviation of the exponent of a size: in the work, and elsewhere.
_IN_WORK = (0.7, 0.7)
_ELSEWHERE = (0.3, 0.5)
#: The same where work is in proportion to the size, and a part is fixed.
_PROPORTIONAL = (1.0, 0.05)
_FIXED = (0.0, 0.05)
#: The same of what a size has beyond a constant part.
_OF_REST = (1.0, 0.3)
#: The same of the exponent of the count: in the work, in the serial part, in the overhead.
_WORK = (-1.0, 0.15)
_SERIAL = (0.0, 0.05)
_OVERHEAD = (0.6, 0.3)
#: The same in the work where that is all.
_WORK_ALONE = (-1.0, 0.4)
#: The same of the logs of the level, and of serial part and overhead over it.
_LEVEL = (0.0, 3.0)
_SERIAL_PART = (-1.5, 1.5)
_OVERHEAD_PART = (-2.5, 1.5)
#: Standard deviation of a kind's level and of what a resource does.
_BESIDE = 1.0
#: Standard deviation of log run time by which a curve leaves a sum of powers, for one doubling.
_ROUGH = 0.15
#: The same where memory or caches of few nodes do not hold the problem.
_CLIFF = 0.6
#: Mean error that nothing is better than.
_LEAST_ERROR = 0.005
#: Standard deviation of exponents that may be anything between 0 and 1.
_EXPONENT = 0.3
#: The same of those that may be below 0, too; standard errors from which on one surely is.
_ANY_EXPONENT = 1.0
_SURELY = 2.0
#: Standard deviation of normal errors over the median of their sizes.
_NORMAL_SCALE = 1.4826
#: Least weight of a member.
_LIGHT = 0.05
_SUM = (
    (_LEVEL, _SERIAL_PART, _OVERHEAD_PART),
    (_IN_WORK, _ELSEWHERE, _ELSEWHERE),
    (_WORK, _SERIAL, _OVERHEAD),
)
#: Least share of the smallest size that is a constant part worth members of their own.
_CONSTANT = 0.5
#: What the smallest size has beyond it, as shares of what sizes differ by.
_BEYOND_SHARES = tuple(0.01 * 2**i for i in range(9))
#: Most constant parts between sizes that are tried.
_BETWEEN = 4
#: Share of squares that a regression leaves from which on a constant part is suspected.
_SUSPECTED = 0.9


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


@dataclass(frozen=True, slots=True)
class _Prior:
    """A member of the family: normal priors of a part's log, exponents of sizes, and count."""

    parts: tuple[tuple[float, float], ...]
    sizes: tuple[tuple[float, float], ...]
    powers: tuple[tuple[float, float], ...]
    rough: float  #: standard deviation of a step over one doubling


_PRODUCT = _Prior((_LEVEL,), (_IN_WORK,), (_WORK_ALONE,), _ROUGH)
_SMOOTH, _STEPPED = _Prior(*_SUM, 0.0), _Prior(*_SUM, _ROUGH)
_STEEP = _Prior((_LEVEL,), (_IN_WORK,), (_WORK_ALONE,), _CLIFF)
_LINE = _Prior((_LEVEL, _SERIAL_PART), (_PROPORTIONAL, _FIXED), (_WORK, _SERIAL), 0.0)
_BEYOND = _Prior((_LEVEL,), (_IN_WORK,), (_WORK_ALONE,), 0.0)
_PART_BEYOND = _Prior((_LEVEL, _SERIAL_PART), (_IN_WORK, _FIXED), (_WORK, _SERIAL), 0.0)
#: Where counts differ, and where there is one, on which members with steps are those without.
MEMBERS = (_PRODUCT, _SMOOTH, _STEPPED, _STEEP)
_ON_ONE_COUNT = (_PRODUCT, _SMOOTH, _LINE)


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
        self.centre = logs.mean(0)
        self.count = float(counts.mean())
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
        self.sizes: Floats = np.exp(logs)
        self.signs = _signs(self)
        self.folds = _folds([(run.nodes, *at) for run, at in zip(runs, logs.tolist(), strict=True)])

    def beyond(self, constants: Floats) -> Floats:
        """Give ``at`` by what sizes have beyond a constant part; shape ``(folds, runs, columns)``.

        constants: of each fold and size.
        """
        made = np.tile(self.at, (len(constants), 1, 1))
        made[:, :, 1:-1] = self._log_beyond(self.sizes, constants)
        return made

    def references_beyond(self, constants: Floats) -> Floats:
        """Give the same of runs that all have the references."""
        made = np.tile(self.at_references, (len(constants), 1, 1))
        made[:, :, 1:-1] = self._log_beyond(self.references, constants)
        return made

    def _log_beyond(self, sizes: Floats, constants: Floats) -> Floats:
        left = (np.exp(self.centre) - constants)[:, None]
        return np.asarray(np.log(np.maximum((sizes - constants[:, None]) / left, LEAST_BEYOND)))

    @property
    def steps(self) -> Floats:
        """What of each step between two counts lies below a run, from the middle count."""
        return steps_at(self.counts, self.at[:, -1] + self.count)


def _signs(data: _Data) -> Floats:
    """Give -1 for each size of which larger numbers surely take less time, else 1.

    By a log-linear regression on sizes and count, whose exponents may be anything.
    """
    deviations = np.full(data.at.shape[1], _ANY_EXPONENT)
    deviations[0] = _LEVEL[1]
    centred = data.log_s - data.log_s.mean()
    slopes = np.zeros(data.at.shape[1])
    noise = float(np.std(centred))
    covariance = np.diag(deviations**2)
    for _ in range(ROUNDS):
        variance = max(noise, NOISE) ** 2
        covariance = np.linalg.inv(data.at.T @ data.at / variance + np.diag(deviations**-2))
        slopes = covariance @ (data.at.T @ centred) / variance
        noise = float(np.std(centred - data.at @ slopes))
    surely = slopes < -_SURELY * np.sqrt(np.diag(covariance))
    return np.where(surely, -1.0, 1.0)[1:-1]


def _tried(data: _Data, place: int) -> Floats:
    """Constant parts of a size that are tried: none, and up to near the smallest."""
    sizes = np.unique(data.sizes[:, place])
    constants = sizes[0] - (sizes[-1] - sizes[0]) * np.array(_BEYOND_SHARES)
    between = (sizes[1:] + sizes[:-1]) / 2
    between = between[between < np.exp(data.centre[place])][:_BETWEEN]
    return np.array([0.0, *constants[constants > _CONSTANT * sizes[0]], *between])


def _suspected(data: _Data) -> list[int]:
    """Places of the sizes of which a large part may be the same in all runs.

    By log-linear regressions on what each has beyond its constant part.
    """
    suspected = []
    centred = data.log_s - data.log_s.mean()
    for place in range(len(data.names)):
        if data.signs[place] < 0:
            continue
        squares = []
        for constant in _tried(data, place):
            constants = np.zeros((1, len(data.names)))
            constants[0, place] = constant
            columns = np.hstack([data.beyond(constants)[0], data.steps, data.beside])
            squares.append(_remaining(columns, centred))
        if len(squares) > 1 and min(squares[1:]) < _SUSPECTED * squares[0]:
            suspected.append(place)
    return suspected


def _remaining(columns: Floats, values: Floats) -> float:
    """Sum of squares that a regression leaves, its coefficients shrunk a little."""
    precision = columns.T @ columns + 1e-3 * np.eye(columns.shape[1])
    off = values - columns @ np.linalg.solve(precision, columns.T @ values)
    return float(off @ off) + len(values) * NOISE**2


def steps_at(counts: Floats, at: Floats) -> Floats:
    """Give the share of each step between neighbouring counts that a log count has behind it.

    From the count in the middle, so that below it shares are negative; shape ``(at, steps)``.
    """
    if len(counts) < 2:
        return np.zeros((len(at), 0))
    gaps = np.diff(counts)
    middle = counts[len(counts) // 2]
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
    constants: Floats  #: part of each size that run time does not go by; shape ``(folds, sizes)``


def fit_family(
    runs: Sequence[Sample],
    sizes: Mapping[str, Floats],
    kinds: Sequence[Floats],
    beside: Sequence[Floats],
) -> Family:
    """Fit run times to sizes and the count.

    sizes: columns by name, above zero, with a number for each run.
    kinds: a column for each kind of run with a level of its own; of one there is no column.
    beside: columns of other covariates, as logs.
    """
    data = _Data(runs, sizes, kinds, beside)
    priors = MEMBERS if len(data.counts) > 1 else _ON_ONE_COUNT
    members = [_member(data, prior) for prior in priors]
    if suspected := _suspected(data):
        members += [_member(data, prior, suspected) for prior in (_BEYOND, _PART_BEYOND)]
    weights = _weights([member.left_out for member in members])
    pairs = [pair for pair in zip(weights, members, strict=True) if pair[0] > 0]
    left_out = sum(weight * member.left_out for weight, member in pairs)
    moved = sum(weight * member.moved for weight, member in pairs)
    surface = Surface(
        centre=tuple(np.exp(data.centre).tolist()),
        count=math.exp(data.count),
        forms=tuple(form for weight, member in pairs for form in _forms(data, member, weight)),
        counts=tuple(np.exp(data.counts).round(6).tolist()),
        covariance=_covariance(data, np.asarray(left_out)),
    )
    return Family(
        terms=_terms(data, pairs),
        surface=surface,
        left_out=tuple(np.asarray(left_out).tolist()),
        as_references=tuple((data.log_s + data.level - moved).tolist()),
        several=data.beside.shape[1] > 0,
    )


def _covariance(data: _Data, left_out: Floats) -> tuple[tuple[float, ...], ...]:
    """Covariance of level and exponents of a log-linear regression with errors of this scale.

    The folds of a fit agree on what runs do not tell, as they have one prior.
    """
    noise = max(_NORMAL_SCALE * float(np.median(np.abs(left_out))), NOISE)
    deviations = np.full(data.at.shape[1], _EXPONENT)
    deviations[0] = _LEVEL[1]
    precision = data.at.T @ data.at / noise**2 + np.diag(deviations**-2)
    rows = np.linalg.inv(precision).round(8).tolist()
    return tuple(tuple(row) for row in rows)


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
    rows = zip(folds, member.theta, member.steps, member.constants.tolist(), strict=True)
    for fold, theta, steps, constants in rows:
        parts = theta.reshape(member.parts, -1).copy()
        parts[:, 0] += data.level
        said = tuple(tuple(part) for part in parts.round(5).tolist())
        stepped = tuple((at_counts @ steps).round(5).tolist()) if np.any(steps) else ()
        constant = tuple(constants) if any(constants) else ()
        forms.append(Form(fold, round(float(weight), 4), said, stepped, constant))
    return forms


def _terms(data: _Data, members: Sequence[tuple[float, _Member]]) -> tuple[SizeTerm, ...]:
    """Put into words by which power of each size run time goes, at the references."""
    slopes = np.asarray(sum(weight * _slopes(data, member) for weight, member in members))
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


def _slopes(data: _Data, member: _Member) -> Floats:
    """Exponent of each size at the references, on the middle count; shape ``(folds, sizes)``."""
    place = data.references_beyond(member.constants)[:, :1]
    place[:, :, -1] = 0.0
    _, shares = sums(member.theta, member.parts, place)
    exponents = member.theta.reshape(len(member.theta), member.parts, -1)[:, :, 1:-1]
    of_beyond = np.einsum("bt,btk->bk", shares[:, :, 0], exponents)
    beyond = data.references - member.constants
    # What lies below a constant part changes nothing.
    over = np.divide(data.references, beyond, out=np.zeros_like(beyond), where=beyond > 0)
    return np.asarray(of_beyond * over)


def _member(data: _Data, prior: _Prior, suspected: Sequence[int] = ()) -> _Member:
    """Fit one member to all runs, and to those of all folds but one.

    suspected: places of the sizes whose constant part is fitted, too.
    """
    used = np.ones((int(data.folds.max()) + 1, len(data.log_s)))
    used[data.folds, np.arange(len(data.log_s))] = 0.0
    constants = np.zeros((len(used), len(data.names)))
    for place in suspected:
        tried = _tried(data, place)
        every = np.tile(constants, (len(tried), 1))
        every[:, place] = np.repeat(tried, len(used))
        fit = _least_squares(data, prior, np.tile(used, (len(tried), 1)), every, suspected)
        misfit = fit.misfit(fit.solve()).reshape(len(tried), -1)
        constants[:, place] = tried[misfit.argmin(0)]
    fit = _least_squares(data, prior, used, constants, suspected)
    theta = fit.solve()
    parts = len(prior.parts)
    columns = len(prior.parts) * (len(data.names) + 2)
    steps = len(data.counts) - 1 if prior.rough else 0
    own = data.folds, np.arange(len(data.log_s))
    of_sizes, _ = sums(theta[:, :columns], parts, data.beyond(constants))
    of_references, _ = sums(theta[:, :columns], parts, data.references_beyond(constants))
    return _Member(
        theta=theta[:, :columns],
        steps=theta[:, columns : columns + steps],
        left_out=(data.log_s - fit.values(theta))[own],
        moved=(of_sizes - of_references)[own],
        parts=parts,
        constants=constants,
    )


def _least_squares(
    data: _Data, prior: _Prior, used: Floats, constants: Floats, suspected: Sequence[int]
) -> LeastSquares:
    """Give the fit of a member to the runs that are used, by what sizes have beyond constants.

    used: 1 for each run of a fold; shape ``(folds, runs)``.
    constants: of each fold and size.
    """
    means, deviations = _of_parts(prior, data.signs, suspected)
    steps = data.steps if prior.rough else np.zeros((len(data.log_s), 0))
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
    at = data.beyond(constants) if constants.any() else data.at[None]
    return LeastSquares(data.log_s, at, len(prior.parts), linear, used, mean, precision)


def _of_parts(prior: _Prior, signs: Floats, suspected: Sequence[int]) -> tuple[Floats, Floats]:
    """Means and standard deviations of the parameters of all parts.

    signs: of the exponents of each size.
    suspected: places of sizes of which only what they have beyond a constant part is work.
    """
    means = list[float]()
    deviations = list[float]()
    for part, exponent, power in zip(prior.parts, prior.sizes, prior.powers, strict=True):
        exponents = [exponent] * len(signs)
        if exponent is _IN_WORK:
            for place in suspected:
                exponents[place] = _OF_REST
        means += [part[0], *(s * e[0] for s, e in zip(signs, exponents, strict=True)), power[0]]
        deviations += [part[1], *(e[1] for e in exponents), power[1]]
    return np.array(means), np.array(deviations)
