"""The count that advice recommends: one that it keeps where it is asked for next."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from msgspec.structs import replace

from predictor.application.request import for_request
from predictor.prediction_table import PredictionTable
from predictor.table import guess_on
from sacct_ingest.runs.layout import Unit
from sacct_ingest.runs.submission import JobKind
from slurm_plugin.config.setting_types import Objective
from slurm_plugin.config.settings import Policy
from slurm_plugin.decision import policy as choosing
from slurm_plugin.decision.allowed_counts import is_serial, scales
from slurm_plugin.decision.node_options import Option
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.supply import Supply

#: Who has one count is advised another one where that gains such a share of what counts cost.
#: By about as much predictions differ between who asks for one count and who asks for the other.
_WORTH = 0.05
#: So often a count is looked at as one that is asked for, before the job's own is kept.
_STEPS = 4

#: Reasons that bind a submission but not somebody who still considers what to ask for.
#: Each task of an array has the size that is advised.
_OPEN_QUESTION = frozenset({Reason.FIXED_COUNT, Reason.NOT_OPTED_IN, Reason.ARRAY})
#: And where the size is counted in CPUs or GPUs.
_OPEN_SIZE = frozenset(
    {
        *(Reason.FIXED_CPUS, Reason.FIXED_TASKS, Reason.INTERACTIVE),
        *(Reason.FIXED_BY_SCRIPT, Reason.OLD_HOOK),
    }
)


@dataclass(frozen=True, slots=True)
class Weighed:
    """A job of somebody who has not decided yet, with all counts and the best of them."""

    case: Situation
    decided: choosing.Decision
    table: PredictionTable
    options: Sequence[Option]
    best: Option | None  #: to recommend; None: none is better


def weighed(case: Situation, table: PredictionTable, supply: Supply) -> Weighed:
    """Weigh the counts that a job could ask for."""
    considered = choosing.advised(_considered(case, supply))
    opened = considered.fixed is None and case.request.fixed is not None
    if table.is_guess:
        scheduled = choosing.as_scheduled(considered, supply, now_s=case.now_s)
        table = guess_on(table, scheduled) if scheduled else table
    case = replace(case, request=considered, table=table, supply=supply, blind=None)
    decided = choosing.decide(case)
    if decided.request is not None:
        table = for_request(table, decided.request.nodes, considered.given)
    options = choosing.every_option(case, decided)
    best = best_of(decided, options, considered, case.rules.policy, table)
    if opened and best is not None and not is_serial(table):
        own = decided.request
        best = own if own and _is_near(best, own, case, supply) else best
    own, tied = decided.request, _tied_by(considered, table)
    if tied is not None and best is not None and own is not None and best.nodes != own.nodes:
        best = own
        decided = replace(decided, reason=tied)
    return Weighed(case, decided, table, options, best)


def settled(case: Situation, first: Weighed, supply: Supply) -> tuple[Option | None, Weighed]:
    """Give the count to recommend, and the same job with that count.

    first: the job as it is.  Its best count, once asked for, may have a better one, as its run
        times are those of another job: then that one is recommended where it is near enough to
        what the job asks for, else none is.
    """
    table = case.table
    own = first.decided.request
    best = first.best
    if table is None or best is None or own is None or best.nodes == own.nodes:
        return best, first
    pasted = weighed(_asking_for(case, best.nodes), table, supply)
    # Where a price bounds savings, each count has a cheaper one within the guard.
    by_price = case.rules.policy.saving_weight > 1 or case.request.deadline_s is not None
    if by_price or _keeps(pasted, best.nodes):
        return best, pasted
    last = pasted
    for _ in range(_STEPS):
        nodes = last.best.nodes if last.best else best.nodes
        last = weighed(_asking_for(case, nodes), table, supply)
        found = next((one for one in first.options if one.nodes == nodes), None)
        if _keeps(last, nodes) and found and found.in_guard and _has(first.case.request, nodes):
            return found, last
    bound = case.request.fixed is None or not own.fits
    return (best, pasted) if bound else (own, first)


def _keeps(pasted: Weighed, nodes: int) -> bool:
    """Whether a job that asks for so many nodes is advised no others."""
    return pasted.best is None or pasted.best.nodes == nodes


def _asking_for(case: Situation, nodes: int) -> Situation:
    """Give a job that asks for one count."""
    request = case.request
    given = (nodes, nodes) if any(request.given) else request.given
    asked = None if request.asked is None else nodes
    fixed = request.fixed or Reason.FIXED_COUNT
    own = replace(request, low=nodes, high=nodes, asked=asked, given=given, fixed=fixed)
    return replace(case, request=own)


def _is_near(best: Option, own: Option, case: Situation, supply: Supply) -> bool:
    """Whether a count gains too little over the job's own, which it could have, to change it."""
    if case.request.deadline_s is not None or not own.fits or not own.in_limit:
        return False
    if best.nodes > own.nodes or case.request.objective is not Objective.TURNAROUND:
        return best.cost_s > (1 - _WORTH) * own.cost_s
    weight = case.rules.policy.saving_weight * (2 if supply.waiting else 1)
    return _product(best, weight) > _product(own, weight) + log(1 - _WORTH)


def _product(one: Option, weight: float) -> float:
    """Logarithm of turnaround times node time, which fewer nodes are judged by."""
    return log(one.wait_s + one.time_s) + weight * log(one.nodes * one.time_s)


def _has(request: Request, nodes: int) -> bool:
    return request.low <= nodes <= request.high and nodes % request.segment == 0


def _considered(case: Situation, supply: Supply) -> Request:
    """Make the request of somebody who has not decided yet: any count, compared with theirs.

    A guess says nothing of other counts: there the request's own stand.
    """
    request, table = replace(case.request, explore=False), case.table
    open_ = _OPEN_QUESTION if request.unit is Unit.NODES else _OPEN_QUESTION | _OPEN_SIZE
    fixed = None if request.fixed in open_ else request.fixed
    if request.fixed is None or fixed is not None or table is None:
        return request
    if table.is_guess:
        return replace(request, fixed=None)
    scheduled = choosing.as_scheduled(request, supply, now_s=case.now_s)
    asked = scheduled or request.low
    if table.change is None:  # which says nothing of counts that it does not cover
        counts = [n for n in table.nodes if n <= supply.most and n % request.segment == 0]
        sure = scales(table, counts)
        asked = min(sure, key=lambda n: abs(log(n / asked)), default=asked)
    return replace(request, low=1, high=supply.most, asked=asked, fixed=None)


def _tied_by(request: Request, table: PredictionTable) -> Reason | None:
    """Why other nodes would lay a job out otherwise: it names tasks or GPUs in all."""
    if request.unit is not Unit.NODES or table.layout.in_all:
        return None
    resources = request.resources
    if resources.tres_per_job:
        return Reason.FIXED_CPUS
    of_nodes = (resources.min_nodes or 1) * (resources.ntasks_per_node or 0)
    return None if resources.num_tasks in (None, of_nodes) else Reason.FIXED_TASKS


def best_of(
    decided: choosing.Decision,
    options: Sequence[Option],
    request: Request,
    policy: Policy,
    table: PredictionTable,
) -> Option | None:
    """Find the count to recommend: that of the decision, or the best one, however sure it is.

    A job keeps its request where there is but a guess; of runs on one CPU nothing says that more
    nodes help.  What runs as long as it is given is no better on any.
    """
    if table.kind is not JobKind.WORK:
        return None
    if decided.action is not choosing.Action.KEEP:
        return decided.chosen
    if is_serial(table):
        return next((one for one in options if one.nodes == 1), None)
    if table.is_guess or decided.reason is Reason.UNDECIDED:
        return decided.request
    if request.fixed is not None or decided.request is None or request.deadline_s is not None:
        return None
    asked = decided.request
    counts = range(request.low, request.high + 1)
    most_s = policy.guard_ratio * (asked.wait_s + asked.time_s) + policy.guard_s
    within = [
        one
        for one in options
        if one.nodes in counts
        and one.nodes % request.segment == 0
        and one.fits
        and one.in_limit
        and one.worthwhile
        and (one.leaves_room or one is asked)
        and (one.nodes == asked.nodes or one.wait_s + one.time_s <= most_s)
    ]
    return min(within, key=lambda one: (one.cost_s, one.nodes), default=None)
