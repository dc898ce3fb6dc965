"""Shapes of strong scaling, and a prior over them: plain functions on arrays.

A shape is run time relative to the run time on the smallest node count observed, over the ratio
``x`` of node counts::

    T(x) / T(1)  =  (1 - serial) * x**-exponent  +  serial  +  overhead * (x**growth - 1) / growth

- ``serial``: share of that run that more nodes do not shorten (Amdahl, AFIPS 1967);
- ``exponent``: 1 where the rest divides evenly, less with imbalance, more with caches that begin
  to hold the data;
- ``overhead``, ``growth``: cost of communication, which ADEPT's model lacks: growth 0 is log x
  (trees of collectives), 1/2 is x**0.5 (rows and columns of a process grid), 1 is linear (one
  partner after the other; Gunther's coherency term in T).

Everything is a ratio: seconds or hours, 2 or 20,000 nodes make no difference.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from predictor.checks import LARGEST, SMALLEST, need_finite

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ShapePrior:
    """Prior of an application without any run.

    ``serial`` and ``overhead`` are log-uniform over their ranges: nothing determines their order
    of magnitude.  ``exponent`` is normal around 1, for the share ``uneven`` of applications with a
    wide deviation.  ``growth`` is 0 for the share ``collective``; for the others it is the square
    of a uniform number, since cheap patterns of communication are the common ones.
    """

    shapes: int = 4096
    serial: tuple[float, float] = (3e-4, 0.8)
    overhead: tuple[float, float] = (1e-6, 0.3)
    exponent_sd: float = 0.02
    uneven: float = 0.3
    uneven_sd: float = 0.2
    collective: float = 0.3


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """Arrays of equal length, one entry a shape; see the module for what they mean."""

    serial: Floats
    exponent: Floats
    overhead: Floats
    growth: Floats


@cache
def draw(prior: ShapePrior) -> Shapes:
    """Cover ``prior`` evenly with shapes; the same ones each time."""
    size, slow, width, speed, kind = spread_evenly(prior.shapes, 5)
    sd = np.where(kind < prior.uneven, prior.uneven_sd, prior.exponent_sd)
    beyond = np.maximum(speed - prior.collective, 0.0) / (1.0 - prior.collective)
    return Shapes(
        serial=_log_uniform(prior.serial, size),
        exponent=np.clip(1.0 + sd * ndtri(width), 0.3, 1.7),
        overhead=_log_uniform(prior.overhead, slow),
        growth=np.maximum(beyond**2, 1e-6),
    )


def take(shapes: Shapes, places: NDArray[np.intp]) -> Shapes:
    """Shapes at ``places``."""
    return Shapes(
        shapes.serial[places],
        shapes.exponent[places],
        shapes.overhead[places],
        shapes.growth[places],
    )


def log_time(shapes: Shapes, ratios: Floats) -> Floats:
    """Log of T(x)/T(1) for each shape (rows) at each ratio of node counts (columns)."""
    if not ((ratios >= SMALLEST) & (ratios <= LARGEST)).all():
        raise ValueError(f"ratios of node counts {ratios}: each must be finite and above 0")
    log_x = np.log(ratios)[None, :]
    serial = shapes.serial[:, None]
    growth = shapes.growth[:, None]
    work = (1.0 - serial) * np.exp(-shapes.exponent[:, None] * log_x) + serial
    cost = np.expm1(growth * np.maximum(log_x, 0.0)) / growth
    logs: Floats = np.log(work + shapes.overhead[:, None] * cost)
    return logs


def spread_evenly(count: int, dimensions: int) -> Floats:
    """Points that fill the unit cube evenly, one dimension a row.

    Additive recurrence with powers of the generalised golden ratio, the root of
    x^(d+1) = x + 1 (Roberts 2018, after Kronecker and Weyl).
    """
    need_finite("count", count, least=0)
    need_finite("dimensions", dimensions, least=1)
    root = 2.0
    for _ in range(64):
        root = (1.0 + root) ** (1.0 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    points: Floats = (0.5 + steps[:, None] * np.arange(1.0, count + 1)[None, :]) % 1.0
    return points


def _log_uniform(bounds: tuple[float, float], unit: Floats) -> Floats:
    low, high = np.log(bounds)
    values: Floats = np.exp(low + unit * (high - low))
    return values
