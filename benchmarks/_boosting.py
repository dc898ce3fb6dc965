"""Gradient boosting that predicts run times and their quantiles, beside NIMO."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from zlib import crc32

from _sharpness import SHARES

if TYPE_CHECKING:
    from history_accuracy import Scored

DAY_S = 86_400.0
#: Jobs between two trainings of gradient boosting, and those that it is trained on at most.
TRAINED_EVERY, TRAINED_ON = 1000, 20_000
FEWEST_TRAINED = 50


def with_boosting(scored: "Sequence[Scored]") -> "list[Scored]":
    """Add what gradient boosting says, trained on jobs that had ended."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: PLC0415

    ended = sorted(scored, key=lambda one: one.row.end_s or 0)
    features = {one.number: _features(one) for one in scored}
    made: list[Scored] = []
    every = min(TRAINED_EVERY, max(len(scored) // 20, 20))
    for first in range(0, len(scored), every):
        part = scored[first : first + every]
        begin = part[0].row.submit_s
        past = [one for one in ended if (one.row.end_s or 0) <= begin][-TRAINED_ON:]
        if len(past) < FEWEST_TRAINED:
            made += part
            continue
        model = HistGradientBoostingRegressor(loss="absolute_error", max_iter=200, random_state=0)
        learned = [features[o.number] for o in past], [math.log(o.actual_s) for o in past]
        asked = [features[one.number] for one in part]
        said = model.fit(*learned).predict(asked)
        columns = [
            HistGradientBoostingRegressor(
                loss="quantile", quantile=share, max_iter=100, random_state=0
            )
            .fit(*learned)
            .predict(asked)
            .tolist()
            for share in SHARES
        ]
        for one, log_s, *quantiles in zip(part, said.tolist(), *columns, strict=True):
            longest = float(one.row.limit_s or math.inf)
            boosted = tuple(min(q, math.log(longest)) for q in sorted(quantiles))
            simple = {**one.simple, "boosting": min(math.exp(log_s), longest)}
            made.append(replace(one, simple=simple, boosted=boosted))
    return made


def _features(one: "Scored") -> list[float]:
    """Give what is known at submission; users and names as numbers that mean nothing."""
    row = one.row
    logs = [
        math.log(max(one.simple[name], 1.0)) for name in ("last alike", "last two", "last five")
    ]
    codes = [
        float(crc32(text.encode()) % 9973) for text in (row.user, row.name, row.line, row.partition)
    ]
    limit = math.log(row.limit_s) if row.limit_s else -1.0
    return [
        math.log(row.nodes),
        math.log(max(row.cpus, 1)),
        limit,
        *logs,
        *codes,
        row.submit_s / 3600 % 24,
        row.submit_s / DAY_S % 7,
    ]
