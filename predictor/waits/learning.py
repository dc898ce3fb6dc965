"""What a refit learns of waits: a record to begin with, and a correction where it is better.

Both come from the waits of the past (:mod:`predictor.waits.backtest`).  The regression on the state
of the queue is used only where its estimates were nearer by record, each made from what was over at
its time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from statistics import fmean

import msgspec
import numpy as np
import numpy.typing as npt

from predictor.waits.backtest import PastWait
from predictor.waits.calibration import WaitError, WaitRecord, error_of, log_error
from predictor.waits.correction import as_draws
from predictor.waits.estimate import ALLOWANCE_S
from predictor.waits.features import COMMON, ESTIMATE, FAIR_SHARE, OF_ACCOUNT, columns_of
from predictor.waits.regression import QueueWaitFit, QueueWaitModel
from sacct_ingest.errors import NimoError

Floats = npt.NDArray[np.float64]

#: Fewer jobs that were asked about teach nothing.
FEWEST = 400
#: Waits that are nearer than this on average need no correction, log10.
_NEAR = 0.05
#: A correction has to bring errors down to this share.
_BETTER = 0.95
#: Features of accounts and of fair-share have to bring its errors down to this share.
_USEFUL = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedWaits:
    """What was learned of one cluster's waits."""

    errors: list[WaitError]
    correction: QueueWaitFit | None = None
    error: float | None = None  #: mean absolute one of log10, by the queue run forward alone
    corrected_error: float | None = None  #: with the correction, on the same jobs


def learn_waits(waits: Sequence[PastWait]) -> LearnedWaits:
    """Make a record of the past, and try the regression.

    waits: of one cluster, in the order of asking.
    """
    places, errors = range(len(waits)), _recorded(waits)
    if len(waits) < FEWEST or _mean(errors, places) < _NEAR:
        return LearnedWaits(errors=errors, error=_mean(errors, places) if errors else None)
    model = QueueWaitModel(estimate=ESTIMATE, allowance_s=ALLOWANCE_S)
    try:
        features = _useful(waits, model)
        corrected, judged = list(waits), list[int]()
        for block, expected in model.validated(*_table(waits, features)):
            for place, draws in zip(block.tolist(), as_draws(expected).tolist(), strict=True):
                corrected[place] = waits[place]._replace(draws_s=tuple(draws))
                judged.append(place)
    except NimoError:  # without scikit-learn there is no regression
        return LearnedWaits(errors=errors, error=_mean(errors, places))
    after = _recorded(corrected)
    error, corrected_error = _mean(errors, judged), _mean(after, judged)
    if not judged or corrected_error > _BETTER * error:
        return LearnedWaits(errors=errors, error=error, corrected_error=corrected_error)
    return LearnedWaits(
        errors=[msgspec.structs.replace(after[place], corrected=True) for place in judged],
        correction=model.fit(*_table(waits, features)),
        error=error,
        corrected_error=corrected_error,
    )


def _useful(waits: Sequence[PastWait], model: QueueWaitModel) -> tuple[str, ...]:
    """Choose the features: what an account has, and fair-share, where they bring errors down.

    Each choice predicts the past from what was over by then.
    """
    best, least = COMMON, _validation_error(waits, model, COMMON)
    for more in (OF_ACCOUNT, FAIR_SHARE):
        if (error := _validation_error(waits, model, (*best, *more))) <= _USEFUL * least:
            best, least = (*best, *more), error
    return best


def _validation_error(
    waits: Sequence[PastWait], model: QueueWaitModel, features: Sequence[str]
) -> float:
    """Mean absolute error of the corrected medians, log10; infinite where none could be judged."""
    names, rows, actual_s, asked_s = _table(waits, features)
    logs = np.log10(actual_s + ALLOWANCE_S)
    errors = [
        np.abs(np.log10(median_s + ALLOWANCE_S) - logs[block])
        for block, median_s in model.validated_medians(names, rows, actual_s, asked_s)
    ]
    return float(np.concatenate(errors).mean()) if errors else inf


def _table(
    waits: Sequence[PastWait], features: Sequence[str]
) -> tuple[Sequence[str], Floats, Floats, Floats]:
    return (
        features,
        np.array([one.features for one in waits])[:, columns_of(features)],
        np.array([one.actual_s for one in waits]),
        np.array([one.asked_s for one in waits]),
    )


def _recorded(waits: Sequence[PastWait]) -> list[WaitError]:
    """Errors of estimates, each made with the record of those that had started by then."""
    record, started = WaitRecord(), list[tuple[float, int, WaitError]]()
    errors = []
    for place, one in enumerate(waits):
        while started and started[0][0] <= one.asked_s:
            record.add(heappop(started)[2])
        estimate = record.estimate(one.draws_s, one.of)
        error = error_of(
            one.draws_s, one.of, at_s=one.asked_s, actual_s=one.actual_s, estimate=estimate
        )
        errors.append(error)
        heappush(started, (one.asked_s + one.actual_s, place, error))
    return errors


def _mean(errors: Sequence[WaitError], places: Sequence[int]) -> float:
    return fmean(log_error(errors[place]) for place in places) if places else 0.0
