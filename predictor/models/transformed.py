"""Linear regression on attributes and their transformations, chosen by evidence.

What NIMO's predictor functions are made of (Shivam, Babu, Chase, *Learning Application Models for
Utility Resource Planning*, ICAC 2006, section IV.C): values normalised by a reference, and for each
attribute x the terms x and 1/x.  The paper leaves latency hiding open, where a stall begins only
beyond a certain latency (section V.B.4); for that there are terms that bend: above a fixed value,
or above a value that grows with what the processor has to do meanwhile.

Terms are added one by one, the one first that most reduces the error of predicting each sample from
the others (PRESS), for as long as it does so clearly.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: A term has to reduce the error by this share.
_CLEARLY = 0.15
#: Errors below this share of the mean value are noise that no term is needed for.
_NOISE = 1e-3
#: Samples needed for each term beyond the constant.
_SAMPLES_A_TERM = 2
#: Distinct values from which on a bend can be told from a line.
_BENDABLE = 4
#: Where the bend may be, between two values and at them.
_BETWEEN = (0.0, 0.25, 0.5, 0.75)


class Shape(StrEnum):
    """How a term depends on its attribute."""

    LINEAR = "linear"  #: x
    INVERSE = "inverse"  #: 1/x
    ABOVE = "above"  #: max(0, x - bend)
    EXCEEDING = "exceeding"  #: max(0, x - bend·other): what another attribute does not hide


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a function, of normalised attributes."""

    attribute: str
    shape: Shape
    bend: float = 0.0
    other: str = ""

    def __call__(self, amounts: Mapping[str, float]) -> float:
        """Value of the term."""
        x = amounts[self.attribute]
        if self.shape is Shape.LINEAR:
            return x
        if self.shape is Shape.INVERSE:
            return 1 / x
        bend = self.bend * (amounts[self.other] if self.shape is Shape.EXCEEDING else 1.0)
        return max(0.0, x - bend)

    def __str__(self) -> str:
        """Write it as the paper writes its functions."""
        texts = {
            Shape.LINEAR: self.attribute,
            Shape.INVERSE: f"1/{self.attribute}",
            Shape.ABOVE: f"({self.attribute} - {self.bend:.3g})+",
            Shape.EXCEEDING: f"({self.attribute} - {self.bend:.3g} {self.other})+",
        }
        return texts[self.shape]


@dataclass(frozen=True, slots=True)
class Function:
    """A fitted function: ``constant`` plus ``coefficients`` times ``terms``, times ``scale``.

    ``reference`` are the attributes that amounts are divided by.  ``press`` is the root mean square
    error of predicting each sample from the others, as a share of ``scale``.
    """

    reference: dict[str, float]
    scale: float
    constant: float
    terms: tuple[Term, ...] = ()
    coefficients: tuple[float, ...] = ()
    press: float = 0.0

    def __call__(self, amounts: Mapping[str, float]) -> float:
        """Predicted value, never below zero.

        Raises
        ------
        KeyError
            An attribute of a term is missing.
        """
        ratios = self.normalised(amounts)
        terms = (c * term(ratios) for c, term in zip(self.coefficients, self.terms, strict=True))
        return self.scale * max(self.constant + sum(terms), 0.0)

    def normalised(self, amounts: Mapping[str, float]) -> dict[str, float]:
        """Attributes divided by those of the reference."""
        return {name: amounts[name] / self.reference[name] for name in self.reference}

    def __str__(self) -> str:
        """Write it as the paper does, in the unit of its values."""
        parts = [f"{self.scale * self.constant:.3g}"] if self.constant or not self.terms else []
        parts += [
            f"{self.scale * c:.3g} {term}"
            for c, term in zip(self.coefficients, self.terms, strict=True)
        ]
        return " + ".join(parts)


def learn(
    samples: Sequence[Mapping[str, float]],
    values: Sequence[float],
    *,
    reference: Mapping[str, float],
    attributes: Sequence[str],
    hides: str = "",
) -> tuple[Function, Floats]:
    """Fit a function to samples.

    Parameters
    ----------
    samples
        Attributes of each, above zero.
    values
        What is to be predicted, in their own unit.
    reference
        Attributes of the reference assignment.
    attributes
        Which attributes may take part.
    hides
        Attribute that may hide what grows with another: gives terms that exceed it.

    Returns
    -------
    tuple
        The function, and for each sample its prediction from the others.

    Raises
    ------
    ValueError
        There is no sample, or an attribute is missing or not above zero.
    """
    if not samples:
        raise ValueError("no sample to learn from")
    known = (*attributes, hides) if hides else tuple(attributes)
    base = {name: reference[name] for name in known}
    ratios = [_ratios(one, base) for one in samples]
    target = np.asarray(values, dtype=np.float64)
    scale = float(np.abs(target).mean()) or 1.0
    target = target / scale
    chosen, left_out = _select(ratios, target, list(_candidates(ratios, attributes, hides)))
    theta, _ = _solve(_design(ratios, chosen), target)
    press = float(np.sqrt(np.mean((left_out - target) ** 2)))
    coefficients = tuple(theta[1:].tolist())
    function = Function(base, scale, float(theta[0]), tuple(chosen), coefficients, press)
    return function, np.maximum(left_out, 0.0) * scale


def _ratios(sample: Mapping[str, float], base: Mapping[str, float]) -> dict[str, float]:
    for name in base:
        if not sample.get(name, 0.0) > 0:
            raise ValueError(f"attribute {name} is {sample.get(name)}, one above zero is needed")
    return {name: sample[name] / amount for name, amount in base.items()}


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
    for low, high in pairwise(values[1:]):
        yield from (low + share * (high - low) for share in _BETWEEN)


def _select(
    ratios: Sequence[Mapping[str, float]], target: Floats, candidates: list[Term]
) -> tuple[list[Term], Floats]:
    """Add terms for as long as each clearly helps; with the leave-one-out predictions."""
    chosen: list[Term] = []
    left_out = _left_out(_design(ratios, chosen), target)
    error = _error(left_out, target)
    while len(target) >= _SAMPLES_A_TERM * (len(chosen) + 1) + 1 and error > _NOISE:
        tried = [
            (_error(found, target), place, found)
            for place, term in enumerate(candidates)
            if term not in chosen
            and len(found := _left_out(_design(ratios, [*chosen, term]), target))
        ]
        if not tried:
            break
        best, place, found = min(tried, key=lambda one: one[:2])
        if best > (1 - _CLEARLY) * error:
            break
        chosen.append(candidates[place])
        error, left_out = best, found
    return chosen, left_out


def _design(ratios: Sequence[Mapping[str, float]], chosen: Sequence[Term]) -> Floats:
    return np.array([[1.0, *(term(one) for term in chosen)] for one in ratios])


def _solve(design: Floats, target: Floats) -> tuple[Floats, Floats]:
    """Least squares: the parameters, and the leverage of each sample."""
    q, r = np.linalg.qr(design)
    determined = np.abs(np.diag(r)).min(initial=1.0) >= 1e-9
    found = np.linalg.solve(r, q.T @ target) if determined else np.linalg.pinv(design) @ target
    theta: Floats = np.asarray(found, dtype=np.float64)
    leverage: Floats = (q**2).sum(axis=1)
    return theta, leverage


def _left_out(design: Floats, target: Floats) -> Floats:
    """Prediction of each sample from the others; empty where they do not determine the terms."""
    if len(target) == 1:
        return target.copy()
    diagonal = np.abs(np.diag(np.linalg.qr(design, mode="r")))
    if len(target) < design.shape[1] or diagonal.min() < 1e-9 * diagonal.max():
        return np.empty(0)
    theta, leverage = _solve(design, target)
    # A sample that alone determines a term cannot be predicted: it counts as badly missed.
    rest = np.maximum(1 - leverage, 0.05)
    predicted: Floats = target - (target - design @ theta) / rest
    return predicted


def _error(predicted: Floats, target: Floats) -> float:
    return float(np.sqrt(np.mean((predicted - target) ** 2)))
