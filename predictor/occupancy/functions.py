"""Functions of attributes: sums of terms that are linear, inverse, bent, or a product of two.

What NIMO's predictor functions are made of (Shivam, Babu, Chase, *Learning Application Models for
Utility Resource Planning*, ICAC 2006, section IV.C); :mod:`predictor.occupancy.regression` fits
them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from predictor.checks import need_positive

Floats = NDArray[np.float64]
Amount = TypeVar("Amount", float, Floats)


class Shape(StrEnum):
    """How a term depends on its attribute x."""

    LINEAR = "linear"  #: x
    INVERSE = "inverse"  #: 1/x
    ABOVE = "above"  #: max(0, x - bend)
    POWER = "power"  #: x to the power of the bend
    EXCEEDING = "exceeding"  #: max(0, x - bend·other): what another attribute does not hide


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a function, of normalised attributes; ``times`` is a second factor."""

    attribute: str
    shape: Shape
    bend: float = 0.0
    other: str = ""
    times: "Term | None" = None

    def __call__(self, amounts: Mapping[str, Amount]) -> Amount:
        """Value of the term, or its values for arrays of amounts."""
        value = self._value(amounts[self.attribute], amounts)
        return value * self.times(amounts) if self.times else value

    @property
    def falls(self) -> bool:
        """Whether it grows without bound as the attribute goes to nothing."""
        return self.shape is Shape.INVERSE or (self.shape is Shape.POWER and self.bend < 0)

    def _value(self, x: Amount, amounts: Mapping[str, Amount]) -> Amount:
        if self.shape is Shape.LINEAR:
            return x
        if self.shape is Shape.INVERSE:
            return 1 / x
        if self.shape is Shape.POWER:
            raised: Amount = x**self.bend
            return raised
        if self.shape is Shape.ABOVE:
            return _positive(x - self.bend)
        return _positive(x - self.bend * amounts[self.other])

    def __str__(self) -> str:
        """Write it as the paper writes its functions."""
        texts = {
            Shape.LINEAR: self.attribute,
            Shape.INVERSE: f"1/{self.attribute}",
            Shape.POWER: f"{self.attribute}^{self.bend:.3g}",
            Shape.ABOVE: f"({self.attribute} - {self.bend:.3g})+",
            Shape.EXCEEDING: f"({self.attribute} - {self.bend:.3g} {self.other})+",
        }
        return f"{texts[self.shape]} {self.times}" if self.times else texts[self.shape]


def _positive(amount: Amount) -> Amount:
    """Give the amount where it is above zero, and zero elsewhere."""
    return (amount + abs(amount)) / 2


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

        Raises ValueError: an attribute is missing, or not above zero and finite.
        """
        return max(self.value(amounts), 0.0)

    def value(self, amounts: Mapping[str, float]) -> float:
        """Value of the fitted formula, which may go below zero."""
        # Attributes divided by those of the reference.
        if missing := [name for name in self.reference if name not in amounts]:
            raise ValueError(f"attribute {missing[0]} is missing, and the samples depend on it")
        for name in self.reference:
            need_positive(f"attribute {name}", amounts[name])
        ratios = {name: amounts[name] / self.reference[name] for name in self.reference}
        terms = (c * term(ratios) for c, term in zip(self.coefficients, self.terms, strict=True))
        return self.scale * (self.constant + sum(terms))

    def __str__(self) -> str:
        """Write it as the paper does, in the unit of its values."""
        parts = (
            [f"{self.scale * self.constant + 0.0:.3g}"] if self.constant or not self.terms else []
        )
        parts += [
            f"{self.scale * c:.3g} {term}"
            for c, term in zip(self.coefficients, self.terms, strict=True)
        ]
        return " + ".join(parts)


def reference_of(reference: Mapping[str, float], names: Iterable[str]) -> dict[str, float]:
    """Give these attributes of the reference assignment.

    Raises ValueError: one is missing, or not above zero and finite.
    """
    base = {name: reference.get(name, 0.0) for name in names}
    for name, value in base.items():
        need_positive(f"attribute {name} of the reference", value)
    return base


def transformation(name: str, faster: frozenset[str]) -> Term:
    """Transform an attribute: to its reciprocal where more of it makes runs faster."""
    return Term(name, Shape.INVERSE if name in faster else Shape.LINEAR)
