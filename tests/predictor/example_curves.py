"""Curves for tests, made of formulas."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from predictor.models.downey import speedup
from predictor.types import Curve, Point

Floats = NDArray[np.float64]


def curve_of(nodes: Sequence[int], times: Sequence[float] | Floats, *, repeats: int = 1) -> Curve:
    return Curve(tuple(Point(int(n), float(t), repeats) for n, t in zip(nodes, times, strict=True)))


def drawn(nodes: Sequence[int], formula: Callable[[Floats], Floats], noise: float = 0.0) -> Curve:
    """Curve of ``formula``, with log-normal noise of a fixed seed."""
    n = np.asarray(nodes, dtype=float)
    factor = np.exp(np.random.default_rng(0).normal(0, noise, len(n))) if noise else 1.0
    return curve_of(nodes, formula(n) * factor)


def sized(curves: Iterable[Curve], each: int) -> Curve:
    """Curve of a second size, with those of the others; it may have no runs of its own."""
    every = list(curves)
    own = next((one for one in every if one.each == each), Curve((), each=each))
    return replace(own, others=tuple(one for one in every if one.each != each))


def downey(A: float, sigma: float, serial_s: float = 1000.0) -> Callable[[Floats], Floats]:
    return lambda n: serial_s / speedup(n, A, sigma)


def amdahl(n: Floats) -> Floats:
    return 600 / n + 20
