"""Lever: the start that a job is pinned to, which has one count of its range.

Nothing is written into the job: where it does not start as noted, nimod gives it its range back.
"""

from math import ceil, inf

from sacct_ingest.runs.layout import Unit
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.decision import sizes
from slurm_plugin.decision.adjustment import Adjustment
from slurm_plugin.decision.levers import time_limit
from slurm_plugin.decision.levers.lever import Lever, Surroundings
from slurm_plugin.decision.policy import Action, Decision
from slurm_plugin.decision.situation import Situation


def _adjustment(case: Situation, decided: Decision, _: Surroundings) -> Adjustment | None:
    """Note when a job is planned to start on its one count, and the latest that its guard allows.

    Not where it has no range to get back.  The second is for Slurm's plan, which is made by
    limits: a count that waits for a prediction has none.
    """
    request = case.request
    chosen = decided.chosen
    if case.site.mode is not Mode.ENFORCE or decided.action is not Action.SET or chosen is None:
        return None
    ranged = request.unit is Unit.NODES and request.low < request.high
    if not (ranged and sizes.only_nodes(request.resources)) or chosen.wait_s == inf:
        return None
    if time_limit.limit_min(case, decided) is not None:
        return None
    latest = chosen.no_later and chosen.most_wait_s < inf
    return Adjustment(
        noted={
            "planned_s": ceil(case.now_s + chosen.wait_s),
            "latest_s": ceil(case.now_s + chosen.most_wait_s) if latest else None,
        }
    )


LEVER = Lever(_adjustment)
