"""Limits to plan with: Slurm schedules a job by less than its time limit, and ends it at that.

Slurm has it from 23.11 on (``SchedulerParameters=time_min_as_soft_limit``); without the option the
same field ends jobs.  So nothing is set unless the option has just been seen.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from predictor.change.request import for_request
from predictor.table import covers, level_quantile
from predictor.types import PredictionTable
from sacct_ingest.records import JobState
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import TimeLimit
from slurm_plugin.decision.context import DecisionContext
from slurm_plugin.decision.policy import Action, Decision
from slurm_plugin.decision.time_limits import SoftLimit, whole_minutes
from slurm_plugin.slurm.cluster_state import Cluster

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


def soft_limit(
    case: DecisionContext, decided: Decision, rules: TimeLimit, cluster: Cluster, plans: SoftPlans
) -> SoftLimit | None:
    """Limit that Slurm is to plan a job with; None: its time limit.

    rules: the site's settings.
    cluster: the view that says whether Slurm plans so.
    plans: what came of such limits so far.
    """
    request, table, minutes = case.request, case.table, case.job.time_limit
    if not (request.soft and case.site.mode is Mode.ENFORCE and minutes and table):
        return None
    names = (case.partition.name if case.partition else case.job.partition).split(",")
    stale = case.now_s - cluster.taken_s > MOST_AGE_S or not cluster.plans_softly
    if stale or decided.action is Action.REFUSE or any(one in plans.resting for one in names):
        return None
    if decided.request is not None:
        table = for_request(table, decided.request.nodes, request.given)
    size = _size(case, decided, table)
    if size is None or request.distrusted or _uses_limits(table):
        return None
    own_s, share = 60.0 * minutes, plans.quantiles.get(names[0], 1.0 - rules.outlasted_share)
    limit_s = planned_s(table, size, own_s, share, rules)
    return SoftLimit(limit_s, own_s, size) if limit_s < own_s else None


def planned_s(
    table: PredictionTable, size: int, own_s: float, share: float, rules: TimeLimit
) -> float:
    """Seconds to plan a job of ``size`` nodes with: what ``share`` of runs stay below, or more.

    own_s: its time limit; where little of it would be left out, it is planned with that.
    """
    long_s = level_quantile(table, size, share)
    limit_s = max(whole_minutes(max(long_s, rules.least_share * own_s)), _LEAST_S)
    return limit_s if limit_s < _WHOLE * own_s else own_s


def _size(case: DecisionContext, decided: Decision, table: PredictionTable) -> int | None:
    """Size to look up: the chosen one, or that of the request; None: no run says anything of it."""
    if decided.chosen is not None:
        return decided.chosen.nodes
    size = case.request.asked or case.request.low
    if table.is_guess and table.nodes:  # what a user's jobs are like says the same of all sizes
        size = min(max(size, table.nodes[0]), table.nodes[-1])
    return size if covers(table, size) else None


def _uses_limits(table: PredictionTable) -> bool:
    """Whether the application runs until its limit, as links of a chain do."""
    ended = sum(one.runs for one in table.endings)
    at_limit = sum(one.runs for one in table.endings if one.state == JobState.TIMEOUT)
    return 2 * at_limit > ended
