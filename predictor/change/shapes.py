"""Shapes of R(x) = T(x·n0)/T(n0), the run time of one problem over that on the count asked for.

A shape has a part f that more nodes do not shorten (Amdahl, AFIPS 1967), an exponent h of the rest,
and an overhead g for each doubling of the nodes::

    R(x) = f + (1 - f)·x^-h + g·max(log2 x, 0)

The prior is a product over f, g and h.  Its weights and the roughness were fitted by expectation
maximisation to 235 published strong-scaling curves of twelve applications (WRF, GROMACS, CASTEP,
OpenFOAM, TeaLeaf, CloverLeaf, NEMO and others, 1 to 2,048 nodes), each seen from each of its node
counts, an application's curves weighted by the root of their number.
"""

from itertools import product

import numpy as np
import numpy.typing as npt

from predictor.checks import need_finite

Floats = npt.NDArray[np.float64]

#: Values of f, g and h with their weights.
SERIAL = ((0.0, 0.36), (0.05, 0.20), (0.15, 0.09), (0.4, 0.17), (0.8, 0.18))
OVERHEAD = ((0.0, 0.62), (0.03, 0.19), (0.1, 0.09), (0.25, 0.10))
EXPONENT = ((0.6, 0.05), (0.8, 0.14), (1.0, 0.61), (1.2, 0.20))
#: Standard deviation of log run time by which a curve leaves its shape, for one doubling.
ROUGHNESS = 0.09
#: Least R.
_LEAST = 0.005

_GRID = np.array([[p[0] for p in one] for one in product(SERIAL, OVERHEAD, EXPONENT)])
#: Log of the prior weight of each shape, shape ``(80,)``.
LOG_PRIOR: Floats = np.log(
    [np.prod([p[1] for p in one]) for one in product(SERIAL, OVERHEAD, EXPONENT)]
)


def log_ratio(doublings: Floats) -> Floats:
    """Log of R for each shape.

    doublings: log2 of the node count over that asked for, shape ``(counts,)``.
    Returns array of shape ``(shapes, counts)``.
    Raises ValueError: one is not finite.

    >>> np.round(np.exp(log_ratio(np.array([0.0, 1.0]))[2]), 3).tolist()
    [1.0, 0.5]
    """
    need_finite("doublings", *doublings)
    f, g, h = (one[:, None] for one in _GRID.T)
    made = f + (1 - f) * 2.0 ** (-h * doublings) + g * np.maximum(doublings, 0.0)
    return np.asarray(np.log(np.maximum(made, _LEAST)))
