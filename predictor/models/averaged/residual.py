"""What no shape explains: a Gaussian process on log run time over log nodes, of unknown scale.

The residual has covariance tau² exp(-|log n - log n'| / reach): an Ornstein-Uhlenbeck process, the
roughest of the Matérn family, which passes through the observations without swinging between them
as smoother ones do.  A constant of unknown size (the scale of the run time) is integrated out under
a flat prior.  Source: Rasmussen and Williams, *Gaussian Processes for Machine Learning*, equations
2.41 to 2.45.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from predictor.checks import LARGEST, need_positive

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """Residual processes given the places of the observations, not yet their values.

    The first axis of all arrays but ``places`` runs over the processes.
    """

    places: Floats  #: log nodes of the observations
    reach: float  #: distance in log nodes over which correlation falls to 1/e
    tau: Floats  #: standard deviation of the process, log time
    noise: Floats  #: standard deviation of one new run, log time
    precision: Floats  #: inverse covariance of the observations
    log_volume: Floats  #: log determinant of the covariance, with that of the scale

    def evidence(self, left: Floats) -> Floats:
        """Log likelihood of observations less a shape, up to a constant.

        left: one row for each shape, one column for each observation.
        Returns Floats: one row for each process, one column for each shape.
        """
        ones = self.precision.sum(axis=2)
        outer = ones[:, :, None] * ones[:, None, :] / ones.sum(axis=1)[:, None, None]
        # The misfit is a sum of squares: one product with the roots of all processes.
        size, root = np.linalg.eigh(self.precision - outer)
        root = root * np.sqrt(np.maximum(size, 0.0))[:, None, :]
        parts, count = ones.shape
        white = root.transpose(0, 2, 1).reshape(parts * count, count) @ left.T
        white *= white
        misfit = white.reshape(parts, count, -1).sum(axis=1)
        values: Floats = -0.5 * (misfit + self.log_volume[:, None])
        return values

    def gain(self, targets: Floats) -> Floats:
        """Weights of the observations in scale plus residual at ``targets`` (log nodes).

        One matrix for each process: a row for each target, a column for each observation.
        """
        ones = self.precision.sum(axis=2)
        pull = self._pull(targets)
        missing = 1.0 - pull.sum(axis=2)
        weights: Floats = pull + missing[:, :, None] * (ones / ones.sum(axis=1)[:, None])[:, None]
        return weights

    def covariance(self, one: Floats, other: Floats) -> Floats:
        """Covariance of scale plus residual between places (log nodes), without noise.

        The shapes of ``one`` and ``other`` broadcast, behind the axis of the processes.
        """
        first, second = np.broadcast_arrays(one, other)
        a, b = first.ravel(), second.ravel()
        scale = self.precision.sum(axis=(1, 2))
        pull, near = self._pull(a), self._near(b[:, None], self.places)
        left_out = self._near(a, b) - (pull * near).sum(axis=2)
        missing = (1.0 - pull.sum(axis=2)) * (1.0 - self._pull(b).sum(axis=2))
        values = self.tau[:, None] ** 2 * left_out + missing / scale[:, None]
        return np.asarray(values.reshape(-1, *first.shape))

    def _pull(self, targets: Floats) -> Floats:
        near = self._near(targets[:, None], self.places)
        return np.asarray(self.tau[:, None, None] ** 2 * (near @ self.precision))

    def _near(self, one: Floats, other: Floats) -> Floats:
        return np.asarray(np.exp(-np.abs(one - other) / self.reach))


def residuals(
    places: Floats, variances: Floats, *, tau: Floats, noise: Floats, reach: float
) -> Residuals:
    """Prepare residual processes for observations at ``places``.

    variances: those of the observations: one row for each process.
    tau, noise: standard deviations of log time, one for each process.
    Raises ValueError: a number is not finite, the reach not above zero, or a row of variances is
        missing.
    """
    need_positive("reach", reach)
    if variances.shape != (len(tau), len(places)):
        raise ValueError(f"variances of shape {variances.shape}: a row for each process is needed")
    if not all((np.abs(one) <= LARGEST).all() for one in (places, variances, tau, noise)):
        raise ValueError("places, variances and deviations of processes: all must be finite")
    near = np.exp(-np.abs(places[:, None] - places) / reach)
    own = variances[:, :, None] * np.eye(len(places))
    covariance = tau[:, None, None] ** 2 * near + own
    precision: Floats = np.linalg.inv(covariance).astype(float)
    volume: Floats = np.linalg.slogdet(covariance)[1].astype(float) + np.log(
        precision.sum(axis=(1, 2))
    )
    return Residuals(places, reach, tau, noise, precision, volume)
