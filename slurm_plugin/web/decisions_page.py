"""What pages say about decisions and the runs that became of them."""

from collections.abc import Sequence

from sacct_ingest.records import DecisionRow
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import RunRow
from sacct_ingest.text.slurm_text import time_span
from slurm_plugin.evaluation.comparison import predicted_for
from slurm_plugin.evaluation.outcomes import application_of
from slurm_plugin.protocol.reasons import WORDS
from slurm_plugin.reports.html import TableColumn
from slurm_plugin.text.formatting import clock, duration, limit_text, percent

COLUMNS = (
    TableColumn(key="job", title="job", left=True),
    TableColumn(key="at_s", title="submitted", left=True),
    TableColumn(key="application", title="application", left=True),
    TableColumn(key="user", title="user", left=True),
    TableColumn(key="nodes", title="size"),
    TableColumn(key="limit", title="limit"),
    TableColumn(key="elapsed_s", title="took, of predicted"),
    TableColumn(key="why", title="why", left=True),
)
Groups = Sequence[tuple[str, Sequence[tuple[str, str]]]]


def size_change(one: DecisionRow) -> str:
    """Write the count without NIMO and the chosen one, such as ``2 → 6``."""
    asked, chosen = one.requested_nodes, one.nodes
    if one.action != "set" or asked == chosen:
        return _or_dash(asked if asked is not None else chosen)
    return f"{_or_dash(asked)} → {_or_dash(chosen)}"


def limit_change(one: DecisionRow) -> str:
    """Write the limit that was asked for and the one given, such as ``24 h → 2 h``."""
    asked = limit_text(one.limit_s) if one.limit_s else "-"
    given = one.given_limit_s
    return f"{asked} → {limit_text(given)}" if given and given != one.limit_s else asked


def tag(one: DecisionRow) -> str:
    """Name the reason in a word or two, with the mode where that kept the job as it was."""
    why = one.reason.replace("_", " ")
    kept = one.action != "keep" and not one.applied
    return f"{one.mode} only: {why}" if kept else why


def took(decision: DecisionRow, run: RunRow | None) -> str:
    """Write how long the run took and the prediction for the count that it had."""
    if run is None or run.end_s is None:
        return "-" if run is None else run.state.value.lower()
    text = time_span(run.elapsed_s)
    predicted = predicted_for(decision, run.nodes)
    return f"{text} of {time_span(predicted[0])}" if predicted else text


def facts(decision: DecisionRow, run: RunRow | None) -> Groups:
    """Facts of one decision, in groups, without the empty ones."""
    groups = (
        ("The request", _request(decision)),
        ("The decision", _decided(decision)),
        ("What happened", _happened(run, Unit(decision.unit))),
    )
    return [
        (title, [(name, value) for name, value in pairs if value not in ("", "-")])
        for title, pairs in groups
    ]


def _request(one: DecisionRow) -> list[tuple[str, str]]:
    low, high = _or_dash(one.min_nodes), _or_dash(one.max_nodes)
    unit = Unit(one.unit).heading
    return [
        ("Submitted", clock(one.at_s)),
        ("User", one.user),
        ("Job name", one.name),
        ("Account", one.account),
        ("Partition", one.partition),
        ("QOS", one.qos),
        ("Requested nodes", "" if low == high == "-" else f"{low} to {high}"),
        (f"{unit} without NIMO", _or_dash(one.requested_nodes)),
        ("Time limit", duration(one.limit_s)),
        ("Deadline", clock(one.deadline_s) if one.deadline_s else ""),
        ("Working directory", one.work_dir),
    ]


def _decided(one: DecisionRow) -> list[tuple[str, str]]:
    share = f" ({percent(one.confidence)} of runs)" if one.confidence else ""
    return [
        ("Application", application_of(one)),
        ("Mode", one.mode),
        ("Action", f"{one.action}, {'applied' if one.applied else 'not applied'}"),
        ("Why", _why(one)),
        (f"{Unit(one.unit).heading} chosen", _or_dash(one.nodes)),
        ("Predicted run time", _interval(one.predicted_s, one.low_s, one.high_s) + share),
        (
            "Predicted run time as asked",
            _interval(one.request_predicted_s, one.request_low_s, one.request_high_s),
        ),
        ("Predicted wait", _wait(one.wait_s, one.wait_most_s)),
        ("Predicted wait as asked", _wait(one.request_wait_s, one.request_wait_most_s)),
        ("Verdict on the prediction", one.verdict),
        ("Time limit given", duration(one.given_limit_s)),
        ("Message to the user", one.message),
        ("Decision id", one.decision_id),
    ]


def _happened(run: RunRow | None, unit: Unit) -> list[tuple[str, str]]:
    if run is None:
        return [("Run", "not read from the accounting yet, or the job was never created")]
    waited_s = run.start_s - run.submit_s if run.start_s is not None else None
    return [
        ("Job", f"{run.job_id} on {run.cluster}"),
        ("State", run.state.value),
        (unit.heading, str(run.nodes)),
        ("Waited", duration(waited_s)),
        ("Started", clock(run.start_s)),
        ("Ended", clock(run.end_s)),
        ("Run time", _took(run)),
    ]


def _why(one: DecisionRow) -> str:
    return WORDS.get(one.reason, one.reason)


def _took(run: RunRow | None) -> str:
    return duration(run.elapsed_s if run and run.end_s is not None else None)


def _wait(wait_s: float | None, most_s: float | None) -> str:
    return duration(wait_s) if most_s is None else f"at most {duration(most_s)}"


def _interval(middle_s: float | None, low_s: float | None, high_s: float | None) -> str:
    if middle_s is None:
        return ""
    ends = "" if low_s is None else f", {duration(low_s)} to {duration(high_s)}"
    return f"{duration(middle_s)}{ends}"


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)
