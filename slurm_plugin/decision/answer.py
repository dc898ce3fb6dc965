"""What a decision comes to: the job's change, its memory and limit to plan with, message, record.

Memory that a job asks for and its runs do not need is taken off step by step.  A job never gets
less than its owner's runs ever needed times the margin, nor less than a share of what such runs
completed with last.  After a run ended for lack of memory, jobs keep what they ask for until enough
of them have completed again.

Slurm schedules a job by a limit to plan with, and ends it at its time limit.  It does so from 23.11
on (``SchedulerParameters=time_min_as_soft_limit``); without the option the same field ends jobs. So
nothing is set unless the option has just been seen.
"""

from math import ceil, inf
from typing import Any

from msgspec.structs import replace

from predictor.application.request import for_request
from predictor.table import at, covers
from predictor.types import MemoryNeed, PredictionTable
from sacct_ingest.records import DecisionRow, JobState, seconds_of
from sacct_ingest.runs.input_sizes import from_text
from sacct_ingest.runs.layout import Unit
from sacct_ingest.text import admin_comment
from slurm_plugin.config.setting_types import Mode, TimeUse
from slurm_plugin.config.settings import Config, TimeLimit
from slurm_plugin.decision import messages
from slurm_plugin.decision.context import DecisionContext
from slurm_plugin.decision.failures import failures_text
from slurm_plugin.decision.memory_and_limits import (
    MOST_AGE_S,
    LowerMemory,
    SoftLimit,
    SoftPlans,
    most_between,
    planned_s,
)
from slurm_plugin.decision.node_options import Option
from slurm_plugin.decision.policy import Action, Decision
from slurm_plugin.decision.sizes import (
    change_for,
    change_of,
    nodes_of,
    only_nodes,
    resized,
    sizes_of,
)
from slurm_plugin.protocol.decision_messages import Answer, Change
from slurm_plugin.protocol.reasons import MISSED, Reason
from slurm_plugin.protocol.request_messages import HookLevel, Job
from slurm_plugin.slurm.cluster_state import Cluster
from slurm_plugin.slurm.footprint import footprint

_MIB = 2**20
#: Share of the judged runs for which it has to have been enough.
_INSIDE = 0.9
#: A job that names no memory gets no less, MiB: the hook may not see what it would have.
_LEAST_MIB = 256
#: A job that would keep more than this share of its memory keeps all.
_WORTH = 0.95


def permitted(case: DecisionContext, decided: Decision, seen: Cluster | None = None) -> Answer:
    """Answer with as much of a decision as the mode of the job permits.

    seen: the view of the cluster that says how Slurm plans.
    """
    mode, request, now_s = case.site.mode, case.request, case.now_s
    answer = Answer(reason=decided.reason)
    if mode is Mode.OBSERVE:
        return answer
    lines: list[str] = []
    change = Change()
    if mode is Mode.ENFORCE and decided.action is Action.REFUSE:
        answer.action = "refuse"
    elif mode is Mode.ENFORCE:
        change = _change(case, decided.action, decided.chosen, decided.memory)
        soft = decided.soft if change.time_limit is None else None
        if soft and seen:
            until_s = int(seen.taken_s + MOST_AGE_S)
            change = replace(change, soft_min=round(soft.limit_s / 60), soft_until=until_s)
        if change != Change():
            answer.action, answer.set = "set", change
            every, memory = case.site.tell_changes, decided.memory
            lines += [
                messages.changed(decided, change, case.job.time_limit, request, every=every),
                messages.less_memory(memory) if memory and every else "",
                messages.planned(soft) if soft and every else "",
            ]
    replaced = change.time_limit is not None or answer.action == "refuse"
    due = messages.deadline_lines(decided, request, now_s=now_s, limit_set=replaced)
    if mode is Mode.ADVISE and not (due and decided.reason in MISSED):
        lines.insert(0, messages.at_submission(decided, request))
    lines = [*(f"nimo: {line}" for line in due), *lines]
    if decided.better:
        lines.append(messages.better_count(decided.better, request.unit))
    chosen = decided.chosen if decided.action is Action.SET else decided.request
    lines.append(messages.limit_reached(case, chosen.nodes if chosen else None, answer.set))
    if case.table and (
        failed := failures_text(case.table, case.job.user_name, case.job.script, in_a_row=True)
    ):
        lines.append(f"nimo: {failed}")
    lines += [f"nimo: {one}" for one in messages.of_tag(case, decided)]
    answer.message = "\n".join(filter(None, lines))
    return answer


def _change(
    case: DecisionContext, action: Action, chosen: Option | None, memory: LowerMemory | None
) -> Change:
    """Fields to write: the count with what goes with it, and the limit even if the count stays."""
    change, job = Change(), case.job
    if chosen is not None:
        set_nodes, own, limits = action is Action.SET, job.time_limit, chosen.limits
        if set_nodes and (case.request.unit is Unit.NODES or case.table is None):
            change = change_for(job, chosen.nodes)
        elif set_nodes and case.table:
            change = change_of(job, case.table, chosen.nodes)
        if limits is not None and case.request.time_use is TimeUse.SET:
            change.time_limit = round(limits.limit_s / 60)
            change.time_min = round(limits.least_s / 60) if limits.least_s else None
        elif set_nodes and chosen.limit_s is not None and own is not None:
            change.time_limit = round(chosen.limit_s / 60) if chosen.limit_s > 60 * own else None
    if memory is not None and memory.per_cpu is not None:
        change.min_mem_per_cpu = memory.per_cpu
    elif memory is not None:
        change.min_mem_per_node = memory.given_mib
    return change


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
    given = answer.set or Change()
    # A limit to plan with changes nothing that a prediction is about.
    changed = replace(given, soft_min=None, soft_until=None) != Change()
    applied = answer.action == "refuse" or changed
    if decided.better and not applied:
        decided = replace(decided.better, reason=Reason.PROVEN)
    job, request, table = case.job, case.request, case.table
    asked, chosen, memory = decided.request, decided.chosen, decided.memory
    limited = request.limit_s is not None and request.limit_s < inf
    fields: dict[str, Any] = {}
    if table is not None:
        fields = {"key_level": table.level, "key": table.key, "label": table.label}
        fields["verdict"] = table.verdict.value
    if chosen is not None:
        fields |= {"nodes": chosen.nodes, "confidence": chosen.prediction.level}
    for of, option in (("", chosen), ("request_", asked)):
        if option is not None:
            one = option.prediction
            times = {"predicted_s": one.time_s, "low_s": one.low_s, "high_s": one.high_s}
            if option.wait_s < inf:  # or the bound of it that time limits are
                times["wait_most_s" if option.bound else "wait_s"] = option.wait_s
            fields |= {f"{of}{name}": value for name, value in times.items()}
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
        inputs=job.inputs if from_text(job.inputs) else "",
        given_limit_s=seconds_of(given.time_limit),
        given_min_s=seconds_of(given.time_min),
        soft_s=seconds_of(given.soft_min),
        given_mem_mib=memory.given_mib if memory else None,
        asked_mem_mib=memory.asked_mib if memory else None,
        **{name: getattr(job, name) for name in _OF_JOB},
        **{name: getattr(case.identity, name) for name in ("tag", "script", "line")},
        **fields,
    )


_OF_JOB = ("name", "work_dir", "account", "qos", "min_nodes", "max_nodes")


def note_of(
    case: DecisionContext, decided: Decision, change: Change | None, *, decision_id: str
) -> str:
    """Text for the job's admin_comment; empty without a prediction."""
    soft = decided.soft if change and change.soft_min else None
    asked, unit = decided.request if decided.action is Action.SET else None, case.request.unit
    planned_s, latest_s = _starts(case, decided, change)
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
            asked=asked.nodes if asked else None,
            asked_s=round(asked.prediction.time_s) if asked else None,
            unit=None if unit is Unit.NODES else unit.value,
            planned_s=planned_s,
            latest_s=latest_s,
        )
    )


def _starts(
    case: DecisionContext, decided: Decision, change: Change | None
) -> tuple[int | None, int | None]:
    """When a job is planned to start on its one count, and the latest that its guard allows.

    None: it has no range to get back.  The second is for Slurm's plan, which is made by limits: a
    count that waits for a prediction has none.
    """
    chosen, request = decided.chosen, case.request
    pinned = change is not None and change.min_nodes is not None and change.time_limit is None
    ranged = request.unit is Unit.NODES and request.low < request.high and only_nodes(case.job)
    if chosen is None or not (pinned and ranged) or chosen.wait_s == inf:
        return None, None
    latest = chosen.no_later and chosen.most_wait_s < inf
    latest_s = ceil(case.now_s + chosen.most_wait_s) if latest else None
    return ceil(case.now_s + chosen.wait_s), latest_s


def lower_memory(case: DecisionContext, decided: Decision, config: Config) -> LowerMemory | None:
    """Memory that a job gets instead of what it asks for; None: that stays."""
    part, need = case.partition, _need(case, config.sharing.own_runs)
    span = _sizes(case, decided)
    if part is None or need is None or span is None:
        return None
    job = _of_size(case, span[1])
    taken = footprint(job, part)
    # As asked for, or by default.
    asked_mib = int(taken.mem_mib) if taken.mem_mib < inf else (part.node_mem_bytes or 0) // _MIB
    high, given = (most_between(one, *span) for one in (need.high, need.given))
    if taken.alone or job.min_mem_per_node == 0 or not asked_mib or high is None or given is None:
        return None
    least = max(high * config.policy.memory_margin, given * config.memory.step)
    unasked = job.min_mem_per_node is None and not job.min_mem_per_cpu
    given_mib = max(
        ceil(least / _MIB),
        ceil(config.memory.least_share * asked_mib),
        _LEAST_MIB if unasked else 0,
    )
    per_cpu = ceil(given_mib / taken.cpus) if job.min_mem_per_cpu else None
    given_mib = per_cpu * taken.cpus if per_cpu else given_mib
    lower = {"min_mem_per_cpu": per_cpu} if per_cpu else {"min_mem_per_node": given_mib}
    # Where memory brings CPUs, less of it would be another size.
    if given_mib > _WORTH * asked_mib or footprint(replace(job, **lower), part).cpus != taken.cpus:
        return None
    return LowerMemory(given_mib, asked_mib, per_cpu)


def _need(case: DecisionContext, own_runs: int) -> MemoryNeed | None:
    """Give what the owner's runs needed, where that may change a job; others' runs do not count."""
    job, request, table = case.job, case.request, case.table
    if not request.lower_memory or request.distrusted or not job.script or job.mem_per_tres:
        return None
    if job.hook < HookLevel.SIZES:
        return None
    if table is None or table.is_guess or not job.user_name or table.owner != job.user_name:
        return None
    need = table.need
    if need is None or need.runs < own_runs or need.inside < _INSIDE * need.predictions:
        return None
    return need


def _sizes(case: DecisionContext, decided: Decision) -> tuple[int, int] | None:
    """Fewest and most nodes, CPUs or GPUs that the job may get; None: not known."""
    job, request = case.job, case.request
    if decided.action is Action.SET and decided.chosen:
        return decided.chosen.nodes, decided.chosen.nodes
    if request.unit is not Unit.NODES:
        own = sizes_of(job, case.partition)[request.unit]
        return (own, own) if own and nodes_of(job) == 1 else None
    if job.min_nodes is None and (job.num_tasks or 1) > 1:
        return None
    largest = case.partition.largest if case.partition else 0
    return request.low, max(min(request.high, largest), request.low)


def _of_size(case: DecisionContext, size: int) -> Job:
    if case.request.unit is Unit.NODES or case.table is None:
        return replace(case.job, min_nodes=size, max_nodes=size)
    own = sizes_of(case.job, case.partition)[case.request.unit]
    return case.job if size == own else resized(case.job, case.table, size)


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
    # Links of a chain run until their limit.
    at_limit = sum(one.runs for one in table.endings if one.state == JobState.TIMEOUT)
    chain = 2 * at_limit > sum(one.runs for one in table.endings)
    if size is None or request.distrusted or chain:
        return None
    own_s = 60.0 * minutes
    # Slurm would start the job before a reservation by its plan, and let it run across.
    begin_s = max(case.now_s, request.begin_s)
    parts = [part for name in names if (part := cluster.partition(name))]
    if any(part.reserved_s < begin_s + own_s + MOST_AGE_S for part in parts):
        return None
    share = plans.quantiles.get(names[0], 1.0 - rules.outlasted_share)
    limit_s = planned_s(table, size, own_s, share, rules)
    return SoftLimit(limit_s, own_s, size) if limit_s < own_s else None


def _size(case: DecisionContext, decided: Decision, table: PredictionTable) -> int | None:
    """Size to look up: the chosen one, or that of the request; None: no run says anything of it."""
    if decided.chosen is not None:
        return decided.chosen.nodes
    size = case.request.asked or case.request.low
    if table.is_guess and table.nodes:  # what a user's jobs are like says the same of all sizes
        size = min(max(size, table.nodes[0]), table.nodes[-1])
    return size if covers(table, size) else None
