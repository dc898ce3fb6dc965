"""The report as tables: which there are, and what is in each.

Pages, CSV files and ``-P`` all print these.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from sacct_ingest.text.slurm_text import time_span
from slurm_plugin.evaluation.accuracy import LEVELS, Accuracy
from slurm_plugin.evaluation.effects import Deadlines
from slurm_plugin.evaluation.job_outcomes import JobOutcome
from slurm_plugin.evaluation.outcomes import OutcomeReport
from slurm_plugin.reports.sheet import Sheet, of_second, share
from slurm_plugin.reports.usage_sheets import arrays, unused, wait_estimates, waits, waste
from slurm_plugin.text.formatting import clock, duration, factor, hours, percent
from slurm_plugin.text.table_columns import OutputColumn


def sheets_of(report: OutcomeReport, reasons: Mapping[str, str]) -> tuple[Sheet, ...]:
    """All tables of a report; ``reasons`` are plain words for the names of reasons."""
    return (
        _jobs("stopped", "Jobs that NIMO changed and a limit or deadline stopped", report.stopped),
        applications(report),
        _accuracies(report),
        _weeks(report),
        _reasons(report, reasons),
        _effects(report),
        waits(report),
        wait_estimates(report),
        _deadlines(report),
        _planned(report),
        _switched_off(report),
        _records(report),
        _table("problems", "Problems of predictions", report.problems),
        _table("drift", "Applications whose problem changed", report.drift),
        waste(report),
        unused(report),
        arrays(report),
        _jobs("jobs", "Jobs, the newest first", report.jobs),
    )


#: Of the fields on accuracy those that a page has room for.
_SHOWN = ("mape", "bias", "inside_90", "longer")


def _yes(value: object) -> str:
    return "yes" if value else "no"


def _inside(where: Callable[[Any], Accuracy | None], level: float) -> Callable[[Any], float | None]:
    def get(row: Any) -> float | None:
        accuracy = where(row)
        shares = {one.nominal: one.inside for one in accuracy.coverage} if accuracy else {}
        return shares.get(level)

    return get


def _accuracy_fields(where: Callable[[Any], Accuracy | None]) -> tuple[OutputColumn, ...]:
    def at(name: str) -> Callable[[Any], Any]:
        return lambda row: None if (accuracy := where(row)) is None else getattr(accuracy, name)

    return (
        OutputColumn("mape", "MAPE", at("mape"), share),
        OutputColumn("bias", "actual/predicted", at("bias"), factor),
        *(
            OutputColumn(
                f"inside_{100 * level:.0f}", f"in {percent(level)}", _inside(where, level), share
            )
            for level in LEVELS
        ),
        OutputColumn("pa", "PA", at("pa"), share),
        OutputColumn("longer", "under-predicted", at("longer"), share),
        OutputColumn("beyond", "beyond interval", at("beyond"), share),
    )


def _compared(row: Any) -> int:
    return row.accuracy.runs if row.accuracy else 0


def applications(report: OutcomeReport) -> Sheet:
    """Make the table of applications."""
    return Sheet(
        name="applications",
        caption="Applications, most decisions first",
        fields=(
            OutputColumn("application", "application", left=True),
            OutputColumn("decisions", "decisions"),
            OutputColumn("changed", "changed"),
            OutputColumn("finished", "finished"),
            OutputColumn("compared", "compared", _compared),
            *_accuracy_fields(attrgetter("accuracy")),
        ),
        rows=report.applications,
        page=("application", "decisions", "changed", "compared", *_SHOWN),
        note="Only completed runs are compared, with the prediction for the size they had.",
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
            OutputColumn("group", "decisions", lambda row: str(row[0]), left=True),
            OutputColumn("runs", "compared", lambda row: int(row[1].runs)),
            *_accuracy_fields(lambda row: row[1]),
        ),
        rows=[row for row in groups if row[1]],
        page=("group", "runs", "inside_50", *_SHOWN),
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
            OutputColumn("begin_s", "week of", as_text=_day, left=True),
            OutputColumn("decisions", "decisions"),
            OutputColumn("compared", "compared", _compared),
            *_accuracy_fields(attrgetter("accuracy")),
        ),
        rows=report.weeks,
        page=("begin_s", "decisions", "compared", *_SHOWN),
        empty="no decision",
    )


def _reasons(report: OutcomeReport, reasons: Mapping[str, str]) -> Sheet:
    def meaning(row: Any) -> str:
        return reasons.get(row.reason, row.reason)

    return Sheet(
        name="reasons",
        caption="Decisions by mode and reason",
        fields=(
            OutputColumn("mode", "mode", left=True),
            OutputColumn("action", "action", left=True),
            OutputColumn("applied", "applied", as_text=_yes, left=True),
            OutputColumn("decisions", "decisions"),
            OutputColumn("reason", "reason", left=True),
            OutputColumn("meaning", "meaning", meaning, left=True),
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
    fields: list[OutputColumn] = [
        OutputColumn("jobs_were", "jobs: otherwise", lambda row: str(row[0]), left=True),
        OutputColumn("unit", "counts", lambda row: row[1].unit.plural, left=True),
        *(OutputColumn(key, title, of_second(key)) for key, title in _JOB_COUNTS),
    ]
    for key, title in _JOB_HOURS:
        if key == "wait_hours":
            fields += [OutputColumn(name, text, of_second(name)) for name, text in _WAIT_COUNTS]
        other = f"other_{key}"
        shown = hours if key == "node_hours" else _span
        fields += [
            OutputColumn(key, title, of_second(key), shown),
            OutputColumn(other, f"{title} otherwise", of_second(f"{other}.value"), shown),
            OutputColumn(f"{other}_low", "at least", of_second(f"{other}.low"), shown),
            OutputColumn(f"{other}_high", "at most", of_second(f"{other}.high"), shown),
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
_JOB_HOURS = (("node_hours", "node-hours"), ("run_hours", "run time"), ("wait_hours", "wait"))
_WAIT_COUNTS = (("wait_jobs", "jobs with waits"), ("unsure_wait_jobs", "with unsure waits"))
COUNTERFACTUAL = (
    "Counterfactual: these jobs did not run the other way. Hours and waits otherwise are the "
    "predictions for the other count, times the job's own actual over predicted; 'at least' and "
    "'at most' follow from the predictions' intervals, with all errors of one application in the "
    "same direction, and from how near predicted waits came. Waits that are not predicted well "
    "are left out."
)


def _span(value: float) -> str:
    """Hours in the unit that suits them."""
    return time_span(3600 * value)


def _deadlines(report: OutcomeReport) -> Sheet:
    names = ("met", "missed", "refused", "open", "warned")
    titles = ("made", "missed", "refused", "still open", "warned at submission")
    some = report.deadlines != Deadlines()
    return Sheet(
        name="deadlines",
        caption="Jobs with a deadline",
        fields=tuple(map(OutputColumn, names, titles)),
        rows=[report.deadlines] if some else [],
        note="In observe mode no user got these refusals and warnings.",
    )


def _planned(report: OutcomeReport) -> Sheet:
    return Sheet(
        name="planned",
        caption="Jobs that Slurm planned with less than their time limit",
        fields=(
            OutputColumn("jobs", "jobs"),
            OutputColumn("outlasted", "outlasted the plan"),
            OutputColumn("wait_before_s", "mean wait before", as_text=duration),
            OutputColumn("wait_since_s", "mean wait since", as_text=duration),
        ),
        rows=[report.planned] if report.planned.jobs else [],
        note="Waits are those of all jobs of the selection; other things changed, too.",
    )


def _switched_off(report: OutcomeReport) -> Sheet:
    return Sheet(
        name="switched_off",
        caption="Applications switched off after predictions that missed",
        fields=(
            OutputColumn("application", "application", attrgetter("label"), left=True),
            OutputColumn("ratio", "actual/predicted", as_text=factor),
            OutputColumn("low", "band from", as_text=factor),
            OutputColumn("high", "to", as_text=factor),
            OutputColumn("runs", "last runs"),
            OutputColumn("since_s", "since", as_text=clock),
        ),
        rows=report.switched_off,
    )


def _records(report: OutcomeReport) -> Sheet:
    return Sheet(
        name="records",
        caption="Outcomes of the last predictions, the basis of the verdicts",
        fields=(
            OutputColumn("application", "application", left=True),
            OutputColumn("verdict", "verdict", left=True),
            OutputColumn("repeated", "count run before", as_text=_yes),
            OutputColumn("predictions", "last predictions"),
            OutputColumn("median_error", "median error", as_text=percent),
            OutputColumn("inside", "inside the interval"),
            OutputColumn("decisions", "decisions"),
        ),
        rows=report.records,
    )


def _table(name: str, caption: str, rows: Sequence[Any]) -> Sheet:
    return Sheet(
        name=name,
        caption=caption,
        fields=(
            OutputColumn("application", "application", left=True),
            OutputColumn("verdict", "verdict", left=True),
            OutputColumn("decisions", "decisions"),
            OutputColumn("runs", "runs in the store"),
            OutputColumn("problem", "problem", left=True),
            OutputColumn("text", "explanation", left=True),
            OutputColumn("observe", "best next run"),
            OutputColumn("unit", "counts", attrgetter("unit.plural"), left=True),
        ),
        rows=rows,
    )


def _jobs(name: str, caption: str, rows: Sequence[JobOutcome]) -> Sheet:
    return Sheet(
        name=name,
        caption=caption,
        fields=(
            OutputColumn("job_id", "job"),
            OutputColumn("application", "application", left=True),
            OutputColumn("nodes", "nodes"),
            OutputColumn("predicted_s", "predicted", as_text=duration),
            OutputColumn("took_s", "took", as_text=duration),
            OutputColumn("limit_s", "limit", as_text=duration),
            OutputColumn("state", "state", left=True),
            OutputColumn("decision", "decision", decision_of, left=True),
            OutputColumn("user", "user", left=True),
            OutputColumn("verdict", "verdict", left=True),
            OutputColumn("decision_id", "decision id", left=True),
        ),
        rows=rows,
        page=(
            *("job_id", "application", "nodes", "predicted_s", "took_s"),
            *("limit_s", "state", "decision"),
        ),
        note="'nimo why JOBID' explains one in sentences.",
    )


def decision_of(job: JobOutcome) -> str:
    """Describe in a few words what NIMO did with a job, and why."""
    if not job.applied:
        return f"unchanged ({job.reason if job.action == 'keep' else job.mode})"
    nodes = f"{job.given_nodes} nodes" if job.given_nodes else ""
    limit = f"limit {duration(job.given_limit_s)}" if job.given_limit_s else ""
    return f"{', '.join(filter(None, (nodes, limit))) or job.action} ({job.reason})"


def _day(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d")
