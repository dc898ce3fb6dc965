"""Lever: how many nodes, CPUs or GPUs a job gets, where it leaves that open."""

from sacct_ingest.runs.layout import Unit
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.decision import sizes
from slurm_plugin.decision.adjustment import Adjustment
from slurm_plugin.decision.eligibility import UNBOUNDED
from slurm_plugin.decision.levers.lever import Lever, Surroundings
from slurm_plugin.decision.node_options import Option
from slurm_plugin.decision.policy import Action, Decision
from slurm_plugin.decision.situation import Situation
from slurm_plugin.protocol.decision_messages import Change


def _adjustment(case: Situation, decided: Decision, _: Surroundings) -> Adjustment | None:
    """Write the chosen count, and what the user asked for by that count."""
    chosen = decided.chosen
    if case.site.mode is not Mode.ENFORCE or decided.action is not Action.SET or chosen is None:
        return None
    return Adjustment(
        change=_change(case, chosen),
        line=_line(case, decided, chosen),
        urgent=decided.learns is not None,
    )


def _change(case: Situation, chosen: Option) -> Change:
    resources = case.request.resources
    if case.request.unit is Unit.NODES or case.table is None:
        return sizes.change_for(resources, chosen.nodes)
    return sizes.change_of(resources, case.table, chosen.nodes)


def _line(case: Situation, decided: Decision, chosen: Option) -> str:
    request = case.request
    asked = decided.request
    size = request.unit.counted(chosen.nodes)
    if decided.learns:
        most = "+" if request.high >= UNBOUNDED else f"-{request.high}"
        return f"runs on {size} of {request.low}{most} {decided.learns.purpose}"
    if asked is None or asked.nodes == chosen.nodes:
        return ""
    return f"this job runs on {size} instead of {asked.nodes}"


LEVER = Lever(_adjustment)
