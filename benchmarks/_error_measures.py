"""Measures of accuracy, and of how well predictions order candidates, as the papers define them.

============  ===========================================================================
AE, PE        absolute and percentage error of each prediction (NIMO, application models)
MAPE          mean of PE in percent (NIMO, active learning, section 3.6)
NMAE, MSE     mean absolute error over mean measured value; mean squared error (AdRM)
OPD, RD(k)    order preserving degree, top-k ranking distance (NIMO, application models)
PA            prediction accuracy, 100 - E percent (ADEPT, section VI)
============  ===========================================================================
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from predictor.checks import need_finite, need_positive

Floats = NDArray[np.float64]


def absolute_errors(predicted: ArrayLike, actual: ArrayLike) -> Floats:
    """AE: |predicted - actual|, in the unit of both.

    Raises ValueError: nothing to compare, or not as many predictions as measurements.
    """
    p, a = pairs(predicted, actual)
    return np.abs(p - a)


def percentage_errors(predicted: ArrayLike, actual: ArrayLike) -> Floats:
    """PE: absolute error in percent of the measured value.

    >>> percentage_errors([110.0, 45.0], [100.0, 50.0]).tolist()
    [10.0, 10.0]
    """
    p, a = pairs(predicted, actual)
    need_positive("measurement", *a)
    return 100 * np.abs(p - a) / a


def mape(predicted: ArrayLike, actual: ArrayLike) -> float:
    """MAPE: mean of the percentage errors."""
    return float(percentage_errors(predicted, actual).mean())


def nmae(predicted: ArrayLike, actual: ArrayLike) -> float:
    """NMAE: mean absolute error as a share of the mean measured value, which is above zero."""
    error = absolute_errors(predicted, actual)
    mean = float(np.asarray(actual, dtype=float).mean())
    need_positive("mean measurement", mean)
    return float(error.mean()) / mean


def mse(predicted: ArrayLike, actual: ArrayLike) -> float:
    """MSE: mean squared error, in the squared unit of both."""
    return float((absolute_errors(predicted, actual) ** 2).mean())


def pairs(predicted: ArrayLike, actual: ArrayLike) -> tuple[Floats, Floats]:
    """Predictions and measurements as arrays of one length, of finite numbers.

    Raises ValueError: they are of different lengths, none, or not finite.
    """
    p, a = np.asarray(predicted, dtype=float), np.asarray(actual, dtype=float)
    if p.shape != a.shape or p.ndim != 1 or p.size == 0:
        raise ValueError(f"{p.shape} predictions for {a.shape} measurements")
    need_finite("prediction", *p)
    need_finite("measurement", *a)
    return p, a


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
