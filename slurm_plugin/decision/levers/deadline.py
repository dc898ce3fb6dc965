"""Lever: what stands between a job and its deadline is said, and the site may refuse the job.

It writes nothing: count and limit that would make it are those of other levers.  So nothing has to
be taken back; a refused job is submitted again with another deadline.
"""

from math import inf

from predictor.types import Prediction
from sacct_ingest.text.durations import duration_range, duration_text, slurm_time
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.decision import policy
from slurm_plugin.decision.adjustment import Adjustment
from slurm_plugin.decision.levers import time_limit
from slurm_plugin.decision.levers.lever import Lever, Surroundings
from slurm_plugin.decision.messages import UNTRUSTED, sentence
from slurm_plugin.decision.node_options import STARTING_S, Option
from slurm_plugin.decision.policy import Action, Decision
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.time_limits import MINUTE_S
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.text.formatting import count, percent, spoken_clock


def _adjustment(case: Situation, decided: Decision, _: Surroundings) -> Adjustment | None:
    """Say what a job that may miss its deadline needs, and refuse it where the site wants that."""
    if case.request.deadline_s is None or case.site.mode is Mode.OBSERVE:
        return None
    refuses = case.site.mode is Mode.ENFORCE and decided.action is Action.REFUSE
    limit_set = refuses or time_limit.limit_min(case, decided) is not None
    warned = warnings_of(decided, case.request, now_s=case.now_s, limit_set=limit_set)
    return Adjustment(refuses=refuses, warnings=tuple(warned)) if refuses or warned else None


def text_of(decision: Decision, request: Request, *, now_s: float) -> str:
    """Say in sentences what stands between a job and its deadline; empty: nothing, or unknown."""
    return "\n".join(map(sentence, warnings_of(decision, request, now_s=now_s)))


def warnings_of(
    decision: Decision, request: Request, *, now_s: float, limit_set: bool = False
) -> list[str]:
    """Say what Slurm does with a job before its deadline, what such runs take, and what helps.

    The same at submission and in advice.

    decision: of the job as it is asked for.
    limit_set: whether NIMO writes another time limit into it.
    """
    told = [] if limit_set else _never_started(decision, request, now_s=now_s)
    return told + _beyond(decision, request, now_s=now_s)


def _never_started(decision: Decision, request: Request, *, now_s: float) -> list[str]:
    """Say that Slurm hardly starts a job with its limit, where the decision does not say it."""
    deadline_s = request.deadline_s
    limit_s = request.limit_s
    best = decision.chosen
    begin_s = max(now_s, request.begin_s)
    latest_s = request.latest_start_s(limit_s)
    told = decision.reason in _DEADLINE
    if decision.reason is Reason.DEADLINE_UNSURE:  # which may be about another limit
        told = latest_s >= begin_s
    if deadline_s is None or not limit_s or told or begin_s + STARTING_S <= latest_s:
        return []
    best = None if request.distrusted in UNTRUSTED else best
    return [request.unit.words(one) for one in _limit_too_long(best, request, deadline_s, begin_s)]


def _beyond(decision: Decision, request: Request, *, now_s: float) -> list[str]:
    best = decision.chosen
    deadline_s = request.deadline_s
    if best is None or deadline_s is None or decision.reason not in _DEADLINE:
        return []
    begin_s = max(now_s, request.begin_s)
    lines = _DEADLINE[decision.reason](best, request, deadline_s, begin_s)
    if proposals := policy.line(decision.remedies):
        # Where what would make it names a limit, too, one is enough.
        named = decision.reason is Reason.DEADLINE_LIMIT and "--time=" in proposals
        lines = [*(lines[:1] if named else lines), proposals]
    if decision.action is Action.REFUSE:
        lines.append("this site refuses such jobs; give it a later deadline or more nodes")
    return list(map(request.unit.words, lines))


def _which(best: Option, request: Request) -> str:
    only = request.fixed is not None or request.low == request.high
    best_of = "" if only else f", the best of {request.low} to {request.high}"
    return f"on {count(best.nodes, 'node')}{best_of}"


def _runs(one: Prediction) -> str:
    return f"{duration_text(one.time_s)}, at most {duration_text(one.high_s)}"


def _too_long(best: Option, request: Request, deadline_s: float, begin_s: float) -> list[str]:
    one = best.prediction
    until = spoken_clock(begin_s + best.prediction.high_s, begin_s)
    return [
        f"this job is not expected to make its deadline, {spoken_clock(deadline_s, begin_s)}",
        f"{_which(best, request)}, it runs for {_runs(one)}: even if it "
        f"starts at {spoken_clock(begin_s, begin_s)}, that may last until {until}",
    ]


def _limit_too_long(
    best: Option | None, request: Request, deadline_s: float, begin_s: float
) -> list[str]:
    limit_s = request.least_limit_s(request.limit_s)
    which = "time limit"
    if request.least_s:
        which = "--time-min"
    latest_s = request.latest_start_s(request.limit_s)
    limit = f"its {which} of {duration_text(limit_s)}"
    deadline = f"its deadline, {spoken_clock(deadline_s, begin_s)}"
    lines = [f"Slurm does not start this job: {limit} reaches beyond {deadline}"]
    if begin_s <= latest_s:
        left_s = latest_s - begin_s
        soon = f"within {duration_text(left_s)}" if left_s >= 1 else "at once"
        start = f"it starts {soon}, by {spoken_clock(latest_s, begin_s)}"
        lines = [f"this job should make {deadline}, if {start}: later {limit} is too long"]
    enough_s = best and (best.fitting_limit_s or best.limit_s)
    if best and enough_s and begin_s + enough_s <= deadline_s - STARTING_S:
        time = slurm_time(enough_s)
        start = spoken_clock(begin_s, begin_s)
        where = count(best.nodes, "node")
        lines.append(f"on {where}, --time={time} is enough if it starts at {start}")
    elif (left_s := deadline_s - begin_s - STARTING_S) >= MINUTE_S:
        lines.append(
            f"--time={slurm_time(left_s - left_s % MINUTE_S)} is the longest that leaves it a "
            "minute to start"
        )
    return lines


def _start_unsure(best: Option, request: Request, deadline_s: float, begin_s: float) -> list[str]:
    one = best.prediction
    limit_s = best.limit_s or 0.0
    latest_s = min(request.latest_start_s(best.limit_s), deadline_s - one.high_s)
    latest_s = max(latest_s, begin_s)
    other = limit_s not in (0.0, request.asked_limit_s, request.limit_s)
    time = f" with --time={slurm_time(limit_s)}" if other else ""
    start = "NIMO cannot estimate its start"
    if request.latest_start_s(best.limit_s) < begin_s + STARTING_S:
        start = "Slurm may take a minute to start a job"
        if best.fitting_limit_s:
            start += f" (--time={slurm_time(best.fitting_limit_s)} is enough)"
    elif best.wait is not None and best.chance is not None:
        low_s, high_s = best.wait.interval_s
        start = (
            f"it is expected to wait {duration_text(best.wait_s)} "
            f"({duration_range(low_s, high_s)}): it makes the deadline "
            f"with a chance of {percent(best.chance)}"
        )
        if best.fitting_limit_s and best.fitting_chance is not None:
            better = percent(best.fitting_chance)
            start += f", or {better} with --time={slurm_time(best.fitting_limit_s)}"
    elif best.wait_s < inf:
        wait = f"within {duration_text(best.wait_s)}"
        start = f"it starts {wait} if the jobs before it take their whole time limits"
    return [
        f"this job makes its deadline, {spoken_clock(deadline_s, begin_s)}, only if it "
        f"starts{time} by {spoken_clock(latest_s, begin_s)}",
        f"{_which(best, request)}, {start}; it runs for {_runs(one)}",
    ]


_DEADLINE = {
    Reason.DEADLINE_MISSED: _too_long,
    Reason.DEADLINE_LIMIT: _limit_too_long,
    Reason.DEADLINE_UNSURE: _start_unsure,
}


LEVER = Lever(_adjustment)
