"""Measures of accuracy, and of how well predictions order candidates, as the papers define them.

============  ===========================================================================
AE, PE        absolute and percentage error of each prediction (NIMO, application models)
MAPE          mean of PE in percent (NIMO, active learning, section 3.6)
NMAE, MSE     mean absolute error over mean measured value; mean squared error (AdRM)
PA            prediction accuracy, 100 - E percent (ADEPT, section VI)
============  ===========================================================================
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predictor.checks import need_positive
from predictor.occupancy.ranking import pairs

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
