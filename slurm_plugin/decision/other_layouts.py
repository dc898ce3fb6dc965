"""The same job laid out otherwise: half-filled nodes, other GPUs, tasks or threads."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from predictor.job_table import is_otherwise
from predictor.prediction_table import PredictionTable
from predictor.table import at, covers, verdict_at
from predictor.types import Verdict
from sacct_ingest.runs.layout import Each, Layout, Unit
from slurm_plugin.decision.request import Request
from slurm_plugin.protocol.advice_messages import LayoutRow


def layout_rows(
    tables: Sequence[PredictionTable],
    own: PredictionTable,
    size: int,
    gpu_types: Iterable[str] = (),
) -> list[LayoutRow]:
    """Put the layouts of an application side by side on one size; empty where there is one.

    tables: of each layout.
    own: that of the job.
    size: nodes, or CPUs or GPUs in all, as the tables count them.
    gpu_types: as nodes spell them: sbatch wants it so, and accounting has lower case.
    """
    spelling = {gpu_type.lower(): gpu_type for gpu_type in gpu_types}
    rows = []
    for table in tables:
        verdict = verdict_at(table, size)
        gpu_type = table.layout.gpu_type
        layout = replace(table.layout, gpu_type=spelling.get(gpu_type, gpu_type))
        options = layout_options(layout, table.unit, size)
        shown = table.unit is own.unit and verdict is not Verdict.REFUSED and options
        if shown and covers(table, size):
            one = at(table, size)
            row = LayoutRow(
                layout=str(layout),
                options=options,
                size=size,
                time_s=one.time_s,
                low_s=one.low_s,
                high_s=one.high_s,
                size_hours=size * one.time_s / 3600,
                verdict=verdict.value,
                own=table.key == own.key,
            )
            rows.append(row)
    return rows if len(rows) > 1 else []


def layout_options(layout: Layout, unit: Unit, size: int) -> str:
    """Give the options of sbatch for a layout; empty where it does not divide the size.

    Nor are there any for nodes with GPUs of several types.

    >>> layout_options(Layout(4, 8), Unit.NODES, 2)
    '--nodes=2 --ntasks-per-node=4 --cpus-per-task=2'
    >>> layout_options(Layout(cpus=8), Unit.NODES, 2)
    '--nodes=2 --cpus-per-task=8'
    >>> layout_options(Layout(4, each=Each.JOB, nodes=1), Unit.CPUS, 16)
    '--nodes=1 --ntasks=4 --cpus-per-task=4'
    >>> layout_options(Layout(4, each=Each.JOB, nodes=1), Unit.CPUS, 6)
    ''
    """
    counts = _counts(layout, unit, size)
    if "+" in layout.gpu_type or any(count != int(count) for _, count in counts):
        return ""
    typed = {"gpus-per-node": f"{layout.gpu_type}:"} if layout.gpu_type else {}
    return " ".join(f"--{name}={typed.get(name, '')}{int(count)}" for name, count in counts)


def _counts(layout: Layout, unit: Unit, size: int) -> list[tuple[str, float]]:
    """Numbers for options; fractions where they do not divide."""
    if unit is Unit.NODES:
        return [("nodes", size), *_on_each_node(layout)]
    counts = [("nodes", float(layout.nodes))] if layout.nodes else []
    if unit is Unit.GPUS:
        each = size / (layout.nodes or 1)
        cpus = layout.cpus if layout.each is Each.GPU else 0
        return [*counts, ("gpus-per-node", each), *_some("cpus-per-gpu", cpus)]
    if layout.each is Each.JOB and layout.tasks:
        return [*counts, ("ntasks", layout.tasks), ("cpus-per-task", size / layout.tasks)]
    if layout.each is Each.TASK and layout.cpus:
        return [*counts, ("ntasks", size / layout.cpus), ("cpus-per-task", layout.cpus)]
    return []


def _on_each_node(layout: Layout) -> list[tuple[str, float]]:
    threads, rest = divmod(layout.cpus, layout.tasks or 1)  # one task where that is unknown
    return [
        *_some("ntasks-per-node", layout.tasks),
        *_some("cpus-per-task", threads if threads > 1 and not rest else 0),
        *_some("gpus-per-node", layout.gpus or 0),
    ]


def _some(name: str, count: float) -> list[tuple[str, float]]:
    return [(name, count)] if count else []


def ran_so(table: PredictionTable, request: Request) -> bool:
    """Whether runs laid out as a job had its count of nodes, or are a guess whatever the count."""
    if is_otherwise(table):
        return False
    counted_otherwise = table.is_guess or request.unit is not Unit.NODES
    counts = [point.nodes for point in table.observed]
    return counted_otherwise or (request.asked or request.low) in counts
