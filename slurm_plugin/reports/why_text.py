"""A decision in sentences: the job's request, the prediction, the action and the outcome."""

from collections.abc import Iterator, Sequence

from predictor.prediction_table import PredictionTable
from predictor.table import at, covers
from sacct_ingest.records import FROM_NOTE, DecisionRow, ShownJob, Start
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store.rows import RunRow
from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.decision.levers.all_levers import UNHEEDED
from slurm_plugin.evaluation.accuracy import predicted_for
from slurm_plugin.evaluation.effects import ran_otherwise
from slurm_plugin.protocol.query_messages import Explanation, Outcome
from slurm_plugin.protocol.reasons import WORDS
from slurm_plugin.text import formatting as fmt

_STATES = {
    "COMPLETED": "completed",
    "TIMEOUT": "reached its time limit",
    "DEADLINE": "was ended by its deadline",
    "FAILED": "failed",
    "CANCELLED": "was cancelled",
    "OUT_OF_MEMORY": "ran out of memory",
}


def explain(
    explanation: Explanation,
    job_id: int,
    *,
    opened_s: float | None = None,
    shown: ShownJob | None = None,
    with_outcome: bool = True,
) -> str:
    """Write the explanation of a decision, one sentence a line.

    opened_s: when the job got its own range of node counts back, by its note; None: not so.
    shown: the job as Slurm has it now; None: Slurm does not show it.
    with_outcome: say what came of the job, too.
    Raises ValueError: there is no decision to explain.
    """
    one = explanation.decision
    if one is None:
        raise ValueError("no decision")
    soft = _soft(one, shown)
    lines = [
        _request(one, job_id),
        _recognised(one),
        *_expected(one),
        _decided(one),
        f"{soft}{_changed(one)}" if one.applied or not soft else soft.strip(),
        _opened(one, opened_s),
        *(f"{row}.".removeprefix("nimo: ") for row in one.message.split("\n") if UNHEEDED in row),
        _came(one, explanation.outcome) if with_outcome else "",
    ]
    return "\n".join(line for line in lines if line)


def _soft(one: DecisionRow, shown: ShownJob | None) -> str:
    """Say which limit Slurm plans with, or planned with."""
    if one.soft_s is None:
        return ""
    soft = duration_text(one.soft_s)
    own = f" its {duration_text(one.limit_s)}" if one.limit_s else " its whole limit"
    if shown is None:
        return f"Slurm was to plan with {soft}; the job might run{own}. "
    if shown.least_limit_s != one.soft_s:
        return f"Slurm planned with {soft} at first, but no longer does; the job may run{own}. "
    return f"Slurm plans with {soft}; the job may run{own}. "


def explain_run(run: RunRow, table: PredictionTable | None) -> str:
    """Write what came of a job that nothing was decided about, beside the prediction of now."""
    size = fmt.count(run.nodes, "node")
    name = fmt.printable(f"{run.user}/{run.name}")
    ran = _ran(run.state, size, run.elapsed_s)
    lines = [f"Job {run.job_id} ({name}) {ran}. No nimod decides here, so nothing was changed."]
    if run.earlier:
        lines.append(_restarts(run.starts))
    if table is not None and covers(table, nodes := table.unit.size_of(run) or 0):
        one = at(table, nodes)
        where = table.unit.counted(nodes)
        span = f"{fmt.percent(one.level)} of runs: {duration_range(one.low_s, one.high_s)}"
        lines.append(
            f"Such jobs on {where} take {duration_text(one.time_s)} ({span}), by "
            f"{fmt.count(table.runs, 'run')} recognised by {fmt.RECOGNISED[table.level]}."
        )
    return "\n".join(lines)


def _restarts(starts: Sequence[Start]) -> str:
    """Say how long a job ran that was started several times."""
    took = duration_text(sum(one.elapsed_s for one in starts))
    longest = duration_text(max(one.elapsed_s for one in starts))
    return f"It ran {took} in {len(starts)} starts, the longest {longest}."


def _request(one: DecisionRow, job_id: int) -> str:
    low = one.min_nodes
    high = one.max_nodes
    nodes = "no node count" if low is None else fmt.count(low, "node")
    if low is not None and high is not None and high != low:
        nodes = f"{low} to {high} nodes"
    limit = f", a time limit of {duration_text(one.limit_s)}" if one.limit_s else ""
    deadline = f" and to end by {fmt.clock(one.deadline_s)}" if one.deadline_s else ""
    where = f" in partition {fmt.printable(one.partition)}" if one.partition else ""
    name = fmt.printable(f"{one.user}/{one.name}")
    at = fmt.clock(one.at_s)
    return f"Job {job_id} ({name}) asked for {nodes}{where}{limit}{deadline}, at {at}."


def _recognised(one: DecisionRow) -> str:
    if not one.key_level:  # a note does not say
        return "" if one.via == FROM_NOTE else "NIMO had no finished run of this application."
    by = fmt.RECOGNISED.get(one.key_level, one.key_level)
    label = fmt.printable(one.label)
    return f"NIMO recognised it as {label} by {by}; its prediction was {one.verdict}."


def _expected(one: DecisionRow) -> Iterator[str]:
    """Give the predictions for the requested node count and for the chosen one."""
    asked = one.requested_nodes
    chosen = None if one.nodes == asked else one.nodes
    other = "as asked" if asked is None and one.action == "keep" else "as chosen"
    times = one.request_predicted_s, one.request_low_s, one.request_high_s
    waits = one.request_wait_s, one.request_wait_most_s
    own = one.predicted_s, one.low_s, one.high_s
    for which, nodes, (time_s, low_s, high_s), (wait_s, most_s) in (
        ("as asked", asked, times, waits),
        (other, chosen, own, (one.wait_s, one.wait_most_s)),
    ):
        if nodes is None or time_s is None:
            continue
        share = f"{fmt.percent(one.confidence)} of runs: " if one.confidence else ""
        ends = ""
        if low_s is not None and high_s is not None:
            ends = f" ({share}{duration_range(low_s, high_s)})"
        wait = ""
        if wait_s is not None:
            wait = f", after a wait of {duration_text(wait_s)}"
        elif most_s is not None:
            wait = f", after a wait of at most {duration_text(most_s)} (by other jobs' limits)"
        size = Unit(one.unit).counted(nodes)
        yield f"On {size}, {which}, the predicted run time was {duration_text(time_s)}{ends}{wait}."


def _decided(one: DecisionRow) -> str:
    why = Unit(one.unit).words(WORDS.get(one.reason, one.reason))
    if one.action == "refuse":
        return f"NIMO decided to refuse the job: {why}."
    if one.action == "set" and one.nodes is not None:
        return f"NIMO chose {Unit(one.unit).counted(one.nodes)}: {why}."
    return f"NIMO left the {Unit(one.unit).word} count as it was: {why}."


def _changed(one: DecisionRow) -> str:
    if not one.applied:
        forbidden = WORDS.get(one.mode, "") if one.action != "keep" else ""
        return f"Nothing was changed: {forbidden}." if forbidden else "Nothing was changed."
    if one.action == "refuse":
        return "The job was refused."
    changes = []
    if one.nodes is not None and size_given(one):
        changes.append(Unit(one.unit).counted(one.nodes))
    if one.given_limit_s is not None:
        changes.append(f"a time limit of {duration_text(one.given_limit_s)}")
    if one.given_min_s is not None:
        changes.append(f"a least time limit of {duration_text(one.given_min_s)}")
    if one.given_mem_mib is not None:
        asked = f" instead of {one.asked_mem_mib}M" if one.asked_mem_mib else ""
        changes.append(f"--mem={one.given_mem_mib}M{asked}")
    if one.given_place:
        asked = f" of {fmt.printable(one.asked_place)}" if one.asked_place else ""
        changes.append(f"{fmt.printable(one.given_place)} as the first{asked}")
    return f"The job was given {' and '.join(changes)}." if changes else ""


def _opened(one: DecisionRow, opened_s: float | None) -> str:
    if opened_s is None:
        return ""
    own = f"{one.min_nodes} to {one.max_nodes} nodes"
    return (
        f"It did not start as planned, and got its own range back at {fmt.clock(opened_s)}: {own}."
    )


def size_given(one: DecisionRow) -> str:
    """Write the count that a job gets, or would, in place of what it asks for; empty: of none."""
    if one.action != "set" or one.nodes is None:
        return ""
    size = Unit(one.unit).counted(one.nodes)
    low = one.min_nodes
    high = one.max_nodes
    if one.nodes != one.requested_nodes:
        return f"{size} instead of {one.requested_nodes or '-'}"
    # What Slurm would have given then, too; but the job waited for as many.
    ranges = low != high and one.unit == Unit.NODES
    return f"{size}, of {low or 1} {f'to {high}' if high else 'or more'}" if ranges else ""


def _came(one: DecisionRow, came: Outcome | None) -> str:
    if came is None:
        return "The store has no outcome of this job yet: 'nimo ingest' reads the accounting."
    waited = came.start_s - came.submit_s if came.start_s and came.submit_s else None
    wait = "" if waited is None else f" after a wait of {duration_text(waited)}"
    size = Unit(one.unit).counted(came.nodes)
    text = f"It {_ran(came.state, size, came.elapsed_s, wait)}"
    if came.elapsed_s and ran_otherwise(one, came.nodes):
        text += (
            f". These are not the {Unit(one.unit).counted(one.nodes or 0)} that NIMO chose: it got "
            "its own range back, or its user changed it"
        )
    predicted = predicted_for(one, came.nodes)
    if came.state != "COMPLETED" or predicted is None:
        return f"{text}."
    off = came.elapsed_s / predicted[0] - 1
    if (share := fmt.percent(abs(off))) == fmt.percent(0.0):
        return f"{text}, as predicted."
    return f"{text}: {share} {'longer' if off > 0 else 'shorter'} than predicted."


def _ran(state: str, size: str, elapsed_s: float, wait: str = "") -> str:
    """Say what a job did: one that had ended before it started has nodes in accounting, too."""
    ended = _STATES.get(state, f"ended as {state}")
    if not elapsed_s and state in {"CANCELLED", "DEADLINE"}:
        return f"never ran, and {ended}{wait}"
    return f"ran on {size} for {duration_text(elapsed_s)}{wait}, and {ended}"
