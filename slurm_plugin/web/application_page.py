"""What a page says about one application: curve and table by node type, its runs, its facts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from predictor.table import for_type
from predictor.types import PredictionTable, Problem, Verdict
from sacct_ingest.errors import PlotError
from sacct_ingest.records import JobState, StandingRow
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import RunRow
from sacct_ingest.text.slurm_text import time_span
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.memory import memory_to_ask
from slurm_plugin.evaluation.comparison import predicted_for
from slurm_plugin.evaluation.effects import LEARNING
from slurm_plugin.evaluation.outcomes import Pair
from slurm_plugin.reports import chart
from slurm_plugin.reports.chart import Chart
from slurm_plugin.reports.curve_text import (
    change_lines,
    memory_lines,
    record_line,
    shown_counts,
    standing_line,
    use_text,
    verdict_at_entry,
)
from slurm_plugin.reports.html import Table, TableColumn
from slurm_plugin.reports.picture import of_table
from slurm_plugin.text.formatting import RECOGNISED, clock, count, hours, percent
from slurm_plugin.web.suggestion import job_table, limit_s, suggestion, usual

_READ = {
    Verdict.RELIABLE: "reliable: may change jobs",
    Verdict.DOUBTFUL: "doubtful: makes no time limit",
    Verdict.REFUSED: "refused: too poor to use",
}


@dataclass(frozen=True, slots=True)
class CurveView:
    """Run time over node counts, on one type of nodes (empty: nodes are all alike)."""

    node_type: str
    chart: Chart | None
    table: Table
    verdict: str
    problems: tuple[Problem, ...]


def facts(prediction: PredictionTable, standing: StandingRow | None) -> list[tuple[str, str]]:
    """List the facts of an application besides its curve."""
    whole = "on a node" if prediction.unit is Unit.NODES else "of a job"
    rows = [
        ("Verdict", _READ[prediction.verdict]),
        ("Recognised by", RECOGNISED[prediction.level]),
        ("Command of its newest run", prediction.command),
        ("Layout of its runs", str(prediction.layout)),
        ("Finished runs", str(prediction.runs)),
        ("Model", prediction.model),
        ("Knee (most speedup for its cost)", _size(prediction.knee, prediction.unit)),
        ("Run time stops falling at", _size(prediction.max_useful, prediction.unit)),
        (f"Largest memory observed {whole}", _gib(prediction.mem_node_bytes)),
        *(
            (f"Use of {use.unit.plural}", use_text(use).removeprefix("runs use "))
            for use in prediction.uses
        ),
        ("Memory", "; ".join(memory_lines(prediction))),
        ("Change of count", "; ".join(change_lines(prediction))),
        ("Record", "; ".join(record_line(one, prediction.unit) for one in prediction.record)),
        ("Last fit", clock(prediction.fitted_s)),
        ("Outcomes of its predictions", standing_line(standing) if standing else ""),
    ]
    return [(name, value) for name, value in rows if value]


def next_steps(prediction: PredictionTable, config: Config, largest: int | None) -> list[str]:
    """Say what to ask for, and which run would help most within the cluster's size."""
    lines = []
    if (made := suggestion(prediction, config)) is not None:
        cost = hours(made.nodes * made.time_s / 3600)
        lines.append(
            f"Ask for: {' '.join(made.options) or 'what you asked for before'} (about "
            f"{time_span(made.time_s)}, {cost} {prediction.unit.word}-hours)"
        )
    runs = (problem.observe for problem in prediction.problems if problem.observe)
    if (best := next((one for one in runs if one <= (largest or one)), None)) is not None:
        lines.append(f"A run on {count(best, prediction.unit.word)} would help most")
    return lines


def accuracy_chart(pairs: Sequence[Pair]) -> Chart | None:
    """Draw actual over predicted run time of the newest completed runs, in time."""
    data = [
        run.elapsed_s / predicted[0]
        for one, run in reversed(pairs)
        if run
        and run.state is JobState.COMPLETED
        and run.elapsed_s > 0
        and (predicted := predicted_for(one, run.nodes))
    ]
    return chart.ratios("Actual over predicted run time", data) if data else None


def curves(
    prediction: PredictionTable,
    config: Config,
    runs: Sequence[RunRow] = (),
    *,
    every: bool,
    largest: int | None = None,
) -> Iterator[CurveView]:
    """Curves on the node type that the table is about and on the others.

    runs: the last ones, for the first curve.
    every: all node counts instead of those observed and powers of two.
    largest: nodes of the cluster; None: unknown.
    """
    yield _curve(prediction, prediction.node_type, config, runs, every=every, largest=largest)
    for other in prediction.by_type:
        own = for_type(prediction, other.node_type)
        yield _curve(own, other.node_type, config, every=every, largest=largest)


def _curve(
    prediction: PredictionTable,
    node_type: str,
    config: Config,
    runs: Sequence[RunRow] = (),
    *,
    every: bool,
    largest: int | None,
) -> CurveView:
    on = f" on nodes of the type {node_type}" if node_type else ""
    shown = _within(prediction, largest)
    return CurveView(
        node_type,
        _drawing(shown, on, [one for one in runs if one.state is JobState.COMPLETED]),
        _table(shown, on, config, every=every),
        _READ[prediction.verdict],
        prediction.problems,
    )


def _within(prediction: PredictionTable, largest: int | None) -> PredictionTable:
    """Leave out counts that the cluster does not have."""
    if not largest or prediction.unit is not Unit.NODES:
        return prediction
    most = max(largest, *(one.nodes for one in prediction.observed), 1)
    end = sum(n <= most for n in prediction.nodes)
    columns = ("nodes", "median_s", "low_s", "high_s", "curve_sd", "verdicts")
    cut = {name: getattr(prediction, name)[:end] for name in columns}
    problems = tuple(
        replace(one, observe=None) if (one.observe or 0) > most else one
        for one in prediction.problems
    )
    return replace(prediction, problems=problems, **cut)


def _drawing(prediction: PredictionTable, on: str, runs: Sequence[RunRow]) -> Chart | None:
    """Draw the curve; of runs on one count how often they took how long."""
    own = usual(prediction)
    times = [one.elapsed_s for one in runs if one.elapsed_s > 0]
    title = f"Run time over {prediction.unit.plural}{on}"
    if own and len(prediction.observed) == 1 and times and own.nodes in prediction.nodes:
        i = prediction.nodes.index(own.nodes)
        return chart.histogram(
            f"Run times on {count(own.nodes, prediction.unit.word)}{on}",
            times,
            low_s=prediction.low_s[i],
            high_s=prediction.high_s[i],
            limit_s=float(runs[-1].limit_s) if runs[-1].limit_s else None,
        )
    try:
        picture = replace(of_table(prediction), title=title)
    except PlotError:
        return None
    if prediction.unit is Unit.NODES:
        dots = ((one.nodes, one.elapsed_s, one.try_of == LEARNING) for one in runs if one.elapsed_s)
        picture = replace(picture, runs=tuple(dots))
    if own and prediction.change and (job := job_table(prediction, own.nodes)):
        inside = [i for i, n in enumerate(job.nodes) if n in prediction.nodes]
        picture = replace(
            picture,
            asked=own.nodes,
            asked_nodes=tuple(job.nodes[i] for i in inside),
            asked_s=tuple(job.median_s[i] for i in inside),
        )
    return chart.curve(picture)


def _table(prediction: PredictionTable, on: str, config: Config, *, every: bool) -> Table:
    repeats = {point.nodes: point.repeats for point in prediction.observed}
    first = prediction.nodes[0] * prediction.median_s[0] if prediction.nodes else 0.0
    word = prediction.unit.word

    def row(i: int) -> tuple[str, ...]:
        nodes, time_s = prediction.nodes[i], prediction.median_s[i]
        memory = memory_to_ask(prediction, nodes, margin=config.policy.memory_margin)
        return (
            str(nodes),
            time_span(time_s),
            f"{time_span(prediction.low_s[i])} to {time_span(prediction.high_s[i])}",
            hours(nodes * time_s / 3600),
            percent(first / (nodes * time_s)) if prediction.is_curve else "-",
            time_span(limit) if (limit := limit_s(prediction, nodes, config)) else "-",
            f"{memory / 1024:.1f} GiB" if memory else "-",
            f"{verdict_at_entry(prediction, i)}, {count(repeats.get(nodes, 0), 'run')}",
        )

    return Table(
        name="counts",
        caption=f"Run time by {word} count{on}",
        columns=(
            TableColumn(key="nodes", title=prediction.unit.plural),
            TableColumn(key="median_s", title="run time"),
            TableColumn(key="interval", title=f"{percent(prediction.confidence)} of runs"),
            TableColumn(key="node_hours", title=f"{word}-hours"),
            TableColumn(key="efficiency", title="efficiency"),
            TableColumn(key="limit_s", title="limit"),
            TableColumn(key="memory", title="memory"),
            TableColumn(key="verdict", title="verdict", left=True),
        ),
        rows=[row(i) for i in shown_counts(prediction, every=every)],
        empty="nothing is predicted",
    )


def _size(number: int | None, unit: Unit) -> str:
    return count(number, unit.word) if number else ""


def _gib(size_bytes: int | None) -> str:
    return f"{size_bytes / 2**30:.1f} GiB" if size_bytes else ""
