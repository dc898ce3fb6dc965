"""What a page says about one application: facts, and by node type a curve beside its table."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from predictor.table import for_type
from predictor.types import PredictionTable, Problem, Verdict
from sacct_ingest.errors import PlotError
from sacct_ingest.records import StandingRow
from sacct_ingest.runs.layout import Unit
from slurm_plugin.reports import chart
from slurm_plugin.reports.chart import Chart
from slurm_plugin.reports.curve_text import (
    shown_counts,
    standing_line,
    use_text,
    verdict_at_entry,
)
from slurm_plugin.reports.html import Table, TableColumn
from slurm_plugin.reports.picture import of_table
from slurm_plugin.text.formatting import RECOGNISED, clock, count, duration, percent

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
        ("Last fit", clock(prediction.fitted_s)),
        ("Outcomes of its predictions", standing_line(standing) if standing else ""),
    ]
    return [(name, value) for name, value in rows if value]


def curves(prediction: PredictionTable, *, every: bool) -> Iterator[CurveView]:
    """Curves on the node type that the table is about and on the others.

    ``every`` asks for all node counts instead of those observed and powers of two.
    """
    yield _curve(prediction, prediction.node_type, every=every)
    for other in prediction.by_type:
        yield _curve(for_type(prediction, other.node_type), other.node_type, every=every)


def _curve(prediction: PredictionTable, node_type: str, *, every: bool) -> CurveView:
    on = f" on nodes of the type {node_type}" if node_type else ""
    try:
        title = f"Run time over {prediction.unit.plural}{on}"
        picture = replace(of_table(prediction), title=title)
        drawn = chart.curve(picture)
    except PlotError:
        drawn = None
    return CurveView(
        node_type,
        drawn,
        _table(prediction, on, every=every),
        _READ[prediction.verdict],
        prediction.problems,
    )


def _table(prediction: PredictionTable, on: str, *, every: bool) -> Table:
    repeats = {point.nodes: point.repeats for point in prediction.observed}
    return Table(
        name="counts",
        caption=f"Run time by {prediction.unit.word} count{on}",
        columns=(
            TableColumn(key="nodes", title=prediction.unit.plural),
            TableColumn(key="median_s", title="run time"),
            TableColumn(key="low_s", title=f"{percent(prediction.confidence)} of runs: from"),
            TableColumn(key="high_s", title="to"),
            TableColumn(key="verdict", title="verdict", left=True),
            TableColumn(key="repeats", title="runs used"),
        ),
        rows=[
            (
                str(prediction.nodes[i]),
                duration(prediction.median_s[i]),
                duration(prediction.low_s[i]),
                duration(prediction.high_s[i]),
                verdict_at_entry(prediction, i),
                str(repeats.get(prediction.nodes[i], "-")),
            )
            for i in shown_counts(prediction, every=every)
        ],
        empty="nothing is predicted",
    )


def _size(number: int | None, unit: Unit) -> str:
    return count(number, unit.word) if number else ""


def _gib(size_bytes: int | None) -> str:
    return f"{size_bytes / 2**30:.1f} GiB" if size_bytes else ""
