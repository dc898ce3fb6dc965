"""Which part of a decision reaches the job and its user: the mode that the site set says so."""

from msgspec.structs import replace

from sacct_ingest.runs.layout import Unit
from slurm_plugin.config.setting_types import Mode, TimeUse
from slurm_plugin.decision import messages
from slurm_plugin.decision.context import DecisionContext
from slurm_plugin.decision.memory import LowerMemory
from slurm_plugin.decision.node_options import Option
from slurm_plugin.decision.policy import Action, Decision
from slurm_plugin.decision.sizes import change_of
from slurm_plugin.decision.soft_limits import MOST_AGE_S
from slurm_plugin.decision.task_layout import change_for
from slurm_plugin.protocol.decision_messages import Answer, Change
from slurm_plugin.slurm.cluster_state import Cluster


def permitted(case: DecisionContext, decided: Decision, seen: Cluster | None = None) -> Answer:
    """Answer with as much of a decision as the mode of the job permits.

    seen: the view of the cluster that says how Slurm plans.
    """
    answer = Answer(reason=decided.reason)
    if case.site.mode is Mode.OBSERVE:
        return answer
    advise = case.site.mode is Mode.ADVISE
    answer.message = messages.at_submission(decided, case.request, advise=advise, now_s=case.now_s)
    if case.site.mode is Mode.ENFORCE and decided.action is Action.REFUSE:
        answer.action = "refuse"
    elif case.site.mode is Mode.ENFORCE:
        change = _with_memory(_change(case, decided.action, decided.chosen), decided.memory)
        soft = decided.soft if change.time_limit is None else None
        if soft and seen:
            until_s = int(seen.taken_s + MOST_AGE_S)
            change = replace(change, soft_min=round(soft.limit_s / 60), soft_until=until_s)
        if change != Change():
            answer.action, answer.set = "set", change
            every = case.site.tell_changes
            own = case.job.time_limit
            lines = [
                messages.changed(decided, change, own, case.request, every=every),
                messages.less_memory(decided.memory) if decided.memory and every else "",
                messages.planned(soft) if soft and every else "",
            ]
            answer.message = "\n".join(filter(None, (answer.message, *lines)))
    limit = answer.set.time_limit if answer.set else None
    if limit is None and answer.action != "refuse":
        beyond = messages.beyond_deadline(decided, case.request, now_s=case.now_s)
        lines = [*(f"nimo: {line}" for line in beyond), answer.message]
        answer.message = "\n".join(filter(None, lines))
    if better := decided.better:
        line = messages.better_count(better, case.request.unit)
        answer.message = "\n".join(filter(None, (answer.message, line)))
    chosen = decided.chosen if decided.action is Action.SET else decided.request
    ended = messages.limit_reached(case, chosen.nodes if chosen else None, answer.set)
    answer.message = "\n".join(filter(None, (answer.message, ended)))
    return answer


def _resized(case: DecisionContext, nodes: int) -> Change:
    if case.request.unit is Unit.NODES or case.table is None:
        return change_for(case.job, nodes)
    return change_of(case.job, case.table, nodes)


def _with_memory(change: Change, memory: LowerMemory | None) -> Change:
    if memory is None:
        return change
    if memory.per_cpu is not None:
        return replace(change, min_mem_per_cpu=memory.per_cpu)
    return replace(change, min_mem_per_node=memory.given_mib)


def _change(case: DecisionContext, action: Action, chosen: Option | None) -> Change:
    """Fields to write: the count with what goes with it, and the limit even if the count stays."""
    if chosen is None:
        return Change()
    set_nodes = action is Action.SET
    change = _resized(case, chosen.nodes) if set_nodes else Change()
    own, limits = case.job.time_limit, chosen.limits
    if limits is not None and case.request.time_use is TimeUse.SET:
        change.time_limit = round(limits.limit_s / 60)
        change.time_min = round(limits.least_s / 60) if limits.least_s else None
    elif set_nodes and chosen.limit_s is not None and own is not None:
        change.time_limit = round(chosen.limit_s / 60) if chosen.limit_s > 60 * own else None
    return change
