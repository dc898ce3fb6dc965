"""What a decision comes to: the job's change, the message to its user, its note and its record."""

from math import inf
from typing import Any

from msgspec.structs import replace

from predictor.application.request import for_request
from sacct_ingest.records import DecisionRow, JobState, seconds_of
from sacct_ingest.runs.input_sizes import from_text
from sacct_ingest.runs.layout import Unit
from sacct_ingest.text import admin_comment
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.decision import messages
from slurm_plugin.decision.adjustment import change_of, lines_of
from slurm_plugin.decision.better_count import better_count
from slurm_plugin.decision.failures import failures_text
from slurm_plugin.decision.levers.all_levers import tag_texts
from slurm_plugin.decision.limit_advice import basis_of, limits_to_ask
from slurm_plugin.decision.node_options import Option
from slurm_plugin.decision.policy import Action, Decision
from slurm_plugin.decision.situation import Situation
from slurm_plugin.protocol.decision_messages import Answer, Change
from slurm_plugin.protocol.reasons import MISSED, Reason


def permitted(case: Situation, decided: Decision) -> Answer:
    """Answer with as much of a decision as the mode of the job permits.

    What stands against the job is said first, as in advice: failures, then what ends it.
    """
    mode = case.site.mode
    request = case.request
    answer = Answer(reason=decided.reason)
    if mode is Mode.OBSERVE:
        return answer
    lines: list[str] = []
    change = Change()
    if any(one.refuses for one in decided.adjustments):
        answer.action = "refuse"
    elif mode is Mode.ENFORCE:
        change = change_of(decided.adjustments)
        lines += lines_of(decided.adjustments, every=case.site.tell_changes)
        if change != Change():
            answer.action = "set"
            answer.set = change
    due = [line for one in decided.adjustments for line in one.warnings]
    chosen = decided.chosen if decided.action is Action.SET else decided.request
    problems = [
        *_failed(case),
        *(f"nimo: {line}" for line in due),
        *messages.short_of(case, chosen, answer.set, _limit_advised_s(case, decided, chosen)),
    ]
    if mode is Mode.ADVISE and not (due and decided.reason in MISSED):
        lines.insert(0, messages.at_submission(decided, request))
    if decided.better:
        lines.append(better_count(decided.better, request.unit))
    lines += [f"nimo: {one}" for one in tag_texts(case, decided)]
    answer.message = "\n".join(filter(None, (*problems, *lines)))
    return answer


def _limit_advised_s(case: Situation, decided: Decision, chosen: Option | None) -> float:
    """Give the time limit, in seconds, that advice names on a count after runs that reached theirs.

    0: it names none, or no run reached one.

    chosen: the count that the job gets; None: unknown.
    """
    table = case.table
    if table is None or chosen is None:
        return 0.0
    if table.limit_reached is None or table.limit_reached.state != JobState.TIMEOUT:
        return 0.0
    if decided.request is not None:
        table = for_request(table, decided.request.nodes, case.request.given)
    limits = limits_to_ask(chosen, basis_of(case, decided, table))
    return limits.limit_s if limits else 0.0


def _failed(case: Situation) -> list[str]:
    """Line about the last runs, where they all failed."""
    if case.table is None:
        return []
    user, script = case.request.resources.user_name, case.request.script.text
    failed = failures_text(case.table, user, script, in_a_row=True)
    return [f"nimo: {failed}"] if failed else []


def row_of(
    case: Situation, decided: Decision, answer: Answer, *, decision_id: str, cluster: str, via: str
) -> DecisionRow:
    """Row of the store: the request, the prediction, the decision and the change."""
    given = answer.set or Change()
    # A limit to plan with changes nothing that a prediction is about.
    changed = replace(given, soft_min=None, soft_until=None) != Change()
    applied = answer.action == "refuse" or changed
    if decided.better and not applied:
        decided = replace(decided.better, reason=Reason.PROVEN)
    request = case.request
    job = case.request.resources
    table = case.table
    asked = decided.request
    chosen = decided.chosen
    limited = request.limit_s is not None and request.limit_s < inf
    fields: dict[str, Any] = {}
    for adjustment in decided.adjustments:
        fields |= adjustment.recorded
    if table is not None:
        fields |= {"key_level": table.level, "key": table.key, "label": table.label}
        fields["verdict"] = table.verdict.value
    if chosen is not None:
        run = chosen.prediction
        fields |= {"predicted_s": run.time_s, "low_s": run.low_s, "high_s": run.high_s}
        fields |= {"nodes": chosen.nodes, "confidence": run.level}
        if chosen.wait_s < inf:  # or the bound of it that time limits are
            fields["wait_most_s" if chosen.bound else "wait_s"] = chosen.wait_s
    if asked is not None:
        run = asked.prediction
        fields |= {"request_predicted_s": run.time_s}
        fields |= {"request_low_s": run.low_s, "request_high_s": run.high_s}
        if asked.wait_s < inf:
            fields["request_wait_most_s" if asked.bound else "request_wait_s"] = asked.wait_s
    return DecisionRow(
        decision_id=decision_id,
        cluster=cluster,
        at_s=case.now_s,
        mode=case.site.mode.value,
        via=via,
        action=decided.action.value,
        reason=decided.reason.value,
        uid=job.user_id,
        user=job.user_name,
        partition=case.partition.name if case.partition else job.partition,
        requested_nodes=asked.nodes if asked else job.min_nodes,
        limit_s=int(request.limit_s or 0) if limited else None,
        deadline_s=request.deadline_s,
        unit=request.unit.value,
        applied=applied,
        message=answer.message,
        inputs=request.inputs if from_text(request.inputs) else "",
        script_bag=request.script_bag,
        name=request.name,
        work_dir=request.work_dir,
        given_limit_s=seconds_of(given.time_limit),
        given_min_s=seconds_of(given.time_min),
        soft_s=seconds_of(given.soft_min),
        account=job.account,
        qos=job.qos,
        min_nodes=job.min_nodes,
        max_nodes=job.max_nodes,
        tag=case.identity.tag,
        script=case.identity.script,
        line=case.identity.line,
        **fields,
    )


def note_of(case: Situation, decided: Decision, change: Change | None, *, decision_id: str) -> str:
    """Text for the job's admin_comment; empty without a prediction."""
    adjustments = decided.adjustments if change else ()
    predictions = [adjustment.prediction for adjustment in adjustments if adjustment.prediction]
    if decided.chosen is not None:
        predictions.insert(0, decided.chosen.prediction)
    if case.table is None or not predictions:
        return ""
    one = predictions[0]
    unit = case.request.unit
    asked = decided.request if decided.action is Action.SET else None
    noted: dict[str, Any] = {}
    for adjustment in adjustments:
        noted |= adjustment.noted
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
            asked=asked.nodes if asked else None,
            asked_s=round(asked.prediction.time_s) if asked else None,
            unit=None if unit is Unit.NODES else unit.value,
            **noted,
        )
    )
