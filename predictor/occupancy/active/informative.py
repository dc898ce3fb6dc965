"""Choose the run that removes most uncertainty for its run time; not in the paper.

Run time is taken as linear in the transformed attributes and their products, with coefficients of
which nothing is known but their size.  What a run would teach then does not depend on what it
finds: its effect on the variance of all predictions is known beforehand (Bayesian A-optimal design;
Chaloner and Verdinelli, *Bayesian Experimental Design: A Review*, 1995, section 2.2).  The gain is
divided by the run time that is expected of it, so that cheap runs are preferred.
"""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from predictor.occupancy.active.space import Assignment, Space
from predictor.occupancy.application_model import Sample

Floats = NDArray[np.float64]
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
        covariance = self._posterior(samples)
        rows = np.array([self._features(one) for one in candidates])
        spread = self._every @ covariance
        # Variance that a run takes from all predictions together.
        shared = spread @ rows.T
        gain = (shared**2).sum(axis=0) / (_NOISE + np.einsum("ij,jk,ik->i", rows, covariance, rows))
        costs = np.array([cost(one) for one in candidates])
        return candidates[int(np.argmax(gain / (costs + _FIXED * costs.mean())))]

    def _posterior(self, samples: Sequence[Sample]) -> Floats:
        rows = np.array([self._features(one.attributes) for one in samples])
        precision = np.linalg.inv(self._prior) + rows.T @ rows / _NOISE
        covariance: Floats = np.linalg.inv(precision)
        return covariance

    def _features(self, assignment: Assignment) -> list[float]:
        """1, x and 1/x of each attribute on a scale from -1 to 1, and products of the x."""
        plain = [self._scaled(name, assignment[name]) for name in self._space.attributes]
        inverse = [self._inverse(name, assignment[name]) for name in self._space.attributes]
        products = [a * b for a, b in combinations(plain, 2)]
        return [1.0, *plain, *inverse, *products]

    def _scaled(self, name: str, value: float) -> float:
        low, high = self._levels[name][0], self._levels[name][-1]
        return 2 * (value - low) / (high - low) - 1 if high > low else 0.0

    def _inverse(self, name: str, value: float) -> float:
        low, high = 1 / self._levels[name][-1], 1 / self._levels[name][0]
        return 2 * (1 / value - low) / (high - low) - 1 if high > low else 0.0
