"""Which node count a job gets: a pure function of request, prediction, cluster and settings.

Among the counts that the guard, the time limits and the deadline allow, the cheapest is taken: see
`slurm_plugin.decision.node_options` for what a count costs.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from math import inf

import msgspec
from msgspec.structs import replace

from predictor.job_table import is_otherwise
from predictor.prediction_table import PredictionTable
from predictor.stored_table import is_outdated
from predictor.table import at, covers, verdict_at
from predictor.types import Verdict
from predictor.waits.error_record import ENOUGH
from sacct_ingest.runs.layout import Unit
from sacct_ingest.text.durations import slurm_time
from slurm_plugin.config.setting_types import OnMissed, TimeUse
from slurm_plugin.decision import allowed_counts as counting
from slurm_plugin.decision.adjustment import Adjustment
from slurm_plugin.decision.explore import TriedCount, count_to_try, tries_of
from slurm_plugin.decision.node_options import Comparison, DeadlineVerdict, Option
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.time_limits import TimeLimits, whole_minutes
from slurm_plugin.protocol.reasons import MISSED, Reason
from slurm_plugin.slurm.supply import Supply
from slurm_plugin.text.formatting import clock, percent

_REASONS = {
    DeadlineVerdict.WAIT: Reason.DEADLINE_UNSURE,
    DeadlineVerdict.LIMIT: Reason.DEADLINE_LIMIT,
    DeadlineVerdict.RUN: Reason.DEADLINE_MISSED,
}
#: A proposed deadline still holds when it is pasted that much later.
_PASTED_S = 300.0
_SUREST = 0.99  #: highest chance that is said


class Action(StrEnum):
    """What is to be done with the job."""

    KEEP = "keep"
    SET = "set"
    REFUSE = "refuse"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with a job, and why."""

    action: Action
    reason: Reason
    chosen: Option | None = None  #: what it gets, or would get
    request: Option | None = None  #: what it would have had
    learns: TriedCount | None = None  #: which of how many counts is tried
    deadline_met: bool | None = None  #: None: no deadline, or unknown
    options: Sequence[Option] = ()  #: all that were weighed
    remedies: Sequence[str] = ()  #: what would make the deadline, in words
    better: "Decision | None" = None  #: on a count that its runs proved, where none is changed
    adjustments: Sequence[Adjustment] = ()  #: what each lever does to the job


def decide(situation: Situation) -> Decision:
    """Choose the node count of a job."""
    request = situation.request
    table = situation.table
    supply = situation.supply
    problem = situation.blind
    if table is not None and not table.nodes:
        problem = problem or without_times(table)
    if problem is not None or table is None or supply is None:
        return _kept(request.fixed or problem or Reason.UNKNOWN_APPLICATION)
    asked = as_scheduled(request, supply, now_s=situation.now_s)
    if asked is None:
        return _kept(request.fixed or Reason.BEYOND_LIMITS)
    scene = Comparison.of(situation, table, supply, asked)
    if not covers(scene.table, asked):
        return _kept(request.fixed or Reason.OUTSIDE_CURVE)
    if unchanged := _why_unchanged(scene):
        return _checked(scene, unchanged)
    candidates = counting.choices(scene.question)
    if len(candidates) == 1:
        return _checked(scene, counting.why_alone(scene.question))
    return _choose(scene, scene.options(candidates))


def _kept(reason: Reason) -> Decision:
    return Decision(action=Action.KEEP, reason=reason)


def without_times(table: PredictionTable) -> Reason:
    """Say why a table has no run time at all."""
    return Reason.OTHER_MODELS if is_outdated(table) else Reason.NO_FINISHED_RUN


def _why_unchanged(scene: Comparison) -> Reason | None:
    """Say why the request must stand whatever counts there are; None: it need not."""
    request = scene.request
    table = scene.table
    if unchanged := request.fixed or request.distrusted:
        return unchanged
    if not counting.scales(table, [scene.asked]) or at(table, scene.asked).unbounded:
        return _why_distrusted(table)
    if is_undecided(table) and not request.explore and request.deadline_s is None:
        return Reason.UNDECIDED
    return None


def is_undecided(table: PredictionTable) -> bool:
    """Whether runs fit hypotheses that disagree on other counts."""
    return any(problem.name == "undecided" for problem in table.problems)


def opened_by_runs(request: Request) -> Request:
    """Give a request of one count as one for the counts that its runs proved."""
    own = request.low
    counts = request.proven
    return replace(request, low=counts[0], high=counts[-1], counts=counts, asked=own, fixed=None)


def _why_distrusted(table: PredictionTable) -> Reason:
    names = {problem.name for problem in table.problems}
    if is_otherwise(table):
        return Reason.OTHER_LAYOUT
    if table.asked and at(table, table.asked).unbounded:
        return Reason.CUT_OFF
    if counting.is_serial(table):
        return Reason.SERIAL
    if table.is_curve:
        return Reason.UNRELIABLE_CURVE
    if "no_curve" in names:
        return Reason.NO_CURVE
    return Reason.NAME_ONLY if table.is_guess else Reason.MIXED_RUNS


def as_scheduled(request: Request, supply: Supply, *, now_s: float) -> int | None:
    """Node count that Slurm itself would give; None where the partition does not have that many.

    Slurm starts a job once its fewest nodes are free, and gives it all that are free then.  It
    plans by time limits: what others' jobs are predicted to take does not count.
    """
    if request.asked is not None:
        return request.asked if request.asked <= supply.most else None
    high = min(request.high, supply.most)
    if request.low > high:
        return None
    begin = max(now_s, request.begin_s)
    duration = request.limit_s or supply.longest_s or inf
    there = supply.free_by_limits
    start = there.earliest_start(request.low, duration, from_s=begin)
    free = min(high, there.least(start, start + duration)) if start < inf else high
    return max(free - free % request.segment, request.low)


def _choose(scene: Comparison, options: Sequence[Option]) -> Decision:
    asked = next(o for o in options if o.nodes == scene.asked)
    feasible = _feasible(options, asked)
    if not feasible:
        return _missed(scene, options, asked)
    best = _best(scene, feasible, asked)
    tried = count_to_try(scene, options, best, asked)
    chosen = tried or best
    return Decision(
        action=Action.SET,
        reason=Reason.LEARNING if tried else _reason(scene, best, asked, feasible, options),
        chosen=chosen,
        request=asked,
        learns=tries_of(scene, tried.nodes) if tried else None,
        deadline_met=chosen.meets_deadline,
        options=options,
    )


def _best(scene: Comparison, feasible: Sequence[Option], asked: Option) -> Option:
    """Take the cheapest count; the request, where only a wait without a record speaks against it.

    A request that cannot start, or that must not be taken, is no choice.
    """
    best = min(feasible, key=lambda o: (o.cost_s, o.nodes))
    wait = asked.wait
    if is_undecided(scene.table) and scene.request.deadline_s is None:
        return asked if asked in feasible else best
    probable = wait is None or wait.recorded >= ENOUGH or asked.wait_s == inf or not scene.hurries
    if probable or best.cost_s - best.wait_s <= asked.cost_s - asked.wait_s:
        return best
    return asked if any(one is asked for one in feasible) else best


def _feasible(options: Sequence[Option], asked: Option) -> list[Option]:
    """Select the counts that may be taken; room, guard and worth yield to memory and a deadline.

    A later start by limits alone yields to memory only: the request itself would fail for lack of
    it.
    """
    in_time = (None, DeadlineVerdict.MADE)
    allowed = [o for o in _careful(options, asked) if o.deadline in in_time]
    allowed = [o for o in allowed if o.fits] or allowed
    allowed = [o for o in allowed if o.leaves_room] or allowed
    allowed = [o for o in allowed if o.in_guard] or allowed
    return [o for o in allowed if o.worthwhile] or allowed


def _careful(options: Sequence[Option], asked: Option) -> list[Option]:
    """Select the counts whose limits are allowed and that others' records do not make wait."""
    allowed = _possible(options, asked)
    return [o for o in allowed if o.no_later or o.opens] if asked.fits else allowed


def _possible(options: Sequence[Option], asked: Option) -> list[Option]:
    """Select the counts whose limits are allowed."""
    return [o for o in options if o.in_limit or o is asked]


def _reason(
    scene: Comparison,
    best: Option,
    asked: Option,
    feasible: Sequence[Option],
    options: Sequence[Option],
) -> Reason:
    due = scene.request.deadline_s is not None
    costly = any(o.in_limit and o.in_guard and not o.worthwhile for o in options)
    others = len(feasible) > 1 or costly
    if due and (asked.deadline is not DeadlineVerdict.MADE or not others):
        return Reason.DEADLINE
    crowded = [o for o in options if o.in_limit and not o.leaves_room]
    held_back = any(o.in_guard and o.fits and o.cost_s < best.cost_s for o in crowded)
    if held_back and asked.fits:
        return Reason.NO_ROOM_TO_GROW if best is asked else Reason.ROOM_FOR_OTHERS
    if best is not asked:
        chosen = Reason.CHEAPEST if scene.hurries else Reason.LEAST_NODE_TIME
        return chosen if asked.fits else Reason.MEMORY
    if others:
        return Reason.BEST_ALREADY
    if any(o.in_limit and not o.in_guard for o in options):
        return Reason.OUTSIDE_GUARD
    return Reason.NO_ROOM_TO_GROW if crowded else Reason.LIMIT_TOO_LONG


def _missed(scene: Comparison, options: Sequence[Option], asked: Option) -> Decision:
    """Decide where no count is sure to make the deadline: take the closest one, or refuse."""
    allowed = _careful(options, asked)
    closest = min(allowed, key=lambda o: (_distance(o, asked), o.late_s, o.nodes))
    verdict = closest.deadline or DeadlineVerdict.MADE
    action = Action.KEEP if verdict is DeadlineVerdict.LIMIT else Action.SET
    # A count that is not chosen for its wait may start at once: others' jobs may end early.
    refused = _refused(scene, _possible(options, asked))
    return Decision(
        action=Action.REFUSE if refused else action,
        reason=_REASONS[verdict],
        chosen=closest,
        request=asked,
        deadline_met=closest.meets_deadline,
        options=options,
    )


def _distance(option: Option, asked: Option) -> tuple[int, bool]:
    """Say how far an option is from its deadline; only another limit helps where that is long."""
    verdict = option.deadline or DeadlineVerdict.MADE
    worse = verdict is DeadlineVerdict.LIMIT and option is not asked
    return tuple(DeadlineVerdict).index(verdict), worse


def _refused(scene: Comparison, options: Iterable[Option]) -> bool:
    """Whether the site refuses the job: no count has a chance, even if nothing goes wrong.

    A wait counts where what such waits were off by is on record.
    """
    deadline_s = scene.request.deadline_s
    rules = scene.rules.deadline
    if deadline_s is None or rules.missed is not OnMissed.REFUSE:
        return False
    begin_s = max(scene.now_s, scene.request.begin_s)
    return all(
        begin_s + o.prediction.low_s > deadline_s or _hopeless(o, 1 - rules.confidence)
        for o in options
    )


def _hopeless(option: Option, least: float) -> bool:
    wait = option.wait
    chance = option.chance
    by_limit = option.deadline is DeadlineVerdict.LIMIT
    recorded = wait is not None and wait.recorded >= ENOUGH
    return recorded and not by_limit and chance is not None and chance < least


def _checked(scene: Comparison, reason: Reason) -> Decision:
    """Let the request stand, and look at its deadline as far as the prediction allows."""
    if verdict_at(scene.table, scene.asked) is Verdict.REFUSED:
        return Decision(action=Action.KEEP, reason=reason)
    (only,) = options = scene.options([counting.standing(scene.question)])
    decision = Decision(
        action=Action.KEEP, reason=reason, chosen=only, request=only, options=options
    )
    if only.deadline is None or scene.request.distrusted or scene.table.is_guess:
        return decision
    sure = counting.trusted(scene.table, [scene.asked])
    return replace(
        decision,
        action=Action.REFUSE if sure and _refused(scene, options) else Action.KEEP,
        reason=_REASONS.get(only.deadline, reason),
        deadline_met=only.meets_deadline,
    )


def every_option(situation: Situation, decision: Decision) -> list[Option]:
    """Options for all counts of the table, among them those of the decision that was made of it."""
    if situation.table is None or situation.supply is None:
        return list(decision.options)
    asked = decision.request.nodes if decision.request else situation.request.low
    scene = Comparison.of(situation, situation.table, situation.supply, asked)
    return _every_option(scene, decision.options)


def _every_option(scene: Comparison, weighed: Sequence[Option]) -> list[Option]:
    table, asked = scene.table, scene.asked
    counts = {n for n in table.nodes if n <= scene.supply.most}
    counts = {n for n in counts if verdict_at(table, n) is not Verdict.REFUSED}
    if not counts and (weighed or not _has_own_row(scene)):
        return list(weighed)
    if asked not in counts and not covers(table, asked):
        scene = scene.with_asked(min(counts, key=lambda n: abs(n - asked)))
    predictions = [at(scene.table, n) for n in sorted(counts | {scene.asked})]
    options = scene.options(scene.question.side_by_side(predictions))
    own = {option.nodes: option for option in weighed}
    return [own.pop(option.nodes, option) for option in options] + list(own.values())


def _has_own_row(scene: Comparison) -> bool:
    """Whether a heterogeneous job, whose count stays, has a row from its first run on."""
    table = scene.table
    if not table.layout.shape:
        return False
    return covers(table, scene.asked) and not is_otherwise(table)


def limits_to_ask(option: Option, request: Request) -> TimeLimits | None:
    """Time limit to ask for on a count: a shorter one, or a longer one that it needs."""
    if option.fitting_limit_s:
        return TimeLimits(option.fitting_limit_s)
    if option.limits is not None:
        return option.limits
    own = request.asked_limit_s or request.limit_s
    limit_s = option.limit_s
    return TimeLimits(limit_s) if own and limit_s and limit_s > own else None


def remedies(situation: Situation, others: Iterable[Supply], decided: Decision) -> tuple[str, ...]:
    """Say what would make a deadline with the confidence that the site wants.

    others: what partitions have that the job might ask for instead.
    decided: what was decided of the job.
    Returns tuple: options of sbatch, each with its chance: another count, a shorter limit, another
        partition, a later deadline.  Empty where waits have no distribution.
    """
    request = situation.request
    table = situation.table
    supply = situation.supply
    asked = decided.request or decided.chosen
    rules = situation.rules
    if table is None or supply is None or supply.outlook is None:
        return ()
    if asked is None or request.deadline_s is None:
        return ()
    if not counting.is_supported(table, asked.nodes):
        return ()
    informed = replace(situation, request=advised(request))
    told = decided if request.advised else decide(informed)
    scene = Comparison.of(informed, table, supply, asked.nodes)
    options = _every_option(scene, ())  # those weighed have the limit that the job asks for
    if told.chosen and told.reason not in MISSED and _makes_it(told.chosen, rules):
        own = tuple(_count_and_time(told.chosen, scene))  # what advice says
    else:
        own = (*_counts(scene, options), *_limit(scene, options))
    return (
        *own,
        *_partitions(scene, asked, others, request.deadline_s - situation.now_s),
        *_deadline(asked, rules, situation.now_s),
    )


def advised(request: Request) -> Request:
    """Give a request with a deadline the time limits that its advice names."""
    if request.deadline_s is None:
        return request
    use = TimeUse.SET if request.time_use is TimeUse.ADVISE else request.time_use
    return replace(request, advised=True, time_use=use)


def _counts(scene: Comparison, options: Iterable[Option]) -> Iterator[str]:
    """Yield the nearest smaller and the nearest larger node count that would make it."""
    request = scene.request
    supply = scene.supply
    useful = [
        option
        for option in sorted(options, key=lambda o: o.nodes)
        if option.nodes % request.segment == 0
        and supply.fewest <= option.nodes <= supply.most
        and counting.scales(scene.table, [option.nodes])
        and _makes_it(option, scene.rules)
    ]
    fewer = [option for option in reversed(useful) if option.nodes < scene.asked]
    more = [option for option in useful if option.nodes > scene.asked]
    for option in (*fewer[:1], *more[:1]):
        yield from _count_and_time(option, scene)


def _count_and_time(option: Option, scene: Comparison) -> Iterator[str]:
    """Yield the options that ask for a count, where it is another one, and for its limit."""
    unit = scene.request.unit
    nodes = f"--nodes={option.nodes}"
    size = nodes if unit is Unit.NODES else f"{option.nodes} {unit.plural}"
    limits = limits_to_ask(option, scene.request)
    time = f"--time={slurm_time(limits.limit_s)}" if limits else ""
    words = size if option.nodes != scene.asked else "", time
    if any(words):
        yield _with_chance(" ".join(filter(None, words)), option.chance or 0.0)


def _makes_it(option: Option, rules: counting.PolicySettings) -> bool:
    return option.chance is not None and option.chance >= rules.deadline.confidence


def _limit(scene: Comparison, options: Iterable[Option]) -> Iterator[str]:
    """Yield another limit, with which the job may start earlier, and later as well."""
    for own in options:  # none where the count asked for has no prediction
        if own.nodes == scene.asked and _makes_it(own, scene.rules):
            yield from _count_and_time(own, scene)


def _partitions(
    scene: Comparison, asked: Option, others: Iterable[Supply], left_s: float
) -> Iterator[str]:
    """Yield the other partition that is most likely to make it."""
    limit_s = asked.limit_s or 0.0
    best = ("", 0.0)
    begin_s = scene.request.begin_s
    for other in others if covers(scene.table, asked.nodes) else ():
        if other.outlook is None or asked.nodes > other.most:
            continue
        if limit_s > (other.longest_s or inf):
            continue
        wait = other.wait(asked.nodes, limit_s or inf, now_s=scene.now_s, begin_s=begin_s)
        chance = wait.chance(at(scene.table, asked.nodes), left_s, limit_s=limit_s)
        best = max(best, (other.partition, chance), key=lambda one: one[1])
    if best[0] and best[1] >= scene.rules.deadline.confidence:
        yield _with_chance(f"--partition={best[0]}", best[1])


def _deadline(asked: Option, rules: counting.PolicySettings, now_s: float) -> Iterator[str]:
    """Yield the deadline that the job as it is would make."""
    if asked.wait is None:
        return
    share = rules.deadline.confidence
    # Slurm starts it only as long as its limit ends by the deadline.
    latest_s = asked.wait.quantile(share) + (asked.limit_s or 0.0)
    end_s = max(asked.wait.end_s(asked.prediction, share), latest_s)
    if end_s < inf:
        when = clock(now_s + _PASTED_S + whole_minutes(end_s))
        yield _with_chance(f"--deadline={when}", share)


def _with_chance(option: str, chance: float) -> str:
    return f"{option} ({percent(min(chance, _SUREST))})"


def line(proposals: Sequence[str]) -> str:
    """Put remedies into one line; empty where there are none."""
    if not proposals:
        return ""
    *first, last = proposals
    return f"would make it: {', '.join(first)}{' or ' if first else ''}{last}"
