"""Tables of the report: which there are, and what is in each.

Text, pages, CSV files, ``-P`` and JSON are made of them.  Raw values keep their units.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sacct_ingest.errors import NimoError
from sacct_ingest.files import atomic_file
from sacct_ingest.text.durations import duration_text
from slurm_plugin.evaluation.effects import Deadlines
from slurm_plugin.evaluation.outcomes import JobOutcome, OutcomeReport, why_unchanged
from slurm_plugin.protocol.status_messages import SHARE as SHARE_IN_TIME
from slurm_plugin.reports.sheet_columns import (
    CLOCK,
    DAY,
    GIB,
    ONE_DIGIT,
    SPAN,
    TIMES,
    NamedRow,
    accuracy_columns,
    number,
    otherwise_columns,
    words,
)
from slurm_plugin.reports.wait_tables import wait_tables
from slurm_plugin.text.formatting import percent
from slurm_plugin.text.table_columns import (
    ALWAYS,
    AMOUNT,
    FACTOR,
    FINE_SHARE,
    SECONDS,
    SHARE,
    YES,
    Column,
    Table,
)

COUNTERFACTUAL = (
    "Counterfactual: these jobs did not run the other way. Hours and waits otherwise are the "
    "predictions for the other count, times the job's own actual over predicted; their "
    "ends follow from the predictions' intervals, with all errors of one application in the same "
    "direction, and from how near predicted waits came. Waits that are not predicted well are "
    "left out."
)


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


def sheets_of(report: OutcomeReport, reasons: Mapping[str, str]) -> tuple[Table, ...]:
    """All tables of a report; ``reasons`` are plain words for the names of reasons."""
    tables = (
        _jobs("stopped", "Jobs that NIMO changed and a limit or deadline stopped", report.stopped),
        *_of_decisions(report, reasons),
        *_of_applications(report),
        *_of_usage(report),
        *wait_tables(report),
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
            words("mode"),
            words("action"),
            number("applied", as_text=YES),
            number("decisions"),
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
            number("met", "made"),
            number("missed"),
            number("refused"),
            number("open", "still open"),
            number("warned", "warned at submission"),
        ),
        [report.deadlines] if report.deadlines != Deadlines() else [],
        "deadlines",
        "Jobs with a deadline",
        note="In observe mode no user got these refusals and warnings.",
    )
    yield Table(
        (
            number("jobs"),
            number("outlasted", "outlasted the plan"),
            number("wait_before_s", "mean wait before", as_text=SECONDS),
            number("wait_since_s", "mean wait since", as_text=SECONDS),
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
            words("application"),
            number("decisions"),
            number("changed"),
            number("finished", on_page=False),
            compared,
            *accuracy_columns("accuracy", "inside_50"),
        ),
        report.applications,
        "applications",
        "Applications, most decisions first",
        note="Only completed runs are compared, with the prediction for the size they had.",
        empty="no decision",
    )
    accuracies = [
        NamedRow("all but guesses", report.accuracy),
        NamedRow("guesses, which change no job", report.guesses),
        *(NamedRow(f"verdict {name}", one) for name, one in report.by_verdict.items()),
        *(NamedRow(f"recognised by {name}", one) for name, one in report.by_level.items()),
    ]
    yield Table(
        (
            words("group", "decisions", "name"),
            number("runs", "compared", "of.runs"),
            *accuracy_columns("of"),
        ),
        [row for row in accuracies if row.of],
        "accuracy",
        "Accuracy by verdict, and by how the application was recognised",
        note=derived_note(report),
        empty="no completed run to compare with yet",
    )
    yield Table(
        (
            words("begin_s", "week of", as_text=DAY),
            number("decisions"),
            compared,
            *accuracy_columns("accuracy", "inside_50"),
        ),
        report.weeks,
        "weeks",
        "Week by week (from Monday, UTC)",
        empty="no decision",
    )


def _effects(report: OutcomeReport) -> Table:
    return Table(
        (
            words("jobs_were", "jobs", "name"),
            words("unit", "counts of", "of.unit.plural"),
            number("jobs", "number", "of.jobs"),
            number("more_nodes", "chosen above asked", "of.more_nodes"),
            *otherwise_columns("node_hours", "node-hours", AMOUNT),
            *otherwise_columns("run_hours", "run time", SPAN),
            number("wait_jobs", "jobs with waits", "of.wait_jobs"),
            number("unsure_wait_jobs", "with unsure waits", "of.unsure_wait_jobs"),
            *otherwise_columns("wait_hours", "wait", SPAN),
        ),
        [
            *(NamedRow("changed, otherwise as asked", one) for one in report.applied),
            *(NamedRow("left alone, otherwise as chosen", one) for one in report.observed),
        ],
        "effects",
        "Outcomes, compared with the predictions for the other count",
        note=COUNTERFACTUAL,
        empty="no job for which NIMO chose another count",
    )


def _waits(report: OutcomeReport) -> Iterator[Table]:
    waits = (
        NamedRow("to start at once", report.waits.at_once),
        NamedRow("to wait", report.waits.waiting),
    )
    yield Table(
        (
            words("predicted", path="name"),
            number("jobs", path="of.jobs"),
            number("within_s", f"{percent(SHARE_IN_TIME)} started within", "of.within_s", SECONDS),
            number("later", "a minute late or more", "of.later", FINE_SHARE),
        ),
        [row for row in waits if row.of],
        "waits",
        "Waits as predicted at submission, compared with the real ones",
        empty="too few started jobs with a predicted wait",
    )
    yield Table(
        (
            words("cluster"),
            words("partition"),
            words("of", "source"),
            number("jobs"),
            number("waited", "waited over a minute"),
            number("within", "half within a factor", as_text=FACTOR),
            number("inside", "in 90 %", as_text=SHARE),
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
            words("application", path="label"),
            number("ratio", "actual/predicted", as_text=FACTOR),
            number("low", "band from", as_text=FACTOR),
            number("high", "to", as_text=FACTOR),
            number("runs", "last runs"),
            number("since_s", "since", as_text=CLOCK),
        ),
        report.switched_off,
        "switched_off",
        "Applications switched off after predictions that missed",
    )
    yield Table(
        (
            words("application"),
            words("verdict"),
            number("repeated", "count run before", as_text=YES),
            number("predictions", "last predictions"),
            number("median_error", "median error", as_text=SHARE),
            number("inside", "inside the interval"),
            number("decisions"),
        ),
        report.records,
        "records",
        "Outcomes of the last predictions, the basis of the verdicts",
    )
    problems = (
        words("application"),
        words("verdict"),
        number("decisions"),
        number("runs", "runs in the store"),
        words("problem", on_page=False),
        words("text", "explanation"),
        number("observe", "best next run"),
        words("unit", "counts", "unit.plural"),
    )
    yield Table(problems, report.problems, "problems", "Problems of predictions")
    yield Table(problems, report.drift, "drift", "Applications whose problem changed")


def _of_usage(report: OutcomeReport) -> Iterator[Table]:
    """Tables of what jobs used."""
    yield Table(
        (
            words("user"),
            words("application"),
            number("runs"),
            words("unit", "counts", "unit.plural", on_page=False),
            Column("nodes_low", "from", lambda row: row.nodes[0], on_page=False),
            Column("nodes_high", "to", lambda row: row.nodes[1], on_page=False),
            number("knee"),
            number("node_hours", "node-hours", as_text=AMOUNT),
            number("wasted_node_hours", "beyond", as_text=AMOUNT),
            number("efficiency", as_text=SHARE),
            number("slower", "time at knee", as_text=TIMES),
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
            words("account"),
            words("application"),
            number("runs"),
            number("kwh", "kWh", as_text=AMOUNT),
            number("measured", "runs measured"),
            number("by_nameplate", "by nameplate"),
            number("cost", as_text=AMOUNT),
            number("co2_kg", "kg CO2e", as_text=AMOUNT),
        ),
        report.energy,
        "energy",
        "Energy and cost",
        note="Of jobs that had their nodes alone; cost is that of all.",
        empty="nothing measured, and neither power nor prices in the settings",
    )
    yield Table(
        (
            number("array_job_id", "array"),
            words("user"),
            words("application"),
            number("tasks"),
            number("completed"),
            number("shortest_s", "shortest", as_text=SECONDS, on_page=False),
            number("mean_s", "mean", as_text=SECONDS),
            number("longest_s", "longest", as_text=SECONDS),
            number("used_cpus", "CPUs used", as_text=SHARE),
            number("mem_bytes", "memory", as_text=GIB, on_page=False),
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
        words("account"),
        words("application"),
        number("jobs"),
        number("cpu_hours", "CPU-hours", as_text=AMOUNT, on_page=False),
        number("unused_cpu_hours", "unused CPU-hours", as_text=AMOUNT),
        number("unused_cpus", "of CPUs", as_text=SHARE, on_page=False),
        number("saved_cpu_hours", "saved CPU-hours", as_text=AMOUNT, on_page=False),
        number("least_cpus", "CPUs, most used", as_text=ONE_DIGIT),
        number("gpu_hours", "GPU-hours", as_text=AMOUNT, on_page=False),
        number("idle_gpu_hours", "unused GPU-hours", as_text=AMOUNT),
        number("saved_gpu_hours", "saved GPU-hours", as_text=AMOUNT, on_page=False),
        number("least_gpus", "GPUs, most used", as_text=ONE_DIGIT, on_page=False),
        number("mem_gib_hours", "GiB-hours", as_text=AMOUNT, on_page=False),
        number("unused_mem_gib_hours", "unused GiB-hours", as_text=AMOUNT),
        number("unused_mem", "of memory", as_text=SHARE, on_page=False),
        number("saved_mem_gib_hours", "saved GiB-hours", as_text=AMOUNT, on_page=False),
        number("least_mem_gib", "GiB, most used", as_text=ONE_DIGIT),
        number("short_jobs", "too little", on_page=False),
    ]


def _jobs(name: str, caption: str, rows: Sequence[JobOutcome]) -> Table:
    return Table(
        (
            number("job_id", "job"),
            words("application"),
            number("nodes"),
            number("predicted_s", "predicted", as_text=SECONDS),
            number("took_s", "took", as_text=SECONDS),
            number("limit_s", "limit", as_text=SECONDS),
            words("state"),
            Column("decision", "decision", decision_of, left=True, cuts=True),
            words("user", on_page=False),
            words("verdict", on_page=False),
            words("decision_id", "decision id", on_page=False),
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
