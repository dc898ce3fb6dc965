"""The report of decisions and outcomes as one self-contained HTML file."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version

from slurm_plugin.config.setting_types import Mode
from slurm_plugin.evaluation.accuracy import EDGES
from slurm_plugin.evaluation.effects import Deadlines
from slurm_plugin.evaluation.outcomes import OutcomeReport
from slurm_plugin.protocol.reasons import NOT_APPLIED, Reason
from slurm_plugin.reports import chart, html
from slurm_plugin.reports.chart import Bar
from slurm_plugin.reports.chart_marks import Chart
from slurm_plugin.reports.headline import headline, title_of, tries_text
from slurm_plugin.reports.sheets import derived_note, find, sheets_of
from slurm_plugin.text.formatting import clock, count, percent
from slurm_plugin.text.table_columns import Table

#: Headings and the tables below them.
_SECTIONS = (
    ("Jobs that were stopped after a change", ("stopped",)),
    ("Accuracy of predictions", ("accuracy", "weeks")),
    ("Decisions", ("reasons", "deadlines", "planned")),
    ("Effects of the decisions", ("effects", "waits", "wait_estimates")),
    ("Who waits most", ("partition_waits", "account_waits", "user_waits")),
    ("Applications", ("applications", "switched_off", "records", "drift", "problems")),
    ("Nodes beyond the knee", ("waste",)),
    ("Unused resources", ("unused",)),
    ("Energy and cost", ("energy",)),
    ("Job arrays", ("arrays",)),
    ("Jobs", ("jobs",)),
)
_MOST_ROWS = 200  #: of one table; CSV has all
_MOST_BARS = 12


@dataclass(frozen=True, slots=True)
class Figure:
    """One number at the top of the page."""

    name: str
    value: str
    note: str


def page(report: OutcomeReport, reasons: Mapping[str, str], *, now_s: float) -> str:
    """Lay the report out; ``reasons`` are plain words for the names of reasons."""
    some = bool(report.decisions)
    return html.render(
        "report.html.j2",
        title="NIMO: predictions and decisions, compared with outcomes",
        lead=title_of(report) + ("." if some else ""),
        selection=list(report.selection.items()),
        head=headline(report) if some else None,
        figures=figures(report),
        charts=list(charts(report, reasons)),
        sections=sections(report, reasons),
        release=version("nimo-slurm"),
        made=clock(now_s),
        anonymous=report.anonymous,
    )


def sections(
    report: OutcomeReport, reasons: Mapping[str, str], *, most: int = _MOST_ROWS
) -> list[tuple[str, list[Table]]]:
    """Headings with the tables below them, of so many rows at most."""
    tables = sheets_of(report, reasons)
    return [
        (heading, [html.for_page(find(tables, name), most) for name in names])
        for heading, names in _SECTIONS
    ]


def figures(report: OutcomeReport) -> list[Figure]:
    """Numbers for the top of a page; none where nothing was decided."""
    if not report.decisions:
        return []
    made = []
    if one := report.accuracy:
        runs = count(one.runs, "run")
        above = f"median; {percent(one.longer)} above 1"
        made = [
            Figure("Mean error (MAPE)", percent(one.mape, 1), f"of {runs} with a prediction"),
            Figure("Actual / predicted", f"{one.bias:.2f}", above),
        ]
    changed = sum(row.decisions for row in report.reasons if row.applied)
    made.append(
        Figure("Applied decisions", str(changed), f"of {count(report.decisions, 'decision')}")
    )
    kept = report.promises
    if kept.jobs:
        made.append(Figure("Promises kept", f"{kept.kept} of {kept.jobs}", "changed jobs"))
    if kept.otherwise:
        made.append(Figure("Ranges given back", str(kept.otherwise), "or changed by their users"))
    if kept.tries:
        made.append(Figure("Tries", str(kept.tries), tries_text(kept)))
    if (due := report.deadlines) != Deadlines():
        not_met = f"{due.missed} missed, {due.refused} refused"
        made.append(Figure("Deadlines made", str(due.met), not_met))
    return made


def _unchanged(name: str) -> dict[str, str]:
    """Choose the jobs that passed unchanged for what `why_unchanged` names."""
    if name in frozenset(Reason):
        return {"reason": name}
    return {"changed": "no", "mode": Mode.ENFORCE if name == NOT_APPLIED else name}


def charts(
    report: OutcomeReport, reasons: Mapping[str, str], link: Callable[..., str] = lambda **_: ""
) -> Iterator[Chart]:
    """Charts of accuracy and decisions; none without decisions.

    link: URL of the decisions that filters of the page choose.
    """
    if not report.decisions:
        return
    accuracy = report.accuracy
    if accuracy and accuracy.coverage:
        yield chart.against_nominal(
            "Runs inside their intervals",
            [(one.nominal, one.inside) for one in accuracy.coverage],
            legend=f"Each bar should end at its dashed line. {derived_note(report)}",
        )
    if accuracy:
        labels = [f"<{EDGES[0]:g}", *(f"{edge:.2g}" for edge in EDGES)]
        ends = [0.0, *EDGES, 1e9]
        yield chart.columns(
            "Number of runs by actual / predicted run time",
            [
                Bar(label, float(n), str(n), href=link(ratio=f"{low:.5g}-{high:.5g}"))
                for label, n, low, high in zip(
                    labels, accuracy.histogram, ends, ends[1:], strict=False
                )
            ],
            guide=EDGES.index(1.0) + 1,
            legend="A column begins at its label; right of the dashed line runs took longer than "
            "predicted.",
        )
    if len(report.weeks) > 1:
        bars = [
            Bar(
                clock(week.begin_s)[5:10],
                week.accuracy.mape if week.accuracy else 0.0,
                percent(week.accuracy.mape, 1) if week.accuracy else "nothing to compare",
                "second",
                link(day=clock(week.begin_s + 6.5 * 86_400)[:10]),
            )
            for week in report.weeks[-26:]
        ]
        yield chart.columns(
            "Mean error (MAPE) by week", bars, legend="The last 26 weeks; each begins on Monday."
        )
    acted = sum(one.decisions for one in report.reasons if one.applied)
    rows = [
        *([Bar("applied", acted, str(acted), "third", link(changed="yes"))] if acted else ()),
        *(
            Bar(reasons.get(name, name), n, str(n), href=link(**_unchanged(name)))
            for name, n in report.unchanged.items()
        ),
    ]
    bars = rows[:_MOST_BARS]
    rest = sum(int(one.value) for one in rows[_MOST_BARS:])
    legend = "Decisions that were applied, and why the other jobs passed unchanged."
    yield chart.bars(
        "Decisions", bars, legend=f"{legend} {rest} for other reasons." if rest else legend
    )
