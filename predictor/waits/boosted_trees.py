"""Boosted regression trees, evaluated without the library that grows them."""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_LEAF = -1


class Tree(msgspec.Struct, frozen=True, array_like=True):
    """One regression tree: nodes in preorder, the root first.

    ``feature`` is -1 at leaves; ``value`` is a leaf's output, and the threshold of a split
    elsewhere.  A value at most the threshold, or a missing one where ``missing_left``, goes left.
    """

    feature: list[int]
    value: list[float]
    left: list[int]
    right: list[int]
    missing_left: list[bool]

    def __call__(self, rows: Floats) -> Floats:
        """Return the output of the leaf that each row of features reaches, shape ``(rows,)``."""
        feature, value = np.array(self.feature), np.array(self.value)
        left, right = np.array(self.left), np.array(self.right)
        missing_left = np.array(self.missing_left)
        node, every = np.zeros(len(rows), dtype=np.int64), np.arange(len(rows))
        while len(every):
            every = every[feature[node[every]] != _LEAF]
            at = node[every]
            x = rows[every, feature[at]]
            goes_left = np.where(np.isnan(x), missing_left[at], x <= value[at])
            node[every] = np.where(goes_left, left[at], right[at])
        outputs: Floats = value[node]
        return outputs


class Ensemble(msgspec.Struct, frozen=True, array_like=True):
    """Boosted trees: their sum above a base value."""

    base: float
    trees: list[Tree]

    def __call__(self, rows: Floats) -> Floats:
        """Return the predictions for rows of features, shape ``(rows,)``."""
        total: Floats = np.full(len(rows), self.base)
        for tree in self.trees:
            total += tree(rows)
        return total


def exported(regressor: Any) -> Ensemble:
    """Copy the trees; scikit-learn has no public view of them (tests compare the outputs)."""
    trees = []
    for (predictor,) in regressor._predictors:
        nodes = predictor.nodes
        leaf = nodes["is_leaf"].astype(bool)
        trees.append(
            Tree(
                feature=np.where(leaf, _LEAF, nodes["feature_idx"]).tolist(),
                value=np.where(leaf, nodes["value"], nodes["num_threshold"]).tolist(),
                left=nodes["left"].tolist(),
                right=nodes["right"].tolist(),
                missing_left=nodes["missing_go_to_left"].astype(bool).tolist(),
            )
        )
    return Ensemble(float(np.ravel(regressor._baseline_prediction)[0]), trees)
