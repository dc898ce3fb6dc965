"""Instances of Downey's model as arrays: one for each target of a search."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from predictor.models.downey import VarianceMode, parallelism_of, serial_time_of, sigma_of, terms

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Instances:
    """One instance of the model for each target; arrays of equal length.

    ``a`` and ``x`` are the amplitude and the ratio of amplitudes of
    :mod:`predictor.models.downey`.
    """

    high: NDArray[np.bool_]
    end: Floats
    x: Floats
    a: Floats
    wssre: Floats

    def times(self, nodes: Floats) -> Floats:
        """T(n) of instance i at ``nodes[i]``, in the unit of the observations."""
        return self._by_mode(
            lambda mode, i: _time(mode, nodes[i], self.end[i], self.x[i], self.a[i])
        )

    @property
    def parallelism(self) -> Floats:
        """A of each instance."""
        return self._by_mode(lambda mode, i: parallelism_of(mode, self.end[i], self.x[i]))

    @property
    def sigma(self) -> Floats:
        """σ of each instance."""
        return self._by_mode(lambda mode, i: sigma_of(mode, self.x[i]))

    @property
    def serial_time(self) -> Floats:
        """T(1) of each instance."""
        return self._by_mode(
            lambda mode, i: serial_time_of(mode, self.end[i], self.x[i], self.a[i])
        )

    def chosen(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> "Instances":
        """Select instances by mask or index."""
        return Instances(*(getattr(self, name)[rows] for name in COLUMNS))

    @classmethod
    def joined(cls, parts: Sequence["Instances"]) -> "Instances":
        """All instances of ``parts``."""
        return cls(*(np.concatenate([getattr(p, name) for p in parts]) for name in COLUMNS))

    def _by_mode(self, formula: Callable[[VarianceMode, NDArray[np.bool_]], Floats]) -> Floats:
        values = np.empty_like(self.end)
        for mode, own in ((VarianceMode.LOW, ~self.high), (VarianceMode.HIGH, self.high)):
            if own.any():
                values[own] = formula(mode, own)
        return values


COLUMNS = tuple(field.name for field in fields(Instances))


def _time(mode: VarianceMode, nodes: Floats, end: Floats, x: Floats, a: Floats) -> Floats:
    p, q = terms(mode, nodes, end)
    return a * (p + x * q)
