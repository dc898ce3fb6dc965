"""The run that removes most uncertainty for its run time.

It is not in the paper of NIMO.  With a run time that is linear in the transformed attributes and
their products, the effect of a run on the variance of all predictions is known beforehand (Bayesian
A-optimal design; Chaloner and Verdinelli, 1995, section 2.2).
"""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from predictor.occupancy.active.space import Assignment, Space
from predictor.occupancy.application_model import Sample

#: Prior variance of a transformed attribute's coefficient, and of a product's, beside the noise.
_SINGLE, _PRODUCT, _NOISE = 1.0, 0.3, 0.05**2
#: A run costs at least this share of the mean: waiting and starting are not free.
_FIXED = 0.1


class Informative:
    """Scores candidates of one space."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._levels = {name: space.levels(name) for name in space.attributes}
        every = np.array([self._features(one) for one in space.candidates])
        self._every = every
        count = len(self._space.attributes)
        pairs = count * (count - 1) // 2
        self._prior = np.diag([1.0, *([_SINGLE] * 2 * count), *([_PRODUCT] * pairs)])

    def choose(
        self,
        candidates: Sequence[dict[str, float]],
        samples: Sequence[Sample],
        cost: Callable[[Assignment], float],
    ) -> dict[str, float]:
        """Choose a candidate, given what was run already and what each is expected to cost."""
        done = np.array([self._features(one.attributes) for one in samples])
        covariance = np.linalg.inv(np.linalg.inv(self._prior) + done.T @ done / _NOISE)
        rows = np.array([self._features(one) for one in candidates])
        spread = self._every @ covariance
        # Variance that a run takes from all predictions together.
        shared = spread @ rows.T
        gain = (shared**2).sum(axis=0) / (_NOISE + np.einsum("ij,jk,ik->i", rows, covariance, rows))
        costs = np.array([cost(one) for one in candidates])
        return candidates[int(np.argmax(gain / (costs + _FIXED * costs.mean())))]

    def _features(self, assignment: Assignment) -> list[float]:
        """1, x and 1/x of each attribute on a scale from -1 to 1, and products of the x."""
        each = [(assignment[name], self._levels[name]) for name in self._space.attributes]
        plain = [_scaled(value, levels[0], levels[-1]) for value, levels in each]
        inverse = [_scaled(1 / value, 1 / levels[-1], 1 / levels[0]) for value, levels in each]
        products = [a * b for a, b in combinations(plain, 2)]
        return [1.0, *plain, *inverse, *products]


def _scaled(value: float, low: float, high: float) -> float:
    return 2 * (value - low) / (high - low) - 1 if high > low else 0.0
