"""The prediction for one application on one screen; `curve_text` has all that there is to say."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from predictor.application.request import of_usual_job, usual
from predictor.prediction_table import PredictionTable
from sacct_ingest.records import StandingRow
from slurm_plugin.config.settings import Energy
from slurm_plugin.evaluation.diagnoses import with_best_run
from slurm_plugin.reports import application_list, curve_text
from slurm_plugin.text import formatting as fmt
from slurm_plugin.text import table_columns as cols

#: Lines of a terminal, less one for its prompt.
LINES = 23
#: Node counts around the usual one.
_COUNTS = 7
#: Applications of a list, beside its titles and two lines of text.
_LISTED = LINES - 5


def on_screen(
    prediction: PredictionTable,
    *,
    width: int = cols.WIDTH,
    options: cols.TableOptions | None = None,
    energy: Energy | None = None,
    now_s: float = 0.0,
    standing: StandingRow | None = None,
) -> str:
    """Write the counts around the usual one, the verdict, and what speaks against it most.

    Parameters as of `curve_text.render`.

    standing: whether the application is switched off.
    """
    job = of_usual_job(prediction)
    whole = curve_text.curve_table(job, energy or Energy(), now_s, every=False)
    near = _around(whole.rows, job)
    table = replace(whole, rows=near).text(options, width=width)
    head = curve_text.title_lines(prediction, job)
    most = [f"verdict: {curve_text.READ[prediction.verdict]}"]
    if standing and standing.off:
        most.append(curve_text.standing_line(standing))
    left = len(prediction.nodes) - len(near)
    shown = f"{len(near)} of {len(prediction.nodes)} counts are shown; " if left else ""
    end = f"{shown}--all shows all counts, memory and the record."
    top = [_cut(line, width) for line in head]
    bottom = fmt.wrapped(end, width).splitlines()
    lines = [*top, "", *table.splitlines(), ""]
    for text in [*most, *_less_urgent(prediction, job)]:
        added = fmt.wrapped(text, width).splitlines()
        if len(lines) + len(added) + len(bottom) + 1 > LINES:
            break
        lines += added
    return "\n".join([*lines, "", *bottom])


def _cut(line: str, width: int) -> str:
    return line if fmt.screen_width(line) <= width else f"{fmt.cut(line, width - 1)}+"


def _less_urgent(prediction: PredictionTable, job: PredictionTable) -> Iterable[str]:
    for problem in with_best_run(prediction.problems):
        yield curve_text.problem_line(problem, prediction.unit)
    if job.knee is not None:
        yield f"most speedup for its cost (knee): {prediction.unit.counted(job.knee)}"


def _around(rows: Sequence[int], job: PredictionTable) -> list[int]:
    """Choose the indices of the counts nearest to the usual one."""
    own = usual(job)
    counts = [job.nodes[i] for i in rows]
    centre = min(
        range(len(counts)), key=lambda k: abs(counts[k] - (own.nodes if own else 0)), default=0
    )
    first = max(min(centre - _COUNTS // 2, len(rows) - _COUNTS), 0)
    return list(rows[first : first + _COUNTS])


def list_on_screen(
    tables: Sequence[PredictionTable], options: cols.TableOptions, *, width: int
) -> str:
    """List applications, the most reliable first, as many as a screen has lines.

    Raises NoColumn: the options name a column that there is not.
    """
    table = application_list.list_table(tables)
    head = int(options.header)
    lines = table.text(options, width=width).splitlines()
    left = len(table.rows) - _LISTED
    if left > 0:
        lines = lines[: head + _LISTED]
        lines += ["", f"{_LISTED} of {len(table.rows)} applications are shown; --all shows all."]
    return "\n".join(lines)
