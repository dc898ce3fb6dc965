"""Tables of the report: which there are, and what is in each.

Text, pages, CSV files, ``-P`` and JSON are made of them.  Raw values keep their units.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from sacct_ingest.errors import NimoError
from sacct_ingest.files import atomic_file
from sacct_ingest.text.durations import duration_text
from slurm_plugin.evaluation.accuracy import LEVELS
from slurm_plugin.evaluation.effects import Deadlines
from slurm_plugin.evaluation.outcomes import JobOutcome, OutcomeReport, why_unchanged
from slurm_plugin.protocol.status_messages import SHARE as SHARE_IN_TIME
from slurm_plugin.text.formatting import clock, percent
from slurm_plugin.text.table_columns import (
    ALWAYS,
    AMOUNT,
    FACTOR,
    FINE_SHARE,
    SECONDS,
    SHARE,
    YES,
    Column,
    Quantity,
    Table,
)

_CLOCK: Final = Quantity("seconds since the epoch", clock)
_DAY: Final = Quantity(
    "seconds since the epoch", lambda value: datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d")
)
_GIB: Final = Quantity("bytes", lambda value: f"{value / 2**30:.1f} GiB")
_AMOUNT: Final = Quantity("", lambda value: f"{value:.1f}".removesuffix(".0"))
_SPAN: Final = Quantity("hours", lambda value: duration_text(3600 * value))
_TIMES: Final = Quantity("a factor", "{:.2f} x".format)
COUNTERFACTUAL = (
    "Counterfactual: these jobs did not run the other way. Hours and waits otherwise are the "
    "predictions for the other count, times the job's own actual over predicted; their "
    "ends follow from the predictions' intervals, with all errors of one application in the same "
    "direction, and from how near predicted waits came. Waits that are not predicted well are "
    "left out."
)


def of(path: str) -> Callable[[Any], Any]:
    """Get the value at the end of a path of attributes; None where one on the way is None."""

    def get(row: Any) -> Any:
        for name in path.split("."):
            row = None if row is None else getattr(row, name)
        return row

    return get


def find(tables: Sequence[Table], name: str) -> Table:
    """Find a table by its name. Raises NimoError: there is none."""
    for one in tables:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in tables)
    raise NimoError(f"there is no table {name!r} in a report; there are {names}")


def write_csv(tables: Sequence[Table], folder: Path) -> list[Path]:
    """Write each table into a file ``NAME.csv`` of a folder, which is made where it is missing.

    Raises NimoError: they cannot be written.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for one in tables:
            path = folder / f"{one.name}.csv"
            atomic_file.write(path, one.csv().encode())
            written.append(path)
    except OSError as error:
        raise NimoError(f"{error.filename or folder}: {error.strerror or error}") from error
    return written


class _Group(NamedTuple):
    """A row that has its name from elsewhere."""

    name: str
    of: Any


def _words(name: str, title: str = "", path: str = "", **fields: Any) -> Column:
    """Column of words; title and path default to the name."""
    get = of(path) if path else None
    return Column(name, title or name, get, left=True, cuts=True, **fields)


def _number(
    name: str, title: str = "", path: str = "", as_text: Quantity | None = None, **fields: Any
) -> Column:
    """Column of numbers; title and path default to the name."""
    return Column(name, title or name, of(path) if path else None, as_text, **fields)


def _accuracy(at: str, left_out: str = "") -> list[Column]:
    """Columns of the accuracy that stands at a path of the row.

    left_out: names of those that a page has no room for.
    """
    coverage = of(f"{at}.coverage")

    def inside(level: float) -> Column:
        def get(row: Any) -> float | None:
            return {one.nominal: one.inside for one in coverage(row) or ()}.get(level)

        return Column(f"inside_{100 * level:.0f}", f"in {percent(level)}", get, FINE_SHARE)

    columns = [
        _number("mape", "MAPE", f"{at}.mape", FINE_SHARE),
        _number("bias", "actual/predicted", f"{at}.bias", FACTOR),
        *map(inside, LEVELS),
        _number("pa", "PA", f"{at}.pa", FINE_SHARE),
        _number("longer", "under-predicted", f"{at}.longer", FINE_SHARE),
        _number("beyond", "beyond interval", f"{at}.beyond", FINE_SHARE),
    ]
    off = {"inside_95", "pa", "beyond", left_out}
    return [replace(one, on_page=one.name not in off) for one in columns]


def _other(key: str, title: str, as_text: Quantity) -> list[Column]:
    """Columns of an amount of effects, and of what it would have been otherwise."""
    other = f"other_{key}"
    return [
        _number(key, title, f"of.{key}", as_text),
        _number(other, f"{title} otherwise", f"of.{other}.value", as_text),
        _number(f"{other}_low", f"{title} otherwise at least", f"of.{other}.low", as_text),
        _number(f"{other}_high", f"{title} otherwise at most", f"of.{other}.high", as_text),
    ]


def sheets_of(report: OutcomeReport, reasons: Mapping[str, str]) -> tuple[Table, ...]:
    """All tables of a report; ``reasons`` are plain words for the names of reasons."""
    tables = (
        _jobs("stopped", "Jobs that NIMO changed and a limit or deadline stopped", report.stopped),
        *_of_decisions(report, reasons),
        *_of_applications(report),
        *_of_usage(report),
        _jobs("jobs", "Jobs, the newest first", report.jobs),
    )
    return tuple(map(_first_columns_last, tables))


def _first_columns_last(table: Table) -> Table:
    """Where a terminal has no room the last columns are left out first, the first one never."""
    columns = [
        replace(one, worth=max(ALWAYS - place, 1) if place else ALWAYS)
        for place, one in enumerate(table.columns)
    ]
    return replace(table, columns=columns)


def _of_decisions(report: OutcomeReport, reasons: Mapping[str, str]) -> Iterator[Table]:
    yield from _accuracies(report)
    yield Table(
        (
            _words("mode"),
            _words("action"),
            _number("applied", as_text=YES),
            _number("decisions"),
            Column("reason", "reason", as_text=_plain_words, left=True, cuts=True),
            Column(
                "meaning",
                "meaning",
                lambda row: reasons.get(row.reason, row.reason),
                left=True,
                cuts=True,
            ),
        ),
        report.reasons,
        "reasons",
        "Decisions by mode and reason",
        empty="no decision",
    )
    yield _effects(report)
    yield from _waits(report)
    yield Table(
        (
            _number("met", "made"),
            _number("missed"),
            _number("refused"),
            _number("open", "still open"),
            _number("warned", "warned at submission"),
        ),
        [report.deadlines] if report.deadlines != Deadlines() else [],
        "deadlines",
        "Jobs with a deadline",
        note="In observe mode no user got these refusals and warnings.",
    )
    yield Table(
        (
            _number("jobs"),
            _number("outlasted", "outlasted the plan"),
            _number("wait_before_s", "mean wait before", as_text=SECONDS),
            _number("wait_since_s", "mean wait since", as_text=SECONDS),
        ),
        [report.planned] if report.planned.jobs else [],
        "planned",
        "Jobs that Slurm planned with less than their time limit",
        note="Waits are those of all jobs of the selection; other things changed, too.",
    )


def _accuracies(report: OutcomeReport) -> Iterator[Table]:
    """Tables of how near predictions came: by application, by group, by week."""
    compared = Column("compared", "compared", lambda row: row.accuracy.runs if row.accuracy else 0)
    yield Table(
        (
            _words("application"),
            _number("decisions"),
            _number("changed"),
            _number("finished", on_page=False),
            compared,
            *_accuracy("accuracy", "inside_50"),
        ),
        report.applications,
        "applications",
        "Applications, most decisions first",
        note="Only completed runs are compared, with the prediction for the size they had.",
        empty="no decision",
    )
    accuracies = [
        _Group("all but guesses", report.accuracy),
        _Group("guesses, which change no job", report.guesses),
        *(_Group(f"verdict {name}", one) for name, one in report.by_verdict.items()),
        *(_Group(f"recognised by {name}", one) for name, one in report.by_level.items()),
    ]
    yield Table(
        (
            _words("group", "decisions", "name"),
            _number("runs", "compared", "of.runs"),
            *_accuracy("of"),
        ),
        [row for row in accuracies if row.of],
        "accuracy",
        "Accuracy by verdict, and by how the application was recognised",
        note=derived_note(report),
        empty="no completed run to compare with yet",
    )
    yield Table(
        (
            _words("begin_s", "week of", as_text=_DAY),
            _number("decisions"),
            compared,
            *_accuracy("accuracy", "inside_50"),
        ),
        report.weeks,
        "weeks",
        "Week by week (from Monday, UTC)",
        empty="no decision",
    )


def _effects(report: OutcomeReport) -> Table:
    return Table(
        (
            _words("jobs_were", "jobs", "name"),
            _words("unit", "counts of", "of.unit.plural"),
            _number("jobs", "number", "of.jobs"),
            _number("more_nodes", "chosen above asked", "of.more_nodes"),
            *_other("node_hours", "node-hours", AMOUNT),
            *_other("run_hours", "run time", _SPAN),
            _number("wait_jobs", "jobs with waits", "of.wait_jobs"),
            _number("unsure_wait_jobs", "with unsure waits", "of.unsure_wait_jobs"),
            *_other("wait_hours", "wait", _SPAN),
        ),
        [
            *(_Group("changed, otherwise as asked", one) for one in report.applied),
            *(_Group("left alone, otherwise as chosen", one) for one in report.observed),
        ],
        "effects",
        "Outcomes, compared with the predictions for the other count",
        note=COUNTERFACTUAL,
        empty="no job for which NIMO chose another count",
    )


def _waits(report: OutcomeReport) -> Iterator[Table]:
    waits = (
        _Group("to start at once", report.waits.at_once),
        _Group("to wait", report.waits.waiting),
    )
    yield Table(
        (
            _words("predicted", path="name"),
            _number("jobs", path="of.jobs"),
            _number("within_s", f"{percent(SHARE_IN_TIME)} started within", "of.within_s", SECONDS),
            _number("later", "a minute late or more", "of.later", FINE_SHARE),
        ),
        [row for row in waits if row.of],
        "waits",
        "Waits as predicted at submission, compared with the real ones",
        empty="too few started jobs with a predicted wait",
    )
    yield Table(
        (
            _words("cluster"),
            _words("partition"),
            _words("of", "source"),
            _number("jobs"),
            _number("waited", "waited over a minute"),
            _number("within", "half within a factor", as_text=FACTOR),
            _number("inside", "in 90 %", as_text=SHARE),
        ),
        report.queue_waits,
        "wait_estimates",
        "Estimated waits in the queue, compared with the real ones",
        note="history: estimates of 'nimo fit' for past jobs, from data before each submission. "
        "The factor is that of the wait plus a minute.",
        empty="no job with an estimated wait has started yet",
    )


def _of_applications(report: OutcomeReport) -> Iterator[Table]:
    yield Table(
        (
            _words("application", path="label"),
            _number("ratio", "actual/predicted", as_text=FACTOR),
            _number("low", "band from", as_text=FACTOR),
            _number("high", "to", as_text=FACTOR),
            _number("runs", "last runs"),
            _number("since_s", "since", as_text=_CLOCK),
        ),
        report.switched_off,
        "switched_off",
        "Applications switched off after predictions that missed",
    )
    yield Table(
        (
            _words("application"),
            _words("verdict"),
            _number("repeated", "count run before", as_text=YES),
            _number("predictions", "last predictions"),
            _number("median_error", "median error", as_text=SHARE),
            _number("inside", "inside the interval"),
            _number("decisions"),
        ),
        report.records,
        "records",
        "Outcomes of the last predictions, the basis of the verdicts",
    )
    problems = (
        _words("application"),
        _words("verdict"),
        _number("decisions"),
        _number("runs", "runs in the store"),
        _words("problem", on_page=False),
        _words("text", "explanation"),
        _number("observe", "best next run"),
        _words("unit", "counts", "unit.plural"),
    )
    yield Table(problems, report.problems, "problems", "Problems of predictions")
    yield Table(problems, report.drift, "drift", "Applications whose problem changed")


def _of_usage(report: OutcomeReport) -> Iterator[Table]:
    """Tables of what jobs used."""
    yield Table(
        (
            _words("user"),
            _words("application"),
            _number("runs"),
            _words("unit", "counts", "unit.plural", on_page=False),
            Column("nodes_low", "from", lambda row: row.nodes[0], on_page=False),
            Column("nodes_high", "to", lambda row: row.nodes[1], on_page=False),
            _number("knee"),
            _number("node_hours", "node-hours", as_text=AMOUNT),
            _number("wasted_node_hours", "beyond", as_text=AMOUNT),
            _number("efficiency", as_text=SHARE),
            _number("slower", "time at knee", as_text=_TIMES),
        ),
        report.waste,
        "waste",
        "Node-hours (CPU- or GPU-hours) beyond the knee of an application",
        note="Runs of reliable curves, without deadline, on counts that their users chose.",
        empty="none above the threshold",
    )
    yield Table(
        _unused_columns(),
        report.unused,
        "unused",
        "CPUs and memory that jobs had but did not use",
        note="CPU time, memory and the highest use of GPUs as the accounting measured them; of an "
        "array, its first task.  Most used: a request of this size would have been enough for each "
        "job.  Saved: hours that the highest use of the jobs before times the margin would have "
        "saved, and for how many jobs that was too little.  CPU use is a mean over the run: on so "
        "few CPUs, a program with serial parts takes longer.",
        empty="none above the threshold",
    )
    yield Table(
        (
            _words("account"),
            _words("application"),
            _number("runs"),
            _number("kwh", "kWh", as_text=AMOUNT),
            _number("measured", "runs measured"),
            _number("by_nameplate", "by nameplate"),
            _number("cost", as_text=AMOUNT),
            _number("co2_kg", "kg CO2e", as_text=AMOUNT),
        ),
        report.energy,
        "energy",
        "Energy and cost",
        note="Of jobs that had their nodes alone; cost is that of all.",
        empty="nothing measured, and neither power nor prices in the settings",
    )
    yield Table(
        (
            _number("array_job_id", "array"),
            _words("user"),
            _words("application"),
            _number("tasks"),
            _number("completed"),
            _number("shortest_s", "shortest", as_text=SECONDS, on_page=False),
            _number("mean_s", "mean", as_text=SECONDS),
            _number("longest_s", "longest", as_text=SECONDS),
            _number("used_cpus", "CPUs used", as_text=SHARE),
            _number("mem_bytes", "memory", as_text=_GIB, on_page=False),
        ),
        report.arrays,
        "arrays",
        "Job arrays, the newest first",
        note="Tasks that started.  Memory is the highest of one task of any step.",
        empty="no job array",
    )


def _unused_columns() -> list[Column]:
    """Columns of what jobs had and did not use: CPUs, GPUs, memory."""
    return [
        _words("account"),
        _words("application"),
        _number("jobs"),
        _number("cpu_hours", "CPU-hours", as_text=AMOUNT, on_page=False),
        _number("unused_cpu_hours", "unused CPU-hours", as_text=AMOUNT),
        _number("unused_cpus", "of CPUs", as_text=SHARE, on_page=False),
        _number("saved_cpu_hours", "saved CPU-hours", as_text=AMOUNT, on_page=False),
        _number("least_cpus", "CPUs, most used", as_text=_AMOUNT),
        _number("gpu_hours", "GPU-hours", as_text=AMOUNT, on_page=False),
        _number("idle_gpu_hours", "unused GPU-hours", as_text=AMOUNT),
        _number("saved_gpu_hours", "saved GPU-hours", as_text=AMOUNT, on_page=False),
        _number("least_gpus", "GPUs, most used", as_text=_AMOUNT, on_page=False),
        _number("mem_gib_hours", "GiB-hours", as_text=AMOUNT, on_page=False),
        _number("unused_mem_gib_hours", "unused GiB-hours", as_text=AMOUNT),
        _number("unused_mem", "of memory", as_text=SHARE, on_page=False),
        _number("saved_mem_gib_hours", "saved GiB-hours", as_text=AMOUNT, on_page=False),
        _number("least_mem_gib", "GiB, most used", as_text=_AMOUNT),
        _number("short_jobs", "too little", on_page=False),
    ]


def _jobs(name: str, caption: str, rows: Sequence[JobOutcome]) -> Table:
    return Table(
        (
            _number("job_id", "job"),
            _words("application"),
            _number("nodes"),
            _number("predicted_s", "predicted", as_text=SECONDS),
            _number("took_s", "took", as_text=SECONDS),
            _number("limit_s", "limit", as_text=SECONDS),
            _words("state"),
            Column("decision", "decision", decision_of, left=True, cuts=True),
            _words("user", on_page=False),
            _words("verdict", on_page=False),
            _words("decision_id", "decision id", on_page=False),
        ),
        rows,
        name,
        caption,
        note="'nimo why JOBID' explains one in sentences.",
    )


def decision_of(job: JobOutcome) -> str:
    """Describe in a few words what NIMO did with a job, and why."""
    if not job.applied:
        return f"unchanged ({_plain_words(why_unchanged(job))})"
    nodes = f"{job.given_nodes} nodes" if job.given_nodes else ""
    limit = f"limit {duration_text(job.given_limit_s)}" if job.given_limit_s else ""
    return f"{', '.join(filter(None, (nodes, limit))) or job.action} ({_plain_words(job.reason)})"


def _plain_words(name: str) -> str:
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
