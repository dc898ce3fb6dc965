"""Sums of products of powers fitted to log run times, all folds at once.

Errors have Student's t distribution, so that runs that went wrong count little.  All folds, each
without some of the runs, are fitted together by Levenberg and Marquardt's algorithm (Moré, 1978).
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Degrees of freedom of errors.
_FREE = 4.0
#: Standard deviation of repeats before there are any, and the runs that it counts for.
NOISE = 0.03
_NOISE_RUNS = 2.0
#: Rounds of weighing errors, the most steps of each, and the step that is none.
ROUNDS = 3
_STEPS = 14
_CONVERGED = 1e-5


def sums(theta: Floats, parts: int, at: Floats) -> tuple[Floats, Floats]:
    """Log of the sum of parts, shape ``(folds, runs)``, and the share of each in it.

    at: shape ``(folds, runs, columns)``, or of one fold for all.
    """
    logs = theta.reshape(len(theta), parts, -1) @ at.transpose(0, 2, 1)
    most = logs.max(1)
    powers = np.exp(logs - most[:, None])
    total = powers.sum(1)
    return most + np.log(total), powers / total[:, None]


class LeastSquares:
    """Least squares of all folds at once, with errors of Student's t distribution."""

    def __init__(
        self,
        log_s: Floats,
        at: Floats,
        parts: int,
        linear: Floats,
        used: Floats,
        mean: Floats,
        precision: Floats,
    ) -> None:
        self._log_s = log_s
        self._at = at
        self._parts = parts
        self._linear = linear
        self._used = used
        self._mean = mean
        self._precision = precision
        self._columns = parts * at.shape[-1]

    def values(self, theta: Floats) -> Floats:
        """Log run times, shape ``(folds, runs)``."""
        return self._parted(theta)[0]

    def _parted(self, theta: Floats) -> tuple[Floats, Floats]:
        logs, shares = sums(theta[:, : self._columns], self._parts, self._at)
        return logs + theta[:, self._columns :] @ self._linear.T, shares

    def solve(self) -> Floats:
        """Give the parameters, shape ``(folds, parameters)``."""
        theta = np.tile(self._mean, (len(self._used), 1))
        noise = np.full(len(self._used), 2 * NOISE)
        for _ in range(ROUNDS):
            theta = self._descended(theta, noise)
            noise = self._noise(theta, noise)
        return theta

    def misfit(self, theta: Floats) -> Floats:
        """Give what parameters cost in each fold: their negative log posterior, noise known."""
        noise = np.full(len(theta), 2 * NOISE)
        for _ in range(ROUNDS):
            noise = self._noise(theta, noise)
        weighing = (self._used.sum(1) + _NOISE_RUNS) * np.log(noise)
        return np.asarray(self._cost(theta, self.values(theta), noise) + weighing)

    def _noise(self, theta: Floats, noise: Floats) -> Floats:
        """Scale of the errors of each fold, by its residuals and what was known before."""
        squares = self._used * (self._log_s - self.values(theta)) ** 2
        weights = (_FREE + 1) / (_FREE + squares / noise[:, None] ** 2)
        runs = self._used.sum(1)
        spare = np.minimum(self._parts * (self._at.shape[-1] - 1), 0.6 * runs)
        free = np.maximum(runs - spare, 1.0) + _NOISE_RUNS
        return np.asarray(np.sqrt(((weights * squares).sum(1) + _NOISE_RUNS * NOISE**2) / free))

    def _cost(self, theta: Floats, logs: Floats, noise: Floats) -> Floats:
        squares = ((self._log_s - logs) / noise[:, None]) ** 2
        errors = (_FREE + 1) / 2 * np.log1p(squares / _FREE)
        away = 0.5 * (self._precision * (theta - self._mean) ** 2).sum(1)
        return np.asarray((self._used * errors).sum(1) + away)

    def _descended(self, theta: Floats, noise: Floats) -> Floats:
        """Go down by damped steps; those of one fold that lead up are not taken."""
        logs, shares = self._parted(theta)
        cost = self._cost(theta, logs, noise)
        damping = np.full(len(theta), 1e-2)
        for _ in range(_STEPS):
            step = self._step(theta, logs, shares, noise, damping)
            moved = theta + step
            new_logs, new_shares = self._parted(moved)
            new_cost = self._cost(moved, new_logs, noise)
            lower = new_cost < cost
            gain = float(np.max(np.where(lower, cost - new_cost, 0.0)))
            theta = np.where(lower[:, None], moved, theta)
            logs = np.where(lower[:, None], new_logs, logs)
            shares = np.where(lower[:, None, None], new_shares, shares)
            cost = np.where(lower, new_cost, cost)
            damping = np.clip(np.where(lower, damping / 5, damping * 8), 1e-7, 1e6)
            if lower.all() and gain < _CONVERGED:
                break
        return theta

    def _step(
        self, theta: Floats, logs: Floats, shares: Floats, noise: Floats, damping: Floats
    ) -> Floats:
        folds = len(theta)
        runs = len(logs[0])
        off = self._log_s - logs
        squares = (off / noise[:, None]) ** 2
        weights = self._used * (_FREE + 1) / (_FREE + squares) / noise[:, None] ** 2
        slopes = shares.transpose(0, 2, 1)[..., None] * self._at[:, :, None, :]
        linear = np.broadcast_to(self._linear, (folds, *self._linear.shape))
        slopes = np.concatenate([slopes.reshape(folds, runs, -1), linear], axis=2)
        weighed = slopes * weights[..., None]
        gradient = np.einsum("bnp,bn->bp", weighed, off)
        gradient -= self._precision * (theta - self._mean)
        curvature = np.matmul(weighed.transpose(0, 2, 1), slopes) + np.diag(self._precision)
        places = np.arange(len(self._mean))
        curvature[:, places, places] *= 1 + damping[:, None]
        return np.asarray(np.linalg.solve(curvature, gradient[..., None])[..., 0])
