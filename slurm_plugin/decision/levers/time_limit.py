"""Lever: the time limit that ends a job, shorter or as long as its count needs.

It goes with the chosen count, also where the count stays.
"""

from math import inf

from predictor.application.request import for_request
from predictor.prediction_table import PredictionTable
from predictor.table import longest, verdict_at
from sacct_ingest.text.durations import slurm_time
from sacct_ingest.text.tag import Tag
from slurm_plugin.config.setting_types import Mode, TimeUse
from slurm_plugin.decision.adjustment import Adjustment
from slurm_plugin.decision.allowed_counts import is_own_work, trusted
from slurm_plugin.decision.levers.lever import Lever, Surroundings, TagWord
from slurm_plugin.decision.limit_advice import basis_of
from slurm_plugin.decision.policy import Action, Decision
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.time_limits import TimeLimits
from slurm_plugin.protocol.decision_messages import Change


def _adjustment(case: Situation, decided: Decision, _: Surroundings) -> Adjustment | None:
    """Write the limit, and the ``--time-min`` that backfill may cut it down to."""
    minutes = limit_min(case, decided)
    own = case.request.resources.time_limit
    if minutes is None:
        return None
    limits = _shortened(case, decided)
    least = round(limits.least_s / 60) if limits and limits.least_s else None
    time = f"--time={slurm_time(60.0 * minutes)}"
    instead = f" instead of {slurm_time(60.0 * own)}" if own is not None else ""
    return Adjustment(
        change=Change(time_limit=minutes, time_min=least),
        line=f"this job has {time}{instead}" if minutes != own else "",
        clause=f"with {time}{instead}",
        urgent=own is not None and minutes > own,
    )


def limit_min(case: Situation, decided: Decision) -> int | None:
    """Time limit that is written into a job, minutes; None: its own stays."""
    chosen = decided.chosen
    own = case.request.resources.time_limit
    if case.site.mode is not Mode.ENFORCE or decided.action is Action.REFUSE or chosen is None:
        return None
    if (limits := _shortened(case, decided)) is not None:
        return round(limits.limit_s / 60)
    if decided.action is not Action.SET or chosen.limit_s is None or own is None:
        return None
    return round(chosen.limit_s / 60) if chosen.limit_s > 60 * own else None


def _shortened(case: Situation, decided: Decision) -> TimeLimits | None:
    """Give the limit that the prediction makes, where it may be written."""
    sets = case.request.time_use is TimeUse.SET
    return decided.chosen.limits if decided.chosen and sets else None


def _asked_in_vain(tag: Tag, _: Situation, decided: Decision) -> bool:
    return tag.time == TimeUse.SET and not (decided.chosen and decided.chosen.limits)


def _unsure(case: Situation, decided: Decision) -> str:
    """Say on which count that the job may get its prediction makes no limit; empty: on all."""
    request = case.request
    table = case.table
    chosen = decided.chosen
    asked = decided.request
    if table is None:
        return ""
    if request.time_use is TimeUse.OFF:
        return "the job asks for no number of nodes"
    table = for_request(table, asked.nodes, request.given) if asked else table
    counts = [request.asked or request.low, min(request.high, table.nodes[-1])]
    if chosen and decided.action is Action.SET:
        counts = [chosen.nodes]
    sure = trusted(table, counts)
    for n in counts:
        if n not in sure:
            where = f"{request.unit.counted(n)} is {verdict_at(table, n).value}"
            limit = _limit_by_hand(case, decided, table, n)
            return f"the prediction on {where}{_details(table, n)}{limit}"
    if not table.tails:
        runs = "one run does" if table.runs == 1 else f"{table.runs} runs do"
        return f"its {runs} not say how long the longest take"
    return ""


def _limit_by_hand(case: Situation, decided: Decision, table: PredictionTable, nodes: int) -> str:
    """Name the limit to ask for where runs differ too much for one to be set; empty: none does."""
    basis = basis_of(case, decided, table)
    own = is_own_work(table, case.request.resources.user_name)
    limits = basis.to_ask(nodes) if own and basis.speaks else None
    if limits is None or not (longest(table, nodes) or inf) <= limits.limit_s < basis.own_s:
        return ""
    return f", though --time={slurm_time(limits.limit_s)} would hold all its runs"


def _details(table: PredictionTable, nodes: int) -> str:
    """Say what is wrong with the prediction on a count: where it ran, nothing of other counts."""
    ran = nodes in (point.nodes for point in table.observed)
    problems = (one.text for one in table.problems if not (ran and one.name == "no_curve"))
    text = next(problems, "")
    return f" ({text})" if text else ""


_WORD = TagWord(
    "time=set", "enough of your own runs for a reliable prediction", _asked_in_vain, _unsure
)
LEVER = Lever(_adjustment, _WORD)
