"""The report as tables: which there are, and what is in each.

A table is a list of fields with names, values and wording; pages, CSV files and ``-P`` all print
it.  Raw values keep their units (seconds, hours, shares).
"""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, Final, NamedTuple

from sacct_ingest.errors import NimoError
from sacct_ingest.files import atomic_file
from sacct_ingest.text.slurm_text import time_span
from slurm_plugin.evaluation.accuracy import LEVELS
from slurm_plugin.evaluation.effects import Deadlines
from slurm_plugin.evaluation.outcomes import JobOutcome, OutcomeReport
from slurm_plugin.protocol.status_messages import SHARE
from slurm_plugin.reports.html import Table, TableColumn
from slurm_plugin.text import table_columns
from slurm_plugin.text.formatting import clock, hours, limit_text, percent, plain
from slurm_plugin.text.table_columns import OutputColumn, OutputTable

_WIDEST = 8  #: columns of a table on a page
_ENDS = ("_low", "_high")  #: of the names of an interval's ends
#: What a spreadsheet would take for a formula.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table of a report; ``rows`` are records that the fields look into."""

    name: str
    caption: str
    rows: Sequence[Any]
    fields: Sequence[OutputColumn]
    note: str = ""
    empty: str = "none"
    #: names of fields that a page has no room for; empty where there are more: it turns them
    out: str = ""

    def table(self, most: int | None = None) -> Table:
        """Make the table that people see, of ``most`` rows (None: all) and eight columns."""
        note = self.note
        if len(self.fields) > _WIDEST and not self.out:
            # The few rows side by side; the first field heads them, ends stand behind their value.
            head, *rest = self.fields
            rows = self.rows[: _WIDEST - 1]
            titles = [head.text(row) for row in rows]
            columns = [TableColumn(key="field", title=head.title, left=True)]
            columns += [TableColumn(key=title, title=title) for title in titles]
            named = {f.name: f for f in rest}

            def text(f: OutputColumn, row: Any) -> str:
                ends = [named[f"{f.name}{end}"] for end in _ENDS if f"{f.name}{end}" in named]
                tail = f" ({' to '.join(end.text(row) for end in ends)})" if ends else ""
                return f.text(row) + tail

            shown = [f for f in rest if rows and not f.name.endswith(_ENDS)]
            cells = [[f.title, *(text(f, row) for row in rows)] for f in shown]
        else:
            fields = [f for f in self.fields if f.name not in self.out.split()]
            columns = [TableColumn(key=f.name, title=f.title, left=f.left) for f in fields]
            cells = [[f.text(row) for f in fields] for row in self.rows[:most]]
            if left_out := len(self.rows) - len(cells):
                note = f"{note} {left_out} more are left out here.".strip()
        return Table(
            name=self.name,
            caption=self.caption,
            columns=tuple(columns),
            rows=cells,
            note=note,
            empty=self.empty,
        )

    def output(self) -> OutputTable:
        """Give the table for terminals; of the columns but the first the last go first."""
        columns = [
            field._replace(
                worth=max(table_columns.ALWAYS - place, 1) if place else table_columns.ALWAYS,
                cuts=field.left,
            )
            for place, field in enumerate(self.fields)
        ]
        return OutputTable(columns, self.rows)


def of(path: str) -> Callable[[Any], Any]:
    """Get the value at the end of a path of attributes; None where one on the way is None."""

    def get(row: Any) -> Any:
        for name in path.split("."):
            row = None if row is None else getattr(row, name)
        return row

    return get


def find(sheets: Sequence[Sheet], name: str) -> Sheet:
    """Find a table by its name. Raises NimoError: there is none."""
    for one in sheets:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in sheets)
    raise NimoError(f"there is no table {name!r} in a report; there are {names}")


def write_csv(sheets: Sequence[Sheet], folder: Path) -> list[Path]:
    """Write each table into a file ``NAME.csv`` of a folder, which is made where it is missing.

    Raises NimoError: they cannot be written.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for one in sheets:
            path = folder / f"{one.name}.csv"
            atomic_file.write(path, csv_text(one).encode())
            written.append(path)
    except OSError as error:
        raise NimoError(f"{error.filename or folder}: {error.strerror or error}") from error
    return written


def csv_text(one: Sheet) -> str:
    """Write a table as CSV, all its columns and rows."""
    text = StringIO()
    rows = csv.writer(text)
    rows.writerow([field.name for field in one.fields])
    rows.writerows([_safe(plain(f.of(row))) for f in one.fields] for row in one.rows)
    return text.getvalue()


def _safe(text: str) -> str:
    # Numbers are ours; what else begins like a formula is somebody's name.
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(_FORMULAS) else text
    return text


#: What writes a value, by the name that `_fields` uses.
_WRITERS: Final[Mapping[str, Callable[[Any], str] | None]] = {
    "": None,
    "amount": lambda value: f"{value:.1f}".removesuffix(".0"),
    "clock": clock,
    "day": lambda value: datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d"),
    "duration": time_span,
    "factor": "{:.2f}".format,
    "gib": lambda value: f"{value / 2**30:.1f}",
    "hours": hours,
    "percent": percent,
    "share": lambda value: percent(value, 1),
    "span": lambda value: time_span(3600 * value),
    "times": "{:.2f} x".format,
    "yes": lambda value: "yes" if value else "no",
}
#: Of the fields on accuracy those that a page has no room for.
_OUT = "inside_95 pa beyond"
_PROBLEMS = (
    "application< | verdict< | decisions | runs:runs in the store | problem< | text<:explanation | "
    "observe:best next run | unit=unit.plural<:counts"
)
COUNTERFACTUAL = (
    "Counterfactual: these jobs did not run the other way. Hours and waits otherwise are the "
    "predictions for the other count, times the job's own actual over predicted; their "
    "ends follow from the predictions' intervals, with all errors of one application in the same "
    "direction, and from how near predicted waits came. Waits that are not predicted well are "
    "left out."
)


class _Group(NamedTuple):
    """A row that has its name from elsewhere."""

    name: str
    of: Any


def _fields(text: str) -> list[OutputColumn]:
    """Read ``name=path<:title:writer``, ``|`` between fields; title and path default to the name.

    A ``<`` is of words, which stand to the left.
    """
    made = []
    for field in text.split(" | "):
        head, title, writer = (*field.split(":"), "", "")[:3]
        name, _, path = head.removesuffix("<").partition("=")
        get, left = of(path) if path else None, head.endswith("<")
        made.append(OutputColumn(name, title or name, get, _WRITERS[writer], left=left))
    return made


def _accuracy(at: str) -> list[OutputColumn]:
    """Fields of the accuracy that stands at a path of the row."""
    coverage = of(f"{at}.coverage")

    def inside(level: float) -> OutputColumn:
        def get(row: Any) -> float | None:
            return {one.nominal: one.inside for one in coverage(row) or ()}.get(level)

        name = f"inside_{100 * level:.0f}"
        return OutputColumn(name, f"in {percent(level)}", get, _WRITERS["share"])

    return [
        *_fields(f"mape={at}.mape:MAPE:share | bias={at}.bias:actual/predicted:factor"),
        *map(inside, LEVELS),
        *_fields(f"pa={at}.pa:PA:share | longer={at}.longer:under-predicted:share"),
        *_fields(f"beyond={at}.beyond:beyond interval:share"),
    ]


def _other(key: str, title: str, writer: str) -> list[OutputColumn]:
    """Fields of an amount of effects, and of what it would have been otherwise."""
    other = f"other_{key}"
    return _fields(
        f"{key}=of.{key}:{title}:{writer} | {other}=of.{other}.value:{title} otherwise:{writer} | "
        f"{other}_low=of.{other}.low:at least:{writer} | "
        f"{other}_high=of.{other}.high:at most:{writer}"
    )


def sheets_of(report: OutcomeReport, reasons: Mapping[str, str]) -> tuple[Sheet, ...]:
    """All tables of a report; ``reasons`` are plain words for the names of reasons."""
    return (
        _jobs("stopped", "Jobs that NIMO changed and a limit or deadline stopped", report.stopped),
        *_of_decisions(report, reasons),
        *_of_applications(report),
        *_of_usage(report),
        _jobs("jobs", "Jobs, the newest first", report.jobs),
    )


def _of_decisions(report: OutcomeReport, reasons: Mapping[str, str]) -> Iterator[Sheet]:
    compared = OutputColumn(
        "compared", "compared", lambda row: row.accuracy.runs if row.accuracy else 0
    )
    yield Sheet(
        "applications",
        "Applications, most decisions first",
        report.applications,
        (
            *_fields("application< | decisions | changed | finished"),
            *(compared, *_accuracy("accuracy")),
        ),
        out=f"finished inside_50 {_OUT}",
        note="Only completed runs are compared, with the prediction for the size they had.",
        empty="no decision",
    )
    accuracies = [
        _Group("all but guesses", report.accuracy),
        _Group("guesses, which change no job", report.guesses),
        *(_Group(f"verdict {name}", one) for name, one in report.by_verdict.items()),
        *(_Group(f"recognised by {name}", one) for name, one in report.by_level.items()),
    ]
    yield Sheet(
        "accuracy",
        "Accuracy by verdict, and by how the application was recognised",
        [row for row in accuracies if row.of],
        (*_fields("group=name<:decisions | runs=of.runs:compared"), *_accuracy("of")),
        out=_OUT,
        note=derived_note(report),
        empty="no completed run to compare with yet",
    )
    yield Sheet(
        "weeks",
        "Week by week (from Monday, UTC)",
        report.weeks,
        (*_fields("begin_s<:week of:day | decisions"), compared, *_accuracy("accuracy")),
        out=f"inside_50 {_OUT}",
        empty="no decision",
    )
    yield Sheet(
        "reasons",
        "Decisions by mode and reason",
        report.reasons,
        (
            *_fields("mode< | action< | applied<::yes | decisions | reason<"),
            OutputColumn(
                "meaning", "meaning", lambda row: reasons.get(row.reason, row.reason), left=True
            ),
        ),
        empty="no decision",
    )
    yield Sheet(
        "effects",
        "Outcomes, compared with the predictions for the other count",
        [
            *(_Group("changed, otherwise as asked", one) for one in report.applied),
            *(_Group("left alone, otherwise as chosen", one) for one in report.observed),
        ],
        (
            OutputColumn("jobs_were", "jobs", of("name"), left=True),
            *_fields("unit=of.unit.plural<:counts of | jobs=of.jobs:number"),
            *_fields("more_nodes=of.more_nodes:chosen above asked"),
            *_other("node_hours", "node-hours", "hours"),
            *_other("run_hours", "run time", "span"),
            *_fields("wait_jobs=of.wait_jobs:jobs with waits"),
            *_fields("unsure_wait_jobs=of.unsure_wait_jobs:with unsure waits"),
            *_other("wait_hours", "wait", "span"),
        ),
        note=COUNTERFACTUAL,
        empty="no job for which NIMO chose another count",
    )
    waits = (
        _Group("to start at once", report.waits.at_once),
        _Group("to wait", report.waits.waiting),
    )
    yield Sheet(
        "waits",
        "Waits as predicted at submission, compared with the real ones",
        [row for row in waits if row.of],
        _fields(
            f"predicted=name< | jobs=of.jobs | within_s=of.within_s:{percent(SHARE)} started "
            "within:duration | later=of.later:a minute late or more:share"
        ),
        empty="too few started jobs with a predicted wait",
    )
    yield Sheet(
        "wait_estimates",
        "Estimated waits in the queue, compared with the real ones",
        report.queue_waits,
        _fields(
            "cluster< | partition< | of<:source | jobs | waited:waited over a minute | "
            "within:half within a factor:factor | inside:in 90 %:percent"
        ),
        note="history: estimates of 'nimo fit' for past jobs, from data before each submission. "
        "The factor is that of the wait plus a minute.",
        empty="no job with an estimated wait has started yet",
    )
    yield Sheet(
        "deadlines",
        "Jobs with a deadline",
        [report.deadlines] if report.deadlines != Deadlines() else [],
        _fields("met:made | missed | refused | open:still open | warned:warned at submission"),
        note="In observe mode no user got these refusals and warnings.",
    )
    yield Sheet(
        "planned",
        "Jobs that Slurm planned with less than their time limit",
        [report.planned] if report.planned.jobs else [],
        _fields(
            "jobs | outlasted:outlasted the plan | wait_before_s:mean wait before:duration | "
            "wait_since_s:mean wait since:duration"
        ),
        note="Waits are those of all jobs of the selection; other things changed, too.",
    )


def _of_applications(report: OutcomeReport) -> Iterator[Sheet]:
    yield Sheet(
        "switched_off",
        "Applications switched off after predictions that missed",
        report.switched_off,
        _fields(
            "application=label< | ratio:actual/predicted:factor | low:band from:factor | "
            "high:to:factor | runs:last runs | since_s:since:clock"
        ),
    )
    yield Sheet(
        "records",
        "Outcomes of the last predictions, the basis of the verdicts",
        report.records,
        _fields(
            "application< | verdict< | repeated:count run before:yes | "
            "predictions:last predictions | median_error:median error:percent | "
            "inside:inside the interval | decisions"
        ),
    )
    problems = partial(Sheet, fields=_fields(_PROBLEMS), out="problem")
    yield problems("problems", "Problems of predictions", report.problems)
    yield problems("drift", "Applications whose problem changed", report.drift)


def _of_usage(report: OutcomeReport) -> Iterator[Sheet]:
    """Tables of what jobs used."""
    yield Sheet(
        "waste",
        "Node-hours (CPU- or GPU-hours) beyond the knee of an application",
        report.waste,
        (
            *_fields("user< | application< | runs | unit=unit.plural<:counts"),
            OutputColumn("nodes_low", "from", lambda row: row.nodes[0]),
            OutputColumn("nodes_high", "to", lambda row: row.nodes[1]),
            *_fields(
                "knee | node_hours:node-hours:hours | wasted_node_hours:beyond:hours | "
                "efficiency::percent | slower:time at knee:times"
            ),
        ),
        out="unit nodes_low nodes_high",
        note="Runs of reliable curves, without deadline, on counts that their users chose.",
        empty="none above the threshold",
    )
    yield Sheet(
        "unused",
        "CPUs and memory that jobs had but did not use",
        report.unused,
        _fields(
            "account< | application< | jobs | cpu_hours:CPU-hours:hours | "
            "unused_cpu_hours:unused CPU-hours:hours | unused_cpus:of CPUs:percent | "
            "saved_cpu_hours:saved:hours | least_cpus:CPUs, most used:amount | "
            "gpu_hours:GPU-hours:hours | idle_gpu_hours:unused GPU-hours:hours | "
            "saved_gpu_hours:saved:hours | least_gpus:most used:amount | "
            "mem_gib_hours:GiB-hours:hours | unused_mem_gib_hours:unused GiB-hours:hours | "
            "unused_mem:of memory:percent | saved_mem_gib_hours:saved:hours | "
            "least_mem_gib:GiB, most used:amount | short_jobs:too little"
        ),
        out="cpu_hours unused_cpus saved_cpu_hours gpu_hours saved_gpu_hours least_gpus "
        "mem_gib_hours unused_mem saved_mem_gib_hours short_jobs",
        note="CPU time, memory and the highest use of GPUs as the accounting measured them; of an "
        "array, its first task.  Most used: a request of this size would have been enough for each "
        "job.  Saved: hours that the highest use of the jobs before times the margin would have "
        "saved, and for how many jobs that was too little.  CPU use is a mean over the run: on so "
        "few CPUs, a program with serial parts takes longer.",
        empty="none above the threshold",
    )
    yield Sheet(
        "energy",
        "Energy and cost",
        report.energy,
        _fields(
            "account< | application< | runs | kwh:kWh:hours | measured:runs measured | "
            "by_nameplate:by nameplate | cost::hours | co2_kg:kg CO2e:hours"
        ),
        note="Of jobs that had their nodes alone; cost is that of all.",
        empty="nothing measured, and neither power nor prices in the settings",
    )
    yield Sheet(
        "arrays",
        "Job arrays, the newest first",
        report.arrays,
        _fields(
            "array_job_id:array | user< | application< | tasks | completed | "
            "shortest_s:shortest:duration | mean_s:mean:duration | longest_s:longest:duration | "
            "used_cpus:CPUs used:percent | mem_bytes:memory GiB:gib"
        ),
        out="shortest_s mem_bytes",
        note="Tasks that started.  Memory is the highest of one task of any step.",
        empty="no job array",
    )


def _jobs(name: str, caption: str, rows: Sequence[JobOutcome]) -> Sheet:
    return Sheet(
        name,
        caption,
        rows,
        (
            *_fields("job_id:job | application< | nodes | predicted_s:predicted:duration"),
            *_fields("took_s:took:duration | limit_s:limit:duration | state<"),
            OutputColumn("decision", "decision", decision_of, left=True),
            *_fields("user< | verdict< | decision_id<:decision id"),
        ),
        out="user verdict decision_id",
        note="'nimo why JOBID' explains one in sentences.",
    )


def decision_of(job: JobOutcome) -> str:
    """Describe in a few words what NIMO did with a job, and why."""
    if not job.applied:
        return f"unchanged ({_words(job.reason if job.action == 'keep' else job.mode)})"
    nodes = f"{job.given_nodes} nodes" if job.given_nodes else ""
    limit = f"limit {limit_text(job.given_limit_s)}" if job.given_limit_s else ""
    return f"{', '.join(filter(None, (nodes, limit))) or job.action} ({_words(job.reason)})"


def _words(name: str) -> str:
    """Write a stable name for people."""
    return name.replace("_", " ")


def derived_note(report: OutcomeReport) -> str:
    """Name the shares inside intervals that are derived from another level."""
    coverage = report.accuracy.coverage if report.accuracy else ()
    derived = [percent(one.nominal) for one in coverage if one.derived]
    if not derived:
        return ""
    return (
        f"The intervals of {' and '.join(derived)} are derived from those that were stored, as if "
        "log run time were normally distributed on either side of the prediction."
    )
