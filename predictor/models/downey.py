"""Downey's model of speedup: formulas only.

A. B. Downey, *A Model for Speedup of Parallel Programs*, UC Berkeley CSD-97-933, 1997; ADEPT,
Table 1.  ``A`` is the average parallelism, ``sigma`` the variance of parallelism: up to 1 the
low-variance mode, above it the high-variance mode.

Both modes are linear in two amplitudes once the *end* of their first section is fixed::

    T(n) = a·p(n) + a·x·q(n)

    low   end = A,          x = σ/2, a = T(1)/A           p, q = A/n, 1 - 1/n           n ≤ A
                                                                 1, (2A - 1)/n - 1      n ≤ 2A - 1
                                                                 1, 0                   beyond
    high  end = A + Aσ - σ, x = σ,   a = T(1)/(A(σ + 1))  p, q = end/n, 1               n ≤ end
                                                                 1, 1                   beyond

That is what makes the unknown T(1) and σ closed-form, and leaves one dimension to search.
"""

from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predictor.checks import need_finite

Floats = NDArray[np.float64]


class VarianceMode(StrEnum):
    """The two modes of the model."""

    LOW = "low"
    HIGH = "high"


def speedup(nodes: ArrayLike, A: float, sigma: float) -> Floats:
    """S(n) of Table 1 for ``A`` ≥ 1 and ``sigma`` ≥ 0.

    Raises ValueError: a parameter or a node count is out of its range.

    >>> speedup([1, 8, 1000], 8.0, 0.0).tolist()
    [1.0, 8.0, 8.0]
    """
    n = np.asarray(nodes, dtype=float)
    need_finite("A", A, least=1)
    need_finite("sigma", sigma, least=0)
    if not (np.isfinite(n) & (n >= 1)).all():
        raise ValueError(f"node counts {n}: each must be a finite number of 1 or more")
    if sigma > 1:
        rising = n * A * (sigma + 1) / (sigma * (n + A - 1) + A)
        return np.where(n <= A + A * sigma - sigma, rising, A)
    first = A * n / (A + sigma / 2 * (n - 1))
    second = A * n / (sigma * (A - 0.5) + n * (1 - sigma / 2))
    return np.where(n <= A, first, np.where(n <= 2 * A - 1, second, A))


def max_useful(A: float, sigma: float) -> float:
    """Nodes beyond which speedup no longer grows (section III.B)."""
    need_finite("A", A, least=1)
    need_finite("sigma", sigma, least=0)
    return A + A * sigma - sigma if sigma > 1 else 2 * A - 1


def terms(mode: VarianceMode, nodes: Floats, end: Floats) -> tuple[Floats, Floats]:
    """Evaluate p and q of the module's docstring; ``nodes`` and ``end`` broadcast."""
    if mode is VarianceMode.HIGH:
        p = np.maximum(end / nodes, 1.0)
        return p, np.ones_like(p)
    p = np.maximum(end / nodes, 1.0)
    q = np.where(nodes <= end, 1 - 1 / nodes, np.maximum((2 * end - 1) / nodes - 1, 0.0))
    return p, q


def sigma_of(mode: VarianceMode, x: Floats) -> Floats:
    """σ of a ratio of amplitudes."""
    return x if mode is VarianceMode.HIGH else 2 * x


def parallelism_of(mode: VarianceMode, end: Floats, x: Floats) -> Floats:
    """Parallelism A, from the end of the first section and the ratio of amplitudes."""
    return (end + x) / (1 + x) if mode is VarianceMode.HIGH else end


def serial_time_of(mode: VarianceMode, end: Floats, x: Floats, amplitude: Floats) -> Floats:
    """T(1) in the unit of ``amplitude``."""
    return amplitude * (end + x) if mode is VarianceMode.HIGH else amplitude * end
