"""What pages say about decisions and the runs that became of them."""

from dataclasses import replace

from predictor.types import PredictionTable
from sacct_ingest.records import DecisionRow
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import RunRow
from sacct_ingest.text.slurm_text import time_span
from slurm_plugin.evaluation.comparison import predicted_for
from slurm_plugin.protocol.query_messages import explanation_of
from slurm_plugin.reports import chart
from slurm_plugin.reports.chart import Chart
from slurm_plugin.reports.html import Table, TableColumn
from slurm_plugin.reports.picture import of_table
from slurm_plugin.reports.why_text import explain
from slurm_plugin.text.formatting import clock, count, hours, limit_text
from slurm_plugin.web.suggestion import job_table

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


def title_of_decision(one: DecisionRow, run: RunRow | None) -> str:
    """Say what was done to the job, such as ``Job 900008: 6 nodes instead of 2``."""
    job = f"Job {run.job_id}" if run else f"{one.user}/{one.name}"
    word, asked = Unit(one.unit).word, one.requested_nodes
    if one.action == "refuse":
        done = "refused"
    elif one.action == "set" and one.nodes and one.nodes != asked:
        done = f"{count(one.nodes, word)} instead of {_or_dash(asked)}"
    elif one.given_limit_s:
        done = f"a limit of {limit_text(one.given_limit_s)}"
    else:
        return f"{job}: left as it was"
    return f"{job}: {done}" if one.applied else f"{job}: {done}, had NIMO changed it"


def sentences(one: DecisionRow, run: RunRow | None) -> list[str]:
    """Explain it as ``nimo why`` does."""
    made = explanation_of(one, run)
    if run is None:
        return explain(made, 0).replace("Job 0 ", "The job ").splitlines()
    return explain(made, run.job_id).splitlines()


def three_ways(one: DecisionRow, run: RunRow | None) -> Table:
    """Put what was asked, chosen and what happened side by side."""
    word = Unit(one.unit).word

    def row(
        name: str,
        nodes: int | None,
        time_s: float | None,
        wait_s: float | None,
        limit_s: float | None,
    ) -> tuple[str, ...]:
        cost = "-" if nodes is None or time_s is None else hours(nodes * time_s / 3600)
        return (name, _or_dash(nodes), _span(time_s), _span(wait_s), cost, _span(limit_s))

    chosen = one.nodes if one.action == "set" else one.requested_nodes
    limit_s = one.given_limit_s or one.limit_s
    asked_s = one.request_predicted_s
    rows = [
        row("asked, predicted", one.requested_nodes, asked_s, one.request_wait_s, one.limit_s),
        row("chosen, predicted", chosen, one.predicted_s, one.wait_s, limit_s),
    ]
    if run is not None:
        waited_s = run.start_s - run.submit_s if run.start_s is not None else None
        took_s = run.elapsed_s if run.end_s is not None else None
        state = run.state.value.lower().replace("_", " ")
        rows.append(row(f"happened, {state}", run.nodes, took_s, waited_s, run.limit_s))
    titles = (f"{word}s", "run time", "wait", f"{word}-hours", "limit")
    return Table(
        name="ways",
        caption="As asked, as chosen, as it happened",
        columns=(
            TableColumn(key="way", title="", left=True),
            *(TableColumn(key=title, title=title) for title in titles),
        ),
        rows=rows,
    )


def drawing(one: DecisionRow, table: PredictionTable) -> Chart | None:
    """Draw what such a job takes on other counts, with the asked and the chosen one marked."""
    job = job_table(table, one.requested_nodes) if one.requested_nodes else None
    if job is None or not job.observed or job.unit != one.unit:
        return None
    chosen = one.nodes if one.action == "set" else None
    made = replace(
        of_table(job),
        title="Such a job on other counts",
        knee=None,
        observe=None,
        asked=one.requested_nodes,
        recommended=chosen if chosen != one.requested_nodes else None,
    )
    return chart.curve(made)


def facts(one: DecisionRow) -> list[tuple[str, str]]:
    """List what the sentences do not say, without the empty ones."""
    rows = [
        ("Submitted", clock(one.at_s)),
        ("Mode", one.mode),
        ("Account", one.account),
        ("QOS", one.qos),
        ("Working directory", one.work_dir),
        ("Message to the user", one.message),
        ("Decision id", one.decision_id),
    ]
    return [(name, value) for name, value in rows if value]


def _span(seconds: float | None) -> str:
    return "-" if seconds is None else time_span(seconds)


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)
