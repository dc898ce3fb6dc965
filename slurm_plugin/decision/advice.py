"""The advice that nimo-advise shows: node counts side by side, one of them recommended."""

from collections.abc import Callable, Sequence
from math import inf, log

from msgspec.structs import replace

from predictor.prediction_table import PredictionTable
from predictor.table import at, covers, ran_on, verdict_at, worse
from predictor.types import Prediction, Verdict
from sacct_ingest.errors import ConfigError
from sacct_ingest.runs.layout import Unit
from sacct_ingest.runs.submission import JobKind
from sacct_ingest.text.durations import duration_text
from slurm_plugin.decision import messages, sizes
from slurm_plugin.decision import policy as choosing
from slurm_plugin.decision.advice_rows import advice_row, mark_front, with_unbounded
from slurm_plugin.decision.advised_count import settled, weighed
from slurm_plugin.decision.allowed_counts import is_own_work, is_serial
from slurm_plugin.decision.array_end import tasks_text
from slurm_plugin.decision.failures import failures_text
from slurm_plugin.decision.first_run import describe_first_run
from slurm_plugin.decision.levers import deadline
from slurm_plugin.decision.limit_advice import LimitBasis, basis_of, limits_to_ask, reservation_text
from slurm_plugin.decision.memory_need import memory_needed, memory_to_ask
from slurm_plugin.decision.node_options import STARTING_S, Option
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.time_limits import TimeLimits
from slurm_plugin.evaluation.costs import (
    check_series,
    grams_between,
    later_begin,
    predicted_amounts,
    source_text,
)
from slurm_plugin.protocol.advice_messages import Advice, ObservedPoint
from slurm_plugin.protocol.reasons import MISSED, Reason
from slurm_plugin.slurm.footprint import footprint, memory_bytes
from slurm_plugin.slurm.node_pool import profile
from slurm_plugin.slurm.partition_view import UNKNOWN
from slurm_plugin.slurm.supply import Supply
from slurm_plugin.text.formatting import clock, percent, printable, short_clock

#: Ratio beyond the interval from which on run times are those of another problem.
_APART = 1.25
#: A job asks for too much memory where less than this share of it is needed.
_ENOUGH = 0.9

#: CPUs and GPUs of a cluster without a view: those of one node are not all that others find free.
_ELSEWHERE = 10**6

#: Reasons why a prediction changes no job, and is advice all the same.
_FOR_ADVICE = frozenset({Reason.OTHERS_RUNS, Reason.FEW_OWN_RUNS})


def advice_of(case: Situation, *, others: Callable[[], Sequence[Supply]] = tuple) -> Advice:
    """Make the advice for a job.

    Where its nodes are unknown it is that for an idle cluster, without waits.

    others: gives what partitions have that the job might ask for instead.
    """
    submitted, rules, fresh = case, case.rules, case.blind is None
    if case.request.distrusted in _FOR_ADVICE:
        case = replace(case, request=replace(case.request, distrusted=None))
    table, request = case.table, case.request
    advice = Advice(
        deadline_s=request.deadline_s,
        verdict="unknown",
        largest=case.partition.largest if fresh and case.partition else None,
        unit=request.unit,
        components=list(request.components),
        comment_text=printable(request.tag_fault),
        awaited_text=messages.awaited_text(request),
        limit_text=messages.beyond_partition_text(case),
    )
    if table is None:
        advice.verdict_text = "NIMO has no finished run of this job yet."
        advice.problems = [
            "It predicts jobs that ran before: submit it, or let 'nimo scale' try several counts."
        ]
        return advice
    _describe(advice, table, request)
    largest = case.supply.most if case.supply else inf
    ended = messages.would_end(case, rules.policy.memory_margin)
    advice.observe = messages.next_run(table, largest, ended)
    advice.problems += messages.short_memory(case, rules.policy.memory_margin)
    advice.limit_text = messages.endings_text(case)
    if not table.nodes:
        advice.reason = messages.reason_text(choosing.without_times(table))
        return advice
    supply = case.supply if fresh and case.supply else _idle(case, table)
    first = weighed(case, table, supply)
    best, pasted = settled(case, first, supply)
    case, decided, table, options = first.case, first.decided, first.table, first.options
    if decided.request is not None:
        _describe_own(advice, table, case.request.resources.user_name)
    own_work = may_be_pasted(submitted, table)
    advice.reason = _reason(decided.reason, case.request, table, fresh=fresh)
    if best is not None:
        _recommend(advice, best.nodes, submitted, rules.policy.memory_margin)
    basis = basis_of(case, decided, table)
    of_best = basis_of(pasted.case, pasted.decided, pasted.table)
    queue = supply if fresh else None
    if own_work:
        limited = of_best if best else basis
        _name_limit(advice, case, limited, best or decided.chosen, queue, submitted.request)
    _lower(advice, decided, table)
    base = next((one for one in options if one.nodes == table.asked), None)
    low, high = _shown(request, table, supply, options)
    advice.rows = with_unbounded(
        [
            advice_row(
                option,
                table,
                base,
                of_best if option is best else basis,
                own_work=own_work,
                best=advice.nodes,
                waits=fresh and request.begin_known,
            )
            for option in options
            if low <= option.nodes <= high and option.nodes % request.segment == 0
        ],
        table,
        low,
        high,
    )
    _name_asked(advice, base, decided, request, supply, now_s=case.now_s)
    guess = next(iter(options), None) if table.is_guess else None
    _say_of_limit(advice, case, table, base or guess)
    texts = (
        tasks_text(case.request, (best or base) if own_work else None, queue, now_s=case.now_s),
        advice.size_text,
        messages.unused_gpus_text(request, table),
    )
    advice.size_text = " ".join(filter(None, texts))
    mark_front(advice.rows)
    _add_amounts(advice, submitted, table, supply)
    advice.meets_deadline = decided.deadline_met
    advice.sure = rules.deadline.confidence
    enough = [r for r in advice.rows if r.chance is not None and r.chance >= advice.sure]
    cheapest = min(enough, key=lambda r: (r.node_hours, r.nodes), default=None)
    advice.cheapest_sure = cheapest.nodes if cheapest else None
    advice.deadline_text = _deadline_text(submitted, supply, others)
    return advice


def _reason(reason: Reason, request: Request, table: PredictionTable, *, fresh: bool) -> str:
    """Say why a count is advised, or none; of other jobs' run times the verdict says it."""
    text = "" if table.neighbours is not None else messages.reason_text(reason, request.unit)
    queue = "" if fresh else "The queue is unknown, and taken for empty."
    return f"{text} ({queue})" if text and queue else text or queue


def _name_asked(
    advice: Advice,
    asked: Option | None,
    decided: choosing.Decision,
    request: Request,
    supply: Supply,
    *,
    now_s: float,
) -> None:
    """Name the count that the job would get; where no row is of it, the nearest one, too."""
    counts = [row.nodes for row in advice.rows]
    advice.asked = asked.nodes if asked else None
    if request.fixed is Reason.HET and request.low in counts:
        advice.asked = request.low
    count = choosing.as_scheduled(request, supply, now_s=now_s) or request.low
    if decided.reason is not Reason.OUTSIDE_CURVE or not counts or count in counts:
        return
    size = request.unit.counted(count)
    if advice.nodes is not None:
        advice.reason = f"No run shows what {size} would take."
        return
    advice.uncovered = count
    advice.nearest = min(counts, key=lambda nodes: abs(log(nodes / count)))
    advice.reason = f"The first run on {size} will tell."


def _deadline_text(case: Situation, supply: Supply, others: Callable[[], Sequence[Supply]]) -> str:
    """Say what the submission of the job as it is would say of its deadline."""
    if case.table is None or case.request.deadline_s is None:
        return ""
    request = replace(case.request, explore=False)
    submitted = replace(case, request=request, supply=supply, blind=None)
    decided = choosing.decide(submitted)
    if decided.reason in MISSED:
        places = others() if request.unit is Unit.NODES else ()
        decided = replace(decided, remedies=choosing.remedies(submitted, places, decided))
    return deadline.text_of(decided, request, now_s=case.now_s)


def may_be_pasted(case: Situation, table: PredictionTable) -> bool:
    """Whether lines to paste may come of a table: of the user's own runs of this work.

    Or of those that the site takes for them (``decide: true``).
    """
    decides = not table.owner and not table.is_guess and case.request.distrusted is None
    return decides or is_own_work(table, case.request.resources.user_name)


def _name_limit(
    advice: Advice,
    case: Situation,
    basis: LimitBasis,
    chosen: Option | None,
    queue: Supply | None,
    submitted: Request,
) -> None:
    """Name a limit for the count that is advised, or that the job asks for.

    Where no count is advised a range stays that NIMO may not change: it has to hold on the fewest
    nodes, too.

    submitted: the job as it is.
    queue: what the partition has; None: not known.
    """
    table = basis.table
    nodes = chosen.nodes if chosen else table.asked or basis.request.asked or basis.request.low
    if advice.nodes is None and submitted.fixed is Reason.NOT_OPTED_IN and submitted.low < nodes:
        nodes = submitted.low
        chosen = None
    if chosen is not None:
        limits = limits_to_ask(chosen, basis)
    elif table.kind is JobKind.WORK and basis.speaks:
        limits = basis.to_ask(nodes)
    else:
        return
    _put_limit(advice, limits, case)
    if limits and advice.time_directive and basis.speaks:
        reserved = reservation_text(case, queue, nodes, basis.own_s, limits)
        each = "Give each component this limit." if case.request.fixed is Reason.HET else ""
        advice.time_text = " ".join(filter(None, (each, basis.text(nodes, limits), reserved)))


def _put_limit(advice: Advice, limits: TimeLimits | None, case: Situation) -> None:
    """Put in the line for a time limit, but for one that reaches beyond the deadline."""
    deadline_s = case.request.deadline_s or inf
    if limits is not None and case.now_s + limits.limit_s > deadline_s:
        limits = None
    to_ask = messages.time_options(limits)
    advice.time_directive = f"#SBATCH {to_ask}" if to_ask else ""
    advice.limit_text = messages.endings_text(case, limits.limit_s if limits else 0.0)


def _suggestion(nodes: int, table: PredictionTable) -> str:
    """Say what runs suggest that are not the user's own of this work: nothing to paste."""
    if table.is_guess:
        return ""
    return f"Runs of other users suggest {table.unit.counted(nodes)}: try it with your own limits."


def _shown(
    request: Request, table: PredictionTable, supply: Supply, options: Sequence[Option]
) -> tuple[int, int]:
    """Give the fewest and the most that rows are shown for: all where none is what is asked for."""
    if is_serial(table):
        return 1, 1
    asked = request.low, request.high
    if table.is_guess or request.fixed is Reason.HET:
        return asked
    if request.low < request.high and any(asked[0] <= one.nodes <= asked[1] for one in options):
        return asked
    return 1, supply.most


def _add_amounts(advice: Advice, case: Situation, table: PredictionTable, supply: Supply) -> None:
    """Add energy, cost and CO2e to the rows, and the hour at which the job emits least."""
    energy, each, fresh = case.rules.energy, None, case.blind is None
    taken = footprint(case.request.resources, case.partition) if fresh and case.partition else None
    if taken and not table.layout.in_all:
        each = taken.cpus, dict(taken.gres).get("gpu", 0)
    whole = taken is None or taken.whole or supply.part >= 1
    texts = [source_text(energy, table) if whole else ""]
    try:
        check_series(energy)
    except ConfigError as error:
        texts.append(f"CO2e: {error}")
    advice.currency, advice.energy_text = energy.currency, "; ".join(filter(None, texts))
    begin_s = max(case.now_s, case.request.begin_s)
    for row in advice.rows:
        if row.high_s is None:
            continue
        start_s = begin_s + (row.wait_s or 0.0)
        one = Prediction(row.nodes, row.time_s, row.low_s, row.high_s, table.confidence)
        grams = grams_between(energy, start_s, start_s + row.time_s)
        made = predicted_amounts(energy, table, one, grams=grams, each=each, whole=whole)
        for name in made.__slots__:
            setattr(row, name, getattr(made, name))
        if (
            row.nodes != (advice.nodes or advice.asked)
            or not made.co2_g
            or case.request.begin_given
        ):
            continue
        if not may_be_pasted(case, table):
            continue
        latest_s = (case.request.deadline_s or inf) - row.high_s - STARTING_S
        if (found := later_begin(energy, start_s, row.time_s, latest_s)) is not None:
            less = f"it emits {percent(found[1])} less CO2e"
            advice.begin_text = f"Begun at {short_clock(found[0])} {less}."
            advice.begin_directive = f"#SBATCH --begin={clock(found[0])}"


def _describe(advice: Advice, table: PredictionTable, request: Request) -> None:
    user = request.resources.user_name
    advice.application = table.label
    advice.key_level = table.level
    advice.verdict = table.verdict.value
    advice.confidence = table.confidence
    advice.runs = table.runs
    advice.points = [
        ObservedPoint(one.nodes, one.time_s, one.repeats, one.spread) for one in ran_on(table)
    ]
    advice.knee = table.knee
    advice.guess = table.is_guess
    advice.until_limit = table.kind is JobKind.UNTIL_LIMIT and bool(request.limit_s)
    advice.verdict_text = messages.verdict_text(table)
    advice.problems = messages.problem_texts(table, user)
    advice.job_text = messages.job_text(table)
    if failed := failures_text(table, user, request.script.text):
        advice.failure_text = messages.sentence(failed)
    if table.neighbours is not None:
        advice.problems.append(advice.verdict_text)
    if table.is_guess and table.nodes:
        advice.problems.append("Its first runs tell more; 'nimo scale' tries several counts.")


def _describe_own(advice: Advice, table: PredictionTable, user: str) -> None:
    """Say what the job's own table adds.

    That no job asked for its count, or that those asked for on others took other times than it
    would there.
    """
    advice.knee = table.knee
    if table.problems and table.problems[0].name in ("not_run", "undecided"):
        advice.verdict = table.verdict.value
        advice.verdict_text = messages.verdict_text(table)
        advice.problems = messages.problem_texts(table, user)
    seen = [one for one in table.observed if covers(table, one.nodes)]
    at_each = [(one, at(table, one.nodes)) for one in seen]
    others = [
        one for one, own in at_each if not own.low_s / _APART <= one.time_s <= own.high_s * _APART
    ]
    if not others or table.change is None:
        return
    counts = " and ".join(str(one.nodes) for one in others[:3]) + (" …" if others[3:] else "")
    first = others[0]
    advice.problems.append(
        f"Runs asked for on {counts} {table.unit.plural} had other problems "
        f"({duration_text(first.time_s)} on {first.nodes}): the rows are this job."
    )


def _lower(advice: Advice, decided: choosing.Decision, table: PredictionTable) -> None:
    """Let the verdict be the one that the decision was made by."""
    nodes = decided.chosen.nodes if decided.chosen else None
    if decided.reason is Reason.UNRELIABLE_CURVE:
        verdict = verdict_at(table, nodes) if nodes else Verdict.REFUSED
        advice.verdict = worse(table.verdict, verdict).value
        advice.verdict_text = messages.verdict_text(table, nodes)
    elif decided.reason is Reason.OUT_OF_BAND:
        advice.verdict = worse(table.verdict, Verdict.DOUBTFUL).value
        advice.verdict_text, advice.problems = "The prediction is doubtful.", []


def _idle(case: Situation, table: PredictionTable) -> Supply:
    """Stand in for a cluster without a view: empty, and no larger than it or the table is known."""
    if (supply := case.supply) is not None:
        free = profile([(case.now_s, supply.most)])
        nodes = supply.unit is Unit.NODES
        return replace(
            supply,
            free=free,
            free_by_limits=free,
            free_in_all=None if nodes else profile([(case.now_s, supply.total)]),
            waiting=0,
            waiting_mean=0.0,
            outlook=None,
            promised=False,
            ahead=0.0,
            blocked_s=-inf,
        )
    ran = table.nodes if table.is_guess else [one.nodes for one in ran_on(table)]
    # What neither runs nor the cluster's nodes show there may not be.
    size = table.in_cluster or max([table.widest, *ran, case.request.asked or case.request.low])
    size = min(size, max(table.nodes[-1], case.request.asked or case.request.low))
    free = profile([(case.now_s, size)])
    nodes = case.request.unit is Unit.NODES
    return Supply(
        partition="",
        unit=case.request.unit,
        total=size,
        most=size,
        free=free,
        free_by_limits=free,
        free_in_all=None if nodes else profile([(case.now_s, _ELSEWHERE)]),
    )


def _recommend(advice: Advice, nodes: int, case: Situation, margin: float) -> None:
    """Put in the count to take, and the lines and texts that go with it.

    Where they are not the user's own runs of this work, there is nothing to paste.
    """
    job, table, unit = case.request.resources, case.table, case.request.unit
    if table is None or not may_be_pasted(case, table):
        advice.size_text = _suggestion(nodes, table) if table else ""
        return
    sized = table if unit is not Unit.NODES else None
    options = sizes.options_for(job, sized, nodes) if sized else [f"--nodes={nodes}"]
    advice.nodes, advice.directive = nodes, f"#SBATCH {' '.join(options)}"
    if sized and unit is Unit.CPUS:
        other = sizes.resized(job, sized, nodes)
        tasks, each = sizes.tasks_of(other), other.cpus_per_task or 1
        if tasks > 1 and each > 1:
            advice.size_text = f"{tasks} tasks with {each} CPUs each have {tasks * each} CPUs."
    advice.script_text = messages.script_text(case.request, table, nodes)
    advice.memory_directive = _memory_directive(case, table, nodes, margin)


def _say_of_limit(
    advice: Advice, case: Situation, table: PredictionTable, shown: Option | None
) -> None:
    """Say whether limit and memory of a job hold what is predicted, and of a guess how to learn.

    shown: on the count that is asked for; None: nothing is predicted there.
    """
    if table.is_guess:
        describe_first_run(advice, case.request, shown)
    elif shown and not advice.limit_text and table.kind is JobKind.WORK:
        advice.limit_text = messages.short_limit(shown.prediction, case.request)
        advice.limit_text = advice.limit_text or messages.memory_text(case, table, shown.nodes)


def _memory_directive(case: Situation, table: PredictionTable, size: int, margin: float) -> str:
    """Give the line for the memory to ask for; empty if the job asks for enough."""
    job, part = case.request.resources, case.partition or UNKNOWN
    nodes, other = 1, job
    if case.request.unit is not Unit.NODES:  # what is needed is that of all its nodes
        other = sizes.resized(job, table, size)
        nodes = sizes.nodes_for(other, table, size, part)
        other = replace(other, min_nodes=nodes, max_nodes=nodes)
    given, needed = memory_bytes(other, case.partition), memory_to_ask(table, size, margin=margin)
    least = memory_needed(table, size, margin=margin)
    if given is None or needed is None or least is None:
        return ""
    fits = least <= given * nodes  # round numbers may be more
    if fits and _ENOUGH * given * nodes <= needed * 2**20:
        return ""
    if nodes == 1 and not job.min_mem_per_cpu:
        enough, option = replace(other, min_mem_per_node=needed), f"--mem={needed}M"
    elif job.min_mem_per_node is None:
        each = -(-needed // (nodes * footprint(other, part).cpus))
        enough, option = replace(other, min_mem_per_cpu=each), f"--mem-per-cpu={each}M"
    else:
        return ""
    most, taken = part.node_mem_bytes or inf, footprint(enough, part)
    return f"#SBATCH {option}" if taken.allowed and taken.mem_mib * 2**20 <= most else ""
