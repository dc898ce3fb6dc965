"""Queue wait from the state of the queue: boosted trees for the median, conformal intervals.

A job's wait follows from what stands before it and what runs, but limits overstate run times, jobs
to come are unknown and priorities change.  So the wait is regressed on the state of the queue at
the moment of asking (jobs, cores and core-hours ahead and running: of the whole cluster, of the
partition, of the account) with histogram gradient boosting on ``log10(wait)``.  Identities such as
the partition's name take no part: what was learned at one time then holds at a later one.

Where an estimate by physics is among the features (the queue run forward with limits or predicted
run times), the regression learns by what factor that is off: jobs to come, limits that are not used
up, backfilling.

Intervals are conformalised quantile regressions (Romano, Patterson, Candès, *Conformalized Quantile
Regression*, 2019, equation 8).  The residuals that widen them come from forward validation: each
block of the log in time is predicted by trees that were grown on the blocks before it.

Fitting needs scikit-learn; a fit is evaluated without it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from predictor.checks import need_finite, need_positive, need_share
from sacct_ingest.errors import NimoError, NoHistory, how_to_install

Floats = NDArray[np.float64]
_LEAF = -1
#: Waits below this are the scheduler's own latency, seconds.
LEAST_S = 1.0
_FEWEST = 200  #: jobs to fit trees on
#: Stands for "any wait" where nothing could be validated: JSON has no infinity.
_WIDEST = 12.0


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
        feature = np.array(self.feature)
        value = np.array(self.value)
        left = np.array(self.left)
        right = np.array(self.right)
        missing_left = np.array(self.missing_left)
        node = np.zeros(len(rows), dtype=np.int64)
        every = np.arange(len(rows))
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


Ints = NDArray[np.int64]


class QueueWaitFit(msgspec.Struct, frozen=True, kw_only=True):
    """What was learned; it goes through JSON and back."""

    features: list[str]  #: their names, in the order of a row
    level: float  #: nominal coverage of the intervals
    jobs: int  #: that it was learned from
    median: Ensemble
    low: Ensemble
    high: Ensemble
    margin: float  #: widens each interval on both sides, log10
    estimate: int | None = None  #: place of the feature that is corrected
    allowance_s: float = 0.0  #: is added to waits before logarithms are taken

    def predict(self, rows: ArrayLike) -> Floats:
        """Predict waits, seconds: low ends, medians and high ends, shape ``(rows, 3)``.

        rows: features in the order of :attr:`features`, shape ``(rows, features)``; NaN where one
            is missing.
        Raises ValueError: rows have another length, or the feature that is corrected is missing.
        """
        x = np.asarray(rows, dtype=float)
        if x.ndim != 2 or x.shape[1] != len(self.features):
            raise ValueError(f"rows of {len(self.features)} features are needed, not {x.shape}")
        base: Floats | float = 0.0
        if self.estimate is not None:
            need_finite(self.features[self.estimate], *x[:, self.estimate].tolist(), least=0)
            base = _log(x[:, self.estimate], self.allowance_s)
        median = base + self.median(x)
        low = np.minimum(base + self.low(x) - self.margin, median)
        high = np.maximum(base + self.high(x) + self.margin, median)
        logs = np.minimum(np.column_stack([low, median, high]), _WIDEST)
        waits: Floats = np.maximum(10.0**logs - self.allowance_s, 0.0)
        return waits


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueWaitModel:
    """Hyper-parameters of the regression.

    level: coverage that intervals are made for.
    trees, leaves, learning_rate, leaf_jobs: size of each ensemble: trees, leaves of a tree,
        shrinkage, fewest jobs in a leaf.
    blocks: blocks in time of the forward validation; the first is only learned from.
    estimate: name of a feature that estimates the wait by itself, seconds, and that is to be
        corrected; None: there is none.
    allowance_s: waits that differ by less hardly differ: it is added before logarithms are taken.
    """

    level: float = 0.9
    trees: int = 100
    leaves: int = 15
    learning_rate: float = 0.06
    leaf_jobs: int = 20
    blocks: int = 4
    estimate: str | None = None
    allowance_s: float = 0.0

    def __post_init__(self) -> None:
        need_share("level of the intervals", self.level)
        sizes = (self.trees, self.leaf_jobs, self.blocks)
        need_positive("size of the regression", self.learning_rate, *sizes)
        need_finite("leaves of a tree", self.leaves, least=2)
        need_finite("allowance in seconds", self.allowance_s, least=0)

    def fit(
        self, names: Sequence[str], rows: ArrayLike, waits_s: ArrayLike, asked_s: ArrayLike
    ) -> QueueWaitFit:
        """Learn from jobs whose wait is over.

        names: names of the features.
        rows: shape (jobs, features); NaN where a value is missing.
        waits_s: shape (jobs,): from the moment of asking to the start, seconds.
        asked_s: shape (jobs,): moments of asking, seconds since the epoch.
        Raises ValueError: shapes differ, waits are no times, or the feature that is corrected is
            missing; NoHistory: jobs are too few; NimoError: scikit-learn is missing.
        """
        x, wait, asked = _checked(names, rows, waits_s, asked_s)
        fit = self._fitted(names, x, wait)
        order = np.argsort(asked, kind="stable")
        y = self._target(names, x, wait)
        return msgspec.structs.replace(fit, margin=self._margin(x[order], y[order], asked[order]))

    def _fitted(self, names: Sequence[str], x: Floats, wait: Floats) -> QueueWaitFit:
        """Fit trees; the interval is not widened yet."""
        y = self._target(names, x, wait)
        low, high = (self._grown(x, y, quantile) for quantile in self._tails)
        return QueueWaitFit(
            features=list(names),
            level=self.level,
            jobs=len(y),
            median=self._grown(x, y, None),
            low=low,
            high=high,
            margin=0.0,
            estimate=None if self.estimate is None else _place(self.estimate, names, x),
            allowance_s=self.allowance_s,
        )

    def _target(self, names: Sequence[str], x: Floats, wait: Floats) -> Floats:
        y = _log(wait, self.allowance_s)
        if self.estimate is None:
            return y
        return y - _log(x[:, _place(self.estimate, names, x)], self.allowance_s)

    @property
    def _tails(self) -> tuple[float, float]:
        return (1 - self.level) / 2, (1 + self.level) / 2

    def validated(
        self, names: Sequence[str], rows: ArrayLike, waits_s: ArrayLike, asked_s: ArrayLike
    ) -> Iterator[tuple[Ints, Floats]]:
        """Predict blocks of the past, each from the waits that were over when it began.

        Parameters are those of :meth:`fit`.  Intervals are as the trees have them.

        Yields tuple: places of the jobs of a block, in the order of asking, and their predicted
            waits.
        """
        x, wait, asked = _checked(names, rows, waits_s, asked_s)
        for block, past in self._blocks(wait, asked):
            yield block, self._fitted(names, x[past], wait[past]).predict(x[block])

    def validated_medians(
        self, names: Sequence[str], rows: ArrayLike, waits_s: ArrayLike, asked_s: ArrayLike
    ) -> Iterator[tuple[Ints, Floats]]:
        """As :meth:`validated`, medians only: a third of the work."""
        x, wait, asked = _checked(names, rows, waits_s, asked_s)
        y = self._target(names, x, wait)
        for block, past in self._blocks(wait, asked):
            logs = self._grown(x[past], y[past], None)(x[block])
            if self.estimate is not None:
                logs += _log(x[block, _place(self.estimate, names, x)], self.allowance_s)
            yield block, np.maximum(10.0 ** np.minimum(logs, _WIDEST) - self.allowance_s, 0.0)

    def _blocks(self, wait: Floats, asked: Floats) -> Iterator[tuple[Ints, Ints]]:
        """Blocks in the order of asking, each with the jobs whose wait was over when it began."""
        order = np.argsort(asked, kind="stable")
        for block in np.array_split(order, 2 * self.blocks)[1:]:
            past = np.flatnonzero(asked + wait < asked[block[0]])
            if len(past) >= _FEWEST:
                yield block, past

    def _margin(self, x: Floats, y: Floats, asked: Floats) -> float:
        """Conformal correction of the quantiles: positive where they were too narrow."""
        tails = self._tails
        edges = np.searchsorted(asked, np.quantile(asked, np.linspace(0, 1, self.blocks + 1)[1:-1]))
        scores = [
            np.maximum(
                self._grown(x[:begin], y[:begin], tails[0])(x[begin:end]) - y[begin:end],
                y[begin:end] - self._grown(x[:begin], y[:begin], tails[1])(x[begin:end]),
            )
            for begin, end in zip(edges, [*edges[1:], len(y)], strict=True)
            if begin >= _FEWEST // 2 and end > begin
        ]
        return float(np.quantile(np.concatenate(scores), self.level)) if scores else _WIDEST

    def _grown(self, x: Floats, y: Floats, quantile: float | None) -> Ensemble:
        try:
            from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: PLC0415 - heavy
        except ImportError as error:
            raise NimoError(
                f"waits are learned with scikit-learn; {how_to_install('waits')}"
            ) from error
        regressor = HistGradientBoostingRegressor(
            loss="absolute_error" if quantile is None else "quantile",
            quantile=quantile,
            max_iter=self.trees,
            max_leaf_nodes=self.leaves,
            learning_rate=self.learning_rate,
            min_samples_leaf=self.leaf_jobs,
            early_stopping=False,
            random_state=0,
        )
        # Tables are small, and threads that wait for each other on a busy machine take minutes.
        with threadpool_limits(limits=1):
            return exported(regressor.fit(x, y))


def _log(seconds: Floats, allowance_s: float) -> Floats:
    logs: Floats = np.log10(np.maximum(seconds + allowance_s, LEAST_S))
    return logs


def _place(estimate: str, names: Sequence[str], x: Floats) -> int:
    """Place of the feature that is corrected, which every job needs."""
    if estimate not in names:
        raise ValueError(f"no feature is called {estimate!r}, which is to be corrected")
    place = list(names).index(estimate)
    need_finite(estimate, *x[:, place].tolist(), least=0)
    return place


def _checked(
    names: Sequence[str], rows: ArrayLike, waits_s: ArrayLike, asked_s: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    x, wait, asked = (np.asarray(given, dtype=float) for given in (rows, waits_s, asked_s))
    if x.ndim != 2 or x.shape != (len(wait), len(names)) or asked.shape != wait.shape:
        raise ValueError(
            f"rows of shape {x.shape} do not go with {len(wait)} waits, {len(asked)} times and "
            f"{len(names)} names"
        )
    if not (np.isfinite(wait).all() and (wait >= 0).all() and np.isfinite(asked).all()):
        raise ValueError("waits and times must be numbers, and no wait below zero")
    if len(wait) < _FEWEST:
        raise NoHistory(f"{len(wait)} jobs are too few to learn waits from: {_FEWEST}")
    return np.where(np.isfinite(x), x, np.nan), wait, asked
