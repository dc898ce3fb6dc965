"""What users read: at submission, and in the plain words of an advice."""

from predictor.types import PredictionTable, Verdict
from slurm_plugin.decision.candidates import Request
from slurm_plugin.decision.policy import Action, Decision, Option
from slurm_plugin.decision.reasons import Reason
from slurm_plugin.decision.time_limits import TimeLimits
from slurm_plugin.formatting import clock, count, duration


def at_submission(decision: Decision, request: Request, *, advise: bool, now_s: float) -> str:
    """Message for the user who submits, empty where there is nothing to say.

    Parameters
    ----------
    advise
        Also tell which count would be better; otherwise only missed deadlines.
    """
    if decision.deadline_met is False and decision.chosen and request.deadline_s is not None:
        return _missed(decision, decision.chosen, request, request.deadline_s, now_s)
    if not advise or decision.chosen is None:
        return ""
    return "\n".join(filter(None, (_better_count(decision), _shorter_limit(decision.chosen))))


def time_options(limits: TimeLimits | None) -> str:
    """Options of sbatch for a time limit; empty for none.

    >>> time_options(TimeLimits(1200.0, 900.0))
    '--time=00:20:00 --time-min=00:15:00'
    """
    if limits is None:
        return ""
    least = f" --time-min={duration(limits.least_s)}" if limits.least_s else ""
    return f"--time={duration(limits.limit_s)}{least}"


def _shorter_limit(chosen: Option) -> str:
    options = time_options(chosen.limits)
    which = count(chosen.nodes, "node")
    return options and f"nimo: {options} would do for this job on {which} and may start it earlier"


def _better_count(decision: Decision) -> str:
    better, asked = decision.chosen, decision.request
    if decision.action is not Action.SET or better is None or asked is None:
        return ""
    if better.nodes == asked.nodes:
        return ""
    return (
        f"nimo: --nodes={better.nodes} would suit this job better than {asked.nodes} now: "
        f"{duration(better.wait_s)} of wait and {duration(better.prediction.time_s)} of run, "
        f"instead of {duration(asked.wait_s)} and {duration(asked.prediction.time_s)} "
        f"({decision.reason.text})"
    )


def _missed(
    decision: Decision, best: Option, request: Request, deadline_s: float, now_s: float
) -> str:
    one = best.prediction
    end_s = now_s + best.wait_s + one.high_s
    sure = (1 + one.level) / 2
    only = request.fixed is not None or request.low == request.high
    range_text = f"{request.low} to {request.high}"
    which = f"on {count(best.nodes, 'node')}" + ("" if only else f", the best of {range_text}")
    lines = [
        f"nimo: this job is not expected to make its deadline, {clock(deadline_s)}",
        f"nimo: {which}, it ends by {clock(end_s)} with {sure:.0%} confidence "
        f"({duration(best.wait_s)} of wait, {duration(one.time_s)} of run, at most "
        f"{duration(one.high_s)})",
    ]
    if decision.action is Action.REFUSE:
        lines.append("nimo: this site refuses such jobs; give it a later deadline or more nodes")
    return "\n".join(lines)


def verdict_text(table: PredictionTable | None) -> str:
    """Say in plain words how far a prediction can be trusted, and what would mend it."""
    if table is None:
        return "Nothing is known about this job yet; its finished runs will be learned from."
    if not table.is_curve:
        opening = "Run times are known, but not how they depend on nodes."
    else:
        opening = _OPENINGS[table.verdict]
    problems = "; ".join(problem.text for problem in table.problems)
    told = f" {problems[0].upper()}{problems[1:]}." if problems else ""
    wanted = next((p for p in table.problems if p.observe is not None), None)
    nodes = count(wanted.observe, "node") if wanted and wanted.observe else ""
    # Some problems say so themselves.
    said = wanted is not None and f"on {nodes}" in wanted.text.rpartition(";")[2]
    mend = f" One run on {nodes} would help most." if nodes and not said else ""
    return f"{opening}{told}{mend}"


_OPENINGS = {
    Verdict.RELIABLE: "The prediction is reliable.",
    Verdict.DOUBTFUL: "The prediction is doubtful.",
    Verdict.REFUSED: "Not enough is known for a prediction.",
}


def reason_text(reason: Reason) -> str:
    """Sentence of a reason."""
    return f"{reason.text[0].upper()}{reason.text[1:]}."
