"""Record of a decision: the row in the store and the entry in the job's admin_comment."""

from math import inf
from typing import Any

from msgspec.structs import replace

from predictor.table import at
from sacct_ingest.records import DecisionRow
from sacct_ingest.text import admin_comment
from sacct_ingest.text.slurm_text import seconds_of
from slurm_plugin.decision.context import DecisionContext
from slurm_plugin.decision.node_options import Option
from slurm_plugin.decision.policy import Decision
from slurm_plugin.protocol.decision_messages import Answer, Change
from slurm_plugin.protocol.reasons import Reason


def row_of(
    case: DecisionContext,
    decided: Decision,
    answer: Answer,
    *,
    decision_id: str,
    cluster: str,
    via: str,
) -> DecisionRow:
    """Row of the store: the request, the prediction, the decision and the change."""
    changed = answer.action == "refuse" or _is_changed(answer.set)
    if decided.better and not changed:
        decided = replace(decided.better, reason=Reason.PROVEN)
    request, asked = case.request, decided.request
    limited = request.limit_s is not None and request.limit_s < inf
    return DecisionRow(
        decision_id=decision_id,
        cluster=cluster,
        at_s=case.now_s,
        mode=case.site.mode.value,
        via=via,
        action=decided.action.value,
        reason=decided.reason.value,
        min_nodes=case.job.min_nodes,
        max_nodes=case.job.max_nodes,
        requested_nodes=asked.nodes if asked else case.job.min_nodes,
        limit_s=int(request.limit_s or 0) if limited else None,
        deadline_s=request.deadline_s,
        unit=request.unit.value,
        # A limit to plan with changes nothing that a prediction is about.
        applied=changed,
        message=answer.message,
        given_limit_s=seconds_of(answer.set.time_limit if answer.set else None),
        given_min_s=seconds_of(answer.set.time_min if answer.set else None),
        soft_s=seconds_of(answer.set.soft_min if answer.set else None),
        given_mem_mib=decided.memory.given_mib if decided.memory else None,
        asked_mem_mib=decided.memory.asked_mib if decided.memory else None,
        **_who(case),
        **_prediction(case),
        **_chosen(decided.chosen),
        **_asked(asked),
    )


def note_of(
    case: DecisionContext, decided: Decision, change: Change | None, *, decision_id: str
) -> str:
    """Text for the job's admin_comment; empty without a prediction."""
    soft = decided.soft if change and change.soft_min else None
    if case.table is None:
        return ""
    if decided.chosen is not None:
        one = decided.chosen.prediction
    elif soft is not None:
        one = at(case.table, soft.size)
    else:
        return ""
    return admin_comment.build(
        admin_comment.Note(
            decision_id=decision_id,
            nodes=one.nodes,
            low=case.request.low,
            high=case.request.high,
            time_s=round(one.time_s),
            low_s=round(one.low_s),
            high_s=round(one.high_s),
            verdict=case.table.verdict.value,
            mode=case.site.mode.value,
            reason=decided.reason.value,
            limit_min=change.time_limit if change else None,
            least_min=change.time_min if change else None,
            soft_min=change.soft_min if change else None,
            own_min=case.job.time_limit if soft else None,
            mem_mib=decided.memory.given_mib if decided.memory and change else None,
        )
    )


def _is_changed(change: Change | None) -> bool:
    return change is not None and replace(change, soft_min=None, soft_until=None) != Change()


def _who(case: DecisionContext) -> dict[str, Any]:
    job, identity = case.job, case.identity
    return {
        "uid": job.user_id,
        "user": job.user_name,
        "name": job.name,
        "work_dir": job.work_dir,
        "account": job.account,
        "partition": case.partition.name if case.partition else job.partition,
        "qos": job.qos,
        "tag": identity.tag,
        "script": identity.script,
        "line": identity.line,
    }


def _prediction(case: DecisionContext) -> dict[str, Any]:
    table = case.table
    if table is None:
        return {}
    return {
        "key_level": table.level,
        "key": table.key,
        "label": table.label,
        "verdict": table.verdict.value,
    }


def _chosen(option: Option | None) -> dict[str, Any]:
    if option is None:
        return {}
    return {
        "nodes": option.nodes,
        "predicted_s": option.prediction.time_s,
        "low_s": option.prediction.low_s,
        "high_s": option.prediction.high_s,
        **_wait("wait", option),
        "confidence": option.prediction.level,
    }


def _asked(option: Option | None) -> dict[str, Any]:
    if option is None:
        return {}
    return {
        "request_predicted_s": option.prediction.time_s,
        "request_low_s": option.prediction.low_s,
        "request_high_s": option.prediction.high_s,
        **_wait("request_wait", option),
    }


def _wait(name: str, option: Option) -> dict[str, float]:
    """Give the wait on a count, or the bound of it that time limits are."""
    if option.wait_s == inf:
        return {}
    return {f"{name}_most_s" if option.bound else f"{name}_s": option.wait_s}
