"""How well predictions order candidates: measures of NIMO's papers that benchmarks print."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from predictor.occupancy.error_measures import pairs


def order_preserving_degree(predicted: ArrayLike, actual: ArrayLike) -> float:
    """OPD: share of the n² ordered pairs of candidates that prediction and measurement order alike.

    >>> order_preserving_degree([1.0, 2.0, 3.0], [10.0, 30.0, 20.0])
    0.7777777777777778
    """
    p, a = pairs(predicted, actual)
    alike = np.sign(p[:, None] - p) == np.sign(a[:, None] - a)
    return float(alike.mean())


def ranking_distance(predicted: ArrayLike, actual: ArrayLike, k: int) -> float:
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
