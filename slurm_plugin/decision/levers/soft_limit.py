"""Lever: a limit to plan with, which ends no job.

Slurm schedules a job by it, and ends the job at its time limit.  It does so from 23.11 on
(``SchedulerParameters=time_min_as_soft_limit``); without the option the same field ends jobs.  So
nothing is set unless the option has just been seen.
"""

from predictor.application.request import for_request
from predictor.prediction_table import PredictionTable
from predictor.table import at
from sacct_ingest.records import JobState
from sacct_ingest.text.durations import duration_text
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.decision.adjustment import Adjustment
from slurm_plugin.decision.levers import time_limit
from slurm_plugin.decision.levers.lever import Lever, Surroundings, size_of
from slurm_plugin.decision.policy import Action, Decision
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.soft_plans import planned_s
from slurm_plugin.protocol.decision_messages import Change
from slurm_plugin.slurm.cluster_state import Cluster

#: An older view of the cluster does not say that the option is still there.
MOST_AGE_S = 60.0


def _adjustment(case: Situation, decided: Decision, around: Surroundings) -> Adjustment | None:
    """Write the limit to plan with, for as long as Slurm is known to plan so."""
    minutes = case.request.resources.time_limit
    cluster = around.cluster
    if not (case.request.soft and case.site.mode is Mode.ENFORCE and minutes and cluster):
        return None
    if not case.table or not _plans(case, decided, cluster, around):
        return None
    table = case.table
    if decided.request is not None:
        table = for_request(table, decided.request.nodes, case.request.given)
    size = size_of(case, decided, table)
    if size is None or case.request.distrusted or _is_chain(table):
        return None
    rules = around.config.time_limit
    own_s = 60.0 * minutes
    share = around.plans.quantiles.get(_partitions(case)[0], 1.0 - rules.outlasted_share)
    limit_s = planned_s(table, size, own_s, share, rules)
    if limit_s >= own_s:
        return None
    soft_min = round(limit_s / 60)
    return Adjustment(
        change=Change(soft_min=soft_min, soft_until=int(cluster.taken_s + MOST_AGE_S)),
        line=f"planned for {duration_text(limit_s)}, may run its {duration_text(own_s)}",
        noted={"soft_min": soft_min, "own_min": minutes},
        prediction=at(case.table, size),
    )


def _partitions(case: Situation) -> list[str]:
    return (case.partition.name if case.partition else case.request.resources.partition).split(",")


def _plans(case: Situation, decided: Decision, cluster: Cluster, around: Surroundings) -> bool:
    """Whether Slurm may plan this job with another limit than its own."""
    if case.now_s - cluster.taken_s > MOST_AGE_S or not cluster.plans_softly:
        return False
    if decided.action is Action.REFUSE or time_limit.limit_min(case, decided) is not None:
        return False
    names = _partitions(case)
    if any(name in around.plans.resting for name in names):
        return False
    # Slurm would start the job before a reservation by its plan, and let it run across.
    own_s = 60.0 * (case.request.resources.time_limit or 0)
    end_s = max(case.now_s, case.request.begin_s) + own_s + MOST_AGE_S
    parts = [part for name in names if (part := cluster.partition(name))]
    return all(part.reserved_s >= end_s for part in parts)


def _is_chain(table: PredictionTable) -> bool:
    """Whether runs are links of a chain, which run until their limit."""
    at_limit = sum(one.runs for one in table.endings if one.state == JobState.TIMEOUT)
    return 2 * at_limit > sum(one.runs for one in table.endings)


LEVER = Lever(_adjustment)
