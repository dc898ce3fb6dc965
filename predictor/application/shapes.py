"""Shapes of scaling over counts, and how likely each is before any run.

A shape is R(x) = T(x·n0)/T(n0), the run time of one problem over that on a reference count n0.  It
has a part f that more nodes do not shorten (Amdahl, AFIPS 1967), an exponent h of the rest, and an
overhead g for each doubling of the nodes::

    R(x) = f + (1 - f)·x^-h + g·max(log2 x, 0)

The prior is a product over f, g and h.  Its weights were fitted by expectation maximisation to 235
published strong-scaling curves of twelve applications (WRF, GROMACS, CASTEP, OpenFOAM, TeaLeaf,
CloverLeaf, NEMO and others, 1 to 2,048 nodes), each seen from each of its node counts, an
application's curves weighted by the root of their number.  Published curves are of applications
that scale: one in eight is taken not to scale at all, as many jobs of real logs do not.
"""

from itertools import product

import numpy as np
import numpy.typing as npt

from predictor.checks import need_finite

Floats = npt.NDArray[np.float64]

#: Values of f, g and h, each with its weight.
SERIAL = ((0.0, 0.30), (0.05, 0.18), (0.15, 0.10), (0.4, 0.15), (0.8, 0.15), (1.0, 0.12))
OVERHEAD = ((0.0, 0.62), (0.03, 0.19), (0.1, 0.09), (0.25, 0.10))
EXPONENT = ((0.6, 0.05), (0.8, 0.14), (1.0, 0.61), (1.2, 0.20))
#: Least R.
_LEAST = 0.005


def _grid() -> tuple[Floats, Floats]:
    """Give all shapes, and the log of their weights; shapes that are the same only once."""
    weights: dict[tuple[float, float, float], float] = {}
    for (f, of_f), (g, of_g), (h, of_h) in product(SERIAL, OVERHEAD, EXPONENT):
        # Where nothing is shortened the exponent does not matter.
        shape = (f, g, 1.0 if f == 1.0 else h)
        weights[shape] = weights.get(shape, 0.0) + of_f * of_g * of_h
    return np.array([*weights]), np.log([*weights.values()])


_SHAPES, LOG_PRIOR = _grid()


def log_ratio(doublings: Floats) -> Floats:
    """Log of R for each shape.

    doublings: log2 of the count over the reference count, shape ``(counts,)``.
    Returns array of shape ``(shapes, counts)``.
    Raises ValueError: one is not finite.

    >>> np.round(np.exp(log_ratio(np.array([0.0, 1.0]))[2]), 3).tolist()
    [1.0, 0.5]
    """
    need_finite("doublings", *doublings)
    serial, overhead, exponent = (column[:, None] for column in _SHAPES.T)
    shortened = (1 - serial) * 2.0 ** (-exponent * doublings)
    added = overhead * np.maximum(doublings, 0.0)
    return np.asarray(np.log(np.maximum(serial + shortened + added, _LEAST)))
