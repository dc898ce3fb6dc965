"""The advice that nimo-advise shows: node counts side by side, one of them recommended."""

from collections.abc import Sequence
from math import inf, log

from msgspec.structs import replace

from predictor.table import at, verdict_at, worse
from predictor.types import PredictionTable, Verdict
from slurm_plugin.decision import messages
from slurm_plugin.decision.candidates import PolicySettings, Request, limits_on, trusted
from slurm_plugin.decision.context import DecisionContext
from slurm_plugin.decision.policy import Action, Decision, decide
from slurm_plugin.decision.reasons import Reason
from slurm_plugin.protocol import Advice, PartitionRow, Row
from slurm_plugin.slurm.availability import profile
from slurm_plugin.slurm.cluster_state import Partition

#: Reasons that bind a submission but not somebody who still considers what to ask for.
_OPEN_QUESTION = frozenset({Reason.FIXED_COUNT, Reason.NOT_OPTED_IN})


def advice_of(case: DecisionContext, rules: PolicySettings, *, fresh: bool) -> Advice:
    """Make the advice for a job.

    Parameters
    ----------
    case
        The job and what is known about it.
    rules
        The site's settings.
    fresh
        Whether the view of the job's partition can be believed; otherwise the advice is that for
        an idle cluster, without waits.
    """
    table, request = case.table, case.request
    advice = Advice(
        verdict_text=messages.verdict_text(table), deadline_s=request.deadline_s, verdict="unknown"
    )
    advice.largest = case.partition.largest if fresh and case.partition else None
    if table is None:
        return advice
    _describe(advice, table, largest=case.partition.largest if case.partition else inf)
    if not table.nodes:
        advice.reason = messages.reason_text(Reason.NO_FINISHED_RUN)
        return advice
    part = case.partition if fresh and case.partition else _idle(table, case.now_s)
    considered = _considered(case, part, rules)
    decided = decide(considered, table, part, rules, now_s=case.now_s)
    _recommend(advice, decided, fresh=fresh)
    _lower(advice, decided, table, part)
    advice.rows = _rows(case, part, rules, advice.nodes, waits=fresh)
    advice.meets_deadline = decided.deadline_met
    return advice


def side_by_side(choices: Sequence[tuple[Advice, Row | None]]) -> Advice | None:
    """Put places side by side: the advice of that where the job ends first, with them all.

    None where there are not two.

    Parameters
    ----------
    choices
        Advice for each partition (or type of node, where no partition is known to have it), with
        the count that is advised there, or a doubtful one.
    """
    if len(choices) < 2:
        return None
    best, _ = min(choices, key=lambda choice: _ends_s(*choice))
    sure = best.nodes is not None
    best.partitions = [
        _in_partition(advice, row, recommended=sure and advice is best) for advice, row in choices
    ]
    if sure and best.partition:
        best.directive = f"#SBATCH --partition={best.partition}\n{best.directive}"
    return best


def _ends_s(advice: Advice, row: Row | None) -> float:
    return inf if row is None or advice.nodes is None else row.time_s + (row.wait_s or 0.0)


def _in_partition(advice: Advice, row: Row | None, *, recommended: bool) -> PartitionRow:
    return PartitionRow(
        partition=advice.partition,
        node_type=advice.node_type,
        nodes=row.nodes if row else None,
        time_s=row.time_s if row else None,
        low_s=row.low_s if row else None,
        high_s=row.high_s if row else None,
        wait_s=row.wait_s if row else None,
        verdict=advice.verdict,
        runs=advice.runs,
        recommended=recommended,
        reason="" if advice.nodes else advice.reason,
    )


def _describe(advice: Advice, table: PredictionTable, *, largest: float) -> None:
    advice.application = table.label
    advice.key_level = table.level
    advice.verdict = table.verdict.value
    advice.confidence = table.confidence
    advice.runs = table.runs
    advice.points = list(table.observed)
    advice.knee = table.knee
    advice.guess = table.is_guess
    advice.observe = messages.next_run(table, largest)
    advice.verdict_text = messages.verdict_text(table, largest=largest)


def _lower(advice: Advice, decided: Decision, table: PredictionTable, part: Partition) -> None:
    """Let the verdict be the one that the decision was made by."""
    nodes = decided.chosen.nodes if decided.chosen else None
    if decided.reason is Reason.UNRELIABLE_CURVE:
        verdict = verdict_at(table, nodes) if nodes else Verdict.REFUSED
        advice.verdict = worse(table.verdict, verdict).value
        advice.verdict_text = messages.verdict_text(table, nodes=nodes, largest=part.largest)
    elif decided.reason is Reason.OUT_OF_BAND:
        advice.verdict = worse(table.verdict, Verdict.DOUBTFUL).value
        advice.verdict_text = "The prediction is doubtful."


def _idle(table: PredictionTable, now_s: float) -> Partition:
    """Stand in for a cluster that cannot be seen: as large as the table, nobody there."""
    nodes = table.nodes[-1]
    return Partition(name="", nodes=nodes, profile=profile([(now_s, nodes)]))


def _considered(case: DecisionContext, part: Partition, rules: PolicySettings) -> Request:
    """Make the request of somebody who has not decided yet: any count, compared with theirs."""
    request, table = case.request, case.table
    fixed = None if request.fixed in _OPEN_QUESTION else request.fixed
    if request.fixed is None or fixed is not None or table is None:
        return request
    counts = [n for n in table.nodes if n <= part.largest and trusted(table, n, rules.policy)]
    asked = min(counts, key=lambda n: abs(log(n / request.low)), default=request.low)
    return replace(request, low=1, high=part.largest, asked=asked, fixed=None)


def _recommend(advice: Advice, decided: Decision, *, fresh: bool) -> None:
    reason = messages.reason_text(decided.reason)
    advice.reason = reason if fresh else f"{reason} (The queue is not known: as if it were empty.)"
    if decided.action is not Action.KEEP and decided.chosen is not None:
        advice.nodes = decided.chosen.nodes
        advice.directive = f"#SBATCH --nodes={advice.nodes}"
    limits = decided.chosen.limits if decided.chosen else None
    advice.time_directive = f"#SBATCH {messages.time_options(limits)}" if limits else ""


def _rows(
    case: DecisionContext,
    part: Partition,
    rules: PolicySettings,
    recommended: int | None,
    *,
    waits: bool,
) -> list[Row]:
    table, request = case.table, case.request
    if table is None:
        return []
    observed = {point.nodes for point in table.observed}
    guess = table.is_guess
    low, high = (request.low, request.high) if request.low < request.high else (1, part.largest)
    base = at(table, min(observed)) if observed else at(table, table.nodes[0])
    rows = []
    for n in sorted({*table.nodes, *([recommended] if recommended else [])}):
        if not low <= n <= min(high, part.largest) or verdict_at(table, n) is Verdict.REFUSED:
            continue
        one = at(table, n)
        start = part.profile.earliest_start(n, request.limit_s or one.high_s, from_s=case.now_s)
        speedup = base.time_s / one.time_s
        limits = limits_on([n], request, table, rules)
        rows.append(
            Row(
                nodes=n,
                time_s=one.time_s,
                low_s=one.low_s,
                high_s=one.high_s,
                speedup=None if guess else speedup,
                efficiency=None if guess else speedup * base.nodes / n,
                node_hours=n * one.time_s / 3600,
                wait_s=start - case.now_s if waits and start < inf else None,
                observed=n in observed,
                recommended=n == recommended,
                limit_s=limits.limit_s if limits else None,
                time_min_s=limits.least_s if limits else None,
                meets_deadline=_meets(request, start - case.now_s, one.high_s, rules, case.now_s),
            )
        )
    return rows


def _meets(
    request: Request, wait_s: float, high_s: float, rules: PolicySettings, now_s: float
) -> bool | None:
    if request.deadline_s is None:
        return None
    return now_s + rules.deadline.wait_factor * wait_s + high_s <= request.deadline_s
