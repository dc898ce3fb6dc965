"""The folder of a study: a table in three forms, a plot, the paragraph for a proposal, job ids."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sacct_ingest.files import atomic_file
from slurm_plugin.experiments.scale import study_charts
from slurm_plugin.experiments.scale.results import Results, proposal, table
from slurm_plugin.reports import chart_file
from slurm_plugin.text.table_columns import ON_REQUEST

_LATEX = re.compile(r"([&%$#_{}])")


def write(results: Results, folder: Path) -> list[Path]:
    """Write everything into a folder; give the files.

    Raises PlotError: the plot cannot be drawn; all else is there.
    """
    made: list[Path] = []

    def put(name: str, text: str) -> None:
        made.append(folder / name)
        atomic_file.write(made[-1], text.encode())

    whole = table(results)
    put("table.csv", whole.csv())
    shown = replace(whole, columns=[one for one in whole.columns if one.worth != ON_REQUEST])
    titles = [one.title for one in shown.columns]
    cells = shown.cells()
    put("table.md", _markdown(titles, cells))
    put("table.tex", _latex(titles, cells))
    put("proposal.txt", proposal(results) + "\n")
    ids = [f"{one.job_id} {one.count} {one.state}" for one in results.runs if one.job_id]
    put("jobs.txt", "".join(f"{line}\n" for line in ids))
    if results.measured:
        plots = [folder / f"plot{suffix}" for suffix in (".svg", ".pdf", ".png")]
        chart_file.save(study_charts.sheet_of(results), *plots)
        made += plots
    return made


def _markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _latex(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    escaped = [[_LATEX.sub(r"\\\1", text) for text in line] for line in (titles, *rows)]
    head, *body = [" & ".join(line) + r" \\" for line in escaped]
    begin = rf"\begin{{tabular}}{{{'r' * (len(titles) - 1)}l}}"
    lines = [begin, r"\hline", head, r"\hline", *body, r"\hline", r"\end{tabular}"]
    return "\n".join(lines) + "\n"
