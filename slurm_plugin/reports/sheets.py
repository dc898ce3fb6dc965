"""The report as tables: which there are, and what is in each.

Pages, CSV files and ``-P`` all print these.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from slurm_plugin.evaluation.accuracy import LEVELS, Accuracy
from slurm_plugin.evaluation.effects import Deadlines
from slurm_plugin.evaluation.job_outcomes import JobOutcome
from slurm_plugin.evaluation.outcomes import OutcomeReport
from slurm_plugin.evaluation.wait_accuracy import SHARE
from slurm_plugin.formatting import clock, duration, hours, percent
from slurm_plugin.reports.sheet import Sheet, SheetField
from slurm_plugin.reports.wait_sheet import wait_estimates


def sheets_of(report: OutcomeReport, reasons: Mapping[str, str]) -> tuple[Sheet, ...]:
    """All tables of a report; ``reasons`` are plain words for the names of reasons."""
    return (
        _jobs("stopped", "Jobs that NIMO changed and a limit or deadline stopped", report.stopped),
        _applications(report),
        _accuracies(report),
        _weeks(report),
        _reasons(report, reasons),
        _effects(report),
        _waits(report),
        wait_estimates(report),
        _deadlines(report),
        _switched_off(report),
        _records(report),
        _table("problems", "Problems of predictions", report.problems),
        _table("drift", "Applications whose problem changed", report.drift),
        _waste(report),
        _unused(report),
        _arrays(report),
        _jobs("jobs", "Jobs, the newest first", report.jobs),
    )


def _share(value: float) -> str:
    return percent(value, 1)


def _two(value: float) -> str:
    return f"{value:.2f}"


def _yes(value: object) -> str:
    return "yes" if value else "no"


def _of(path: str) -> Callable[[Any], Any]:
    """Value at the end of a path of attributes; None where one on the way is None."""

    def get(row: Any) -> Any:
        for name in path.split("."):
            row = None if row is None else getattr(row, name)
        return row

    return get


def _inside(where: Callable[[Any], Accuracy | None], level: float) -> Callable[[Any], float | None]:
    def get(row: Any) -> float | None:
        accuracy = where(row)
        shares = {one.nominal: one.inside for one in accuracy.coverage} if accuracy else {}
        return shares.get(level)

    return get


def _accuracy_fields(where: Callable[[Any], Accuracy | None]) -> tuple[SheetField, ...]:
    def at(name: str) -> Callable[[Any], Any]:
        return lambda row: None if (accuracy := where(row)) is None else getattr(accuracy, name)

    return (
        SheetField("mape", "MAPE", at("mape"), _share),
        SheetField("bias", "actual/predicted", at("bias"), _two),
        *(
            SheetField(
                f"inside_{100 * level:.0f}", f"in {percent(level)}", _inside(where, level), _share
            )
            for level in LEVELS
        ),
        SheetField("pa", "PA", at("pa"), _share),
        SheetField("longer", "under-predicted", at("longer"), _share),
        SheetField("beyond", "beyond interval", at("beyond"), _share),
    )


def _compared(row: Any) -> int:
    return row.accuracy.runs if row.accuracy else 0


def _applications(report: OutcomeReport) -> Sheet:
    return Sheet(
        name="applications",
        caption="Applications, most decisions first",
        fields=(
            SheetField("application", "application", attrgetter("application"), left=True),
            SheetField("decisions", "decisions", attrgetter("decisions")),
            SheetField("changed", "changed", attrgetter("changed")),
            SheetField("finished", "finished", attrgetter("finished")),
            SheetField("compared", "compared", _compared),
            *_accuracy_fields(attrgetter("accuracy")),
        ),
        rows=report.applications,
        note="Only completed runs are compared, with the prediction for the nodes they had.",
        empty="no decision",
    )


def _accuracies(report: OutcomeReport) -> Sheet:
    groups = [
        ("all", report.accuracy),
        *((f"verdict {name}", one) for name, one in report.by_verdict.items()),
        *((f"recognised by {name}", one) for name, one in report.by_level.items()),
    ]
    return Sheet(
        name="accuracy",
        caption="Accuracy by verdict, and by how the application was recognised",
        fields=(
            SheetField("group", "decisions", lambda row: str(row[0]), left=True),
            SheetField("runs", "compared", lambda row: int(row[1].runs)),
            *_accuracy_fields(lambda row: row[1]),
        ),
        rows=[row for row in groups if row[1]],
        note=derived_note(report),
        empty="no completed run to compare with yet",
    )


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


def _weeks(report: OutcomeReport) -> Sheet:
    return Sheet(
        name="weeks",
        caption="Week by week (from Monday, UTC)",
        fields=(
            SheetField("begin_s", "week of", attrgetter("begin_s"), _day, left=True),
            SheetField("decisions", "decisions", attrgetter("decisions")),
            SheetField("compared", "compared", _compared),
            *_accuracy_fields(attrgetter("accuracy")),
        ),
        rows=report.weeks,
        empty="no decision",
    )


def _reasons(report: OutcomeReport, reasons: Mapping[str, str]) -> Sheet:
    return Sheet(
        name="reasons",
        caption="Decisions by mode and reason",
        fields=(
            SheetField("mode", "mode", attrgetter("mode"), left=True),
            SheetField("action", "action", attrgetter("action"), left=True),
            SheetField("applied", "applied", attrgetter("applied"), _yes, left=True),
            SheetField("decisions", "decisions", attrgetter("decisions")),
            SheetField("reason", "reason", attrgetter("reason"), left=True),
            SheetField("meaning", "meaning", lambda r: reasons.get(r.reason, r.reason), left=True),
        ),
        rows=report.reasons,
        empty="no decision",
    )


def _effects(report: OutcomeReport) -> Sheet:
    rows = [
        (name, effect)
        for name, effects in (
            ("changed: as asked", report.applied),
            ("left alone: as chosen", report.observed),
        )
        for effect in effects
    ]
    fields: list[SheetField] = [
        SheetField("jobs_were", "jobs: otherwise", lambda row: str(row[0]), left=True),
        SheetField("unit", "counts", lambda row: row[1].unit.plural, left=True),
        *(SheetField(key, title, _of_second(key)) for key, title in _JOB_COUNTS),
    ]
    for key, title in (("node_hours", "node-hours"), ("run_hours", "run time h")):
        other = f"other_{key}"
        fields += [
            SheetField(key, title, _of_second(key), hours),
            SheetField(other, f"{title} otherwise", _of_second(f"{other}.value"), hours),
            SheetField(f"{other}_low", "at least", _of_second(f"{other}.low"), hours),
            SheetField(f"{other}_high", "at most", _of_second(f"{other}.high"), hours),
        ]
    fields += [
        SheetField("wait_jobs", "jobs with waits", _of_second("wait_jobs")),
        SheetField("wait_hours", "wait h", _of_second("wait_hours"), hours),
        SheetField("other_wait_hours", "wait h otherwise", _of_second("other_wait_hours"), hours),
    ]
    return Sheet(
        name="effects",
        caption="Outcomes, compared with the predictions for the other count",
        fields=tuple(fields),
        rows=rows,
        note=COUNTERFACTUAL,
        empty="no job for which NIMO chose another count",
    )


_JOB_COUNTS = (("jobs", "jobs"), ("more_nodes", "chosen above asked"))
COUNTERFACTUAL = (
    "Counterfactual: these jobs did not run the other way. Hours of nodes, CPUs or GPUs and run "
    "times are those that were predicted for the other count; 'at least' and 'at most' follow from "
    "the predictions' intervals, with all errors of one application in the same direction. Waits "
    "are estimates made at submission."
)


def _of_second(path: str) -> Callable[[Any], Any]:
    get = _of(path)
    return lambda row: get(row[1])


def _waits(report: OutcomeReport) -> Sheet:
    groups = (("to start at once", report.waits.at_once), ("to wait", report.waits.waiting))
    return Sheet(
        name="waits",
        caption="Waits as predicted at submission, compared with the real ones",
        fields=(
            SheetField("predicted", "predicted", lambda row: str(row[0]), left=True),
            SheetField("jobs", "jobs", _of_second("jobs")),
            SheetField(
                "within_s", f"right for {percent(SHARE)} within", _of_second("within_s"), duration
            ),
            SheetField("later", "a minute late or more", _of_second("later"), _share),
        ),
        rows=[row for row in groups if row[1]],
        empty="too few started jobs with a predicted wait",
    )


def _deadlines(report: OutcomeReport) -> Sheet:
    names = ("met", "missed", "refused", "open", "warned")
    titles = ("made", "missed", "refused", "still open", "warned at submission")
    some = report.deadlines != Deadlines()
    return Sheet(
        name="deadlines",
        caption="Jobs with a deadline",
        fields=tuple(SheetField(n, t, attrgetter(n)) for n, t in zip(names, titles, strict=True)),
        rows=[report.deadlines] if some else [],
        note="In observe mode no user got these refusals and warnings.",
    )


def _switched_off(report: OutcomeReport) -> Sheet:
    return Sheet(
        name="switched_off",
        caption="Applications switched off after predictions that missed",
        fields=(
            SheetField("application", "application", attrgetter("label"), left=True),
            SheetField("ratio", "actual/predicted", attrgetter("ratio"), _two),
            SheetField("low", "band from", attrgetter("low"), _two),
            SheetField("high", "to", attrgetter("high"), _two),
            SheetField("runs", "last runs", attrgetter("runs")),
            SheetField("since_s", "since", attrgetter("since_s"), clock),
        ),
        rows=report.switched_off,
    )


def _records(report: OutcomeReport) -> Sheet:
    return Sheet(
        name="records",
        caption="Outcomes of the last predictions, the basis of the verdicts",
        fields=(
            SheetField("application", "application", attrgetter("application"), left=True),
            SheetField("verdict", "verdict", attrgetter("verdict"), left=True),
            SheetField("repeated", "count run before", attrgetter("repeated"), _yes),
            SheetField("predictions", "last predictions", attrgetter("predictions")),
            SheetField("median_error", "median error", attrgetter("median_error"), percent),
            SheetField("inside", "inside the interval", attrgetter("inside")),
            SheetField("decisions", "decisions", attrgetter("decisions")),
        ),
        rows=report.records,
    )


def _table(name: str, caption: str, rows: Sequence[Any]) -> Sheet:
    return Sheet(
        name=name,
        caption=caption,
        fields=(
            SheetField("application", "application", attrgetter("application"), left=True),
            SheetField("verdict", "verdict", attrgetter("verdict"), left=True),
            SheetField("decisions", "decisions", attrgetter("decisions")),
            SheetField("runs", "runs in the store", attrgetter("runs")),
            SheetField("problem", "problem", attrgetter("problem"), left=True),
            SheetField("text", "explanation", attrgetter("text"), left=True),
            SheetField("observe", "best next run, nodes", attrgetter("observe")),
        ),
        rows=rows,
    )


def _jobs(name: str, caption: str, rows: Sequence[JobOutcome]) -> Sheet:
    return Sheet(
        name=name,
        caption=caption,
        fields=(
            SheetField("job_id", "job", attrgetter("job_id")),
            SheetField("application", "application", attrgetter("application"), left=True),
            SheetField("nodes", "nodes", attrgetter("nodes")),
            SheetField("predicted_s", "predicted", attrgetter("predicted_s"), duration),
            SheetField("took_s", "took", attrgetter("took_s"), duration),
            SheetField("limit_s", "limit", attrgetter("limit_s"), duration),
            SheetField("state", "state", attrgetter("state"), left=True),
            SheetField("decision", "decision", decision_of, left=True),
            SheetField("user", "user", attrgetter("user"), left=True),
            SheetField("verdict", "verdict", attrgetter("verdict"), left=True),
            SheetField("decision_id", "decision id", attrgetter("decision_id"), left=True),
        ),
        rows=rows,
        note="'nimo why JOBID' explains one in sentences.",
    )


def decision_of(job: JobOutcome) -> str:
    """Describe in a few words what NIMO did with a job, and why."""
    if not job.applied:
        return f"unchanged ({job.reason if job.action == 'keep' else job.mode})"
    nodes = f"{job.given_nodes} nodes" if job.given_nodes else ""
    limit = f"limit {duration(job.given_limit_s)}" if job.given_limit_s else ""
    return f"{', '.join(filter(None, (nodes, limit))) or job.action} ({job.reason})"


def _waste(report: OutcomeReport) -> Sheet:
    return Sheet(
        name="waste",
        caption="Node-hours (CPU- or GPU-hours) beyond the knee of an application",
        fields=(
            SheetField("user", "user", attrgetter("user"), left=True),
            SheetField("application", "application", attrgetter("application"), left=True),
            SheetField("runs", "runs", attrgetter("runs")),
            SheetField("unit", "counts", lambda row: row.unit.plural, left=True),
            SheetField("nodes_low", "from", lambda row: row.nodes[0]),
            SheetField("nodes_high", "to", lambda row: row.nodes[1]),
            SheetField("knee", "knee", attrgetter("knee")),
            SheetField("node_hours", "node-hours", attrgetter("node_hours"), hours),
            SheetField("wasted_node_hours", "beyond", attrgetter("wasted_node_hours"), hours),
            SheetField("efficiency", "efficiency", attrgetter("efficiency"), percent),
            SheetField("slower", "time at knee", attrgetter("slower"), lambda v: f"{v:.2f} x"),
        ),
        rows=report.waste,
        note="Runs of reliable curves, without deadline, on counts that their users chose.",
        empty="none above the threshold",
    )


def _arrays(report: OutcomeReport) -> Sheet:
    return Sheet(
        name="arrays",
        caption="Job arrays, the newest first",
        fields=(
            SheetField("array_job_id", "array", attrgetter("array_job_id")),
            SheetField("user", "user", attrgetter("user"), left=True),
            SheetField("application", "application", attrgetter("application"), left=True),
            SheetField("tasks", "tasks", attrgetter("tasks")),
            SheetField("completed", "completed", attrgetter("completed")),
            SheetField("shortest_s", "shortest", attrgetter("shortest_s"), duration),
            SheetField("mean_s", "mean", attrgetter("mean_s"), duration),
            SheetField("longest_s", "longest", attrgetter("longest_s"), duration),
            SheetField("used_cpus", "CPUs used", attrgetter("used_cpus"), percent),
            SheetField("mem_bytes", "memory GiB", attrgetter("mem_bytes"), _gib),
        ),
        rows=report.arrays,
        note="Tasks that started.  Memory is the highest of one task of any step.",
        empty="no job array",
    )


def _gib(value: float | None) -> str:
    return "-" if value is None else f"{value / 2**30:.1f}"


def _amount(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}".removesuffix(".0")


def _unused(report: OutcomeReport) -> Sheet:
    return Sheet(
        name="unused",
        caption="CPUs and memory that jobs had but did not use",
        fields=(
            SheetField("account", "account", attrgetter("account"), left=True),
            SheetField("application", "application", attrgetter("application"), left=True),
            SheetField("jobs", "jobs", attrgetter("jobs")),
            SheetField("cpu_hours", "CPU-hours", attrgetter("cpu_hours"), hours),
            SheetField("unused_cpu_hours", "unused", attrgetter("unused_cpu_hours"), hours),
            SheetField("unused_cpus", "of CPUs", attrgetter("unused_cpus"), percent),
            SheetField("saved_cpu_hours", "saved", attrgetter("saved_cpu_hours"), hours),
            SheetField("least_cpus", "most used", attrgetter("least_cpus"), _amount),
            SheetField("gpu_hours", "GPU-hours", attrgetter("gpu_hours"), hours),
            SheetField("idle_gpu_hours", "unused", attrgetter("idle_gpu_hours"), hours),
            SheetField("saved_gpu_hours", "saved", attrgetter("saved_gpu_hours"), hours),
            SheetField("least_gpus", "most used", attrgetter("least_gpus"), _amount),
            SheetField("mem_gib_hours", "GiB-hours", attrgetter("mem_gib_hours"), hours),
            SheetField("unused_mem_gib_hours", "unused", attrgetter("unused_mem_gib_hours"), hours),
            SheetField("unused_mem", "of memory", attrgetter("unused_mem"), percent),
            SheetField("saved_mem_gib_hours", "saved", attrgetter("saved_mem_gib_hours"), hours),
            SheetField("least_mem_gib", "GiB, most used", attrgetter("least_mem_gib"), _amount),
            SheetField("short_jobs", "too little", attrgetter("short_jobs")),
        ),
        rows=report.unused,
        note="CPU time, memory and the highest use of GPUs as the accounting measured them; of an "
        "array, its first task.  Most used: a request of this size would have been enough for each "
        "job.  Saved: hours that the highest use of the jobs before times the margin would have "
        "saved, and for how many jobs that was too little.  CPU use is a mean over the run: on so "
        "few CPUs, a program with serial parts takes longer.",
        empty="none above the threshold",
    )


def _day(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d")
