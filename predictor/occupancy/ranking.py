"""Whether predictions order assignments as measurements do (ICAC 2006, section V.A)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from predictor.checks import need_finite

Floats = NDArray[np.float64]


def order_preserving_degree(predicted: Sequence[float], actual: Sequence[float]) -> float:
    """OPD: share of the n² ordered pairs of candidates that prediction and measurement order alike.

    >>> order_preserving_degree([1.0, 2.0, 3.0], [10.0, 30.0, 20.0])
    0.7777777777777778
    """
    p, a = pairs(predicted, actual)
    alike = np.sign(p[:, None] - p) == np.sign(a[:, None] - a)
    return float(alike.mean())


def ranking_distance(predicted: Sequence[float], actual: Sequence[float], k: int) -> float:
    """RD(k): how far the k best candidates are from their predicted ranks; 0 is best.

    Raises ValueError: ``k`` is not within 1 and the number of candidates, or there is only one
        candidate.
    """
    p, a = pairs(predicted, actual)
    n = len(a)
    if not 1 <= k <= n or n < 2:
        raise ValueError(f"RD({k}) of {n} candidates")
    best = np.argsort(a, kind="stable")[:k]
    rank = rankdata(p, method="min")[best]
    i = np.arange(1, k + 1)
    return float(np.abs(rank - i).sum() / (n - i).sum())


def pairs(predicted: Sequence[float], actual: Sequence[float]) -> tuple[Floats, Floats]:
    """Predictions and measurements as arrays of one length, of finite numbers.

    Raises ValueError: they are of different lengths, none, or not finite.
    """
    p = np.asarray(predicted, dtype=float)
    a = np.asarray(actual, dtype=float)
    if p.shape != a.shape or p.ndim != 1 or p.size == 0:
        raise ValueError(f"{p.shape} predictions for {a.shape} measurements")
    need_finite("prediction", *p)
    need_finite("measurement", *a)
    return p, a
