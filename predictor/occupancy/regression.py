"""Linear regression on attributes and their transformations, chosen by evidence.

What NIMO's predictor functions are made of (Shivam, Babu, Chase, *Learning Application Models for
Utility Resource Planning*, ICAC 2006, section IV.C): values normalised by a reference, and for each
attribute x the terms x and 1/x.  The paper leaves latency hiding open, where a stall begins only
beyond a certain latency (section V.B.4); for that there are terms that bend: above a fixed value,
or above a value that grows with what the processor has to do meanwhile.  And attributes may work
together: a term that was taken may be multiplied by another attribute.

Terms are added one by one, the one first that most reduces the error of predicting each sample from
the others (PRESS), for as long as it does so clearly.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from predictor.checks import need_finite, need_positive
from predictor.occupancy.fit import PARTS, Form, OccupancyFit, judged_by
from predictor.occupancy.functions import Function, Shape, Term, reference_of, transformation
from predictor.occupancy.samples import Occupancies, Sample, checked, from_the_others

Floats = NDArray[np.float64]
#: A term has to reduce the error by this share.
_CLEARLY = 0.15
#: Errors below this share of the mean value are noise that no term is needed for.
_NOISE = 1e-3
#: Columns whose own part is smaller than this add nothing.
_INDEPENDENT = 1e-2
#: A product's own part, beside its factors, has to be as large as this share of it.
_OWN_SHARE = 0.05
_TINY = 1e-300
#: Samples needed for each term beyond the constant.
_SAMPLES_A_TERM = 2
#: Distinct values from which on a bend can be distinguished from a line.
_BENDABLE = 4
#: Where the bend may be, between two values and at them, and between how many values at most.
_BETWEEN, _MOST_BENDS = (0.0, 0.25, 0.5, 0.75), 24
#: Share of the whole below which an occupancy is none.
_NOTHING = 1e-6


def learn(
    samples: Sequence[Mapping[str, float]],
    values: Sequence[float],
    *,
    reference: Mapping[str, float],
    attributes: Sequence[str],
    hides: str = "",
    noise: float = 0.0,
    sizes: Sequence[float] | None = None,
) -> tuple[Function, Floats]:
    """Fit a function to samples.

    samples: attributes of each, above zero.
    values: what is to be predicted, in their own unit.
    reference: attributes of the reference assignment.
    attributes: which attributes may take part.
    hides: attribute that may hide what grows with another: gives terms that exceed it.
    noise: error below which no more terms are added, in the unit of the values; errors below a
        thousandth of their mean never want any.
    sizes: what an error of each sample is measured against, in any unit; None: all alike.
    Returns tuple: the function, and for each sample its prediction from the others.
    Raises ValueError: there is no sample, an attribute is missing or not above zero, or a number is
        not finite.
    """
    if not samples:
        raise ValueError("no sample to learn from")
    names = (*attributes, hides) if hides else tuple(attributes)
    base = reference_of(reference, names)
    ratios = [_ratios(one, base) for one in samples]
    weights = _weights(sizes, len(samples))
    target = _target(values, len(samples))
    scale = float(np.abs(target).mean()) or 1.0
    target = target / scale * weights
    enough = max(_NOISE, noise / scale)
    candidates = _candidates(ratios, attributes, hides)
    chosen, left_out = _select(ratios, target, weights, candidates, enough)
    design = np.column_stack([np.ones(len(target)), _columns(ratios, chosen)])
    theta = np.linalg.lstsq(design * weights[:, None], target, rcond=None)[0]
    press = float(np.sqrt(np.mean((left_out - target) ** 2)))
    coefficients = tuple(theta[1:].tolist())
    function = Function(base, scale, float(theta[0]), tuple(chosen), coefficients, press)
    return function, np.maximum(left_out / weights, 0.0) * scale


def linear(
    samples: Sequence[Mapping[str, float]],
    values: Sequence[float],
    *,
    reference: Mapping[str, float],
    terms: Sequence[Term],
    sizes: Sequence[float] | None = None,
) -> Function:
    """Fit a constant and the given terms by least squares, all of them.

    A term that does not differ between samples has no part in it; terms that only differ together
    share theirs.  See :func:`learn` for the parameters and errors.
    """
    base = reference_of(reference, [term.attribute for term in terms])
    ratios = [_ratios(one, base) for one in samples]
    weights = _weights(sizes, len(samples))
    target = _target(values, len(samples))
    scale = float(np.abs(target).mean()) or 1.0
    columns = _columns(ratios, terms)
    share = weights**2 / (weights**2).sum()
    middle = share @ columns
    level = float(share @ target) / scale
    design = (columns - middle) * weights[:, None]
    theta = np.linalg.lstsq(design, (target / scale - level) * weights, rcond=1e-9)[0]
    return Function(base, scale, level - float(middle @ theta), tuple(terms), tuple(theta.tolist()))


def _weights(sizes: Sequence[float] | None, count: int) -> Floats:
    """Weights in inverse proportion to sizes, one on average."""
    if sizes is None:
        return np.ones(count)
    given = np.asarray(sizes, dtype=np.float64)
    if len(given) != count or not (np.isfinite(given).all() and (given > 0).all()):
        raise ValueError("sizes: one above zero is needed for each sample")
    weights: Floats = (1 / given) / np.mean(1 / given)
    return weights


def _target(values: Sequence[float], count: int) -> Floats:
    target = np.asarray(values, dtype=np.float64)
    if not len(target) == count > 0:
        raise ValueError(f"{len(target)} values for {count} samples: one for each is needed")
    if not np.isfinite(target).all():
        raise ValueError("a value to predict is not finite")
    return target


def _ratios(sample: Mapping[str, float], base: Mapping[str, float]) -> dict[str, float]:
    for name in base:
        need_positive(f"attribute {name}", sample.get(name))
    ratios = {name: sample[name] / amount for name, amount in base.items()}
    for name, ratio in ratios.items():
        need_positive(f"attribute {name} over the reference's", ratio)
    return ratios


def _candidates(
    ratios: Sequence[Mapping[str, float]], attributes: Sequence[str], hides: str
) -> Iterator[Term]:
    for name in attributes:
        values = sorted({round(one[name], 9) for one in ratios})
        if len(values) < 2:
            continue
        yield Term(name, Shape.LINEAR)
        yield Term(name, Shape.INVERSE)
        if len(values) < _BENDABLE:
            continue
        for bend in _bends(values):
            yield Term(name, Shape.ABOVE, bend)
        if hides and name != hides:
            for bend in _bends(sorted({round(one[name] / one[hides], 9) for one in ratios})):
                yield Term(name, Shape.EXCEEDING, bend, hides)


def _bends(values: Sequence[float]) -> Iterator[float]:
    """Places where a function may bend: two values at least remain on the far side."""
    inner = values[1:]
    if len(inner) > _MOST_BENDS:
        inner = np.quantile(inner, np.linspace(0, 1, _MOST_BENDS)).tolist()
    for low, high in pairwise(inner):
        yield from (low + share * (high - low) for share in _BETWEEN)


def _select(
    ratios: Sequence[Mapping[str, float]],
    target: Floats,
    weights: Floats,
    every: Iterable[Term],
    enough: float,
) -> tuple[list[Term], Floats]:
    """Choose terms; with the leave-one-out predictions.

    Products may be the first terms, too, where that makes the error clearly smaller, or does as
    well with fewer terms.
    """
    constant = _Solution.constant(target, weights)
    if constant.error <= enough:
        return [], constant.left_out
    alone = list(every)
    simple = [term for term in alone if term.shape in (Shape.LINEAR, Shape.INVERSE)]
    pairs = _distinguishable((replace(a, times=b) for a, b in combinations(simple, 2)), ratios)
    chosen, solution = _added(ratios, constant, weights, alone, simple, enough)
    if pairs and (solution.error > enough or len(chosen) > 1):
        others, other = _added(ratios, constant, weights, [*alone, *pairs], simple, enough)
        fewer = len(others) < len(chosen) and other.error <= max(solution.error, enough)
        if fewer or other.error < (1 - _CLEARLY) * max(solution.error, enough):
            chosen = others
            solution = other
    return chosen, solution.left_out


def _added(
    ratios: Sequence[Mapping[str, float]],
    constant: "_Solution",
    weights: Floats,
    candidates: list[Term],
    simple: list[Term],
    enough: float,
) -> tuple[list[Term], "_Solution"]:
    """Add terms one by one for as long as each clearly helps."""
    chosen: list[Term] = []
    solution = constant
    columns = _columns(ratios, candidates) * weights[:, None]
    while len(weights) >= _SAMPLES_A_TERM * (len(chosen) + 1) + 1 and solution.error > enough:
        column, better = solution.best_with(columns)
        if better is None or better.error > (1 - _CLEARLY) * solution.error:
            break
        solution = better
        chosen.append(candidates[column])
        made = _distinguishable(_products(chosen[-1], simple, candidates), ratios)
        candidates = [*candidates, *made]
        columns = np.column_stack([columns, _columns(ratios, made) * weights[:, None]])
    return chosen, solution


def _products(term: Term, simple: Iterable[Term], given: Collection[Term]) -> list[Term]:
    """Products of a term that was taken with other attributes, but those that are given."""
    if term.times is not None:
        return []
    made = ((replace(term, times=other), replace(other, times=term)) for other in simple)
    return [one for one, turned in made if one not in given and turned not in given]


def _distinguishable(products: Iterable[Term], ratios: Sequence[Mapping[str, float]]) -> list[Term]:
    """Products that samples distinguish from their two factors.

    Where they vary one attribute at a time (Lmax-I1) they do not: whatever was chosen then would
    be a guess about assignments where both differ.
    """
    amounts = _amounts(ratios)
    return [one for one in products if _is_distinguishable(one, amounts)]


def _is_distinguishable(product: Term, amounts: Mapping[str, Floats]) -> bool:
    if product.times is None or product.times.attribute == product.attribute:
        return False
    first = replace(product, times=None)(amounts)
    second = product.times(amounts)
    first, second, column = (one - one.mean() for one in (first, second, product(amounts)))
    # What is left of the column after both factors, by two steps of Gram and Schmidt.
    second = second - first * (first @ second) / max(first @ first, _TINY)
    rest = column - first * (first @ column) / max(first @ first, _TINY)
    rest = rest - second * (second @ rest) / max(second @ second, _TINY)
    return bool(np.linalg.norm(rest) > _OWN_SHARE * np.linalg.norm(column))


@dataclass(frozen=True, slots=True)
class _Solution:
    """Least squares on some columns, in the form to which one more is easily added.

    ``basis`` is orthonormal, shape ``(samples, terms)``; ``rest`` is what it leaves of the target;
    ``leverage`` is the diagonal of the hat matrix.
    """

    target: Floats
    basis: Floats
    rest: Floats
    leverage: Floats

    @classmethod
    def constant(cls, target: Floats, weights: Floats) -> "_Solution":
        column = (weights / np.linalg.norm(weights))[:, None]
        rest = target - column[:, 0] * (column[:, 0] @ target)
        return cls(target, column, rest, column[:, 0] ** 2)

    @property
    def left_out(self) -> Floats:
        """Prediction of each sample from the others."""
        if len(self.target) == 1:
            return self.target.copy()
        return self.target - _missed(self.rest, self.leverage)

    @property
    def error(self) -> float:
        return float(np.sqrt(np.mean((self.left_out - self.target) ** 2)))

    def best_with(self, columns: Floats) -> tuple[int, "_Solution | None"]:
        """Add the column that most reduces the error; None where none adds anything."""
        if not columns.size:
            return 0, None
        new = columns - self.basis @ (self.basis.T @ columns)
        sizes = np.linalg.norm(new, axis=0)
        usable = sizes > _INDEPENDENT * np.linalg.norm(columns, axis=0)
        if not usable.any():
            return 0, None
        new = new / np.where(usable, sizes, 1.0)
        rest = self.rest[:, None] - new * (new.T @ self.rest)
        leverage = self.leverage[:, None] + new**2
        errors = np.sqrt((_missed(rest, leverage) ** 2).mean(axis=0))
        # The target is about one: the first of terms that differ by rounding errors alone is taken.
        best = int(np.argmin(np.where(usable, np.round(errors, 12), np.inf)))
        basis = np.column_stack([self.basis, new[:, best]])
        return best, _Solution(self.target, basis, rest[:, best], leverage[:, best])


def _missed(rest: Floats, leverage: Floats) -> Floats:
    """Errors of predicting each sample from the others (PRESS residuals).

    A sample that alone determines a term cannot be predicted: it counts as badly missed.
    """
    missed: Floats = rest / np.maximum(1 - leverage, 0.05)
    return missed


def _columns(ratios: Sequence[Mapping[str, float]], terms: Sequence[Term]) -> Floats:
    if not terms:
        return np.empty((len(ratios), 0))
    amounts = _amounts(ratios)
    return np.column_stack([term(amounts) for term in terms])


def _amounts(ratios: Sequence[Mapping[str, float]]) -> dict[str, Floats]:
    return {name: np.array([one[name] for one in ratios]) for name in ratios[0]}


@dataclass(frozen=True, slots=True)
class LinearOccupancyModel:
    """Learns an application profile of equation 1 with linear functions.

    compute, network, disk, data: attributes that each function has; None: all.
    faster: attributes of which more makes runs faster: their reciprocal takes part instead of
        themselves.
    """

    compute: tuple[str, ...] | None = None
    network: tuple[str, ...] | None = None
    disk: tuple[str, ...] | None = None
    data: tuple[str, ...] | None = None
    faster: frozenset[str] = frozenset()

    def fit(
        self, samples: Sequence[Sample], reference: Mapping[str, float] | None = None
    ) -> OccupancyFit:
        """Learn the predictor functions.

        Raises ValueError: no sample, or one whose attributes or occupancies cannot be learned from.
        """
        base = checked(samples, reference)
        form = self._form(samples, base)
        others = from_the_others(samples, lambda rest: self._form(rest, base))
        predicted = [
            made.occupancies(one.attributes)[0] for made, one in zip(others, samples, strict=True)
        ]
        return judged_by(OccupancyFit((form,), 1, 0.0, len(samples)), samples, predicted)

    def _form(self, samples: Sequence[Sample], base: Mapping[str, float]) -> Form:
        amounts = [one.attributes for one in samples]
        chosen = dict(zip(PARTS, (self.compute, self.network, self.disk, self.data), strict=True))

        def learned(part: str) -> Function:
            own = chosen[part]
            return linear(
                amounts,
                [getattr(one.measured, part) for one in samples],
                reference=base,
                terms=[
                    transformation(n, self.faster) for n in (sorted(base) if own is None else own)
                ],
            )

        return Form.of(learned)


def percentage_error(predicted: float, actual: float, whole: float) -> float:
    """Absolute percentage error of one occupancy (VLDB 2006, section 3.6).

    It has none where the actual occupancy is nothing: then it counts as 100 if what was predicted
    matters beside the ``whole``, and as nothing otherwise.
    """
    need_finite("occupancy", predicted, actual, whole, least=0)
    if actual > _NOTHING * whole:
        return 100 * abs(actual - predicted) / actual
    return 100.0 if predicted > _NOTHING * whole else 0.0


def part_errors(
    predicted: Sequence[Occupancies], actual: Sequence[Occupancies]
) -> dict[str, float]:
    """MAPE of each of the four functions, by the names of :class:`Occupancies`."""
    by_part = {}
    for name in PARTS:
        errors = [
            percentage_error(
                getattr(mine, name),
                getattr(theirs, name),
                theirs.data_bytes if name == "data_bytes" else theirs.each_s,
            )
            for mine, theirs in zip(predicted, actual, strict=True)
        ]
        by_part[name] = float(np.mean(errors))
    return by_part
