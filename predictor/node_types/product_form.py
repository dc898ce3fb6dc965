"""Run time as a product of what each resource contributes: aprof.

S. M. Sadjadi, S. Shimizu, J. Figueroa, R. Rangaswami, J. Delgado, H. Duran, X. Collazo-Mojica, *A
Modeling Approach for Estimating Execution Time of Long-Running Scientific Applications*, 2008.

Each resource contributes a factor that falls with how much there is of it, ``a + b/P`` (equations
2 and 3), and run time is the product of the factors (equation 1).  Expanded, that is a sum with
one term for each set of resources (equation 4): 1, 1/nodes, 1/clock, 1/(nodes·clock), ....  All
that regression needs of the observations are HᵀH and Hᵀx, whose size does not grow with them
(equations 8 and 9): they are stored for each application, added to as runs end, and merged across
hosts.

Some things go beyond the paper.  Squares of *relative* errors are minimised, so that long runs do
not drown short ones (``relative=False`` is the paper's way).  Terms that the observations do not
support are left out, by the Bayesian information criterion, which needs the same sums only.  Sums
are exact enough for runs to be taken out again.  And where observations do not determine what the
amounts asked for would do, there is no answer.

A double holds 16 digits.  Sums over 100,000 runs of a second leave nothing of the digits that a few
runs of days have in them.  Here a sum is two doubles, the second what the first cannot hold: 32
digits (Dekker, *A floating-point technique for extending the available precision*, Numerische
Mathematik 18, 1971).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import log, prod, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from predictor.checks import LARGEST, need_positive
from predictor.types import Prediction

Floats = NDArray[np.float64]
_SPLIT = 2.0**27 + 1
#: Rows that are multiplied at a time.
_ROWS = 4_096
#: Smallest ratio of eigenvalues at which terms can be distinguished.
_INDEPENDENT = 1e-10
_TINY = 1e-300
#: Part of what is asked that may lie where no observation does.
_OUTSIDE = 1e-3
#: An interval is open from here on (log time); numbers end soon after.
_WIDEST = 500.0
#: Standard deviation that a single run has at least, as a share of its time.
_NOISE = 0.01
#: Contributions that grow with their amount: the load of the input (section 2.3).
PROPORTIONAL = frozenset({"load"})


def gram(rows: Floats) -> tuple[Floats, Floats]:
    """Sum the outer products of rows: ``rowsᵀ·rows`` and what is missing of it.

    rows: shape ``(runs, columns)``.
    Returns tuple: two arrays of shape ``(columns, columns)``.
    """
    if rows.ndim != 2 or not (np.abs(rows) <= LARGEST).all():
        raise ValueError(f"rows of shape {rows.shape}: (runs, columns), all finite, are needed")
    columns = rows.shape[1]
    upper = np.triu_indices(columns)
    high = low = np.zeros(len(upper[0]))
    for first in range(0, len(rows), _ROWS):
        part = rows[first : first + _ROWS]
        high, low = add((high, low), _total(*_product(part[:, upper[0]], part[:, upper[1]])))
    return _square(high, upper, columns), _square(low, upper, columns)


def add(one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Add two sums, each of two doubles."""
    high, rest = _sum(one[0], other[0])
    return _renewed(high, rest + one[1] + other[1])


def _total(high: Floats, low: Floats) -> tuple[Floats, Floats]:
    """Sum along the first axis, in pairs."""
    while len(high) > 1:
        if len(high) % 2:
            high, low = (np.concatenate([one, np.zeros_like(one[:1])]) for one in (high, low))
        half = len(high) // 2
        high, rest = _sum(high[:half], high[half:])
        low = low[:half] + low[half:] + rest
    return _renewed(high[0], low[0])


def _sum(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Add two doubles; the second is what the first could not hold (Knuth)."""
    total = one + other
    part = total - one
    return total, (one - (total - part)) + (other - part)


def _product(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Multiply two doubles; the second is what the first could not hold (Dekker)."""
    total = one * other
    (one_high, one_low), (other_high, other_low) = _halves(one), _halves(other)
    rest = one_high * other_high - total + one_high * other_low + one_low * other_high
    return total, rest + one_low * other_low


def _halves(one: Floats) -> tuple[Floats, Floats]:
    """Split doubles into halves of 26 bits (Veltkamp)."""
    scaled = _SPLIT * one
    high = scaled - (scaled - one)
    return high, one - high


def _renewed(high: Floats, low: Floats) -> tuple[Floats, Floats]:
    total = high + low
    return total, low - (total - high)


def _square(values: Floats, upper: tuple[NDArray[np.intp], ...], columns: int) -> Floats:
    made = np.zeros((columns, columns))
    made[upper] = values
    return made + np.triu(made, 1).T


class TooFewObservations(ValueError):  # noqa: N818 - a noun, as in sacct_ingest.errors
    """The observations do not determine the profile parameters."""


class Unobserved(ValueError):  # noqa: N818 - as above
    """The observations do not determine the effect of such amounts."""


def terms(resources: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """List the sets of resources that have a term each: the empty one first (equation 4).

    >>> terms(["nodes", "clock"])
    ((), ('nodes',), ('clock',), ('nodes', 'clock'))
    """
    sizes = range(len(resources) + 1)
    return tuple(chosen for size in sizes for chosen in combinations(resources, size))


def explanatory(resources: Sequence[str], amounts: Mapping[str, float]) -> Floats:
    """Explanatory variables y of one observation, one for each of the :func:`terms`.

    Raises ValueError: an amount is missing, or not above zero and finite.
    """
    row: Floats = _explanatory(resources, [amounts])[0]
    return row


def _explanatory(resources: Sequence[str], given: Sequence[Mapping[str, float]]) -> Floats:
    """Matrix H: a row for each run, a column for each term."""
    for name in resources:
        need_positive(name, *(one.get(name) for one in given))
    amounts = {name: np.array([one[name] for one in given], float) for name in resources}
    columns = {n: one if n in PROPORTIONAL else 1 / one for n, one in amounts.items()}
    one = np.ones(len(given))
    return np.stack([prod((columns[name] for name in c), start=one) for c in terms(resources)], 1)


@dataclass(frozen=True, slots=True)
class Sums:
    """Everything that is stored of an application's runs.

    ``hh`` is HᵀH, shape ``(terms, terms)``; ``hx`` Hᵀx, shape ``(terms,)``; ``xx`` xᵀx; ``count``
    counts the runs.  With ``relative`` each row of H and x was divided by the run time.  ``rest``
    is what these numbers cannot hold, by rows of ``[H x]ᵀ[H x]``; empty: nothing.
    """

    resources: tuple[str, ...]
    hh: tuple[tuple[float, ...], ...]
    hx: tuple[float, ...]
    xx: float = 0.0
    count: int = 0
    relative: bool = True
    rest: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.resources)) < len(self.resources) or not self.resources:
            raise ValueError(f"resources {self.resources}: name at least one, and each once")

    @classmethod
    def none(cls, resources: Sequence[str], *, relative: bool = True) -> "Sums":
        """Begin with no run at all."""
        size = 2 ** len(resources)
        zeros = (0.0,) * size
        return cls(tuple(resources), (zeros,) * size, zeros, relative=relative)

    def add(self, amounts: Mapping[str, float], time_s: float, times: int = 1) -> "Sums":
        """Take one more run in (equation 9); ``times=-1`` takes it out again.

        Raises ValueError: an amount or the time is not above zero.
        """
        return self.add_all([(amounts, time_s)], times)

    def add_all(self, runs: Sequence[tuple[Mapping[str, float], float]], times: int = 1) -> "Sums":
        """Take runs in, each as its amounts and its time in seconds, as :meth:`add` one by one.

        Raises ValueError: an amount or a time is not above zero and finite.
        """
        if times not in (1, -1):
            raise ValueError(f"times is {times}: 1 takes runs in, -1 takes them out")
        if not runs:
            return self
        need_positive("run time", *(time_s for _, time_s in runs))
        time_s = np.array([time_s for _, time_s in runs])
        weights = 1 / time_s if self.relative else np.ones(len(runs))
        rows = _explanatory(self.resources, [amounts for amounts, _ in runs]) * weights[:, None]
        high, low = gram(np.column_stack([rows, time_s * weights]))
        return self._with((times * high, times * low), self.count + times * len(runs))

    def merge(self, other: "Sums") -> "Sums":
        """Make the sums of both, such as those of two hosts.

        Raises ValueError: they are of other resources, or weighted otherwise.
        """
        if (self.resources, self.relative) != (other.resources, other.relative):
            raise ValueError("sums of other resources or weights cannot be merged")
        return self._with(other._both(), self.count + other.count)

    def _both(self) -> tuple[Floats, Floats]:
        """Give [H x]ᵀ[H x], and what its numbers cannot hold."""
        side = np.array(self.hx)[:, None]
        high = np.block([[np.array(self.hh), side], [side.T, np.array([[self.xx]])]])
        return high, np.array(self.rest).reshape(high.shape) if self.rest else np.zeros_like(high)

    def _with(self, more: tuple[Floats, Floats], count: int) -> "Sums":
        high, low = add(self._both(), more)
        return replace(
            self,
            hh=_matrix(high[:-1, :-1]),
            hx=tuple(high[:-1, -1].tolist()),
            xx=float(high[-1, -1]),
            count=count,
            rest=tuple(low.ravel().tolist()) if low.any() else (),
        )


@dataclass(frozen=True, slots=True)
class ProductFit:
    """Profile parameters θ of an application (equation 5).

    ``theta`` and ``covariance`` run over ``chosen``, the sets of resources whose terms were chosen.
    """

    resources: tuple[str, ...]
    chosen: tuple[tuple[str, ...], ...]
    theta: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    noise: float  #: standard deviation of one run: relative, or in seconds
    count: int
    relative: bool
    #: directions in which no observation lies, of the terms with one resource at most
    unseen: tuple[tuple[float, ...], ...] = ()
    #: root mean square of each of these terms over the observations
    sizes: tuple[float, ...] = ()

    def predict(self, amounts: Mapping[str, float], level: float = 0.9) -> Prediction:
        """Run time on so much of each resource (equation 10), also of a node type never seen.

        The interval is that of one new run, by Student's t.

        Raises Unobserved: no observation determines their effect: such as another clock where all
            ran with one; ValueError: an amount is missing, or the model gives no time above zero
            there.
        """
        if not 0 < level < 1:
            raise ValueError(f"level is {level}, one between 0 and 1 is needed")
        place = {one: i for i, one in enumerate(terms(self.resources))}
        whole = explanatory(self.resources, amounts)
        scaled = whole[: len(self.sizes)] / np.array(self.sizes)
        for direction in self.unseen:
            if abs(float(scaled @ np.array(direction))) > _OUTSIDE * float(np.linalg.norm(scaled)):
                names = ", ".join(self.resources)
                raise Unobserved(f"runs with other {names} are needed to predict this")
        row = whole[[place[one] for one in self.chosen]]
        time_s = float(row @ np.array(self.theta))
        if not time_s > 0:
            raise ValueError("the fitted form gives no run time above zero there")
        of_mean = float(row @ np.array(self.covariance) @ row)
        new_run = of_mean + (self.noise * (time_s if self.relative else 1.0)) ** 2
        free = self.count - len(self.theta)
        # As a factor, so that no bound reaches zero.
        width = float(student.ppf((1 + level) / 2, free)) * sqrt(new_run) / time_s
        width = min(width, _WIDEST)
        nodes = int(amounts.get("nodes", 1))
        low = time_s * np.exp(-width)
        high = time_s * np.exp(width)
        return Prediction(nodes, time_s, float(low), float(high), level, sqrt(of_mean) / time_s)


@dataclass(frozen=True, slots=True)
class ProductForm:
    """The regression; ``select`` leaves out terms that the runs do not support."""

    select: bool = True

    def fit(self, sums: Sums) -> ProductFit:
        """Estimate the profile parameters (equation 8).

        Raises TooFewObservations: not more independent runs than terms: nothing would be left to
            judge the fit by.
        """
        if not self.select:
            return _solved(sums, list(range(len(sums.hx))))
        terms = possible_terms(sums)
        if not terms:
            raise _too_few(sums, 1)
        score = criterion(sums, terms)
        while len(terms) > 1:
            score_without, without = min(
                (criterion(sums, [i for i in terms if i != out]), out) for out in terms
            )
            if score_without > score:
                break
            score = score_without
            terms = [i for i in terms if i != without]
        return _solved(sums, terms)


def possible_terms(sums: Sums) -> list[int]:
    """List the terms, simple ones first, that the observations can distinguish.

    Returns list: places in :func:`terms`; one run more than terms is left to judge a fit by.
    """
    terms: list[int] = []
    for term in range(len(sums.hx)):
        if len(terms) + 1 < sums.count and distinguishable(sums, [*terms, term]):
            terms.append(term)
    return terms


def distinguishable(sums: Sums, terms: list[int]) -> bool:
    """Whether the observations tell the effects of these terms apart.

    The smallest eigenvalue of their scaled HᵀH is not below 1e-10 of the largest.
    """
    hh = np.array(sums.hh)[np.ix_(terms, terms)]
    squares = np.diag(hh)
    if not (squares > 0).all():
        return False
    scale = np.sqrt(squares)
    values = np.linalg.eigvalsh(hh / np.outer(scale, scale))
    return bool(values[0] > _INDEPENDENT * values[-1])


def criterion(sums: Sums, terms: list[int]) -> float:
    """Bayesian information criterion of a selection of terms; the lowest is the best.

    terms: places in :func:`terms`.
    """
    _, squares = _least_squares(sums, terms)
    floor = 1e-12 * max(sums.xx, 1e-300)
    return sums.count * log(max(squares, floor) / sums.count) + len(terms) * log(sums.count)


def _least_squares(sums: Sums, terms: list[int]) -> tuple[Floats, float]:
    """Parameters of the chosen terms, and the sum of squares that they leave."""
    hh = np.array(sums.hh)[np.ix_(terms, terms)]
    hx = np.array(sums.hx)[terms]
    scale = np.sqrt(np.diag(hh))
    theta = np.linalg.solve(hh / np.outer(scale, scale), hx / scale) / scale
    return theta, max(float(sums.xx - hx @ theta), 0.0)


def _solved(sums: Sums, selected: list[int]) -> ProductFit:
    if sums.count <= len(selected) or not distinguishable(sums, selected):
        raise _too_few(sums, len(selected))
    theta, squares = _least_squares(sums, selected)
    # Squares of relative errors are of times of one each: xx counts them.
    least = _NOISE**2 * sums.xx / sums.count
    variance = max(squares / (sums.count - len(selected)), least)
    # The size of each term, and the directions of scaled terms without an observation.  Only of
    # terms with one resource at most: whether two work together is what the selection decides.
    single = 1 + len(sums.resources)
    hh = np.array(sums.hh)[:single, :single]
    scale = np.sqrt(np.maximum(np.diag(hh), _TINY))
    values, directions = np.linalg.eigh(hh / np.outer(scale, scale))
    none = directions.T[values <= _INDEPENDENT * values[-1]]
    sizes = tuple((scale / sqrt(sums.count)).tolist())
    unseen = _matrix(none)
    covariance = variance * np.linalg.inv(np.array(sums.hh)[np.ix_(selected, selected)])
    every = terms(sums.resources)
    return ProductFit(
        resources=sums.resources,
        chosen=tuple(every[i] for i in selected),
        theta=tuple(theta.tolist()),
        covariance=_matrix(covariance),
        noise=sqrt(variance),
        count=sums.count,
        relative=sums.relative,
        unseen=unseen,
        sizes=sizes,
    )


def _too_few(sums: Sums, needed: int) -> TooFewObservations:
    names = ", ".join(sums.resources)
    return TooFewObservations(
        f"{sums.count} runs do not determine {needed} terms: run it with other {names}"
    )


def _matrix(values: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, values.tolist()))
