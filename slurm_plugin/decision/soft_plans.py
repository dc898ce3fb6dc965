"""Limits that Slurm plans a job with, beside the time limit that it is held to."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from predictor.prediction_table import PredictionTable
from predictor.table import level_quantile
from slurm_plugin.config.settings import TimeLimit
from slurm_plugin.decision.time_limits import whole_minutes

#: An older view of the cluster does not say that the option is still there.
MOST_AGE_S = 60.0
_LEAST_S = 300.0
#: A job whose runs take more of their limit than this is planned with all of it.
_WHOLE = 0.9
#: By how much a job moves its partition's quantile, and how far at most.
_STEP, _HIGHEST = 0.02, 0.99


@dataclass(slots=True)
class SoftPlans:
    """What came of limits to plan with: quantiles by partition, and where none is set for a day.

    Each field may be exchanged at any time.
    """

    quantiles: Mapping[str, float] = field(default_factory=dict)
    resting: Collection[str] = frozenset()


def quantiles_of(outlasted: Iterable[tuple[str, bool]], share: float) -> dict[str, float]:
    """Quantile of each partition by which at most ``share`` of the jobs outlast their plan.

    Adaptive conformal inference (Gibbs and Candès 2021, eq. 2), no lower than ``1 - share``.

    outlasted: partition of each job, and whether it outlasted its plan; in the order of time.
    """
    quantiles: dict[str, float] = {}
    for name, beyond in outlasted:
        last = quantiles.get(name, 1.0 - share)
        quantiles[name] = min(max(last + _STEP * (beyond - share), 1.0 - share), _HIGHEST)
    return quantiles


def planned_s(
    table: PredictionTable, size: int, own_s: float, share: float, rules: TimeLimit
) -> float:
    """Seconds to plan a job of ``size`` nodes with: what ``share`` of runs stay below, or more.

    own_s: its time limit; where little of it would be left out, it is planned with that.
    """
    long_s = level_quantile(table, size, share)
    if long_s is None:
        return own_s
    limit_s = max(whole_minutes(max(long_s, rules.least_share * own_s)), _LEAST_S)
    return limit_s if limit_s < _WHOLE * own_s else own_s
